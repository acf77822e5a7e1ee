"""The units of work whose growth is measured, each for another person of a large sample every time.

They are the functions the endpoints run, on the same database pool; what costs the same whatever the size (HTTP,
signatures, the password hash) is left out, so that growth cannot hide behind it.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import batched
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection

from accounts.staff import units as staff_units
from accounts.users import paging, units
from accounts.users.outputs import Authenticated
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import ClientContext
from tokens import purge
from tokens.sessions import refresh_token
from tokens.sessions import rotation as session_rotation
from tokens.sessions import units as sessions
from tokens.sessions.models import Session
from tokens.sessions.rotation import Outcome

PURGED: Final = 100  # sessions deleted by one measured batch: as many as the smallest table has to delete
POPULATION: Final = 20_000  # live sessions drawn from the whole table; each sample is one of them
_AT_ONCE: Final = 5_000  # ids in one statement
_PLACE: Final = "rowid"  # what SQLite keeps a table in the order of
_CLIENT: Final = ClientContext(
    address="192.0.2.7", user_agent="Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0"
)


class Member(NamedTuple):
    """A person with a live session, and what is needed to use it."""

    session_id: UUID
    user_id: UUID
    email_key: str
    created_at: datetime


@dataclass(frozen=True)
class Step:
    """One unit of work: on which side of the pool it runs, and with what."""

    write: bool
    unit: Callable[..., Any]
    arguments: dict[str, Any]

    def __call__(self) -> Any:
        """Run it on this thread, as it is."""
        return self.unit(**self.arguments)


class Scenes:
    """Makes the units of each operation for random people of this database."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._members: list[Member] = []
        self._tokens: dict[UUID, str] = {}
        self._after: UUID = purge.FIRST
        self.opened: list[UUID] = []  # sessions that sign-ins have left behind

    def meet(self) -> None:
        """Draw the people anew, and read which refresh tokens their sessions would accept now."""
        live = Session.objects.filter(revoked_at=None, idle_expires_at__gt=clock.now() + timedelta(hours=1))
        drawn = list(live.order_by("?").values_list("pk", flat=True)[:POPULATION])
        columns = ("pk", "user_id", "user__email_key", "user__created_at", "generation", "secret", "master_key_id")
        rows = [
            row for ids in batched(drawn, _AT_ONCE) for row in Session.objects.filter(pk__in=ids).values_list(*columns)
        ]
        self._members = [Member(*row[:4]) for row in rows]
        self._tokens = {
            row[0]: refresh_token.mint(session_id=row[0], generation=row[4], secret=bytes(row[5]), master_key_id=row[6])
            for row in rows
        }

    def tokens(self, count: int) -> list[str]:
        """Return valid refresh tokens of as many different sessions, or of all there are."""
        return self._random.sample(list(self._tokens.values()), min(count, len(self._tokens)))

    def steps(self, operation: str) -> list[Step]:
        """Return the units of one run of an operation."""
        who = self._random.choice(self._members)
        if operation == "refresh":
            parsed = refresh_token.parse(self._tokens[who.session_id])
            return [Step(True, session_rotation.rotate, {"parsed": parsed})]
        if operation == "signin":
            known = {"who": Authenticated(who.user_id, 0), "client": _CLIENT}
            return [
                Step(False, units.credentials_of_email, {"key": who.email_key}),
                Step(True, sessions.open_authenticated, known),
            ]
        if operation == "sessions":
            return [Step(False, sessions.live_sessions, {"user_id": who.user_id})]
        if operation == "token":
            return [
                Step(False, sessions.live_account, {"session_id": who.session_id, "user_id": who.user_id, "epoch": 0})
            ]
        return [Step(False, staff_units.users_page, {"filters": self._listing(operation, who)})]

    def accept(self, operation: str, results: Sequence[Any]) -> bool:
        """Tell whether the units did what they are for; keeps what the next run needs."""
        last = results[-1]
        if operation == "refresh":
            if last.outcome is not Outcome.ROTATED:
                return False
            self._tokens[last.grant.session_id] = last.grant.refresh_token
            return True
        if operation == "signin":
            if last is None or results[0] is None:
                return False
            self.opened.append(last.session_id)
            return True
        return bool(last) if operation in ("sessions", "token") else bool(last.rows)

    def purge(self) -> int:
        """Delete the next batch of the table, and return how many went; 0 at its end."""
        deleted, last = purge.purge_batch(self._due(), after=self._after, batch=PURGED)
        self._after = last or purge.FIRST
        return deleted

    def _due(self) -> datetime:
        return clock.now() - timedelta(seconds=purge.SESSION_KEEP_S)

    def keep_ended(self) -> None:
        """Copy the sessions that a purge will delete into a table of their own, once."""
        with connection.cursor() as cursor:
            if "scale_ended" not in connection.introspection.table_names(cursor):
                due = connection.ops.adapt_datetimefield_value(self._due())
                columns = f"{_PLACE} AS place, *" if connection.vendor == "sqlite" else "*"
                copy = f"SELECT {columns} FROM tokens_session WHERE"  # noqa: S608 - names, no values
                cursor.execute(f"CREATE TABLE scale_ended AS {copy} 1 = 0")
                cursor.execute(f"INSERT INTO scale_ended {copy} revoked_at < %s OR idle_expires_at < %s", [due, due])

    def restore(self) -> None:
        """Bring back what was purged, and begin the purge anew.

        On SQLite to where it was. It came to lie side by side at the table's end, which a batch of a small table meets
        at once and one of a large table hardly ever: 38 pages changed where 126 do in a table that grew.
        """
        into = kept = ", ".join(str(field.column) for field in Session._meta.concrete_fields)  # noqa: SLF001 - documented by Django
        if connection.vendor == "sqlite":
            into, kept = f"{_PLACE}, {into}", f"place, {kept}"
        # Without a WHERE, SQLite takes ON for a join's.
        back = f"INSERT INTO tokens_session ({into}) SELECT {kept} FROM scale_ended WHERE true ON CONFLICT DO NOTHING"  # noqa: S608 - as above
        with connection.cursor() as cursor:
            cursor.execute(back)
        self._after = purge.FIRST

    def sign_out(self) -> None:
        """Remove what sign-ins added, so that the table keeps its size."""
        Session.objects.filter(pk__in=self.opened)._raw_delete("default")  # noqa: SLF001 - no signals: nobody knows of them
        self.opened.clear()

    def _listing(self, operation: str, who: Member) -> dict[str, Any]:
        """Return the filters of a page of the staff's list of users."""
        plain: dict[str, Any] = {"ordering": paging.DEFAULT_ORDERING, "page_size": 50}
        extra: dict[str, dict[str, Any]] = {
            "list-first": {},
            "list-deep": {
                "cursor": paging.Cursor("-created_at", who.created_at.isoformat(), who.user_id, False).encode()
            },
            "list-email": {
                "ordering": "email",
                "cursor": paging.Cursor("email", who.email_key, who.user_id, False).encode(),
            },
            "list-role": {"role": "thousandth"},
            "list-staff": {"is_staff": True},
            "search-name": {"search": "robin"},
            "search-prefix": {"search": who.email_key[:4]},
            "search-address": {"search": who.email_key},
        }
        return plain | extra[operation]
