"""What a look at an access token costs, by how far it has to go.

``python -m perf.experiments.tokens.token_paths --sessions FILE``.

The functions are the ones the request path calls. It runs in the environment of a migrated site with a signing key and
the sessions of FILE (``perf.rig.seed --into``), with or without Redis, on one core, and prints JSON.
"""

import argparse
import asyncio
import gc
import os
import secrets
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from timeit import Timer
from uuid import UUID

import django
import msgspec
import uvloop
from redis.asyncio import Redis

from perf.rig.seed import SeededSession, read_sessions
from tokens.access.claims import AccessClaims

FULL, FULL_SHARED, L2_HIT, L1_HIT, HOT = "full", "full, shared", "L2 hit", "L1 hit", "hot"
DECODE, ENCODE = "decode", "encode"

REPEATS = 7  # the median of these is one figure
BATCH_S = 0.1  # one repeat runs about this long
SETTLE_S = 2.0  # longest wait for the last shared entry to reach Redis
WARM_UP = 20  # tokens verified before those that count
_POLL_S = 0.01


class Cost(msgspec.Struct, frozen=True):
    """One call: median time, CPU time of this process, and the 99th percentile where calls were timed one by one."""

    median_us: float
    cpu_us: float
    p99_us: float = 0.0


class Paths(msgspec.Struct, frozen=True):
    """The costs by name, the length of an access token in bytes, and answers that were not what they had to be."""

    costs: dict[str, Cost]
    token_bytes: int
    wrong: int


def repeated(work: Callable[[], object]) -> Cost:
    """Time a call that takes microseconds, many at once; the garbage collector stays on, as in a server."""
    once = Timer(work).timeit(20) / 20
    number = max(1, round(BATCH_S / max(once, 1e-7)))
    timer = Timer(work, "gc.enable()", globals={"gc": gc})
    cpu = time.process_time()
    seconds = timer.repeat(REPEATS, number)
    cpu = time.process_time() - cpu
    return Cost(1e6 * statistics.median(seconds) / number, 1e6 * cpu / (REPEATS * number))


async def one_by_one[T](call: Callable[[T], Awaitable[object]], items: Sequence[T]) -> Cost:
    """Await the call once for each item, one after the other, as a single client would make them happen."""
    times = []
    cpu = time.process_time()
    for item in items:
        began = time.perf_counter()
        await call(item)
        times.append(time.perf_counter() - began)
    cpu = time.process_time() - cpu
    times.sort()
    return Cost(1e6 * statistics.median(times), 1e6 * cpu / len(times), 1e6 * times[int(0.99 * (len(times) - 1))])


async def measure(sessions: Sequence[SeededSession]) -> Paths:
    """Measure every way of looking at a token; ``sessions`` are live ones of this database.

    Raises:
        RuntimeError: the tokens did not reach Redis.
    """
    # Models can only be imported after django.setup(), here and below.
    from ironauth.infrastructure.cache.invalidation import invalidation_feed  # noqa: PLC0415 - needs django.setup()
    from ironauth.infrastructure.cache.two_level import token_cache  # noqa: PLC0415 - needs django.setup()

    feed = invalidation_feed()
    await feed.start()
    try:
        remote = token_cache().remote
        return await (_shared(sessions, remote.url) if remote is not None else _alone(sessions))
    finally:
        await feed.stop()
        await token_cache().disconnect()


async def _alone(sessions: Sequence[SeededSession]) -> Paths:
    """Measure what a process without Redis does: verify against the database, or remember."""
    from ironauth.infrastructure.core import clock  # noqa: PLC0415 - needs django.setup()
    from tokens.access import codec  # noqa: PLC0415 - needs django.setup()
    from tokens.keys.store import key_store  # noqa: PLC0415 - needs django.setup()
    from tokens.sessions import authentication  # noqa: PLC0415 - needs django.setup()

    tokens = await _tokens(sessions)
    keys, active, now = await key_store().for_verifying(), await key_store().signing(), clock.unix()
    costs = {FULL: await one_by_one(authentication.verify, tokens)}
    token, claims = tokens[0], codec.decode(tokens[0], keys, now=now).claims
    principal = authentication.peek(token)
    if principal is None:
        return Paths(costs, len(token), 1)
    wrong = sum(authentication.peek(each) is None for each in tokens)
    # What is timed keeps the loop for less than a second each: the feed's confirmation of L1 lasts for five.
    costs[L1_HIT] = repeated(lambda: authentication.peek(token))
    costs[HOT] = repeated(lambda: authentication.is_current(principal))
    wrong += authentication.peek(token) is not principal
    costs[DECODE] = repeated(lambda: codec.decode(token, keys, now=now))
    costs[ENCODE] = repeated(lambda: codec.encode(claims, active))
    return Paths(costs, len(token), wrong)


async def _shared(sessions: Sequence[SeededSession], url: str) -> Paths:
    """Measure what a process does with a token that another one verified a moment ago: Redis has its principal."""
    from ironauth.infrastructure.cache.memory import freshness  # noqa: PLC0415 - needs django.setup()
    from tokens.sessions import authentication  # noqa: PLC0415 - needs django.setup()

    tokens = await _tokens(sessions)
    async with Redis.from_url(url) as redis:
        costs = {FULL_SHARED: await one_by_one(authentication.verify, tokens)}
        deadline = time.monotonic() + SETTLE_S
        while await redis.dbsize() < len(tokens) + len(sessions[:WARM_UP]):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{await redis.dbsize()} of {len(tokens)} verified tokens reached Redis")
            await asyncio.sleep(_POLL_S)
        before = await redis.info("stats")
        freshness.clear()  # empties this process' memory, and leaves Redis
        costs[L2_HIT] = await one_by_one(authentication.verify, tokens)
        hits = (await redis.info("stats"))["keyspace_hits"] - before["keyspace_hits"]
    # Each look-up is GET and PTTL, which both count as hits where there is an entry.
    return Paths(costs, len(tokens[0]), abs(2 * len(tokens) - hits))


async def _tokens(sessions: Sequence[SeededSession]) -> list[str]:
    """Return an access token of each session, as a refresh makes them; another one is verified to warm up."""
    from django.conf import settings  # noqa: PLC0415 - needs the environment of main()

    from tokens.access import codec  # noqa: PLC0415 - needs django.setup()
    from tokens.keys.store import key_store  # noqa: PLC0415 - needs django.setup()
    from tokens.sessions import authentication  # noqa: PLC0415 - needs django.setup()

    active = await key_store().signing()
    now = int(time.time())

    def token(session: SeededSession) -> str:
        claims = AccessClaims(
            iss=settings.IRONAUTH_ISSUER,
            sub=UUID(session.user_id),
            aud=settings.IRONAUTH_AUDIENCE,
            client_id="ironauth",
            iat=now,
            exp=now + settings.IRONAUTH_ACCESS_TOKEN_S,
            jti=secrets.token_urlsafe(16),
            sid=UUID(session.session_id),
            scope="account",
            epoch=0,
            roles=(),
        )
        return codec.encode(claims, active)

    for session in sessions[:WARM_UP]:
        await authentication.verify(token(session))  # connections are made, queries compiled
    return [token(session) for session in sessions]


def main() -> int:
    """Measure on the first usable core and print the result."""
    parser = argparse.ArgumentParser(prog="python -m perf.experiments.tokens.token_paths", description=main.__doc__)
    parser.add_argument("--sessions", type=Path, required=True, help="what perf.rig.seed --into left")
    given = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    django.setup()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        measured = runner.run(measure(read_sessions(given.sessions)))
    sys.stdout.buffer.write(msgspec.json.encode(measured) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
