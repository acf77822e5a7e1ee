"""The supervisor of several workers, on real processes: signals count from the moment they arrive."""

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
import uvicorn
from django.conf import settings
from uvicorn.supervisors.multiprocess import SIGNALS

from ironauth.server import supervisor as server_processes

MANY = 40
PROTOCOL = "ironauth.server.connection:BoundedHttpProtocol"
#: Takes long to import, as IronAuth does when many workers share a CPU; each worker leaves a file when it begins.
SLOW_APPLICATION = """
import os, pathlib, time
pathlib.Path("begun", str(os.getpid())).touch()
time.sleep(30)
"""
#: Answers at once, save for what lasts a second, and says whether it ends; each worker leaves a file when it begins.
QUICK_APPLICATION = """
import asyncio, os, pathlib
from ironauth.infrastructure.core import lifecycle
async def application(scope, receive, send):
    if scope["path"] == "/slow":
        pathlib.Path("asked").touch()
        await asyncio.sleep(1)
    said = (b"x-worker", b"%d" % os.getpid()), (b"x-leaving", b"%d" % lifecycle.is_leaving())
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2"), *said]})
    await send({"type": "http.response.body", "body": b"OK"})
pathlib.Path("begun", str(os.getpid())).touch()
"""
#: Leaves a thread that waits for longer than anybody, as a page of the admin does at a locked table.
HANGING_APPLICATION = """
import os, pathlib, threading, time
from ironauth.server import graceful as polite_server
polite_server.END_S = 1.0
threading.Thread(target=time.sleep, args=(60,)).start()
async def application(scope, receive, send):
    raise AssertionError
pathlib.Path("begun", str(os.getpid())).touch()
"""
#: Gets a terminal, and is there when it closes.
AT_A_TERMINAL = """
import fcntl, pathlib, signal, sys, termios, threading
from ironauth.server import supervisor as server_processes
hung_up = threading.Event()
signal.signal(signal.SIGHUP, lambda *_: hung_up.set())
seen = [server_processes._has_terminal()]
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
seen.append(server_processes._has_terminal())
pathlib.Path(sys.argv[1]).write_text("ready")
hung_up.wait(10)
seen.append(server_processes._has_terminal())
pathlib.Path(sys.argv[1]).write_text(str(seen))
"""
#: The supervisor of that application; ``argv``: workers, seconds that each start takes, protocol. Prints how it ended.
SUPERVISOR = """
import json, os, pathlib, sys, time
import uvicorn
from ironauth.server import server; from ironauth.server import supervisor as server_processes

class SlowToStart(server_processes.Worker):
    def start(self):
        time.sleep(float(sys.argv[2]))
        if os.path.exists("room-for-one") and os.path.exists("one"):
            while not os.listdir("begun"):
                time.sleep(0.02)
            raise OSError(11, "Resource temporarily unavailable")
        pathlib.Path("one").touch()
        super().start()

if __name__ == "__main__":
    server_processes.Worker = SlowToStart
    bound = server.bind_tcp("127.0.0.1", 0)
    server.listen(bound)
    config = uvicorn.Config("slow:application", workers=int(sys.argv[1]), lifespan="off", log_config=None,
                            http=sys.argv[3], loop="uvloop",
                            timeout_worker_healthcheck=30, timeout_graceful_shutdown=10)
    def ready():
        pathlib.Path("port").write_text(str(bound.getsockname()[1]))
        pathlib.Path("port").rename("ready")  # never there without what is in it
    supervisor = server_processes.Supervisor(config, [bound], ready)
    pathlib.Path("listens").touch()
    supervisor.run()
    print(json.dumps({"failed": supervisor.failed, "workers": len(supervisor.processes)}))
"""
type Supervise = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Supervise]:
    """Start a supervisor in ``tmp_path``; it and its workers are ended after the test."""
    running: list[subprocess.Popen[str]] = []

    def start(application: str, *, workers: int, start_s: float = 0.0) -> subprocess.Popen[str]:
        http = PROTOCOL if application is QUICK_APPLICATION else "httptools"  # ours takes a while to import
        (tmp_path / "begun").mkdir()
        (tmp_path / "slow.py").write_text(application)
        (tmp_path / "supervisor.py").write_text(SUPERVISOR)
        running.append(
            subprocess.Popen(
                [sys.executable, "supervisor.py", str(workers), str(start_s), http],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": f"{settings.BASE_DIR}:{tmp_path}"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return running[-1]

    yield start
    for one in running:
        one.kill()
    for worker in _begun(tmp_path):  # they hold the pipe that the next lines read to its end
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    for one in running:
        one.communicate()


def _begun(folder: Path) -> list[int]:
    """Return the process ids of the workers that have begun, dead ones included."""
    return [int(file.name) for file in (folder / "begun").iterdir()]


def _until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120  # for a machine with much else to do
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def _end(running: subprocess.Popen[str], number: int, within_s: float) -> dict[str, object]:
    """Send the signal; return what the supervisor printed last, which must not take longer than ``within_s``."""
    running.send_signal(number)
    output, _ = running.communicate(timeout=within_s)
    assert "Traceback" not in output, output
    return dict(json.loads(output.splitlines()[-1]))


def _gone(workers: list[int]) -> bool:
    return not any(Path(f"/proc/{worker}").exists() for worker in workers)


def _none_left(folder: Path) -> bool:
    return _gone(_begun(folder))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_workers_that_still_start_end_at_once(supervise: Supervise, tmp_path: Path, number: int) -> None:
    """A supervisor that waits for its workers' first answer does not wait on, and they do not finish their imports."""
    running = supervise(SLOW_APPLICATION, workers=2)
    _until(lambda: len(_begun(tmp_path)) == 2, "two workers")
    time.sleep(0.7)  # into the supervisor's first look after them
    assert _end(running, number, within_s=5) == {"failed": False, "workers": 2}
    assert _none_left(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_worker_is_started_after_the_signal(supervise: Supervise, tmp_path: Path, number: int) -> None:
    """Told to end between two of many starts, it makes no further one and ends those that were made."""
    running = supervise(SLOW_APPLICATION, workers=MANY, start_s=0.5)
    _until(lambda: _begun(tmp_path), "a first worker")
    ended = _end(running, number, within_s=4)
    assert ended["failed"] is False
    assert isinstance(ended["workers"], int)
    assert 1 <= ended["workers"] < MANY
    assert _none_left(tmp_path)


@pytest.mark.live
def test_a_renewal_is_cut_short(supervise: Supervise, tmp_path: Path) -> None:
    """SIGTERM while SIGHUP's new worker takes its time to start: new and old ones end."""
    running = supervise(QUICK_APPLICATION, workers=2)
    _until((tmp_path / "ready").exists, "ready")
    (tmp_path / "slow.py").write_text(SLOW_APPLICATION)
    running.send_signal(signal.SIGHUP)
    _until(lambda: len(_begun(tmp_path)) == 3, "a third worker")
    assert _end(running, signal.SIGTERM, within_s=5) == {"failed": False, "workers": 3}
    assert _none_left(tmp_path)


def test_renewed_and_fewer_and_more_workers(supervise: Supervise, tmp_path: Path) -> None:
    """SIGHUP replaces each, SIGTTIN adds one, SIGTTOU takes one away."""
    running = supervise(QUICK_APPLICATION, workers=2)
    _until((tmp_path / "ready").exists, "ready")
    first = set(_begun(tmp_path))
    running.send_signal(signal.SIGHUP)
    _until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in first), "the first two ended")
    running.send_signal(signal.SIGTTIN)
    _until(lambda: len(_begun(tmp_path)) == 5, "a fifth worker")
    running.send_signal(signal.SIGTTOU)
    _until(lambda: sum(Path(f"/proc/{worker}").exists() for worker in _begun(tmp_path)) == 2, "two again")
    assert _end(running, signal.SIGTERM, within_s=5) == {"failed": False, "workers": 2}
    assert _none_left(tmp_path)


def test_running_requests_are_finished(supervise: Supervise, tmp_path: Path) -> None:
    """Workers that serve get the time that their requests need."""
    running = supervise(QUICK_APPLICATION, workers=2)
    _until((tmp_path / "ready").exists, "ready")
    url = f"http://127.0.0.1:{(tmp_path / 'ready').read_text()}/slow"
    with subprocess.Popen(
        [sys.executable, "-c", f"import urllib.request as r; print(r.urlopen('{url}', timeout=20).read())"],
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        _until((tmp_path / "asked").exists, "the request")
        assert _end(running, signal.SIGTERM, within_s=8) == {"failed": False, "workers": 2}
        assert client.communicate(timeout=20)[0] == "b'OK'\n"
    assert _none_left(tmp_path)


def test_no_request_fails_while_workers_are_renewed(supervise: Supervise, tmp_path: Path) -> None:
    """Clients that keep their connections and never try again see nothing of two renewals under load."""
    running = supervise(QUICK_APPLICATION, workers=2)
    _until((tmp_path / "ready").exists, "ready")
    port = int((tmp_path / "ready").read_text())
    done, failures, answered = threading.Event(), [], [0] * 8

    def client(number: int) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
            while not done.is_set():
                try:
                    connection.request("POST" if number % 2 else "GET", "/")
                    answer = connection.getresponse()
                    assert (answer.status, answer.read()) == (200, b"OK")
                except Exception as error:  # noqa: BLE001 - each is a request that failed
                    failures.append(repr(error))
                    return
                answered[number] += 1
                time.sleep(0.002 * number)

    clients = [threading.Thread(target=client, args=(number,)) for number in range(len(answered))]
    for one in clients:
        one.start()
    try:
        for _ in range(2):
            before = [worker for worker in _begun(tmp_path) if Path(f"/proc/{worker}").exists()]
            running.send_signal(signal.SIGHUP)
            _until(partial(_gone, before), "renewed")
    finally:
        done.set()
        for one in clients:
            one.join()
    assert not failures
    assert min(answered) > 50
    assert len(_begun(tmp_path)) == 6


def test_a_worker_that_is_renewed_says_so_first(supervise: Supervise, tmp_path: Path) -> None:
    """Anybody who kept a connection to one hears of it there, in good time before it is closed."""
    running = supervise(QUICK_APPLICATION, workers=2)
    _until((tmp_path / "ready").exists, "ready")
    port = int((tmp_path / "ready").read_text())

    def asked(connection: http.client.HTTPConnection) -> http.client.HTTPMessage:
        connection.request("GET", "/")
        answer = connection.getresponse()
        answer.read()
        return answer.headers

    kept: dict[str, http.client.HTTPConnection] = {}
    while len(kept) < 2:  # one connection to each worker
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        if (worker := str(asked(connection)["x-worker"])) in kept:
            connection.close()
        else:
            kept[worker] = connection
    running.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 30
    while kept and time.monotonic() < deadline:
        for worker, connection in list(kept.items()):
            if asked(connection)["x-leaving"] == "1":
                kept.pop(worker).close()
        time.sleep(0.02)
    assert not kept, "not told before the end"


def test_signals_of_a_terminal_are_for_the_supervisor_alone(supervise: Supervise, tmp_path: Path) -> None:
    """SIGHUP and SIGINT reach the whole process group: it is for who started the workers to renew or end them."""
    running = supervise(QUICK_APPLICATION, workers=2)
    _until((tmp_path / "ready").exists, "ready")
    workers = _begun(tmp_path)
    for number in (signal.SIGHUP, signal.SIGINT):
        for worker in workers:
            os.kill(worker, number)
    time.sleep(0.6)  # as long as it takes the supervisor to notice that one is gone
    assert _begun(tmp_path) == workers
    assert not any(_gone([worker]) for worker in workers)
    assert _end(running, signal.SIGTERM, within_s=10)["failed"] is False


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Iterator[server_processes.Supervisor]:
    """A supervisor of a socket that listens, in a terminal, before it has started anybody."""
    monkeypatch.setattr(server_processes, "_has_terminal", lambda: True)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield server_processes.Supervisor(
            uvicorn.Config("nothing:at_all", workers=2, log_config=None), [listening], lambda: None
        )
    for number, handler in before.items():
        signal.signal(number, handler)


def test_told_to_end_it_listens_no_more_at_once(supervisor: server_processes.Supervisor) -> None:
    """Not when it looks next: its workers may have got the signal too, and who connects would wait for nobody."""
    listening = supervisor.sockets[0]
    supervisor._starting = True  # a worker that is given the socket
    supervisor._note_end(signal.SIGTERM, None)
    assert listening.fileno() > 0
    supervisor._starting = False
    signal.raise_signal(signal.SIGTERM)
    assert listening.fileno() == -1
    assert supervisor.should_exit.is_set()


def test_a_terminal_that_closes_ends_it(
    supervisor: server_processes.Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGHUP renews the workers, none here, unless there is no terminal any more."""
    renewals: list[bool] = []
    monkeypatch.setattr(supervisor, "restart_all", lambda: renewals.append(True))
    supervisor.handle_hup()
    assert (renewals, supervisor.should_exit.is_set()) == ([True], False)
    monkeypatch.setattr(server_processes, "_has_terminal", lambda: False)
    supervisor._terminal_seen_at -= server_processes.HANG_UP_S  # somebody's own, long after the terminal had gone
    supervisor.handle_hup()
    assert (renewals, supervisor.should_exit.is_set()) == ([True, True], False)
    supervisor._terminal_seen_at += server_processes.HANG_UP_S
    supervisor.handle_hup()
    assert (renewals, supervisor.should_exit.is_set()) == ([True, True], True)


def test_told_to_end_while_it_starts_a_worker(supervisor: server_processes.Supervisor) -> None:
    """What it cannot give any more it need not: no error, and nothing of it is called a failure."""
    supervisor.signal_queue.append(signal.SIGTERM)
    supervisor.sockets[0].close()
    supervisor.handle_ttin()
    supervisor.init_processes()
    assert (supervisor.processes, supervisor.failed) == ([], False)


def test_a_terminal_is_one_until_it_closes(tmp_path: Path) -> None:
    """As the kernel says to a process in a session of its own: none, one, none."""
    ours, theirs = os.openpty()
    said = tmp_path / "said"
    command = [sys.executable, "-c", AT_A_TERMINAL, str(said)]
    with subprocess.Popen(command, cwd=settings.BASE_DIR, stdin=theirs, start_new_session=True) as process:
        os.close(theirs)
        _until(said.exists, "a terminal")
        os.close(ours)
        assert process.wait(10) == 0
    assert said.read_text() == "[False, True, False]"


def test_a_terminal_that_closes_is_nothing_to_nohup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Started with SIGHUP ignored it goes on; sent by somebody, the signal renews the workers as ever."""
    monkeypatch.setattr(server_processes, "_has_terminal", lambda: True)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        config = uvicorn.Config("nothing:at_all", workers=2, log_config=None)
        supervisor = server_processes.Supervisor(config, [], lambda: None)
        monkeypatch.setattr(server_processes, "_has_terminal", lambda: False)
        supervisor.handle_hup()
        assert not supervisor.should_exit.is_set()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_thread_that_hangs_does_not_keep_a_server_that_ends(supervise: Supervise, tmp_path: Path) -> None:
    """Python waits for threads before it ends; what hangs past the time for it is left."""
    running = supervise(HANGING_APPLICATION, workers=1)
    _until((tmp_path / "ready").exists, "ready")
    assert _end(running, signal.SIGTERM, within_s=10) == {"failed": False, "workers": 1}
    assert _none_left(tmp_path)


def test_newcomers_are_refused_while_running_requests_are_finished(supervise: Supervise, tmp_path: Path) -> None:
    """Told to end, the server answers that to new connections: a proxy goes elsewhere instead of waiting for nobody."""
    running = supervise(QUICK_APPLICATION, workers=2)
    _until((tmp_path / "ready").exists, "ready")
    port = int((tmp_path / "ready").read_text())
    slow = http.client.HTTPConnection("127.0.0.1", port, timeout=10)  # closed by its answer
    slow.request("GET", "/slow")
    _until((tmp_path / "asked").exists, "the request")
    running.send_signal(signal.SIGTERM)

    def refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except ConnectionRefusedError:
            return True
        return False

    _until(refused, "nobody listens")
    assert not select.select([slow.sock], [], [], 0)[0], "refused only after the last answer"
    assert slow.getresponse().read() == b"OK"


def test_a_machine_that_allows_no_further_process(supervise: Supervise, tmp_path: Path) -> None:
    """Where a worker cannot be started at all, those that were are ended, and the start has failed."""
    (tmp_path / "room-for-one").touch()
    running = supervise(SLOW_APPLICATION, workers=2)
    output, _ = running.communicate(timeout=30)
    assert json.loads(output.splitlines()[-1])["failed"] is True
    assert "Traceback" not in output
    assert _none_left(tmp_path)


def test_an_event_that_is_set_by_a_signal() -> None:
    """The end has come as soon as SIGTERM or SIGINT is queued; other signals do not count."""
    queue: list[int] = [signal.SIGHUP]
    stop = server_processes._Stop(queue)
    assert not stop.is_set()
    assert not stop.wait(0.01)
    queue.append(signal.SIGTERM)
    assert stop.is_set()
    assert stop.wait(30)
