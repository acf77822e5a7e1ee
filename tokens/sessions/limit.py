"""How many sessions a person may have: when another one is opened, the longest unused end. Units of work.

Right passwords are free, and every session is a row that lists, counts and purges walk through. Sessions that several
requests open at one moment may come to a few more than the limit; the next one that is opened ends those.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import models, transaction
from django.db.models import Count, OuterRef, Subquery
from django.db.models.expressions import Combinable

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.users.outputs import Account
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.compiled import CompiledSelect
from ironauth.infrastructure.db.compiled_sql import Param
from tokens.sessions import queries as session_queries
from tokens.sessions import sso_logout
from tokens.sessions.models import Session

#: What is said of each in the trail.
DETAILS: Final = {"reason": Session.RevokeReason.TOO_MANY.value}
#: Sessions that end for one. More come to it when the limit is lowered; then each sign-in ends as many.
MOST_AT_ONCE: Final = 100


class _Held(NamedTuple):
    """What decides which session ends."""

    id: UUID
    client_id: str
    epoch: int
    idle_expires_at: datetime

    def is_live(self, account: Account, now: datetime) -> bool:
        return self.epoch == account.session_epoch and self.idle_expires_at > now


def _held_by(user: "UUID | Combinable") -> "models.QuerySet[Session, tuple[int]]":
    """Return how many sessions of a person nothing has ended, dead ones of an earlier epoch among them; one row."""
    mine = Session.objects.filter(user_id=user, revoked_at=None).order_by()
    return mine.values("user_id").annotate(held=Count("*")).values_list("held")


_USER: Final = Param("user_id", models.UUIDField())
_HELD: Final = CompiledSelect(lambda: _held_by(_USER))
_ALL: Final = CompiledSelect(
    lambda: (
        Session.objects.filter(user_id=_USER, revoked_at=None)
        .order_by("last_used_at", "pk")
        .values_list(*_Held._fields)
    )
)


def held_beside() -> Subquery:
    """Return what a query of sessions also selects, so that `is_full` can be asked."""
    return Subquery(_held_by(OuterRef("user_id")))


def is_full(held: int) -> bool:
    """Return whether somebody who holds so many sessions needs `make_room` for another."""
    return held >= settings.IRONAUTH_MAX_SESSIONS_PER_USER


def make_room(account: Account, *, keep: UUID | None = None) -> None:
    """End sessions of the person, so that another one may be opened; the trail says why. 1 query as a rule.

    ``keep``: the sign-on session in which the new one begins. Where there is no room, 1 query more, 1 to mark what is
    dead anyway, and what ending a session takes: of the client that has most of them, the one that was not used for
    longest. So an application that opens sessions without end ends its own. Call it before rows of sessions are locked.
    """
    rows = _HELD.rows(user_id=account.id)
    if rows and is_full(rows[0][0]):
        with transaction.atomic(savepoint=False):
            _end_oldest(account, keep)


def _end_oldest(account: Account, keep: UUID | None) -> None:
    now = clock.now()
    oldest_first = [_Held(*row) for row in _ALL.rows(user_id=account.id)]
    live = [one for one in oldest_first if one.is_live(account, now)]
    if len(live) < len(oldest_first):
        # Else people who end everything again and again would leave more and more rows to be counted.
        dead = [one.id for one in oldest_first if not one.is_live(account, now)]
        Session.objects.filter(pk__in=dead).revoke("", now)
    excess = min(len(live) - settings.IRONAUTH_MAX_SESSIONS_PER_USER + 1, MOST_AT_ONCE)
    for session_id in _longest_unused((one for one in live if one.id != keep), excess):
        # One that somebody else ends at this moment is theirs to record.
        if session_queries.end(session_id, reason=Session.RevokeReason.TOO_MANY, now=now):
            sso_logout.cascade(session_id)
            audit.record(Event.SESSION_ENDED, user_id=account.id, session_id=session_id, details=DETAILS)


def _longest_unused(oldest_first: Iterable[_Held], count: int) -> list[UUID]:
    """Return that many sessions, each the oldest of the client that has most of those left."""
    by_client: dict[str, list[UUID]] = defaultdict(list)
    for one in oldest_first:
        by_client[one.client_id].append(one.id)
    chosen: list[UUID] = []
    while len(chosen) < count and any(by_client.values()):
        chosen.append(max(by_client.values(), key=len).pop(0))
    return chosen
