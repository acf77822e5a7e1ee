"""The trail's table on Postgres: a partition for each month, so that old events go by dropping a table.

Ids are in order of time, so they are what it is partitioned by, and the primary key stays what it was. Partitions:

``before``
    What was there when the table was partitioned: everything older than the first month. Its old events are deleted
    row by row, as on SQLite, until all of it is old.
``pYYYY_MM``
    A month. They are made ahead (``make_ahead``) and dropped whole (``drop_old``).
``other``
    Whatever has no partition: an event is never refused. It stays empty where partitions are made ahead.

SQLite has one table, and each function here does nothing there.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from django.db import DatabaseError, OperationalError, connection, transaction

from accounts.audit import triggers
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.core.ids import first_id_at
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger

TABLE: Final = triggers.TABLE
BEFORE: Final = f"{TABLE}_before"
OTHER: Final = f"{TABLE}_other"
MONTHS_AHEAD: Final = 3
#: Events up to which the migration partitions the table itself: it reads them all once, a few seconds.
FEW: Final = 5_000_000
#: Bytes that an event has at least, without indexes: its header, its id, a code and the numbers.
EVENT_BYTES: Final = 120
_PAGE_BYTES: Final = 8_192
_SIZE: Final = "SELECT reltuples, relpages, pg_relation_size(oid) FROM pg_class WHERE oid = to_regclass(%s)"
#: What a change waits for a lock at most, in milliseconds. What comes after it waits as long.
LOCK_WAIT_MS: Final = 500
TRIES: Final = 10
PAUSE_S: Final = 1.0
_LOCKED: Final = "55P03"  # lock_not_available
_FIRST_MONTH_FROM: Final = timedelta(days=3)  # the first month begins later than this
#: How long before the first month a check that a broken conversion has left is dropped. More than the day between two
#: purges, and less than what a conversion has at least.
LEFT_OVER_WITHIN: Final = timedelta(days=2)
_IS_LATER_THAN: Final = "partition_before"  # the check by which Postgres need not read what it attaches
_CHECK: Final = (
    "SELECT pg_get_constraintdef(oid), convalidated FROM pg_constraint"
    " WHERE conrelid = to_regclass(%s) AND conname = %s"
)
_CHECK_END: Final = re.compile(r"'([0-9a-f-]{36})'")
_ADVISORY: Final = 0x1A0D_17  # one at a time changes partitions
_BOUND: Final = re.compile(r" TO \('([0-9a-f-]{36})'\)")
_PARTITIONS: Final = (
    "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid), greatest(c.reltuples, 0) FROM pg_inherits i"
    " JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass(%s)"
)
#: Single columns: Postgres stores a value that many events share once. A month's events of one value are found by it
#: and sorted where they are few, and met in the order of ids where they are many.
INDEXES: Final = {
    "accounts_audit_actor": "(actor_id) WHERE actor_id IS NOT NULL",
    "accounts_audit_user": "(user_id) WHERE user_id IS NOT NULL",
    "accounts_audit_session": "(session_id) WHERE session_id IS NOT NULL",
    "accounts_audit_event": "(event, outcome)",
    "accounts_audit_outcome": "(outcome) WHERE outcome <> 'success'",
    "accounts_audit_cause": "((details ->> 'reason')) WHERE (details ->> 'reason') IS NOT NULL",
    "accounts_audit_client": "((details ->> 'client')) WHERE (details ->> 'client') IS NOT NULL",
    "accounts_audit_address": "(address) WHERE address IS NOT NULL",
}


class Partition(NamedTuple):
    """A partition: ``end`` is the first id that is not in it, None for ``other``; ``events`` are an estimate."""

    name: str
    end: uuid.UUID | None
    events: int


def is_partitioned(connection: Any) -> bool:
    """Tell whether the table has partitions. 1 query, none on SQLite."""
    return connection.vendor == "postgresql" and _kind(connection) == "p"


def is_large(connection: Any) -> bool:
    """Tell whether there are more events than a migration should read, as Postgres estimates by the table's size.

    Of a table that it has never counted (after a restore), each event is taken to have no more than it needs.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SIZE, [TABLE])
        counted, pages, stored = cursor.fetchone()
    events = counted * stored / (pages * _PAGE_BYTES) if counted > 0 and pages else stored / EVENT_BYTES
    return bool(events > FEW)


def partitions(connection: Any) -> list[Partition]:
    """Return the partitions, the oldest first, ``other`` last. 1 query."""
    with connection.cursor() as cursor:
        cursor.execute(_PARTITIONS, [TABLE])
        rows = cursor.fetchall()
    found = []
    for name, bound, events in rows:
        end = _BOUND.search(bound)
        found.append(Partition(name, uuid.UUID(end[1]) if end else None, int(events)))
    return sorted(found, key=lambda one: (one.end is None, one.end or uuid.UUID(int=0)))


def convert(connection: Any, *, say: Callable[[str], Any] = lambda _: None) -> bool:
    """Make the table a partitioned one while others use it; return whether there was anything to do.

    No event is written anew. A check that the present events are older than the first month is proved while everything
    goes on. Then, in one short transaction, the table becomes the partition ``before`` of a new one of its name, with
    its triggers and rights. May be repeated after any failure.

    The check would refuse every event of the first month on. So it goes with an attempt that fails, and what a process
    leaves that dies meanwhile goes by ``make_ahead``.

    Args:
        connection: Django's, outside a transaction or, in tests, inside.
        say: Is told what comes next.

    Raises:
        OperationalError: Others kept the table locked all the time; try later.
    """
    if connection.vendor != "postgresql" or _kind(connection) != "r":
        return False
    end = _first_month(connection)
    say("Proving which events the table has: everything goes on meanwhile.")
    if not _patiently(connection, lambda cursor: _add_check(connection, cursor, end)):
        return False
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {TABLE} VALIDATE CONSTRAINT {_IS_LATER_THAN}")
        say("Making it a partition.")
        _patiently(connection, lambda cursor: _swap(connection, cursor, end))
    except BaseException:
        with suppress(DatabaseError):  # the connection is gone, or others keep the table locked: see ``make_ahead``
            _patiently(connection, _drop_check)
        raise
    make_ahead(connection)
    return True


def make_ahead(connection: Any, *, now: datetime | None = None) -> list[str]:
    """Create the partitions of this month and the next ``MONTHS_AHEAD`` that are missing; return their names.

    A month of which ``other`` has events already stays there. 1 query where nothing is missing. Of a table in one piece
    it drops the check that a broken conversion has left, before that refuses an event. 2 queries.

    Args:
        connection: Django's.
        now: For tests.
    """
    if connection.vendor != "postgresql":
        return []
    there = partitions(connection)
    if not there:
        _drop_left_over(connection, now or clock.now())
        return []
    before = max((one.end for one in there if one.name == BEFORE and one.end), default=uuid.UUID(int=0))
    names, made = {one.name for one in there}, []
    for first, end in _months(now or clock.now(), MONTHS_AHEAD + 1):
        name = f"{TABLE}_p{first:%Y_%m}"
        low, high = first_id_at(first), first_id_at(end)
        if name in names or high <= before:
            continue
        if _patiently(connection, partial(_add, connection, name, low, high)):
            made.append(name)
    return made


def drop_old(connection: Any, before: datetime) -> int:
    """Drop the partitions whose events are all of before ``before``; return how many events, as Postgres estimates.

    One that others keep locked stays for the next time. The database's clock has to agree, as the triggers have it for
    a row: no trigger is asked about a table that is dropped, and this process's clock may be wrong.

    Args:
        connection: Django's, outside a transaction.
        before: With a time zone; never one for which the triggers would refuse a deletion.
    """
    if connection.vendor != "postgresql":
        return 0
    limit = first_id_at(min(before, _database_now(connection) - timedelta(days=triggers.LOCKED_DAYS)))
    gone = 0
    for one in partitions(connection):
        if one.end is not None and one.end <= limit:
            try:
                _patiently(connection, partial(_drop, one.name))
            except OperationalError:
                get_logger().warning("audit_partition_kept", partition=one.name, remedy="the next purge tries again")
                continue
            gone += one.events
    return gone


def delete_rows(connection: Any, before: datetime, *, size: int) -> int:
    """Delete up to ``size`` events of before ``before`` from the partitions that are no month; return how many.

    Args:
        connection: Django's.
        before: With a time zone.
        size: How many at most, of each.
    """
    limit, deleted = first_id_at(before), 0
    for one in partitions(connection):
        if one.name in (BEFORE, OTHER):
            with connection.cursor() as cursor:
                cursor.execute(
                    f"DELETE FROM {one.name} WHERE id IN"  # noqa: S608 - one of two constants
                    f" (SELECT id FROM {one.name} WHERE id < %s ORDER BY id LIMIT %s)",
                    [limit, size - deleted],
                )
                deleted += cursor.rowcount
    return deleted


def _database_now(connection: Any) -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        found: datetime = cursor.fetchone()[0]
        return found


def _kind(connection: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relkind FROM pg_class WHERE oid = to_regclass(%s)", [TABLE])
        row = cursor.fetchone()
    return str(row[0]) if row else ""


def _month(moment: datetime, more: int = 0) -> datetime:
    """Return the beginning of the month of ``moment``, or of one so many months later, in UTC."""
    moment = moment.astimezone(UTC)
    years, month = divmod(moment.month - 1 + more, 12)
    return datetime(moment.year + years, month + 1, 1, tzinfo=UTC)


def _months(now: datetime, count: int) -> Iterator[tuple[datetime, datetime]]:
    for more in range(count):
        yield _month(now, more), _month(now, more + 1)


def _first_month(connection: Any) -> uuid.UUID:
    """Return the first id of the months: of this one where there is no event yet, else of one that is to come."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM {TABLE} ORDER BY id DESC LIMIT 1")  # noqa: S608 - a constant
        row = cursor.fetchone()
    now = clock.now()
    if row is None:
        return first_id_at(_month(now))
    newest = datetime.fromtimestamp((row[0].int >> 80) / 1_000, UTC)
    return first_id_at(_month(max(now, newest) + _FIRST_MONTH_FROM, 1))


def _patiently[T](connection: Any, change: Callable[[Any], T]) -> T:
    """Run ``change`` in a transaction that waits for no lock for long, and again where it had to.

    Raises:
        OperationalError: It had to each time.
    """
    for left in reversed(range(TRIES)):
        try:
            with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}")
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ADVISORY])
                done = change(cursor)
                cursor.execute("SET LOCAL lock_timeout = 0")  # inside a transaction of a test the setting would stay
                return done
        except OperationalError as error:
            if not left or getattr(error.__cause__, "sqlstate", None) != _LOCKED:
                raise
        time.sleep(PAUSE_S)
    raise AssertionError("unreachable")


def _add_check(connection: Any, cursor: Any, end: uuid.UUID) -> bool:
    """Add the check; return whether the table is in one piece still: its partitions must never have it."""
    if _kind(connection) != "r":
        return False
    _drop_check(cursor)
    cursor.execute(f"ALTER TABLE {TABLE} ADD CONSTRAINT {_IS_LATER_THAN} CHECK (id < '{end}') NOT VALID")
    return True


def _drop_check(cursor: Any) -> None:
    cursor.execute(f"ALTER TABLE IF EXISTS {TABLE} DROP CONSTRAINT IF EXISTS {_IS_LATER_THAN}")


def _drop_left_over(connection: Any, now: datetime) -> None:
    """Drop the check of a conversion that never ended, where the month is near from which on it refuses events."""
    with connection.cursor() as cursor:
        cursor.execute(_CHECK, [TABLE, _IS_LATER_THAN])
        row = cursor.fetchone()
    end = _CHECK_END.search(row[0]) if row else None
    if end and uuid.UUID(end[1]) <= first_id_at(now + LEFT_OVER_WITHIN):
        _patiently(connection, _drop_check)
        get_logger().warning("audit_partition_check_dropped", remedy="run manage.py partition_audit again")


def _swap(connection: Any, cursor: Any, end: uuid.UUID) -> None:
    """Put a partitioned table in the place of the table, which becomes its first partition."""
    cursor.execute(f"LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE")
    cursor.execute(_CHECK, [TABLE, _IS_LATER_THAN])
    if not (row := cursor.fetchone()) or not row[1]:  # without it Postgres would read the table while it is locked
        raise OperationalError(f"The check {_IS_LATER_THAN} was dropped meanwhile")
    triggers.remove(connection)
    cursor.execute("SELECT indexname FROM pg_indexes WHERE tablename = %s AND schemaname = current_schema()", [TABLE])
    quoted = connection.ops.quote_name
    for (index,) in cursor.fetchall():
        cursor.execute(f"ALTER INDEX {quoted(index)} RENAME TO {quoted(_named(index, BEFORE))}")
    cursor.execute(f"ALTER TABLE {TABLE} RENAME TO {BEFORE}")
    cursor.execute(f"CREATE TABLE {TABLE} (LIKE {BEFORE} INCLUDING DEFAULTS) PARTITION BY RANGE (id)")
    cursor.execute(f"ALTER TABLE {TABLE} ADD CONSTRAINT {TABLE}_pkey PRIMARY KEY (id)")
    _give_rights(cursor)
    cursor.execute(f"ALTER TABLE {TABLE} ATTACH PARTITION {BEFORE} FOR VALUES FROM (MINVALUE) TO ('{end}')")
    cursor.execute(f"ALTER TABLE {BEFORE} DROP CONSTRAINT {_IS_LATER_THAN}")
    # On the new table alone: its first partition keeps the indexes that it has, until it goes.
    for name, definition in INDEXES.items():
        cursor.execute(f"CREATE INDEX {name} ON ONLY {TABLE} {definition}")
    cursor.execute(f"CREATE TABLE {OTHER} (LIKE {TABLE} INCLUDING DEFAULTS)")
    _index(cursor, OTHER)
    cursor.execute(f"ALTER TABLE {TABLE} ATTACH PARTITION {OTHER} DEFAULT")
    triggers.install(connection)


def _give_rights(cursor: Any) -> None:
    """Give the new table the owner and the rights that others hold on the one of before."""
    cursor.execute("SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class WHERE oid = to_regclass(%s)", [BEFORE])
    cursor.execute(f"ALTER TABLE {TABLE} OWNER TO {cursor.fetchone()[0]}")
    cursor.execute(
        "SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,"
        " a.privilege_type, a.is_grantable FROM pg_class c, aclexplode(c.relacl) a"
        " WHERE c.oid = to_regclass(%s) AND a.grantee <> c.relowner",
        [BEFORE],
    )
    for grantee, right, grants in cursor.fetchall():
        cursor.execute(f"GRANT {right} ON {TABLE} TO {grantee}{' WITH GRANT OPTION' if grants else ''}")


def _add(connection: Any, name: str, low: uuid.UUID, high: uuid.UUID, cursor: Any) -> bool:
    """Attach a new partition; return whether it was: another process may have, or ``other`` has its events."""
    taken = f"SELECT FROM {OTHER} WHERE id >= %s AND id < %s"
    cursor.execute(f"SELECT to_regclass(%s), EXISTS ({taken})", [name, low, high])
    if any(cursor.fetchone()):
        return False
    cursor.execute(f"CREATE TABLE {name} (LIKE {TABLE} INCLUDING DEFAULTS)")
    _index(cursor, name)
    # Unlike CREATE TABLE ... PARTITION OF, this keeps no writer of other partitions waiting.
    cursor.execute(f"ALTER TABLE {TABLE} ATTACH PARTITION {name} FOR VALUES FROM ('{low}') TO ('{high}')")
    triggers.install_on(connection, name)
    return True


def _drop(name: str, cursor: Any) -> None:
    cursor.execute(f"DROP TABLE IF EXISTS {name}")


def _index(cursor: Any, table: str) -> None:
    """Give a table that is to be a partition its indexes, by names that say which is which."""
    cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {table}_pkey PRIMARY KEY (id)")
    for name, definition in INDEXES.items():
        cursor.execute(f"CREATE INDEX {_named(name, table)} ON {table} {definition}")


def _named(index: str, table: str) -> str:
    return f"{index}{table.removeprefix(TABLE)}"


async def make_ahead_at_start() -> None:
    """Make the partitions when a server starts; what fails is logged, since no event depends on it."""
    try:
        await database().write_autocommit(lambda: make_ahead(connection))
    except (DatabaseError, Unavailable) as error:
        get_logger().warning("audit_partitions_missing", cause=type(error).__name__)
