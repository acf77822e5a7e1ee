"""Fill a database with people and sessions, a million each in a minute.

``python -m perf.rig.bulk_seed --users 1000000``

It runs in the environment of the server whose database it is, which must be migrated and without people. As many
sessions as people: 1 % of the people have ten, 90 % one, the rest none; 10 % of the sessions are over since more than
a day (half revoked, half expired), spread evenly. Ten in a hundred people have a role. Who has which session, and how
addresses follow each other, has nothing to do with the order of the rows, as in a table that grew.

Rows are written past the ORM; ``perf/tests/test_bulk_seed.py`` holds them against the models' own rules.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from math import gcd
from typing import Any, Final

import django
from django.db import connection, transaction

#: A prime: multiplying by it modulo a number of people visits every one of them once.
_SCATTER: Final = 611_953
_USERS_OVER: Final = timedelta(days=730)  # people signed up during the last two years
_SESSIONS_OVER: Final = timedelta(days=25)  # sessions were opened from 28 to 3 days ago: none is past its 30 days
_YOUNGEST: Final = timedelta(days=3)
_ENDED_AGO: Final = timedelta(days=2)  # beyond the day the purge leaves them
_IDLE: Final = timedelta(days=14)
_ABSOLUTE: Final = timedelta(days=30)
_BLOCK: Final = 5_000  # rows formatted at once
_SQLITE_CACHE_KIB: Final = 1_500_000  # random places of seven indexes, in memory while seeding
#: Fits no password, and is as long as a hash that does: rows have their real size.
UNUSABLE: Final = f"!{'x' * 96}"
#: One person in so many has the role.
ROLES: Final = {"tenth": 10, "hundredth": 100, "thousandth": 1_000}
#: One person in so many is called the same.
NAMES: Final = 100

USER_COLUMNS: Final = (
    "id", "email", "email_key", "name", "password", "is_active", "is_staff", "is_superuser", "last_login",
    "email_verified_at", "must_change_password", "password_flagged_at", "session_epoch", "created_at", "updated_at",
)  # fmt: skip
SESSION_COLUMNS: Final = (
    "id", "user_id", "generation", "secret", "master_key_id", "client_id", "scope", "epoch", "created_at",
    "authenticated_at", "amr",
    "last_used_at", "rotated_at", "idle_expires_at", "absolute_expires_at", "revoked_at", "revoke_reason", "ip",
    "user_agent", "parent_id", "dpop_jkt",
)  # fmt: skip
_AGENT: Final = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - both databases are given UTC without an offset


def email_of(serial: int) -> str:
    """Return the address of the person with this number, from 0; neighbours are far apart in the index."""
    return f"p{serial * 2_654_435_761 % 2**32:08x}@scale.example"  # Knuth's multiplier: one to one modulo 2**32


def owner_of(serial: int, people: int) -> int:
    """Return the number of the person whose session this is, ``people`` being a multiple of 100."""
    tens, rest = divmod(serial, 10)
    slot = people // 10 + serial - tens - 1 if rest else tens % (people // 100)
    return slot * _SCATTER % people


def user_rows(people: int, *, now: datetime, encoded: str) -> Iterator[tuple[Any, ...]]:
    """Yield the people in the order of ``USER_COLUMNS``, the oldest first; ``encoded`` is everyone's password hash."""
    start, step = now.replace(tzinfo=None) - _USERS_OVER, _USERS_OVER / people
    for serial in range(people):
        created = start + serial * step
        email, at = email_of(serial), created.isoformat(" ")
        name = f"Robin {serial * _SCATTER // 7 % NAMES:02d}"
        staff = int(serial % 1_000 == 999)
        yield _id(created, serial), email, email, name, encoded, 1, staff, 0, None, at, 0, None, 0, at, at


def session_rows(people: int, *, now: datetime, master_key_id: str) -> Iterator[tuple[Any, ...]]:
    """Yield as many sessions as ``people`` in the order of ``SESSION_COLUMNS``, the oldest first."""
    now = now.replace(tzinfo=None)
    users_start, users_step = now - _USERS_OVER, _USERS_OVER / people
    start, step = now - _SESSIONS_OVER - _YOUNGEST, _SESSIONS_OVER / people
    ended = (now - _ENDED_AGO).isoformat(" ")
    for serial in range(people):
        owner = owner_of(serial, people)
        created = start + serial * step
        used = max(created, now - timedelta(minutes=serial * _SCATTER % 14_400))  # within the last ten days
        absolute = created + _ABSOLUTE
        idle_end = min(used + _IDLE, absolute).isoformat(" ")
        revoked, reason = None, ""
        if serial % 20 == 5:
            revoked, reason = ended, "signed_out"
        elif serial % 20 == 15:
            used, idle_end = created, ended
        used_at = used.isoformat(" ")
        yield (
            _id(created, serial), _id(users_start + owner * users_step, owner), 1, os.urandom(32), master_key_id,
            "ironauth", "account", 0, created.isoformat(" "), created.isoformat(" "), "pwd",
            used_at, used_at, idle_end, absolute.isoformat(" "),
            revoked, reason, f"10.{serial >> 16 & 255}.{serial >> 8 & 255}.{serial & 255}", _AGENT, None, "",
        )  # fmt: skip


def role_rows(people: int, *, now: datetime, roles: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Yield (user, role) of those who have one; ``roles`` are the ids of ``ROLES`` in their order."""
    start, step = now.replace(tzinfo=None) - _USERS_OVER, _USERS_OVER / people
    for role, every in zip(roles, ROLES.values(), strict=True):
        for serial in range(every // 2, people, every):
            yield _id(start + serial * step, serial), role


def seed(people: int, *, now: datetime | None = None, encoded: str = UNUSABLE) -> None:
    """Insert ``people`` and as many sessions; ``encoded`` is the password hash of all.

    Raises:
        ValueError: ``people`` is no multiple of 100.
    """
    # Models exist only after django.setup().
    from django.contrib.auth.models import Group  # noqa: PLC0415 - as above

    from ironauth.infrastructure.crypto.master_keys import newest_master_key_id  # noqa: PLC0415 - as above

    if people < 100 or people % 100 or gcd(people, _SCATTER) > 1:
        raise ValueError(f"seed a multiple of 100 people, not {people}: one in a hundred has ten sessions")
    now = now or datetime.now(UTC)
    groups = [Group.objects.get_or_create(name=name)[0].pk for name in ROLES]
    _insert("accounts_user", USER_COLUMNS, user_rows(people, now=now, encoded=encoded))
    _insert("accounts_user_groups", ("user_id", "group_id"), role_rows(people, now=now, roles=groups))
    rows = session_rows(people, now=now, master_key_id=newest_master_key_id())
    _insert("tokens_session", SESSION_COLUMNS, rows)


def settle() -> None:
    """Leave the database as production has it: on Postgres what autovacuum does; SQLite is never analysed there."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("VACUUM (ANALYZE)")
            cursor.execute("CHECKPOINT")
        else:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _insert(table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    names = ", ".join(columns)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                iterator = iter(rows)
                while block := list(islice(iterator, _BLOCK)):
                    copy.write("".join("\t".join(map(_copied, row)) + "\n" for row in block))
        else:
            marks = ", ".join("?" * len(columns))
            # The driver's own executemany: Django's would format a million rows for the query log.
            raw = connection.connection
            raw.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)  # noqa: S608 - our own constants


def _copied(value: Any) -> str:
    """Return a value as COPY's text format has it; no text of ours needs escaping."""
    if value is None:
        return "\\N"
    return f"\\\\x{value.hex()}" if isinstance(value, bytes) else str(value)


def _id(created: datetime, serial: int) -> str:
    """Return a UUIDv7 (RFC 9562 §5.7) of this moment, as 32 hex digits."""
    milliseconds = (created - _EPOCH) // timedelta(milliseconds=1)
    return f"{milliseconds:012x}7{serial * _SCATTER & 0xFFF:03x}8{serial:015x}"


def main() -> int:
    """Seed the database of this environment, without a thought for durability: a broken one is made anew."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--users", type=int, required=True)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    django.setup()
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET synchronous_commit = off")
            cursor.execute("SET session_replication_role = replica")  # no look-up of each row's user: they are right
        else:
            for pragma in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{_SQLITE_CACHE_KIB}"):
                cursor.execute(f"PRAGMA {pragma}")
    with transaction.atomic():
        seed(options.users)
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA journal_mode = WAL")
    settle()
    return 0


if __name__ == "__main__":
    sys.exit(main())
