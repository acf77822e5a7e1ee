"""Taking identities away from people: their own act, and that of staff; each in its caller's transaction."""

from uuid import UUID

from django.db.models import Q

from accounts.access import ways_in
from accounts.access.reach import other_in_reach
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.federation import queries, units
from accounts.federation.models import Identity
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.users import rules as user_rules
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotFound


def unlink(*, user_id: UUID, identity_id: UUID, session_id: UUID | None) -> None:
    """Take an identity away; the sessions that began with it end, but for the one in which this is asked.

    Args:
        user_id: Whose it is.
        identity_id: Which one.
        session_id: The session that asks.

    Raises:
        NotFound: The person has no such identity.
        LastWayIn: They could not sign in without it.
        NotAuthenticated: The account is gone or inactive.
    """
    user = user_rules.locked(user_id)
    identity = _of(user_id, identity_id)
    ways_in.keep_one(user, kind=queries.WAY_IN, gone=Q(pk=identity_id))
    _remove(user, identity, actor_id=user_id, session_id=session_id)
    audit.record_own(Event.IDENTITY_UNLINKED, user_id, session_id, provider=identity.provider.slug)


def unlink_by_staff(*, actor_id: UUID, user_id: UUID, identity_id: UUID) -> bool:
    """Take an identity of somebody else away; every session that began with it ends.

    Args:
        actor_id: The member of staff.
        user_id: Whose it is.
        identity_id: Which one.

    Returns:
        Whether it was their last way in, so that they were sent a link to choose a password.

    Raises:
        NotFound: There is no such user, or they have no such identity.
        PermissionDenied: Without the permission, for one's own account, and for somebody with rights one lacks.
        DeletionPending: The account is being deleted.
        LastWayIn: It is the last way in, and no message would bring them back.
    """
    user = other_in_reach(actor_id, user_id)
    identity = _of(user_id, identity_id)
    was_last = ways_in.let_staff_take(user, kind=queries.WAY_IN, gone=Q(pk=identity_id))
    _remove(user, identity, actor_id=actor_id, session_id=None)
    details = {"provider": identity.provider.slug, **({"was_last": True} if was_last else {})}
    audit.record(Event.IDENTITY_UNLINKED, actor_id=actor_id, user_id=user_id, details=details)
    return was_last


def _of(user_id: UUID, identity_id: UUID) -> Identity:
    """Return one of a person's identities, with its provider. Raises ``NotFound``."""
    identity = Identity.objects.select_related("provider").filter(pk=identity_id, user_id=user_id).first()
    if identity is None:
        raise NotFound
    return identity


def _remove(user: User, identity: Identity, *, actor_id: UUID, session_id: UUID | None) -> None:
    """Delete it, tell its person, and have what began with it ended."""
    Identity.objects.filter(pk=identity.pk).delete()
    facts = {"provider": identity.provider.name}
    outbox.enqueue(Kind.IDENTITY_UNLINKED, recipient=user.email, user_id=user.pk, facts=facts)
    units.forget_waiting(provider_id=identity.provider_id, subject=identity.subject, sid="")  # on its way, anywhere
    ways_in.gone(queries.WAY_IN, user_id=user.pk, row=identity, actor_id=actor_id, session_id=session_id)
