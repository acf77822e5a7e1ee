"""How often something may happen in any stretch of time: two counts for each key, checked and raised in one step.

The count of the present window is added to the previous one's, which is weighed by how much of it the stretch that ends
now still covers: ``previous * (1 - elapsed) + count``. It needs no list of times, and takes the events of the previous
window for evenly spread.

The counts live in Redis when there is one, and in the database otherwise or while Redis fails. They do not move from
one to the other: an outage gives each key its limit once more, never more than that. A Redis that cannot be reached
never means "unlimited".

An answer may tell of it by ``RateLimit-Policy`` and ``RateLimit`` (draft-ietf-httpapi-ratelimit-headers-11): services
announce while a request is served, and the view puts it into the answer.
"""

import math
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.prepared import CompiledText

if TYPE_CHECKING:
    from ironauth.infrastructure.cache.redis_client import RedisClient

#: One step, so that no two callers see the same count. KEYS: the key. ARGV: slot, weight, limit, life in ms.
#: As in the statements below, a window that another worker's clock has begun already is taken for the present one.
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


_FIELDS: Final = ("slot", "count", "previous")

#: A row counts for the present window when it was begun in this one, or in the next by a clock that is ahead.
_PRESENT: Final = "t.slot IN (excluded.slot, excluded.slot + 1)"
_JUST_OVER: Final = "t.slot = excluded.slot - 1"
_TAKE_ROW: Final = CompiledText(f"""
INSERT INTO infrastructure_throttlewindow AS t ("key", slot, "count", previous, expires_at)
VALUES (%(key)s, %(slot)s, 1, 0, %(expires_at)s)
ON CONFLICT ("key") DO UPDATE SET
  slot = CASE WHEN {_PRESENT} THEN t.slot ELSE excluded.slot END,
  "count" = CASE WHEN {_PRESENT} THEN t."count" + 1 ELSE 1 END,
  previous = CASE WHEN {_PRESENT} THEN t.previous WHEN {_JUST_OVER} THEN t."count" ELSE 0 END,
  expires_at = excluded.expires_at
WHERE CASE WHEN {_PRESENT} THEN t.previous * %(weight)s + t."count"
  WHEN {_JUST_OVER} THEN t."count" * %(weight)s ELSE 0 END + 1 <= %(limit)s
RETURNING slot, "count", previous
""")  # noqa: S608 - put together from the two constants above
_COUNTS: Final = CompiledText('SELECT slot, "count", previous FROM infrastructure_throttlewindow WHERE "key" = %(key)s')
_GIVE_BACK_ROW: Final = CompiledText("""
UPDATE infrastructure_throttlewindow SET
  "count" = CASE WHEN slot = %(slot)s THEN "count" - 1 ELSE "count" END,
  previous = CASE WHEN slot = %(slot)s THEN previous ELSE previous - 1 END
WHERE "key" = %(key)s AND (slot = %(slot)s AND "count" > 0 OR slot = %(slot)s + 1 AND previous > 0)
""")


class RateLimitHit(NamedTuple):
    """Whether ``key`` may happen once more, ``limit`` times in any ``window_s`` seconds.

    Asked in the window number ``slot``, of which the share ``elapsed`` is over, from 0 to 1.
    """

    key: str
    limit: int
    window_s: int
    slot: int
    elapsed: float

    @property
    def weight(self) -> float:
        """How much of the previous window the stretch that ends now still covers, from 0 to 1."""
        return 1 - self.elapsed


class Counts(NamedTuple):
    """What is stored for a key."""

    slot: int
    present: int
    previous: int


class Slot(NamedTuple):
    """One place in a window, so that it can be given back. ``left``: how many more the counts leave now."""

    key: str
    slot: int
    in_redis: bool
    left: int = 0


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
    found = _take_row(asked)
    if found is not None:
        return Slot(asked.key, found.slot, in_redis=False, left=_left(asked, found))
    return Refusal(wait_s(asked, _counts(asked.key)))


def wait_now_s(asked: RateLimitHit) -> int:
    """Return after how many whole seconds there is a place, 0 for now; none is taken. Blocking; at most one query.

    It asks where a place would be taken: Redis, or the database where that does not answer.

    Args:
        asked: What would be asked of a try.
    """
    remote = token_cache().remote
    answer = remote.attempt(lambda redis: redis.hmget(_name(remote, asked.key), _FIELDS), None) if remote else None
    if answer is None:
        found = _counts(asked.key)
    else:
        found = None if None in answer else Counts(*(int(part) for part in answer))
    return 0 if found is None or _has_room(asked, found) else wait_s(asked, found)


async def give_back_to_redis(taken: Slot) -> None:
    """Give a place back that was taken in Redis; one that cannot be given back counts until its window is over."""
    remote = token_cache().remote
    if remote is not None:
        await remote.aattempt(lambda redis: redis.eval(*_giving_back(remote, taken)), None)


def give_back_to_database(key: str, slot: int) -> None:
    """Take back what was counted in ``slot``. One query.

    Args:
        key: What was counted.
        slot: The number of the window it was counted in.
    """
    _GIVE_BACK_ROW.run(key=key, slot=slot)


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


def _has_room(asked: RateLimitHit, found: Counts) -> bool:
    """Return whether one more fits, as the statements above judge it."""
    slot, count, previous = found
    if slot == asked.slot - 1:
        count, previous = 0, count
    elif slot not in (asked.slot, asked.slot + 1):
        return True
    return previous * asked.weight + count + 1 <= asked.limit


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
        return Slot(asked.key, slot, in_redis=True, left=_left(asked, Counts(slot, count, previous)))
    return Refusal(wait_s(asked, Counts(slot, count, previous)))


def _left(asked: RateLimitHit, found: Counts) -> int:
    """Return how many more have room now."""
    return max(0, math.floor(asked.limit - found.present - found.previous * asked.weight))


def _take_row(asked: RateLimitHit) -> Counts | None:
    """Count once more and return the counts with it; None when there is no room, and nothing is counted.

    One query.
    """
    rows = _TAKE_ROW.rows(
        key=asked.key,
        slot=asked.slot,
        weight=asked.weight,
        limit=asked.limit,
        expires_at=(asked.slot + 2) * asked.window_s,  # the end of the window in which it is the previous one
    )
    return Counts(*rows[0]) if rows else None


def _counts(key: str) -> Counts | None:
    """Return what is stored for ``key``. One query."""
    rows = _COUNTS.rows(key=key)
    return Counts(*rows[0]) if rows else None


# ------------------------------------------------------------------ what an answer tells
class Quota(NamedTuple):
    """One policy: ``limit`` requests in any ``window_s`` seconds; ``left`` for the next ``within_s``, None: untold."""

    name: str
    limit: int
    window_s: int
    left: int | None = None
    within_s: int = 0


#: What the answer to this request will tell; None where no request of the API is served. Tasks share the list.
announced: ContextVar[list[Quota] | None] = ContextVar("ironauth_quotas", default=None)


def announce(quota: Quota) -> None:
    """Have the answer tell of this policy; the last of each name counts.

    Args:
        quota: The policy, without a limit where it is a lockout: that has none to tell.
    """
    quotas = announced.get()
    if quotas is not None:
        quotas.append(quota)


def quota_headers(quotas: list[Quota]) -> dict[str, str]:
    """Return the header fields that tell of these policies.

    Args:
        quotas: What was announced.
    """
    last = {quota.name: quota for quota in quotas}.values()
    policies = [f'"{one.name}";q={one.limit};w={one.window_s}' for one in last if one.limit]
    limits = [f'"{one.name}";r={one.left};t={one.within_s}' for one in last if one.left is not None]
    found = {"RateLimit-Policy": policies, "RateLimit": limits}
    return {name: ", ".join(items) for name, items in found.items() if items}
