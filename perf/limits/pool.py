"""A database whose every connection is taken: what is asked then is refused soon, and what needs none is answered."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import psycopg

from perf.limits.client import End, connected
from perf.load.fixed_rate import run_fixed
from perf.load.sources import Constant, Refresh, get
from perf.load.workloads import Site
from perf.rig.processes import Server, free_port
from perf.rig.site_setup import prepare_site, private_servers, serve, site_environment
from perf.summary import percentile_ms

WITNESS_RATE: Final = 20.0  # requests/s of an ordinary client, in a process of its own, while others misbehave
WITNESS_CONNECTIONS: Final = 4
ME: Final = "/api/v1/access/me"
CLIENTS: Final = 16  # four for each thread of the pool on two CPUs
#: Longer than cached tokens are believed without news of revocations (IRONAUTH_L1_MAX_STALE_S, 5 s).
HELD_S, QUICK_HELD_S = 8.0, 3.0
REFUSED_WITHIN_S: Final = 2.0
RECOVERED_WITHIN_S: Final = 5.0
#: New connections to Postgres are not to be had, so the news of revocations stops: shorter than 5 s.
FULL_S: Final = 3.0
_LOCK: Final = "LOCK TABLE tokens_session IN ACCESS EXCLUSIVE MODE"
_OTHERS: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend' AND datname = current_database() AND pid <> ALL(%s)"
)
type Hold = Callable[[str], AbstractContextManager[None]]


class Witnessed(NamedTuple):
    """What it saw; times in ms from the moment each request was due."""

    answers: int
    p50_ms: float
    p99_ms: float
    failures: dict[str, int]
    shed: int


def testify(address: tuple[str, int], host: str, token: str, seconds: float) -> Witnessed:
    """Ask for ``/me`` as somebody signed in for ``seconds``, at `WITNESS_RATE` requests per second."""
    sources = [Constant(get(ME, host, token)) for _ in range(WITNESS_CONNECTIONS)]
    seen = run_fixed(address, sources, rate=WITNESS_RATE, seconds=seconds)
    ordered = sorted(seen.latencies)
    p50_ms, p99_ms = (percentile_ms(ordered, percent) if ordered else 0.0 for percent in (50, 99))
    return Witnessed(len(ordered), p50_ms, p99_ms, dict(seen.failures), len(seen.shed))


class Refusals(NamedTuple):
    """What came of refreshes while the database was held, and of ``/me`` beside them."""

    name: str
    ends: list[End]
    recovered_s: float
    beside: Witnessed
    held_s: float

    @property
    def wrong(self) -> int:
        """How many refreshes were not refused in time with Retry-After."""
        return sum(
            end.how != "503" or end.seconds > REFUSED_WITHIN_S or b"retry-after:" not in end.received.lower()
            for end in self.ends
        )


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Hold a lock that every refresh needs, so that each thread of the pool waits with its connection."""
    with psycopg.connect(url) as connection:
        connection.execute(_LOCK)
        yield


@contextmanager
def full(url: str) -> Iterator[None]:
    """Take every connection the database has, the server's too; it cannot get them back until the block ends."""
    with ExitStack() as stack:
        first = stack.enter_context(psycopg.connect(url, autocommit=True))
        taken = [first.info.backend_pid]
        for _ in range(5):  # what the server opens in between is ended, and taken in the next round
            with suppress(psycopg.OperationalError):  # sorry, too many clients already: as it is meant
                while True:
                    taken.append(stack.enter_context(psycopg.connect(url, autocommit=True)).info.backend_pid)
            first.execute(_OTHERS, [taken])
        yield


async def _ask_for(host: Server, sources: list[Refresh], over: threading.Event) -> list[End]:
    """Refresh in closed loops, a connection each time, until ``over``; return what was answered."""

    async def act(source: Refresh) -> list[End]:
        ends = []
        while not over.is_set():
            async with connected(host.address) as client:
                await client.send(source.next_request())
                ends.append(await client.answer())
        return ends

    each = await asyncio.gather(*(act(source) for source in sources))
    return [end for ends in each for end in ends]


async def _recovery(server: Server, source: Refresh) -> float:
    """Return after how many seconds a refresh succeeds again."""
    began = time.monotonic()
    while time.monotonic() < began + 4 * RECOVERED_WITHIN_S:
        async with connected(server.address) as client:
            await client.send(source.next_request())
            if (await client.answer()).how == "200":
                break
        await asyncio.sleep(0.05)
    return time.monotonic() - began


def measure(folder: Path, stack: ExitStack, processes: Executor, *, quick: bool) -> list[Refusals]:
    """Start a server on Postgres, and take its connections from it in two ways.

    Raises:
        StartError: something did not start.
    """
    port = free_port()
    environment = site_environment(folder, port=port, hash_threads=1) | private_servers(folder, stack)
    prepare_site(environment, people=CLIENTS + 1)
    server = serve(folder / "pool.log", port, environment, stack)
    pairs = Site(server).sign_in(CLIENTS + 1)
    sources = [Refresh(server.host, pair.refresh_token) for pair in pairs[:CLIENTS]]
    url, token = environment["DATABASE_URL"], pairs[CLIENTS].access_token
    held_s = QUICK_HELD_S if quick else HELD_S
    return [
        _held("each held by a query that waits", locked, held_s, server, sources, url, token, processes),
        _held("none to be had (max_connections)", full, FULL_S, server, sources, url, token, processes),
    ]


def _held(
    name: str,
    hold: Hold,
    held_s: float,
    server: Server,
    sources: list[Refresh],
    url: str,
    token: str,
    processes: Executor,
) -> Refusals:
    over = threading.Event()
    testify(server.address, server.host, token, 0.5)  # the hot lane knows the token
    with hold(url):
        beside = processes.submit(testify, server.address, server.host, token, held_s - 0.5)
        timer = threading.Timer(held_s, over.set)
        timer.start()
        ends = asyncio.run(_ask_for(server, sources, over))
        seen = beside.result()
    return Refusals(name, ends, asyncio.run(_recovery(server, sources[0])), seen, held_s)
