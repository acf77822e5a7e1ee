"""Ending a benchmark early."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Loads the bare callable until it is told to stop, and prints a line once its server has ended.
PROGRAM = """
import os, sys
from pathlib import Path
from perf.rig.console import leave_by_interrupt
from perf.load.closed_loop import run_load
from perf.rig.processes import Server, free_port
from perf.load.sources import Constant, get

leave_by_interrupt()
port = free_port()
arguments = [sys.executable, "-m", "perf.rig.bare_asgi", "--port", str(port)]
server = Server(arguments, folder=Path.cwd(), port=port, environment=dict(os.environ), log=Path(sys.argv[1]))
try:
    with server:
        pid = server.pid
        print("loading", flush=True)
        run_load(server.address, [Constant(get("/", server.host))] * 4, seconds=60)
except KeyboardInterrupt:
    print("interrupted, server", "alive" if Path(f"/proc/{pid}").exists() else "ended")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.live
def test_a_signal_under_load_ends_the_run_and_its_server(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C and SIGTERM both stop a load that is running, at once, and the server with it."""
    arguments = [sys.executable, "-c", PROGRAM, str(tmp_path / "bare.log")]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)  # the load is under way
        process.send_signal(number)
        output, _ = process.communicate(timeout=15)
    assert output == "interrupted, server ended\n"
