"""A measured round: what the load generator saw, what the server used, and what was sampled beside it."""

import os
import sys
import time
from collections import Counter
from pathlib import Path

from perf.bench.measuring import load_round, to_round
from perf.load.closed_loop import LoadResult
from perf.load.sources import Constant, get
from perf.rig.processes import Meter, Server, free_port
from perf.rig.site_setup import ROOT


def test_a_round_is_metered() -> None:
    """CPU time is given by answer, cores by second, and others are what is left of the machine's."""
    result = LoadResult(2.0, latencies_ns=[1_000_000] * 100, failures=Counter({"status 500": 1}), shed=2)
    meters = [Meter(10.0, 1.0, 5.0, 20.0, 3.0), Meter(12.0, 2.0, 5.5, 22.0, 3.25)]
    measured = to_round(result, meters)
    assert (measured.rate, measured.p50_ms, measured.completed) == (50.0, 1.0, 100)
    assert (measured.server_cpu_us, measured.server_cores) == (10_000.0, 0.5)
    assert (measured.client_cores, measured.beside_cores, measured.other_cores) == (0.25, 0.125, 0.125)
    assert (measured.failed, measured.shed, measured.failures) == (1, 2, {"status 500": 1})


def test_silence_is_a_failure() -> None:
    """A round without a single answer has failed even if nothing was refused."""
    assert to_round(LoadResult(1.0)).failed == 1


def test_a_server_is_sampled_inside_the_window(tmp_path: Path) -> None:
    """Samples are of the measured window, timed from the origin, and show the server working."""
    port = free_port()
    command = [sys.executable, "-m", "perf.rig.bare_asgi", "--port", str(port)]
    with Server(command, folder=ROOT, port=port, environment=dict(os.environ), log=tmp_path / "log") as server:
        origin = time.monotonic()
        sources = [Constant(get("/", server.host)) for _ in range(2)]
        measured = load_round(server, sources, seconds=0.6, ramp_s=0.2, origin=origin, interval_s=0.1)
    assert measured.samples
    assert all(0.2 < sample.at_s < time.monotonic() - origin for sample in measured.samples)
    assert sum(sample.server_voluntary + sample.server_involuntary for sample in measured.samples) > 0
    assert measured.server_cpu_us > 0
