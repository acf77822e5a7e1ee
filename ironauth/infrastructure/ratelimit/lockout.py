"""How often in a row something secret was guessed wrong: growing waits and an end, always in the database.

Not in Redis, where an eviction or a restart would forgive. Units of work for ``write``; a try is counted as a failure
*before* it is judged, so that parallel guesses cannot all pass the check, and forgiven when it was right.

After ``n`` failures in a row the next try is let in after 0 s for n < 10; 2**(n - 10) s up to a day from there on;
never when n is all that the count may have. That is ten quick tries, 20 in 17 minutes, 27 in the first day, one a day
after that, and a hundredth after some 75 days of trying without a pause. SP 800-63B-4 §3.2.2 allows at most 100 for one
password, by all ways of trying it together: so all counts of one password have 100 together.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.prepared import CompiledText, all_rows, nothing, run
from ironauth.infrastructure.models import purge_throttles

FREE_FAILURES: Final = 10  # SP 800-63B-4 §3.2.2: enough for typing errors and a forgotten Caps Lock
MAX_FAILURES: Final = 100  # SP 800-63B-4 §3.2.2: "no more than 100"
LONGEST_WAIT_S: Final = 86_400  # a day: beyond it, the owner of the account would suffer more than the guesser
#: Seconds a count stays after its last failure. Forgetting forgives: somebody who waits has ten tries a year.
KEEP_S: Final = 365 * 86_400
#: One in so many admissions deletes a few rows that count no more, so that no timer is needed to bound the tables.
_PRUNE_ONE_IN: Final = 100
_PRUNE_BATCH: Final = 200

# 2**17 s are more than a day. Without a wait the time is 0, not now: one beside it may have read the clock before.
_RETRY_AT: Final = (
    f"CASE WHEN t.failures + 1 < {FREE_FAILURES} THEN 0 WHEN t.failures + 1 - {FREE_FAILURES} > 16 "
    f"THEN %(now)s + {LONGEST_WAIT_S} ELSE %(now)s + (1 << (t.failures + 1 - {FREE_FAILURES})) END"
)
_RESERVE: Final = CompiledText(f"""
INSERT INTO infrastructure_throttlefailures AS t ("key", failures, retry_at, known_until, expires_at)
VALUES (%(key)s, 1, 0, 0, %(expires_at)s)
ON CONFLICT ("key") DO UPDATE SET
  failures = t.failures + 1, retry_at = {_RETRY_AT}, expires_at = excluded.expires_at
WHERE t.retry_at <= %(now)s AND t.failures < %(most)s
RETURNING retry_at, failures
""")  # noqa: S608 - put together from the constants above
_STATE: Final = CompiledText(
    'SELECT failures, retry_at, expires_at FROM infrastructure_throttlefailures WHERE "key" = %(key)s'
)
_KNOWN: Final = 'SELECT "key", known_until FROM infrastructure_throttlefailures WHERE "key" IN ({})'
# A wait that another try has begun meanwhile stays.
_GIVE_BACK: Final = CompiledText("""
UPDATE infrastructure_throttlefailures
SET failures = failures - 1, retry_at = CASE WHEN retry_at = %(retry_at)s THEN 0 ELSE retry_at END
WHERE "key" = %(key)s AND failures > 0
""")
_FORGIVE: Final = 'DELETE FROM infrastructure_throttlefailures WHERE "key" IN ({})'
_REMEMBER: Final = """
INSERT INTO infrastructure_throttlefailures ("key", failures, retry_at, known_until, expires_at) VALUES {}
ON CONFLICT ("key") DO UPDATE SET
  failures = 0, retry_at = 0, known_until = excluded.known_until, expires_at = excluded.expires_at
"""


class Count(NamedTuple):
    """Where failures are counted, and how many there may be in a row."""

    key: str
    most: int = MAX_FAILURES


class Reserved(NamedTuple):
    """A try that counts as a failure until it is forgiven or given back. ``failures``: in a row, with this one."""

    key: str
    retry_at: float  # unix seconds; 0: at once
    failures: int


class _Ended(NamedTuple):
    """A count has had all it may have; in ``wait_s`` seconds it is forgotten."""

    wait_s: float


def register_attempt(count: Count, *, known: Sequence[tuple[str, Count]] = (), forgotten: str = "") -> Reserved | float:
    """Count one more failure; return it, or the seconds to wait, when nothing is counted.

    At the end of ``count`` the wait lasts until the count is forgotten. That is too long to wait for: something else
    has to forgive it. Two queries, one without ``known``; one more for a refusal, and two more at that end.

    Args:
        count: Where a try of an unknown device is counted.
        known: Keys of devices, each with the count of its kind. The first that stands for a known device is counted
            there instead, and in ``count`` once its kind has had all it may have.
        forgotten: The key that ``forget_devices`` is called with for them.
    """
    if random.randrange(_PRUNE_ONE_IN) == 0:  # noqa: S311 - which request pays for it is no secret
        purge_throttles(batch=_PRUNE_BATCH)
    own = _count_of_known(known, forgotten) if known else None
    found = _reserve(own) if own else None
    if found is None or isinstance(found, _Ended):
        found = _reserve(count)
    return found.wait_s if isinstance(found, _Ended) else found


def _count_of_known(known: Sequence[tuple[str, Count]], forgotten: str) -> Count | None:
    """Return the count of the first of these devices that is known. One query."""
    keys = [forgotten, *(key for key, _ in known)]
    until: dict[str, int] = dict(_run(_KNOWN.format(_places(keys)), keys, all_rows))
    after = max(int(clock.unix()), until.get(forgotten, 0))
    return next((count for key, count in known if until.get(key, 0) > after), None)


def _reserve(count: Count) -> Reserved | float | _Ended:
    """Count one more failure; return it, the seconds to wait, or that the count has ended. Two queries at most."""
    now = clock.unix()
    if rows := _RESERVE.rows(key=count.key, most=count.most, now=now, expires_at=int(now) + KEEP_S):
        return Reserved(count.key, float(rows[0][0]), rows[0][1])
    rows = _STATE.rows(key=count.key)
    failures, retry_at, expires_at = rows[0] if rows else (0, now, now)
    return _Ended(max(0.0, expires_at - now)) if failures >= count.most else float(retry_at) - now


def is_known(known: Sequence[tuple[str, Count]], *, forgotten: str = "") -> bool:
    """Return whether one of these stands for a known device; parameters as of `register_attempt`. One query.

    Args:
        known: Keys of devices, each with the count of its kind.
        forgotten: The key that ``forget_devices`` is called with for them.
    """
    return _count_of_known(known, forgotten) is not None


def give_back(reserved: Reserved) -> None:
    """Undo a reservation that was never judged. One query."""
    _GIVE_BACK.run(key=reserved.key, retry_at=reserved.retry_at)


def reset(keys: Sequence[str], *, remember: Sequence[str] = (), known_s: int = 0) -> None:
    """Forget the failures of ``keys``, and take ``remember`` for known devices for ``known_s`` seconds.

    One query; one more with ``remember``.

    Args:
        keys: The counts that are forgotten.
        remember: Keys of devices.
        known_s: Seconds from now that they are known.
    """
    now = int(clock.unix())
    if forgotten := sorted(set(keys) - set(remember)):  # in one order, so that two of these never wait in a circle
        _run(_FORGIVE.format(_places(forgotten)), forgotten, nothing)
    if remember:
        rows = ", ".join(["(%s, 0, 0, %s, %s)"] * len(remember))
        until = now + known_s
        values = [value for key in sorted(remember) for value in (key, until, until)]
        _run(_REMEMBER.format(rows), values, nothing)


def forget_devices(forgotten: str, *, known_s: int) -> None:
    """Treat every device remembered until now as unknown, where its tries name ``forgotten``. One query.

    Devices are not known by that key, so the row only holds until when such a device would be known at the latest
    (``known_s`` seconds from now). A device that succeeds in this very second stays unknown.

    Args:
        forgotten: The key that tries of these devices name.
        known_s: Seconds that a device is known; the same as when they were remembered.
    """
    until = int(clock.unix()) + known_s
    _run(_REMEMBER.format("(%s, 0, 0, %s, %s)"), [forgotten, until, until], nothing)


def _run[T](text: str, values: Sequence[str | int], take: Callable[[Any], T]) -> T:
    """Execute one of the few texts that differ by how many keys there are."""
    return run(connections[DEFAULT_DB_ALIAS], text, list(values), take)


def _places(values: Sequence[str]) -> str:
    return ", ".join(["%s"] * len(values))
