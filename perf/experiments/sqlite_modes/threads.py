"""SQLite under many callers, in one way of keeping connections.

``python -m perf.experiments.sqlite_modes.threads --mode wal-pools …``

Sixteen callers each do the next unit of work as soon as their last is done: eight in ten read an account behind a
token, one rotates a session, one opens a session (it reads, then writes, in one transaction). The units and the pools
are IronAuth's own. It runs in the environment of a migrated and seeded site, changes its database, and prints JSON.
"""

import argparse
import asyncio
import gc
import os
import random
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import django
import msgspec
import uvloop

from ironauth.infrastructure.http.client_context import ClientContext
from perf.rig.seed import SeededSession, read_sessions
from perf.summary import percentile_ms

if TYPE_CHECKING:
    from tokens.sessions.queries import LiveSession

CALLERS = 16  # as many as the benchmark has connections
READS, ROTATIONS = 0.8, 0.1  # shares of all units; the rest open a session
FIRST_EPOCH = 0  # of people who were never signed out everywhere
DRAIN_S = 10.0  # longest wait for the units under way at the end


@dataclass(frozen=True)
class Mode:
    """A way of using SQLite: how it journals, when it waits for the disk, how transactions begin, who connects."""

    title: str
    journal: str
    synchronous: str
    transaction: str
    pools: bool


MODES = {
    "delete-deferred": Mode("rollback journal, a connection per thread, `BEGIN`", "DELETE", "FULL", "DEFERRED", False),
    "delete": Mode(
        "rollback journal, a connection per thread, `BEGIN IMMEDIATE`", "DELETE", "FULL", "IMMEDIATE", False
    ),
    "wal-deferred": Mode("WAL, a connection per thread, `BEGIN`", "WAL", "FULL", "DEFERRED", False),
    "wal": Mode("WAL, a connection per thread, `BEGIN IMMEDIATE`", "WAL", "FULL", "IMMEDIATE", False),
    "wal-pools": Mode("**WAL, one writer and a pool of readers (as served)**", "WAL", "FULL", "IMMEDIATE", True),
    "wal-pools-normal": Mode("the same, `synchronous=NORMAL`", "WAL", "NORMAL", "IMMEDIATE", True),
}


class Kind(msgspec.Struct, frozen=True):
    """The units of one kind that took effect inside the window; latencies in ms, of the callers' waiting included."""

    done: int
    p50_ms: float
    p99_ms: float


class Outcome(msgspec.Struct, frozen=True):
    """One window. ``refused``: why units were not done, by the database's own words, over the whole run."""

    rate: float
    reads: Kind
    writes: Kind
    threads: int
    refused: dict[str, int]
    wrong: int


class Callers:
    """The callers of one run, and what they saw; times in monotonic nanoseconds."""

    def __init__(self, sessions: Sequence[SeededSession], *, pool: Any, start_ns: int, stop_ns: int) -> None:
        self.reads: list[int] = []
        self.writes: list[int] = []
        self.refused: Counter[str] = Counter()
        self.wrong = 0
        self._sessions = sessions
        self._pool = pool
        self._start_ns = start_ns
        self._stop_ns = stop_ns

    async def run(self) -> None:
        """Let every caller go on until the end; the mix of units is the same in every run."""
        await asyncio.gather(*(self._call(number) for number in range(CALLERS)))

    async def _call(self, number: int) -> None:
        # Models can only be imported after django.setup(), here and below.
        from ironauth.infrastructure.core.errors import Unavailable  # noqa: PLC0415 - needs django.setup()

        dice = random.Random(number)  # the same choices in every mode
        rotation = _Rotation(self._sessions[number].refresh_token)
        while (began := time.perf_counter_ns()) < self._stop_ns:
            chance = dice.random()
            latencies = self.reads if chance < READS else self.writes
            session = dice.choice(self._sessions)
            try:
                if chance < READS:
                    right = await _read(self._pool, session)
                elif chance < READS + ROTATIONS:
                    right = await rotation.advance(self._pool)
                else:
                    right = await _open(self._pool, session)
            except Unavailable as error:
                self.refused[str(error.__cause__ or "the unit's time limit")] += 1
                continue
            self.wrong += not right
            if self._start_ns <= began and (ended := time.perf_counter_ns()) < self._stop_ns:
                latencies.append(ended - began)


class _Rotation:
    """A session that one caller keeps alive."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def advance(self, pool: Any) -> bool:
        """Exchange the refresh token for its successor, as a refresh does."""
        from tokens.sessions import refresh_token  # noqa: PLC0415 - needs django.setup()
        from tokens.sessions import rotation as session_rotation  # noqa: PLC0415 - needs django.setup()

        parsed = refresh_token.parse(self._token)
        rotation = await pool.write_autocommit(session_rotation.rotate, parsed=parsed)
        if rotation.grant is None:
            return False
        self._token = rotation.grant.refresh_token
        return True


async def _read(pool: Any, session: SeededSession) -> bool:
    """Look up the account behind an access token, as the first request with it does."""
    from tokens.sessions import units as sessions  # noqa: PLC0415 - needs django.setup()

    user_id = UUID(session.user_id)
    found: LiveSession | None = await pool.read(
        sessions.live_account, session_id=UUID(session.session_id), user_id=user_id, epoch=FIRST_EPOCH
    )
    return found is not None and found.account.id == user_id


async def _open(pool: Any, session: SeededSession) -> bool:
    """Open one more session, as a sign-in does after the password was right."""
    from accounts.users.outputs import Authenticated  # noqa: PLC0415 - needs django.setup()
    from tokens.sessions import units as sessions  # noqa: PLC0415 - needs django.setup()

    who = Authenticated(UUID(session.user_id), FIRST_EPOCH)
    grant = await pool.write(sessions.open_authenticated, who=who, context=ClientContext(address="127.0.0.1"))
    return grant is not None


def set_up(mode: Mode) -> None:
    """Bring the settings, before any connection is made, and the file itself to ``mode``.

    Raises:
        RuntimeError: the settings or SQLite did not take it.
    """
    from django.db import DEFAULT_DB_ALIAS, connections  # noqa: PLC0415 - needs django.setup()

    database = connections.settings[DEFAULT_DB_ALIAS]
    options = database["OPTIONS"]
    pragmas: str = options["init_command"]
    for name, value in (("journal_mode=WAL", mode.journal), ("synchronous=FULL", mode.synchronous)):
        if name not in pragmas:
            raise RuntimeError(f"IronAuth no longer sets {name}: bring sqlite_modes.threads up to date")
        pragmas = pragmas.replace(name, f"{name.partition('=')[0]}={value}")
    options["init_command"] = pragmas
    options["transaction_mode"] = mode.transaction
    # Leaving WAL takes the only connection there is.
    with closing(sqlite3.connect(database["NAME"])) as raw:
        (now,) = raw.execute(f"PRAGMA journal_mode={mode.journal}").fetchone()
    if now.upper() != mode.journal:
        raise RuntimeError(f"SQLite stays in journal mode {now}: is another process using {database['NAME']}?")


def make_pool(mode: Mode) -> tuple[Any, int]:
    """Return the pool that runs the units, and how many threads, hence connections, it has."""
    from django.conf import settings  # noqa: PLC0415 - needs the environment of main()

    from ironauth.config.checks import default_database_threads  # noqa: PLC0415 - as above
    from ironauth.infrastructure.db.unit_of_work import DatabasePool  # noqa: PLC0415 - as above

    class ConnectionPerThread(DatabasePool):
        """As without pools of its own: any thread reads and writes."""

        def __init__(self, *, threads: int, timeout_s: float) -> None:
            super().__init__(threads=threads, timeout_s=timeout_s)
            self._writers = self._readers
            self._sqlite = False

    timeout_s = settings.IRONAUTH_DATABASE_TIMEOUT_S
    if not mode.pools:
        return ConnectionPerThread(threads=CALLERS, timeout_s=timeout_s), CALLERS
    readers = default_database_threads()
    return DatabasePool(threads=readers, timeout_s=timeout_s), readers + 1


async def measure(mode: Mode, sessions: Sequence[SeededSession], *, seconds: float, ramp_s: float) -> Outcome:
    """Run the callers for ``ramp_s + seconds``; units that begin and end in the last ``seconds`` are measured."""
    pool, threads = make_pool(mode)
    start_ns = time.perf_counter_ns() + int(ramp_s * 1e9)
    callers = Callers(sessions, pool=pool, start_ns=start_ns, stop_ns=start_ns + int(seconds * 1e9))
    gc.collect()
    gc.freeze()  # as a worker does before its first request
    try:
        async with asyncio.timeout(ramp_s + seconds + DRAIN_S):
            await callers.run()
    finally:
        await asyncio.to_thread(pool.close)
    done = len(callers.reads) + len(callers.writes)
    return Outcome(
        done / seconds, _kind(callers.reads), _kind(callers.writes), threads, dict(callers.refused), callers.wrong
    )


def _kind(latencies_ns: list[int]) -> Kind:
    if not latencies_ns:
        return Kind(0, 0.0, 0.0)
    ordered = sorted(latencies_ns)
    return Kind(len(ordered), percentile_ms(ordered, 50), percentile_ms(ordered, 99))


def main() -> int:
    """Run one mode on the given cores and print what was seen."""
    parser = argparse.ArgumentParser(prog="python -m perf.experiments.sqlite_modes.threads", description=main.__doc__)
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--sessions", type=Path, required=True, help="what perf.rig.seed --into left")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--ramp", type=float, default=0.5, help="seconds before the window")
    parser.add_argument("--cores", required=True, help="run on these only, e.g. 0,1")
    given = parser.parse_args()
    os.sched_setaffinity(0, {int(core) for core in given.cores.split(",")})
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    django.setup()
    mode = MODES[given.mode]
    set_up(mode)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        work = measure(mode, read_sessions(given.sessions), seconds=given.seconds, ramp_s=given.ramp)
        outcome = runner.run(work)
    sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
