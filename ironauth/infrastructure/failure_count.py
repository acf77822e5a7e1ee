"""How often in a row something secret was guessed wrong: growing waits and an end, always in the database.

Not in Redis, where an eviction or a restart would forgive. Units of work for ``write``; a try is counted as a
failure *before* it is judged, so that parallel guesses cannot all pass the check, and forgiven when it was right.

After ``n`` failures in a row the next try is let in after

    0 s for n < 10;  2**(n - 10) s up to a day for 10 <= n < 100;  never for n >= 100

seconds: ten quick tries, 27 in the first day, one a day after that, and the hundredth after some 75 days of trying
without a pause. SP 800-63B-4 §3.2.2 allows at most 100.
"""

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from django.db import connection

from ironauth.infrastructure import clock
from ironauth.infrastructure.models import purge_throttles

FREE_FAILURES: Final = 10  # SP 800-63B-4 §3.2.2: enough for typing errors and a forgotten Caps Lock
MAX_FAILURES: Final = 100  # SP 800-63B-4 §3.2.2: "no more than 100"
LONGEST_WAIT_S: Final = 86_400  # a day: beyond it, the owner of the account would suffer more than the guesser
#: Seconds a count stays after its last failure. Forgetting is forgiving: ten tries a year for who waits for it.
KEEP_S: Final = 365 * 86_400
#: One in so many admissions deletes a few rows that count no more, so that no timer is needed to bound the tables.
_PRUNE_ONE_IN: Final = 100
_PRUNE_BATCH: Final = 200

# The row's last failure, whose time its end tells, came before the account was forgiven.
_FORGIVEN: Final = f"t.expires_at < %(forgiven_at)s + {KEEP_S}"
# 2**17 s are more than a day.
_WAIT: Final = (
    f"CASE WHEN t.failures + 1 < {FREE_FAILURES} THEN 0 WHEN t.failures + 1 - {FREE_FAILURES} > 16 "
    f"THEN {LONGEST_WAIT_S} ELSE 1 << (t.failures + 1 - {FREE_FAILURES}) END"
)
_RESERVE: Final = f"""
INSERT INTO infrastructure_throttlefailures AS t ("key", failures, retry_at, known_until, expires_at)
VALUES (%(key)s, 1, %(now)s, 0, %(expires_at)s)
ON CONFLICT ("key") DO UPDATE SET
  failures = CASE WHEN {_FORGIVEN} THEN 1 ELSE t.failures + 1 END,
  retry_at = %(now)s + CASE WHEN {_FORGIVEN} THEN 0 ELSE {_WAIT} END,
  expires_at = excluded.expires_at
WHERE {_FORGIVEN} OR t.retry_at <= %(now)s AND t.failures < {MAX_FAILURES}
RETURNING retry_at, failures
"""  # noqa: S608 - put together from the constants above
_STATE: Final = 'SELECT failures, retry_at FROM infrastructure_throttlefailures WHERE "key" = %s'
_KNOWN: Final = 'SELECT "key", known_until FROM infrastructure_throttlefailures WHERE "key" IN ({})'
# A wait that another try has begun meanwhile stays.
_GIVE_BACK: Final = """
UPDATE infrastructure_throttlefailures
SET failures = failures - 1, retry_at = CASE WHEN retry_at = %(retry_at)s THEN 0 ELSE retry_at END
WHERE "key" = %(key)s AND failures > 0
"""
# ``known_until`` of such a row is when it was written.
_FORGIVE_DEVICES: Final = """
INSERT INTO infrastructure_throttlefailures ("key", failures, retry_at, known_until, expires_at)
VALUES (%(key)s, 0, 0, %(now)s, %(expires_at)s)
ON CONFLICT ("key") DO UPDATE SET known_until = excluded.known_until, expires_at = excluded.expires_at
"""
_FORGIVE: Final = 'DELETE FROM infrastructure_throttlefailures WHERE "key" IN ({})'
_REMEMBER: Final = """
INSERT INTO infrastructure_throttlefailures ("key", failures, retry_at, known_until, expires_at) VALUES {}
ON CONFLICT ("key") DO UPDATE SET
  failures = 0, retry_at = 0, known_until = excluded.known_until, expires_at = excluded.expires_at
"""


class Reserved(NamedTuple):
    """A try that counts as a failure until it is forgiven or given back. ``failures``: in a row, with this one."""

    key: str
    retry_at: float  # unix seconds
    failures: int


def wait_after(failures: int) -> int | None:
    """Return how many seconds a try has to wait after so many failures in a row; None: it is never let in."""
    if failures >= MAX_FAILURES:
        return None
    return 0 if failures < FREE_FAILURES else min(1 << (failures - FREE_FAILURES), LONGEST_WAIT_S)


def reserve(key: str, *, devices: Sequence[str] = (), forgiven: str = "") -> Reserved | float:
    """Count one more failure; return it, or the seconds to wait, when nothing is counted.

    ``devices``: keys of which the first that stands for a known device is counted instead of ``key``; ``forgiven``:
    the key `forgive_devices` is called with for them. Two queries, one without ``devices``, one more for a refusal.
    """
    now = clock.unix()
    if random.randrange(_PRUNE_ONE_IN) == 0:  # noqa: S311 - which request pays for it is no secret
        purge_throttles(batch=_PRUNE_BATCH)
    forgiven_at = 0
    with connection.cursor() as cursor:
        if devices:
            cursor.execute(_KNOWN.format(_places((*devices, forgiven))), [*devices, forgiven])
            until: dict[str, int] = dict(cursor.fetchall())
            forgiven_at = until.get(forgiven, 0)
            key = next((device for device in devices if until.get(device, 0) > int(now)), key)
        given: dict[str, str | int | float] = {
            "key": key,
            "now": now,
            "expires_at": int(now) + KEEP_S,
            "forgiven_at": forgiven_at,
        }
        cursor.execute(_RESERVE, given)
        rows = cursor.fetchall()
        if rows:
            return Reserved(key, float(rows[0][0]), rows[0][1])
        cursor.execute(_STATE, [key])
        failures, retry_at = cursor.fetchone() or (0, now)
    return float(LONGEST_WAIT_S) if failures >= MAX_FAILURES else float(retry_at) - now


def is_known(devices: Sequence[str]) -> bool:
    """Return whether one of these keys stands for a known device. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_KNOWN.format(_places(devices)), devices)
        return any(until > int(clock.unix()) for _, until in cursor.fetchall())


def give_back(reserved: Reserved) -> None:
    """Undo a reservation that was never judged. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_GIVE_BACK, reserved._asdict())


def forgive(keys: Sequence[str], *, remember: Sequence[str] = (), known_s: int = 0) -> None:
    """Forget the failures of ``keys``, and take ``remember`` for known devices for ``known_s`` seconds.

    One query; one more with ``remember``.
    """
    now = int(clock.unix())
    with connection.cursor() as cursor:
        if forgotten := sorted(set(keys) - set(remember)):  # in one order, so that two of these never wait in a circle
            cursor.execute(_FORGIVE.format(_places(forgotten)), forgotten)
        if remember:
            rows = ", ".join(["(%s, 0, 0, %s, %s)"] * len(remember))
            until = now + known_s
            values = [value for key in sorted(remember) for value in (key, until, until)]
            cursor.execute(_REMEMBER.format(rows), values)


def forgive_devices(forgiven: str) -> None:
    """Let every device whose tries name ``forgiven`` begin anew: none is known by its key, so the time is kept.

    A failure of this very second still counts. One query.
    """
    now = int(clock.unix())
    with connection.cursor() as cursor:
        cursor.execute(_FORGIVE_DEVICES, {"key": forgiven, "now": now, "expires_at": now + KEEP_S})


def _places(values: Sequence[str]) -> str:
    return ", ".join(["%s"] * len(values))
