"""The faults: what breaks, for how long, and what it may cost."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from perf.faults import replica
from perf.faults.checker import Allowed, kids
from perf.faults.people import Person
from perf.faults.proxy import Mode
from perf.faults.site import Kind, Site, to_its_end

ADDED_S = 0.25  # what the loss of Redis, no more than a help, may add to an answer
SLOW_S = 5.0  # each reply of the database, as the issue has it
CUT_EVERY = 7  # replies of the database
STALL_S = 2.0  # more than a unit of work may take
BETWEEN_STALLS_S = 0.6
FILL_EVERY_S = 0.05
CONNECTIONS_EVERY_S = 0.02
APPLICATION = "taker"  # application_name of connections that take every place
CLOCK_S = 30.0  # between two workers, as the issue has it
RENEWED_S = 30.0  # longest that a rolling restart of two workers may take on two busy cores


@dataclass(frozen=True)
class Stage:
    """What a fault works on."""

    site: Site
    people: list[Person]

    @property
    def workers(self) -> set[int]:
        """The workers that people are connected to."""
        return {worker for person in self.people for worker in person.lines.workers}

    def hurry(self) -> None:
        """Let half of the people sign out at this moment, at whatever worker their turn is."""
        for person in self.people[::2]:
            person.leaves_at = 0.0


NOTHING = Allowed()
type Fault = Callable[[Stage], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Case:
    """One fault. ``hold``: whether it lasts; else it is over when it has happened."""

    what: str
    fault: Fault
    kind: Kind = Kind.WORKERS
    allowed: Allowed = NOTHING
    hold: bool = True


@asynccontextmanager
async def _redis_killed(stage: Stage) -> AsyncGenerator[None]:
    site = stage.site
    await to_its_end(site.redis.stop, signal.SIGKILL)
    await site.to_redis.become(Mode.REFUSE)
    yield
    await to_its_end(site.redis.start)
    await site.to_redis.become(Mode.PASS)


@asynccontextmanager
async def _redis_frozen(stage: Stage) -> AsyncGenerator[None]:
    process = stage.site.redis.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def _redis_emptied(stage: Stage) -> AsyncGenerator[None]:
    await to_its_end(stage.site.redis.stop, signal.SIGKILL)
    await to_its_end(stage.site.redis.start)
    yield


@asynccontextmanager
async def _redis_garbage(stage: Stage) -> AsyncGenerator[None]:
    await stage.site.to_redis.become(Mode.GARBAGE)
    yield
    await stage.site.to_redis.become(Mode.PASS)


@asynccontextmanager
async def _postgres_killed(stage: Stage) -> AsyncGenerator[None]:
    site = stage.site
    await to_its_end(site.postgres.stop, signal.SIGQUIT)  # its immediate shutdown: no goodbye to anybody
    await site.to_postgres.become(Mode.REFUSE)
    yield
    await to_its_end(site.postgres.start)
    await site.to_postgres.become(Mode.PASS)


@asynccontextmanager
async def _postgres_restarted(stage: Stage) -> AsyncGenerator[None]:
    await to_its_end(stage.site.postgres.stop)
    await to_its_end(stage.site.postgres.start)
    yield


@asynccontextmanager
async def _postgres_slow(stage: Stage) -> AsyncGenerator[None]:
    await stage.site.to_postgres.become(Mode.DELAY, delay_s=SLOW_S)
    yield
    await stage.site.to_postgres.become(Mode.PASS)


@asynccontextmanager
async def _postgres_crowded(stage: Stage) -> AsyncGenerator[None]:
    """Take every connection that Postgres has, those of the server too, and whatever becomes free."""
    over = threading.Event()
    taking = asyncio.create_task(asyncio.to_thread(take_connections, stage.site.database_url, over))
    try:
        yield
    finally:  # also when the run is broken off: its end waits for every thread
        over.set()
        await taking


@asynccontextmanager
async def _postgres_stalls(stage: Stage) -> AsyncGenerator[None]:
    """Look like a starved machine: Postgres holds still, works for a moment, and nobody hears of Redis."""
    site = stage.site
    await site.to_redis.become(Mode.REFUSE)
    stalling = asyncio.create_task(_stall(site))
    yield
    stalling.cancel()
    with suppress(asyncio.CancelledError):
        await stalling
    await site.to_postgres.become(Mode.PASS)
    await site.to_redis.become(Mode.PASS)


async def _stall(site: Site) -> None:
    while True:
        await site.to_postgres.become(Mode.FREEZE)
        await asyncio.sleep(STALL_S)
        await site.to_postgres.become(Mode.PASS)
        await asyncio.sleep(BETWEEN_STALLS_S)


@asynccontextmanager
async def _both_lost(stage: Stage) -> AsyncGenerator[None]:
    """Nobody can tell the other worker of a sign-out, and then nobody can ask the database either."""
    await stage.site.to_redis.become(Mode.REFUSE)
    stage.hurry()
    await asyncio.sleep(0.2)  # for half a dozen sign-outs, of which the other worker has not read yet
    await stage.site.to_postgres.become(Mode.REFUSE)
    yield
    await stage.site.to_postgres.become(Mode.PASS)
    await stage.site.to_redis.become(Mode.PASS)


@asynccontextmanager
async def _refresh_cut(stage: Stage) -> AsyncGenerator[None]:
    """Every refresh is answered, and its answer lost on the way; the client tries again with the same token."""
    await stage.site.to_server.become(Mode.CUT)
    _cut_refreshes(stage, stage.site.to_server.port)
    yield
    _cut_refreshes(stage, None)
    await stage.site.to_server.become(Mode.PASS)


def _cut_refreshes(stage: Stage, port: int | None) -> None:
    for person in stage.people:
        person.visits.cutting = port


@asynccontextmanager
async def _commit_cut(stage: Stage) -> AsyncGenerator[None]:
    await stage.site.to_postgres.become(Mode.CUT, every=CUT_EVERY)
    yield
    await stage.site.to_postgres.become(Mode.PASS)


@asynccontextmanager
async def _worker_killed(stage: Stage) -> AsyncGenerator[None]:
    os.kill(min(stage.workers), signal.SIGKILL)
    yield


@asynccontextmanager
async def _rolling_restart(stage: Stage) -> AsyncGenerator[None]:
    """SIGHUP; over when every worker that was there has gone."""
    before = stage.workers
    stage.site.signal_server(signal.SIGHUP)
    deadline = time.monotonic() + RENEWED_S
    while gone := before.intersection(stage.site.pids()):
        if time.monotonic() > deadline:
            stage.people[0].visits.checker.broken(f"{len(gone)} workers were not renewed in {RENEWED_S:g} s")
            break
        await asyncio.sleep(0.1)
    yield


@asynccontextmanager
async def _key_rotated(stage: Stage) -> AsyncGenerator[None]:
    await to_its_end(stage.site.manage, "rotate_signing_key", "--now")
    await to_its_end(stage.site.manage, "rotate_signing_key", "--now")
    yield


@asynccontextmanager
async def _key_dropped(stage: Stage) -> AsyncGenerator[None]:
    """Drop the key that signs: what it signed is refused from then on, and callers with such a token refresh.

    Without Redis nobody tells the workers; they have to find out.
    """
    await stage.site.to_redis.become(Mode.REFUSE)
    checker = stage.people[0].visits.checker
    held = [person.access for person in stage.people if person.access]
    for token in held:  # tried on by somebody who has stolen them
        stage.people[0].visits.watch(token)
    for kid in kids(held):
        checker.dropping(kid)
    for kid in kids(held):
        await to_its_end(stage.site.manage, "rotate_signing_key", "--drop", kid)
        checker.dropped(kid, time.monotonic())
    yield
    await stage.site.to_redis.become(Mode.PASS)


def _clock_apart(seconds: float) -> Fault:
    @asynccontextmanager
    async def fault(stage: Stage) -> AsyncGenerator[None]:
        stage.site.clock.write_text(str(seconds), encoding="ascii")
        yield
        stage.site.clock.write_text("0", encoding="ascii")

    return fault


@asynccontextmanager
async def _disk_full(stage: Stage) -> AsyncGenerator[None]:
    """Leave no room on the volume, nor what becomes free; then give it all back."""
    file = stage.site.volume / "filler"
    over = threading.Event()
    filling = asyncio.create_task(asyncio.to_thread(fill_volume, file, over))
    try:
        yield
    finally:  # also when the run is broken off: its end waits for every thread, and the volume for its last open file
        over.set()
        await filling
        file.unlink()


def take_connections(url: str, over: threading.Event) -> None:
    """Take every connection of Postgres, throw others out, and take what becomes free, until ``over``."""
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name <> %s AND datname IS NOT NULL"
    )
    with ExitStack() as taken:
        first = taken.enter_context(psycopg.connect(url, autocommit=True, application_name=APPLICATION))
        while not over.is_set():
            with suppress(psycopg.OperationalError):  # none is left
                while not over.is_set():
                    taken.enter_context(psycopg.connect(url, application_name=APPLICATION))
            first.execute(others, [APPLICATION])
            time.sleep(CONNECTIONS_EVERY_S)


def fill_volume(file: Path, over: threading.Event) -> None:
    """Write ``file`` until its volume is full, and what becomes free, until ``over``."""
    with file.open("wb", buffering=0) as filler:
        while not over.is_set():
            with suppress(OSError):  # no space left on device
                while not over.is_set():
                    filler.write(bytes(4096))
            time.sleep(FILL_EVERY_S)


_APART = Allowed(
    ending="the clocks differ by more than the 10 s in which a used refresh token gets the same successor, so that one "
    "shown twice at the same moment, to both, counts as stolen"
)
_LOSING = Allowed(losing=True)
_SPOTLESS = Allowed(spotless=True)
_BARELY_FELT = Allowed(adding_s=ADDED_S)

CASES = {
    "redis_killed": Case("Redis killed", _redis_killed, allowed=_BARELY_FELT),
    "redis_frozen": Case("Redis frozen", _redis_frozen, allowed=_BARELY_FELT),
    "redis_emptied": Case("Redis restarted empty", _redis_emptied, allowed=_BARELY_FELT),
    "redis_garbage": Case("Redis answers garbage", _redis_garbage, allowed=_BARELY_FELT),
    "postgres_killed": Case("Postgres killed", _postgres_killed),
    "postgres_restarted": Case("Postgres restarted", _postgres_restarted, hold=False),
    "postgres_slow": Case(f"Postgres {SLOW_S:g} s slow", _postgres_slow),
    "postgres_crowded": Case("Postgres out of connections", _postgres_crowded),
    "postgres_stalls": Case(f"Postgres still for {STALL_S:g} s time and again, Redis gone", _postgres_stalls),
    "both_lost": Case("sign-outs, then Redis and Postgres gone", _both_lost),
    "refresh_cut": Case("answers of /refresh lost", _refresh_cut, allowed=_LOSING),
    "commit_cut": Case(f"every {CUT_EVERY}th reply of Postgres lost", _commit_cut),
    "worker_killed": Case("a worker killed", _worker_killed, allowed=_LOSING, hold=False),
    "rolling_restart": Case("rolling restart (SIGHUP)", _rolling_restart, allowed=_SPOTLESS, hold=False),
    "key_rotated": Case("signing key rotated twice", _key_rotated, allowed=_SPOTLESS),
    "key_dropped": Case("compromised signing key dropped, Redis gone", _key_dropped),
    "clock_ahead": Case(f"one worker's clock {CLOCK_S:g} s ahead", _clock_apart(CLOCK_S), Kind.CLOCKS, _APART),
    "clock_behind": Case(f"one worker's clock {CLOCK_S:g} s behind", _clock_apart(-CLOCK_S), Kind.CLOCKS, _APART),
    "replica_paused": Case("a replica that stands still", replica.paused(), Kind.REPLICA),
    "replica_frozen": Case("a replica that hangs", replica.becoming(Mode.FREEZE), Kind.REPLICA),
    "replica_away": Case("a replica that is away", replica.becoming(Mode.REFUSE), Kind.REPLICA),
    "replica_garbage": Case("a replica that answers garbage", replica.becoming(Mode.GARBAGE), Kind.REPLICA),
    "replica_promoted": Case("a replica that became a primary", replica.promoted(), Kind.REPLICA),
    "disk_full_sqlite": Case("disk full, SQLite", _disk_full, Kind.SQLITE_VOLUME),
    "disk_full_postgres": Case("disk full, Postgres", _disk_full, Kind.POSTGRES_VOLUME),
}
