"""Every metric there is: its name, what it says, its labels and its unit. Names and labels are part of the contract.

A name has no ``_total`` here; the text format adds it to counters.
"""

from bisect import bisect_left
from typing import Final, Literal, NamedTuple

#: Upper ends in seconds: from the hot lane's 0.1 ms to the longest answer there is, 10 s, three for each power of ten.
BUCKETS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
_BUCKETS_NS: Final = tuple(round(end * 1_000_000_000) for end in BUCKETS_S)
SHORTEST_NS: Final = _BUCKETS_NS[0]

type Kind = Literal["counter", "gauge", "histogram"]

#: Slots of one histogram: its buckets, what is beyond them, and the sum.
HISTOGRAM_WIDTH: Final = len(BUCKETS_S) + 2
SECONDS: Final = 10**9  # kept as whole nanoseconds
#: Of every gauge: which worker's it is. Added when they are shown.
WORKER: Final = "worker"


def bucket(took_ns: float) -> int:
    """Return the number of the bucket in which such a time is counted; 0 up to `SHORTEST_NS`."""
    return bisect_left(_BUCKETS_NS, took_ns)


class Metric(NamedTuple):
    """One metric. ``scale``: what is kept for one unit of what is shown."""

    kind: Kind
    help_text: str
    labels: tuple[str, ...] = ()
    scale: int = 1

    @property
    def width(self) -> int:
        """How many slots one combination of labels takes."""
        return HISTOGRAM_WIDTH if self.kind == "histogram" else 1


#: Kept as one histogram for each method, route, lane and status, from which both are made: half the work per request.
REQUESTS: Final = "ironauth_requests"
DURATIONS: Final = "ironauth_request_duration_seconds"

CATALOGUE: Final[dict[str, Metric]] = {
    REQUESTS: Metric(
        "counter",
        "Requests answered, by method, URL pattern, lane and status; 499: the client left before.",
        ("method", "route", "lane", "status"),
    ),
    DURATIONS: Metric(
        "histogram",
        "Time from a request's last byte to the end of its answer; methods that are not offered are left out.",
        ("method", "route", "lane"),
        SECONDS,
    ),
    "ironauth_requests_running": Metric("gauge", "Requests being answered outside the hot lane."),
    "ironauth_refusals": Metric(
        "counter",
        "Requests refused before routing: malformed, too large, too slow, too many; 499: given up by their client.",
        ("status",),
    ),
    "ironauth_pool_wait_seconds": Metric("histogram", "Time a job waited for a thread.", ("pool",), SECONDS),
    "ironauth_pool_run_seconds": Metric("histogram", "Time a job ran: a hash, a unit of work.", ("pool",), SECONDS),
    "ironauth_pool_refusals": Metric(
        "counter", "Jobs refused at once or given up after their time limit; the client got 503.", ("pool",)
    ),
    "ironauth_pool_threads": Metric("gauge", "Threads of a pool.", ("pool",)),
    "ironauth_pool_running": Metric("gauge", "Threads that run a job.", ("pool",)),
    "ironauth_pool_queued": Metric("gauge", "Jobs that wait for a thread.", ("pool",)),
    "ironauth_hash_expected_wait_seconds": Metric(
        "gauge", "What a hash that is asked for now would wait for a hash thread.", scale=SECONDS
    ),
    "ironauth_hash_build": Metric(
        "gauge", "1 for the build of Argon2 that hashes: libsodium, native (argon2-cffi compiled), wheel.", ("build",)
    ),
    "ironauth_hash_worker_answers": Metric(
        "counter",
        "Hashes asked of a hash worker: hashed; busy or refused by it; failed: silent, unreachable, or no worker.",
        ("hash_worker", "result"),
    ),
    "ironauth_hash_worker_available": Metric(
        "gauge", "1: the hash worker is used; 0: it failed, and has not been tried since.", ("hash_worker",)
    ),
    "ironauth_hash_worker_under_way": Metric("gauge", "Hashes a hash worker has been given.", ("hash_worker",)),
    "ironauth_cache_lookups": Metric(
        "counter", "Tagged entries looked for in memory (l1, also by the hot lane) and Redis (l2).", ("level", "result")
    ),
    "ironauth_cache_loads": Metric("counter", "Tagged entries read from the database, as no cache had them."),
    "ironauth_cache_entries": Metric("gauge", "Tagged entries in memory."),
    "ironauth_cache_bytes": Metric("gauge", "Bytes that they take, of IRONAUTH_L1_MIB."),
    "ironauth_cache_evictions": Metric("counter", "Tagged entries that were still good and had to make room."),
    "ironauth_redis_available": Metric(
        "gauge", "1: Redis is used; 0: it failed lately and is left alone. Absent without REDIS_URL."
    ),
    "ironauth_invalidations": Metric(
        "counter", "Tags invalidated: by this server (own), heard from Redis (channel), or read (feed).", ("source",)
    ),
    "ironauth_invalidation_feed_age_seconds": Metric(
        "gauge", "Since the last complete reading of the invalidations; without limit while none succeeds.",
        scale=SECONDS,
    ),
    "ironauth_audit_events": Metric(
        "counter", "Events of the audit trail, by their code and outcome.", ("event", "outcome")
    ),
    "ironauth_tokens_issued": Metric("counter", "Tokens signed, by the typ of their header.", ("type",)),
    "ironauth_loop_lag_seconds": Metric(
        "histogram", "How late the event loop was for something due every 0.1 s.", scale=SECONDS
    ),
    "ironauth_gc_pause_seconds": Metric(
        "histogram", "Time the garbage collector held the process, by generation; 2: everything that is not frozen.",
        ("generation",), SECONDS,
    ),
    "ironauth_worker_starts": Metric("counter", "Workers started since the server was."),
    "ironauth_worker_cpu_seconds": Metric("counter", "CPU time used by all threads.", scale=SECONDS),
    "ironauth_worker_resident_bytes": Metric("gauge", "Memory in use (resident set)."),
    "ironauth_uncounted": Metric("counter", "Increments for which there was no room: 0 unless something is wrong."),
}  # fmt: skip
