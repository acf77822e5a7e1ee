"""One round of one workload: prepare, pin, load, and turn what was seen into figures."""

import os
import subprocess
import sys
from dataclasses import dataclass

import msgspec

from perf.hash_rate import HashRate
from perf.load import LoadResult, run_load
from perf.processes import Meter, environment_of, pin, read_meter
from perf.site_setup import ARGON2, ROOT, Servers
from perf.summary import Round, percentile_ms
from perf.workloads import HASH, WORKLOADS, Workload

RAMP_S = 0.5  # before each window: connections opened, pipeline full, so that the window sees the steady state
WARM_UP_S = 1.0  # once per workload, before the first round
HASH_WINDOWS = 4  # a hashing window is this many times longer: 20 answers a second need time to count
CONNECTIONS_PER_HASH_THREAD = 4  # keeps every thread busy, and waits far below the admission limit: see README
WINDOW_ENDS = 2  # meter readings of one window
_SPARE_S = 30  # beyond its own duration, for starting and ending the raw hash process
_BY_NAME = {workload.name: workload for workload in WORKLOADS}


@dataclass(frozen=True)
class Cores:
    """Who runs where; on a single core everything shares it."""

    server: set[int]
    client: set[int]
    every: set[int]


@dataclass(frozen=True)
class Bench:
    """The running servers and how they are measured."""

    servers: Servers
    cores: Cores
    hash_threads: int
    seconds: float
    connections: int

    @property
    def hash_seconds(self) -> float:
        """The window of workloads that hash a password."""
        return self.seconds * HASH_WINDOWS

    @property
    def hash_connections(self) -> int:
        """The connections of workloads that hash a password."""
        return self.hash_threads * CONNECTIONS_PER_HASH_THREAD

    def measure(self, name: str) -> Round:
        """Measure one round of a workload or of the raw hash rate."""
        if name == HASH:
            return self._raw_hash()
        workload = _BY_NAME[name]
        return self._load(workload, self.hash_seconds if workload.hashing else self.seconds)

    def warm_up(self, name: str) -> Round:
        """Run a workload briefly; only its failures matter."""
        return self._load(_BY_NAME[name], WARM_UP_S)

    def _load(self, workload: Workload, seconds: float) -> Round:
        """Prepare with every core (signing in hashes), then measure with the server pinned as the workload asks."""
        server = self.servers.named(workload.server)
        pin(server.pid, self.cores.every)
        connections = self.hash_connections if workload.hashing else self.connections
        sources = workload.sources(self.servers.site, self.servers.bare, connections)
        if not workload.hashing:
            pin(server.pid, self.cores.server)
        meters: list[Meter] = []
        result = run_load(
            server.address,
            sources,
            seconds=seconds,
            ramp_s=RAMP_S,
            observe=lambda: meters.append(read_meter(server.pid)),
        )
        return _round(result, meters)

    def _raw_hash(self) -> Round:
        """Measure in a fresh process with the malloc settings the server really has, on every core."""
        tunables = environment_of(self.servers.site.server.pid, "GLIBC_TUNABLES")
        arguments = [sys.executable, "-m", "perf.hash_rate", "--threads", str(self.hash_threads)]
        arguments += ["--seconds", str(self.hash_seconds), "--ramp", str(RAMP_S)]
        arguments += ["--cores", ",".join(str(core) for core in sorted(self.cores.every))]
        for name, value in ARGON2.items():
            arguments += [f"--{name}", str(value)]
        done = subprocess.run(  # killed by run() itself when interrupted or late
            arguments,
            cwd=ROOT,
            env={**os.environ, "GLIBC_TUNABLES": tunables},
            stdout=subprocess.PIPE,
            timeout=RAMP_S + self.hash_seconds + _SPARE_S,
            check=True,
        )
        rate = msgspec.json.decode(done.stdout, type=HashRate)
        completed = round(rate.rate * self.hash_seconds)
        return Round(rate.rate, rate.mean_ms, rate.slowest_ms, completed, 0, 0, server_cpu_us=1_000 * rate.cpu_ms)


def _round(result: LoadResult, meters: list[Meter]) -> Round:
    """Turn what the load generator saw into a round; without answers its times are 0."""
    ordered = sorted(result.latencies_ns)
    used = {}
    if len(meters) == WINDOW_ENDS:
        first, last = meters
        elapsed = last.at - first.at
        server, client = last.server - first.server, last.client - first.client
        others = max(last.machine - first.machine - server - client, 0.0)
        used = {
            "server_cpu_us": 1e6 * server / len(ordered) if ordered else 0.0,
            "server_cores": server / elapsed,
            "client_cores": client / elapsed,
            "other_cores": others / elapsed,
        }
    return Round(
        rate=result.rate,
        p50_ms=percentile_ms(ordered, 50) if ordered else 0.0,
        p99_ms=percentile_ms(ordered, 99) if ordered else 0.0,
        completed=len(ordered),
        failed=result.failures.total() if ordered else result.failures.total() or 1,  # silence is a failure too
        shed=result.shed,
        failures=dict(result.failures),
        **used,
    )
