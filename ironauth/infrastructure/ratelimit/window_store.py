"""The counts of sliding windows in the database: units of work, run where they may write.

Written in SQL, because the ORM has no insert that becomes a conditional update: check and count are one statement.
"""

from typing import Final, NamedTuple

from ironauth.infrastructure.db.prepared import CompiledText

#: A row counts for the present window when it was begun in this one, or in the next by a clock that is ahead.
_PRESENT: Final = "t.slot IN (excluded.slot, excluded.slot + 1)"
_JUST_OVER: Final = "t.slot = excluded.slot - 1"
_TAKE: Final = CompiledText(f"""
INSERT INTO infrastructure_throttlewindow AS t ("key", slot, "count", previous, expires_at)
VALUES (%(key)s, %(slot)s, 1, 0, %(expires_at)s)
ON CONFLICT ("key") DO UPDATE SET
  slot = CASE WHEN {_PRESENT} THEN t.slot ELSE excluded.slot END,
  "count" = CASE WHEN {_PRESENT} THEN t."count" + 1 ELSE 1 END,
  previous = CASE WHEN {_PRESENT} THEN t.previous WHEN {_JUST_OVER} THEN t."count" ELSE 0 END,
  expires_at = excluded.expires_at
WHERE CASE WHEN {_PRESENT} THEN t.previous * %(weight)s + t."count"
  WHEN {_JUST_OVER} THEN t."count" * %(weight)s ELSE 0 END + 1 <= %(limit)s
RETURNING slot
""")  # noqa: S608 - put together from the two constants above
_COUNTS: Final = CompiledText('SELECT slot, "count", previous FROM infrastructure_throttlewindow WHERE "key" = %(key)s')
_GIVE_BACK: Final = CompiledText("""
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


def take(asked: RateLimitHit) -> int | None:
    """Count once more and return the slot it was counted in; None when there is no room, and nothing is counted.

    One query.
    """
    rows = _TAKE.rows(
        key=asked.key,
        slot=asked.slot,
        weight=asked.weight,
        limit=asked.limit,
        expires_at=(asked.slot + 2) * asked.window_s,  # the end of the window in which it is the previous one
    )
    return int(rows[0][0]) if rows else None


def counts(key: str) -> Counts | None:
    """Return what is stored for ``key``. One query."""
    rows = _COUNTS.rows(key=key)
    return Counts(*rows[0]) if rows else None


def give_back(key: str, slot: int) -> None:
    """Take back what was counted in ``slot``. One query.

    Args:
        key: What was counted.
        slot: The number of the window it was counted in.
    """
    _GIVE_BACK.run(key=key, slot=slot)
