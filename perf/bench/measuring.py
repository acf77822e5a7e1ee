"""One round of one workload: prepare, pin, load, and turn what was seen into figures."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from perf.bench.servers import Servers
from perf.load.closed_loop import LoadResult, run_load
from perf.load.sources import Source
from perf.load.workloads import HASH, WORKLOADS, Workload
from perf.rig.hash_rate import in_a_process
from perf.rig.processes import Meter, Server, environment_of, pin, read_meter
from perf.rig.sampling import INTERVAL_S, Sample, Sampler
from perf.rig.site_setup import ARGON2
from perf.summary import Round, percentile_ms

RAMP_S = 0.5  # before each window: connections opened, pipeline full, so that the window sees the steady state
WARM_UP_S = 1.0  # once per workload, before the first round
HASH_WINDOWS = 4  # a hashing window is this many times longer: 20 answers a second need time to count
CONNECTIONS_PER_HASH_THREAD = 4  # keeps every thread busy, and waits far below the admission limit: see README
WINDOW_ENDS = 2  # meter readings of one window
_BY_NAME = {workload.name: workload for workload in WORKLOADS}


@dataclass(frozen=True)
class Cores:
    """Who runs where; on a single core everything shares it. Several workers get every core, the client's too."""

    server: set[int]
    client: set[int]
    every: set[int]


@dataclass(frozen=True)
class Bench:
    """The running servers and how they are measured; samples are timed from ``began`` (monotonic seconds)."""

    servers: Servers
    cores: Cores
    hash_threads: int
    seconds: float
    connections: int
    workers: int = 1
    began: float = field(default_factory=time.monotonic)

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
        server, sources = self._prepare(workload)
        return load_round(server, sources, seconds=seconds, origin=self.began)

    def _prepare(self, workload: Workload) -> tuple[Server, Sequence[Source]]:
        """Prepare with every core (signing in hashes), then pin the server as the workload asks."""
        server = self.servers.named(workload.server)
        pin(server.pid, self.cores.every)
        connections = self.hash_connections if workload.hashing else self.connections
        sources = workload.sources(self.servers.site, self.servers.bare, connections)
        if not workload.hashing and not (workload.server == "site" and self.workers > 1):
            pin(server.pid, self.cores.server)
        return server, sources

    def _raw_hash(self) -> Round:
        """Measure in a fresh process with the malloc settings the server really has, on every core."""
        tunables = environment_of(self.servers.site.server.pid, "GLIBC_TUNABLES")
        with Sampler(origin=self.began) as sampler:
            rate = in_a_process(
                threads=self.hash_threads,
                seconds=self.hash_seconds,
                ramp_s=RAMP_S,
                cost=ARGON2,
                tunables=tunables,
                cores=self.cores.every,
            )
        completed = round(rate.rate * self.hash_seconds)
        return Round(
            rate=rate.rate,
            p50_ms=rate.mean_ms,
            p99_ms=rate.slowest_ms,
            completed=completed,
            failed=0,
            shed=0,
            server_cpu_us=1_000 * rate.cpu_ms,
            samples=sampler.samples,
        )


def load_round(
    server: Server,
    sources: Sequence[Source],
    *,
    seconds: float,
    ramp_s: float = RAMP_S,
    origin: float | None = None,
    interval_s: float = INTERVAL_S,
) -> Round:
    """Load a server where it is pinned now, metered and sampled; samples are timed from ``origin`` (monotonic).

    Only samples that lie wholly inside the measured window are kept.
    """
    meters: list[Meter] = []
    origin = time.monotonic() if origin is None else origin
    with Sampler(server.pid, origin=origin, interval_s=interval_s) as sampler:
        result = run_load(
            server.address,
            sources,
            seconds=seconds,
            ramp_s=ramp_s,
            observe=lambda: meters.append(read_meter(server.pid)),
        )
    inside = []
    if len(meters) == WINDOW_ENDS:
        first, last = meters[0].at - origin, meters[1].at - origin
        # Half an interval of tolerance at the beginning: the ramp before it is as long as an interval.
        inside = [each for each in sampler.samples if first + interval_s / 2 <= each.at_s <= last]
    return to_round(result, meters, inside)


def to_round(result: LoadResult, meters: Sequence[Meter] = (), samples: Sequence[Sample] = ()) -> Round:
    """Turn what the load generator saw into a round; without answers its times are 0."""
    ordered = sorted(result.latencies_ns)
    used = {}
    if len(meters) == WINDOW_ENDS:
        first, last = meters
        elapsed = last.at - first.at
        server, client = last.server - first.server, last.client - first.client
        beside = max(last.beside - first.beside, 0.0)
        others = max(last.machine - first.machine - server - client - beside, 0.0)
        used = {
            "server_cpu_us": 1e6 * server / len(ordered) if ordered else 0.0,
            "server_cores": server / elapsed,
            "client_cores": client / elapsed,
            "beside_cores": beside / elapsed,
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
        samples=list(samples),
        **used,
    )
