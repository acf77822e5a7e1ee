"""The experiment on servers: what it starts, compares and concludes."""

import socket
import threading
from pathlib import Path

import pytest

from perf.experiments.servers.experiment import WORKLOADS, Seen, finding
from perf.experiments.servers.probes import Answer, differences, refusals
from perf.experiments.servers.targets import BEHIND, DIRECT
from perf.rig.app_servers import GRANIAN, OURS, TITLES, UVICORN, command
from perf.summary import Round


def seen(rate: float, *, failed: int = 0, nginx_us: float = 0.0) -> Seen:
    """Return a window of that rate."""
    return Seen(Round(rate=rate, p50_ms=1, p99_ms=2, completed=100, failed=failed, shed=0), nginx_us)


def rounds(**rates: float) -> dict[str, dict[str, list[Seen]]]:
    """Return three equal rounds of every workload; behind nginx, half of the direct rate."""
    by_target = {}
    for name, rate in rates.items():
        by_target[f"{TITLES[name]}, {DIRECT}"] = [seen(rate)] * 3
        by_target[f"{TITLES[name]}, {BEHIND}"] = [seen(rate / 2, nginx_us=41)] * 3
    return {workload: dict(by_target) for workload in WORKLOADS}


@pytest.mark.parametrize("server", TITLES)
def test_each_server_has_one_worker_on_a_port_or_a_socket(server: str, tmp_path: Path) -> None:
    """The command names the place it was given, and nothing of the other kind."""
    on_port, on_socket = command(server, 8123), command(server, tmp_path / "s")
    assert on_port[on_port.index("--port") + 1] == "8123"
    assert on_socket[on_socket.index("--uds") + 1] == str(tmp_path / "s")
    assert "--uds" not in on_port
    assert "--port" not in on_socket


def test_the_finding_compares_the_servers_in_the_same_round() -> None:
    """Ratios are those of the rates, and every target has its line in every workload's table."""
    found = finding(rounds(ours=120, uvicorn=80, granian=100), alike={}, refused={OURS: {"x": "400"}}, wrong=0)
    assert [check.measured for check in found.checks] == [1.5, 1.2, 0.5]
    assert [len(table.rows) for table in found.tables[:4]] == [6] * 4
    assert found.tables[0].rows[1][5] == "41"
    assert found.tables[0].rows[0][5] == ""
    assert found.failed == 0


def test_a_failure_anywhere_reaches_the_exit_status() -> None:
    """A window with failures, and an answer that was another one, both spoil the finding."""
    measured = rounds(ours=1, uvicorn=1, granian=1)
    measured["ping"][f"{TITLES[GRANIAN]}, {BEHIND}"] = [seen(1, failed=2)] * 3
    assert finding(measured, alike={}, refused={UVICORN: {}}, wrong=1).failed == 7


def test_differences_between_answers_are_named() -> None:
    """Status, body and each field count; the date does not."""
    one = Answer(200, {"date": "now", "a": "1", "b": "2"}, b"x")
    assert differences(one, Answer(200, {"date": "then", "a": "1", "b": "2"}, b"x")) == []
    assert differences(one, Answer(404, {"a": "3", "server": "s"}, b"y")) == [
        "status 404",
        "body",
        "a: 3",
        "b: missing",
        "server: s",
    ]


def test_refusals_are_put_into_words() -> None:
    """A server that answers everything at once with a plain 400 is described as such."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        for _ in range(6):
            connection, _peer = listening.accept()
            with connection:
                connection.recv(200_000)
                connection.sendall(b"HTTP/1.1 400 Bad\r\nContent-Type: text/plain\r\n\r\n")
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(200_000):
                    pass

    thread = threading.Thread(target=answer)
    thread.start()
    with listening:
        said = refusals(listening.getsockname()[:2])
        thread.join()
    assert said["no HTTP at all"] == "400 text/plain"
    assert said["a head without end"].startswith("refused after")
    assert said["half a head, then silence"] == "400 text/plain after 0 s"
