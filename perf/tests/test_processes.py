"""Starting, pinning, metering and ending a real server: the bare callable."""

import os
import sys
import time
from pathlib import Path

import pytest

from perf.load.closed_loop import run_load
from perf.load.sources import Constant, get
from perf.rig.processes import Server, StartError, environment_of, free_port, pin, process_tree, read_meter

ROOT = Path(__file__).resolve().parents[2]


def bare(folder: Path) -> Server:
    """Make the bare callable's server, not yet started."""
    port = free_port()
    return Server(
        [sys.executable, "-m", "perf.rig.bare_asgi", "--port", str(port)],
        folder=ROOT,
        port=port,
        environment=dict(os.environ),
        log=folder / "bare.log",
    )


@pytest.mark.live
def test_a_server_is_pinned_metered_and_ended(tmp_path: Path) -> None:
    """The bare callable answers, on the core it was given, its CPU time is seen, and it is gone afterwards."""
    core = min(os.sched_getaffinity(0))
    with bare(tmp_path) as server:
        pid = server.pid
        pin(pid, {core})
        tasks = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
        assert [os.sched_getaffinity(task) for task in tasks] == [{core}] * len(tasks)
        assert environment_of(pid, "PATH") == os.environ["PATH"]
        before = read_meter(pid)
        result = run_load(server.address, [Constant(get("/", server.host))] * 2, seconds=0.5)
        after = read_meter(pid)
    assert result.latencies_ns
    assert not result.failures
    assert after.server > before.server
    assert after.client > before.client
    assert after.machine - before.machine >= after.server - before.server
    assert after.beside == before.beside
    assert not Path(f"/proc/{pid}").exists()


def test_a_server_that_ends_early_is_reported_with_its_output(tmp_path: Path) -> None:
    """A start-up failure is an error that shows what the process said."""
    program = "import sys; sys.exit('no such table')"
    server = Server([sys.executable, "-c", program], folder=ROOT, port=1, environment={}, log=tmp_path / "log")
    with pytest.raises(StartError, match="no such table"):
        server.__enter__()


def test_descendants_end_with_their_server(tmp_path: Path) -> None:
    """What a server started does not outlive it, even when it ignores its parent's end."""
    program = (
        "import http.server, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)\n"
        "class Handler(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.end_headers()\n"
        "http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()\n"
    )
    port = free_port()
    arguments = [sys.executable, "-c", program, str(port)]
    with Server(arguments, folder=ROOT, port=port, environment={}, log=tmp_path / "log") as server:
        members = process_tree(server.pid)
    assert len(members) == 2
    deadline = time.monotonic() + 5
    while any(_running(member) for member in members) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_running(member) for member in members)


def _running(pid: int) -> bool:
    """Whether a process exists and is no zombie waiting for its new parent."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"
