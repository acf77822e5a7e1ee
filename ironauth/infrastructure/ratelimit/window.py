"""How often something may happen in any stretch of time: two counts for each key, checked and raised in one step.

The count of the present window is added to the previous one's, which is weighed by how much of it the stretch that ends
now still covers: ``previous * (1 - elapsed) + count``. It needs no list of times, and takes the events of the previous
window for evenly spread.

The counts live in Redis when there is one, and in the database otherwise or while Redis fails. They do not move from
one to the other: an outage gives each key its limit once more, never more than that. A Redis that cannot be reached
never means "unlimited".
"""

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.ratelimit import window_store
from ironauth.infrastructure.ratelimit.window_store import Counts, RateLimitHit

if TYPE_CHECKING:
    from ironauth.infrastructure.cache.redis_client import RedisClient

#: One step, so that no two callers see the same count. KEYS: the key. ARGV: slot, weight, limit, life in ms.
#: As in ``window_store``, a window that another worker's clock has begun already is taken for the present one.
_TAKE: Final = """
local slot, weight, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local found = redis.call('HMGET', KEYS[1], 'slot', 'count', 'previous')
local at, count, previous = tonumber(found[1]) or -9, tonumber(found[2]) or 0, tonumber(found[3]) or 0
if at == slot - 1 then
  at, previous, count = slot, count, 0
elseif at ~= slot and at ~= slot + 1 then
  at, previous, count = slot, 0, 0
end
if previous * weight + count + 1 > limit then return {0, at, count, previous} end
redis.call('HSET', KEYS[1], 'slot', at, 'count', count + 1, 'previous', previous)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {1, at, count + 1, previous}
"""
#: ARGV: the slot it was taken in.
_GIVE_BACK: Final = """
local at = tonumber(redis.call('HGET', KEYS[1], 'slot')) or -9
local field = at == tonumber(ARGV[1]) and 'count' or at == tonumber(ARGV[1]) + 1 and 'previous'
if field and tonumber(redis.call('HGET', KEYS[1], field)) > 0 then redis.call('HINCRBY', KEYS[1], field, -1) end
return 1
"""


class Slot(NamedTuple):
    """One place in a window, so that it can be given back."""

    key: str
    slot: int
    in_redis: bool


class Refusal(NamedTuple):
    """There is no place; there will be one in ``wait_s`` seconds, if nobody else takes it."""

    wait_s: int


def hit(key: str, *, limit: int, window_s: int) -> RateLimitHit:
    """Return what is asked now: whether ``key`` may happen once more, ``limit`` times in any ``window_s`` seconds.

    Args:
        key: What is counted.
        limit: How often it may happen in a window.
        window_s: Seconds.
    """
    slot, elapsed_s = divmod(clock.unix(), window_s)
    return RateLimitHit(key, limit, window_s, int(slot), elapsed_s / window_s)


async def take_in_redis(asked: RateLimitHit) -> Slot | Refusal | None:
    """Take a place in Redis; None when there is no Redis or it does not answer: then the database is to be asked."""
    remote = token_cache().remote
    if remote is None:
        return None
    answer = await remote.aattempt(lambda redis: redis.eval(*_taking(remote, asked)), None)
    return _understood(asked, answer)


def take_in_database(asked: RateLimitHit) -> Slot | Refusal:
    """Take a place in the database. A unit of work for ``write``: one query, two for a refusal."""
    slot = window_store.take(asked)
    if slot is not None:
        return Slot(asked.key, slot, in_redis=False)
    return Refusal(wait_s(asked, window_store.counts(asked.key)))


async def give_back_to_redis(taken: Slot) -> None:
    """Give a place back that was taken in Redis; one that cannot be given back counts until its window is over."""
    remote = token_cache().remote
    if remote is not None:
        await remote.aattempt(lambda redis: redis.eval(*_giving_back(remote, taken)), None)


def wait_s(asked: RateLimitHit, found: Counts | None) -> int:
    """Return after how many whole seconds, at least 1, a place is free, given the counts that left none.

    Args:
        asked: The hit that was refused.
        found: The stored counts of its key.
    """
    if found is None:  # deleted since: there is room
        return 1
    slot, count, previous = found
    elapsed = asked.elapsed
    if slot == asked.slot - 1:  # as the database has it until something is counted
        count, previous = 0, count
    elif slot == asked.slot + 1:
        elapsed -= 1
    room = asked.limit - 1
    if count <= room:  # the previous window still weighs too much
        share = 1 - (room - count) / previous if previous else 0.0
        wait = (share - elapsed) * asked.window_s
    else:  # only after this window; there its count is the previous one
        wait = (1 - elapsed + 1 - room / count) * asked.window_s
    return max(1, math.ceil(wait))


def _taking(remote: "RedisClient", asked: RateLimitHit) -> tuple[Any, ...]:
    life_ms = 2 * asked.window_s * 1000
    return _TAKE, 1, _name(remote, asked.key), asked.slot, repr(asked.weight), asked.limit, life_ms


def _giving_back(remote: "RedisClient", taken: Slot) -> tuple[Any, ...]:
    return _GIVE_BACK, 1, _name(remote, taken.key), taken.slot


def _name(remote: "RedisClient", key: str) -> str:
    # Not under the cache's own prefix: clearing a cache must not clear the counts.
    return f"{remote.key_prefix}-throttle:{key}"


def _understood(asked: RateLimitHit, answer: Any) -> Slot | Refusal | None:
    """Return what Redis' answer means; None for none, or for one that is not the script's."""
    if not (isinstance(answer, list) and len(answer) == 4 and all(isinstance(part, int) for part in answer)):  # noqa: PLR2004 - what the script returns
        return None
    admitted, slot, count, previous = answer
    if admitted:
        return Slot(asked.key, slot, in_redis=True)
    return Refusal(wait_s(asked, Counts(slot, count, previous)))
