"""Who of staff may sign in as which person: asked before it begins, and anew at each use of such a session."""

from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from django.conf import settings

from accounts.access.rights import Rights, rights_of_user
from accounts.users import queries as user_queries
from accounts.users.models import User
from accounts.users.outputs import Account, ActingOut
from ironauth.infrastructure.core.errors import PermissionDenied

#: Seconds from the beginning: long enough to see what a person sees, too short to forget about.
ACTING_S: Final = 1_800
PERMISSION: Final = "accounts.sign_in_as"


class Acted(Protocol):
    """A session that has an actor, as it was read."""

    @property
    def account(self) -> Account:
        """The person's account."""

    @property
    def actor_id(self) -> UUID | None:
        """Who acts."""

    @property
    def actor_epoch(self) -> int | None:
        """The epoch of the actor's account when it was opened."""

    @property
    def idle_expires_at(self) -> datetime | None:
        """When it ends."""


def may_begin(actor: User, target: User) -> bool:
    """Tell whether a member of staff could sign in as a person now: what offers it asks. Three queries at most.

    Args:
        actor: The member of staff.
        target: The person.
    """
    rights = rights_of_user(actor)
    if not settings.IRONAUTH_SIGN_IN_AS or not rights.holds(PERMISSION):
        return False
    try:
        refuse(rights, actor, target)
    except PermissionDenied:
        return False
    return True


def actor_of(session: Acted) -> ActingOut | None:
    """Return who acts in a session, asked anew each time; None where they may no longer. 5 queries at most."""
    if session.actor_id is None or session.idle_expires_at is None or not settings.IRONAUTH_SIGN_IN_AS:
        return None
    actor, target = user_queries.find(session.actor_id), user_queries.find(session.account.id)
    if actor is None or target is None or actor.session_epoch != session.actor_epoch:
        return None
    rights = rights_of_user(actor)
    try:
        rights.require(PERMISSION)
        refuse(rights, actor, target)
    except PermissionDenied:
        return None
    return ActingOut(id=actor.pk, email=actor.email, name=actor.name, until=session.idle_expires_at)


def refuse(rights: Rights, actor: User, target: User) -> None:
    """Raise for people as which this member of staff may not sign in.

    Args:
        rights: The member of staff's.
        actor: The member of staff.
        target: The person.

    Raises:
        PermissionDenied: It is themselves, an inactive account, or one with a right they lack; or they are no staff.
    """
    if not actor.is_active or not actor.is_staff:
        raise PermissionDenied("Only staff sign in as somebody.")
    if target.pk == actor.pk:
        raise PermissionDenied("This is you.")
    if not target.is_active or target.is_being_deleted:
        raise PermissionDenied("This account is inactive: activate it first.")
    rights.require_all_of(target)
