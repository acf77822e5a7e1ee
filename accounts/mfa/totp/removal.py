"""Taking somebody's app for one-time codes away, by staff; in its caller's transaction."""

import uuid

from accounts.access.reach import other_in_reach
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.lockout import throttling
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.mfa.recovery import units as recovery_units
from accounts.mfa.totp.models import TotpFactor
from accounts.mfa.totp.units import TOTP
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.users import queries as user_queries
from ironauth.infrastructure.core.errors import NotFound


def remove_by_staff(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> None:
    """Take the app away; every session ends, and recovery codes go with the last factor.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: Whose it is.

    Raises:
        NotFound: There is no such user, or they have no app.
        PermissionDenied: Without ``accounts.reset_mfa``, for one's own account, and for somebody with rights one lacks.
        DeletionPending: The account is being deleted.
    """
    user = other_in_reach(actor_id, user_id)
    removed, _ = TotpFactor.objects.filter(user_id=user_id, confirmed_at__isnull=False).delete()
    if not removed:
        raise NotFound("This person has no app for one-time codes.")
    recovery_units.forget_idle_codes(user_id)
    kept_devices.end_all_of(user_id)
    throttling.forgive_second_factor(user_id)
    user_queries.end_sessions(user_id)
    outbox.enqueue(Kind.MFA_DISABLED, recipient=user.email, user_id=user_id)
    audit.record(Event.MFA_DISABLED, actor_id=actor_id, user_id=user_id, details={"method": TOTP})
