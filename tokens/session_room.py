"""How many sessions a person may have: when another one is opened, the longest unused end. Units of work.

Right passwords are free, and every session is a row that lists, counts and purges walk through. Sessions that several
requests open at one moment may come to a few more than the limit; the next one that is opened ends those.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import models, transaction
from django.db.models import Count, OuterRef, Subquery

from accounts import audit
from accounts.audit import Event
from accounts.outputs import Account
from ironauth.infrastructure import clock
from ironauth.infrastructure.fixed_queries import FixedSelect, Given
from tokens.models import Session
from tokens.oauth import sign_on_ends

#: What is said of each in the trail.
DETAILS: Final = {"reason": Session.RevokeReason.TOO_MANY.value}


class _Held(NamedTuple):
    """What decides which session ends."""

    id: UUID
    client_id: str
    epoch: int
    idle_expires_at: datetime

    def is_live(self, account: Account, now: datetime) -> bool:
        return self.epoch == account.session_epoch and self.idle_expires_at > now


def _held_by(user: object) -> "models.QuerySet[Session, tuple[int]]":
    """Return how many sessions of a person nothing has ended, dead ones of an earlier epoch among them; one row."""
    mine = Session.objects.filter(user_id=user, revoked_at=None).order_by()
    return mine.values("user_id").annotate(held=Count("*")).values_list("held")


_HELD: Final = FixedSelect(lambda: _held_by(Given("user_id", models.UUIDField())))


def held_beside() -> Subquery:
    """Return what a query of sessions also selects, so that `is_full` can be asked."""
    return Subquery(_held_by(OuterRef("user_id")))


def is_full(held: int) -> bool:
    """Return whether somebody who holds so many sessions needs `make_room` for another."""
    return held >= settings.IRONAUTH_MAX_SESSIONS_PER_USER


def make_room(account: Account, *, keep: UUID | None = None) -> None:
    """End sessions of the person, so that another one may be opened; the trail says why. 1 query as a rule.

    ``keep``: the sign-on session in which the new one begins. Where there is no room, 3 queries more to mark what is
    dead anyway, and 6 to end what lives: of the client that has most of them, the one that was not used for longest. So
    an application that opens sessions without end ends its own. Call it before rows of sessions are locked.
    """
    rows = _HELD.rows(user_id=account.id)
    if rows and is_full(rows[0][0]):
        with transaction.atomic(savepoint=False):
            _end_oldest(account, keep)


def _end_oldest(account: Account, keep: UUID | None) -> None:
    now = clock.now()
    oldest_first = Session.objects.filter(user_id=account.id, revoked_at=None).order_by("last_used_at", "pk")
    held = [_Held(*row) for row in oldest_first.values_list(*_Held._fields)]
    live = [one for one in held if one.is_live(account, now)]
    # Else people who end everything again and again would leave more and more rows to be counted.
    Session.objects.filter(pk__in=[one.id for one in held if not one.is_live(account, now)]).revoke("", now)
    excess = len(live) - settings.IRONAUTH_MAX_SESSIONS_PER_USER + 1
    if excess > 0:
        _end(account, _longest_unused((one for one in live if one.id != keep), excess), now)


def _longest_unused(oldest_first: Iterable[_Held], count: int) -> list[UUID]:
    """Return that many sessions, each the oldest of the client that has most of those left."""
    by_client: dict[str, list[UUID]] = defaultdict(list)
    for one in oldest_first:
        by_client[one.client_id].append(one.id)
    chosen: list[UUID] = []
    while len(chosen) < count and any(by_client.values()):
        chosen.append(max(by_client.values(), key=len).pop(0))
    return chosen


def _end(account: Account, chosen: Sequence[UUID], now: datetime) -> None:
    """End these sessions with what began in them; those that somebody else ends at this moment are theirs to record."""
    locked = Session.objects.select_for_update(no_key=True).filter(pk__in=chosen, revoked_at=None).order_by("pk")
    ending = list(locked.values_list("pk", flat=True))
    if not ending:
        return
    Session.objects.filter(pk__in=ending).revoke(Session.RevokeReason.TOO_MANY, now)
    sign_on_ends.follow(*ending)
    audit.record_each(Event.SESSION_ENDED, [(account.id, one) for one in ending], actor_id=None, details=DETAILS)
