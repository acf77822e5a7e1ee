"""The ways in of people: who would have none without one of them, and what is told when one goes.

A password is a way in, and so is a code by mail where the address is proved (IRONAUTH_SIGN_IN_BY_EMAIL). Every other
kind registers here. One rule serves all who take one away: its owner may not take the last one; staff may, where a
message brings its person back; a superuser who switches a provider off is told how many would have none left.
"""

import uuid
from collections.abc import Callable
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.dispatch import Signal

from accounts.errors import LastWayIn
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.tokens import Purpose
from accounts.users.models import User

#: Makes the query of the rows with each of which a person can sign in, of their id or of an expression for it.
type WaysIn = Callable[[Any], QuerySet[Any]]
#: Kinds of them. One that has not registered is no way in: the rule then refuses too much, never too little.
_kinds: Final[dict[str, WaysIn]] = {}
_NOBODY_TOLD: Final = (
    "It is this person's last way to sign in, and no message can bring them back: their address is not verified, or "
    "the account is inactive. Deactivate the account to keep somebody out."
)
#: Sent in the transaction in which a person loses a way in: ``kind``, ``user_id``, ``row`` (as it was), ``actor_id``,
#: and ``session_id``, the session of theirs in which they ask, which stays; None where staff do.
removed: Final = Signal()


def register(kind: str, rows: WaysIn) -> None:
    """Add a kind of way to sign in. Registering it twice is harmless.

    Args:
        kind: What the others call it.
        rows: Makes the query of a person's.
    """
    _kinds[kind] = rows


def stranded(people: QuerySet[User], *, kind: str, gone: Q) -> QuerySet[User]:
    """Return those of the people who lose a way in, and have none left then.

    Args:
        people: Who is looked at.
        kind: What kind of way in goes.
        gone: What is true of the rows that go.
    """
    person = OuterRef("pk")
    left = people.filter(Exists(_kinds[kind](person).filter(gone)), password__startswith=UNUSABLE_PASSWORD_PREFIX)
    if settings.IRONAUTH_SIGN_IN_BY_EMAIL:
        left = left.filter(email_verified_at=None)
    for one, rows in _kinds.items():
        others = rows(person)
        left = left.filter(~Exists(others.exclude(gone) if one == kind else others))
    return left


def keep_one(user: User, *, kind: str, gone: Q) -> None:
    """Raise ``LastWayIn`` if somebody could not sign in any more without these rows. One query.

    Args:
        user: The person, locked: of two removals at once the second sees the first.
        kind: What kind of way in the rows are.
        gone: What is true of the rows that are to go.
    """
    if _is_stranded(user, kind, gone):
        raise LastWayIn


def let_staff_take(user: User, *, kind: str, gone: Q) -> bool:
    """Send somebody whose last way in staff take away the link by which they choose a password.

    Where the address is not proved, nobody can say who would read it: the way in stays, and staff may deactivate the
    account. One query, three more for the message.

    Args:
        user: The person, locked.
        kind: What kind of way in the rows are.
        gone: What is true of the rows that are to go.

    Returns:
        Whether it was the last one.

    Raises:
        LastWayIn: It is the last one, and the address is not proved or the account is closed.
    """
    if not _is_stranded(user, kind, gone):
        return False
    if user.email_verified_at is None or not user.is_active:
        raise LastWayIn(_NOBODY_TOLD)
    token_id = email_tokens.issue(purpose=Purpose.RESET_PASSWORD, user_id=user.pk)
    outbox.enqueue(Kind.WAY_IN_REMOVED, recipient=user.email, user_id=user.pk, token_id=token_id)
    return True


def unreachable(people: QuerySet[User]) -> QuerySet[User]:
    """Return those of the people who no message brings back: their address is not proved, or they are inactive."""
    return people.filter(Q(email_verified_at=None) | Q(is_active=False))


def _is_stranded(user: User, kind: str, gone: Q) -> bool:
    """Tell whether these rows are the last way in of a person."""
    return stranded(User.objects.filter(pk=user.pk), kind=kind, gone=gone).exists()


def gone(kind: str, *, user_id: uuid.UUID, row: Any, actor_id: uuid.UUID, session_id: uuid.UUID | None = None) -> None:
    """Tell that a person has lost a way in, in the same transaction: the sessions that began with it end.

    Args:
        kind: What kind of way in it was.
        user_id: Whose it was.
        row: The row, as it was.
        actor_id: Who has taken it away.
        session_id: The person's session in which they have asked, which stays; None where staff have.
    """
    removed.send(sender=User, kind=kind, user_id=user_id, row=row, actor_id=actor_id, session_id=session_id)
