"""Sockets of single workers: where they are, who may use them, and what is refused."""

import os
import socket
import stat
from pathlib import Path

import pytest

from ironauth.server import server, worker_sockets
from ironauth.server.worker_sockets import MAX_PATH_BYTES, WorkerSocket


def test_it_is_known_once_somebody_listens(socket_folder: Path) -> None:
    """Before, nothing is under its name, or what was there: a proxy never meets one that cannot answer."""
    path = worker_sockets.path_of(socket_folder, 3)
    assert path.name == "worker-3.sock"
    before = os.umask(0)
    try:
        one = WorkerSocket(socket_folder, 3)
        first = one.bind()
    finally:
        os.umask(before)
    assert not path.exists()
    first.listen()
    one.show()
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        first.accept()[0].close()
    first.close()
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(str(path))  # killed: refused at once, not kept waiting
    two = WorkerSocket(socket_folder, 3)
    second = two.bind()
    second.listen()
    two.show()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    assert worker_sockets.of_folder(socket_folder) == [path]
    second.close()


def test_what_a_dead_server_left_is_removed(socket_folder: Path) -> None:
    """Also a socket that was never shown; anything else in the folder stays."""
    for number in (0, 1):
        one = WorkerSocket(socket_folder, number)
        one.bind().close()
        if number:
            one.show()
    (socket_folder / "web.sock").touch()
    assert len(worker_sockets.of_folder(socket_folder)) == 2
    assert server._free_of_others(socket_folder) == socket_folder
    assert [path.name for path in socket_folder.iterdir()] == ["web.sock"]


def test_workers_of_another_server_are_left_alone(socket_folder: Path) -> None:
    """A folder in which somebody listens is refused with the remedy."""
    one = WorkerSocket(socket_folder, 0)
    bound = one.bind()
    bound.listen()
    one.show()
    with pytest.raises(server.ServerError, match=r"Another server listens on .*worker-0\.sock: stop it"):
        server._free_of_others(socket_folder)
    assert worker_sockets.path_of(socket_folder, 0).exists()
    bound.close()


def test_a_folder_that_cannot_be_used_names_the_remedy(socket_folder: Path) -> None:
    """One that is not there, and one whose name leaves no room for a socket's; the longest that does is taken."""
    with pytest.raises(server.ServerError, match="no folder that this user can write"):
        server._free_of_others(socket_folder / "missing")
    room = MAX_PATH_BYTES - len("/worker-999.sock.4194304") - len(str(socket_folder)) - 1
    assert room > 1
    longest = socket_folder / ("x" * (room - 4))
    longest.mkdir()
    assert server._free_of_others(longest) == longest
    with pytest.raises(server.ServerError, match="too long for a socket"):
        server._free_of_others(socket_folder / ("x" * (room + 10)))
