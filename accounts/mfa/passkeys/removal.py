"""Taking single passkeys away from people: their own act, and that of staff; each in its caller's transaction."""

import uuid

from django.db.models import Q

from accounts.access import ways_in
from accounts.access.reach import other_in_reach
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.mfa.passkeys.models import Passkey
from accounts.mfa.passkeys.units import WAY_IN, usable
from accounts.mfa.recovery import units as recovery_units
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.users import queries as user_queries
from accounts.users import rules as user_rules
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotFound


def remove(*, user_id: uuid.UUID, passkey_id: uuid.UUID, session_id: uuid.UUID | None) -> bool:
    """Take one of a person's passkeys away; False when they have no such passkey.

    Recovery codes go with the last factor, and the sessions in which it was used end, but for this one.

    Args:
        user_id: The person who is signed in.
        passkey_id: Which passkey; it has to be theirs.
        session_id: The session it is done in, for the trail.

    Raises:
        LastWayIn: They could not sign in without it.
        NotAuthenticated: The user is gone or inactive.
    """
    user = user_rules.locked(user_id)
    passkey = usable(user_id).filter(pk=passkey_id).first()
    if passkey is None:
        return False
    ways_in.keep_one(user, kind=WAY_IN, gone=Q(pk=passkey_id))
    _take(user, passkey, actor_id=user_id, session_id=session_id)
    audit.record_own(Event.PASSKEY_REMOVED, user_id, session_id, passkey=str(passkey_id))
    return True


def remove_by_staff(*, actor_id: uuid.UUID, user_id: uuid.UUID, passkey_id: uuid.UUID) -> bool:
    """Take a passkey of somebody else away; every session in which it was used ends, of staff all.

    Args:
        actor_id: The member of staff.
        user_id: Whose it is.
        passkey_id: Which one.

    Returns:
        Whether it was their last way in, so that they were sent a link to choose a password.

    Raises:
        NotFound: There is no such user, or they have no such passkey.
        PermissionDenied: Without ``accounts.reset_mfa``, for one's own account, and for somebody with rights one lacks.
        DeletionPending: The account is being deleted.
        LastWayIn: It is the last way in, and no message would bring them back.
    """
    user = other_in_reach(actor_id, user_id)
    passkey = usable(user_id).filter(pk=passkey_id).first()
    if passkey is None:
        raise NotFound
    was_last = ways_in.let_staff_take(user, kind=WAY_IN, gone=Q(pk=passkey_id))
    _take(user, passkey, actor_id=actor_id, session_id=None)
    if user.is_staff:  # sessions of the admin do not say by which factor they began
        user_queries.end_sessions(user_id)
    details = {"passkey": str(passkey_id), **({"was_last": True} if was_last else {})}
    audit.record(Event.PASSKEY_REMOVED, actor_id=actor_id, user_id=user_id, details=details)
    return was_last


def _take(user: User, passkey: Passkey, *, actor_id: uuid.UUID, session_id: uuid.UUID | None) -> None:
    """Delete it, tell its person, and have what it has opened ended."""
    usable(user.pk).filter(pk=passkey.pk).delete()
    recovery_units.forget_idle_codes(user.pk)
    kept_devices.end_all_of(user.pk)
    outbox.enqueue(Kind.PASSKEY_REMOVED, recipient=user.email, user_id=user.pk)
    ways_in.gone(WAY_IN, user_id=user.pk, row=passkey, actor_id=actor_id, session_id=session_id)
