"""What people do with their second factors; async, keyword-only, never sees a request. Forms of the admin at the end.

``session_id``: the session it is done in, for the audit trail. That the caller signed in recently is the view's to ask.
"""

import uuid

from django.db import transaction

from accounts.audit.recording import Event
from accounts.mfa import factors, units
from accounts.mfa.outputs import MfaOut
from accounts.mfa.proofs import Asked, Shown
from accounts.users.models import User
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger


async def overview(*, user_id: uuid.UUID) -> MfaOut:
    """Return what the person has."""
    return await database().read(factors.overview, user_id)


async def reset(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> None:
    """Take every factor of a person away, for staff; see ``units.reset`` for who may."""
    if await database().write(units.reset, user_id, actor_id):
        get_logger().info("mfa_reset", user_id=str(user_id), by=str(actor_id))


# ------------------------------------------------------------------ the admin: on its own threads
def methods_blocking(user: User) -> tuple[str, ...]:
    """Return the person's second factors, none for who needs none. One query."""
    return factors.methods_of(user.pk)


def verify_code_blocking(user: User, code: str, *, address: str) -> bool:
    """Judge a code as a sign-in through the API does, under the same counts, and use it up; False for a wrong one.

    ``address``: the client's, "" when unknown. What the audit trail is to say of it is the caller's business. Raises
    ``Throttled``, ``Overloaded``, ``TotpUnreadable``.
    """
    proof = factors.judge_blocking(Shown(code=code), Asked(user.pk, Event.ADMIN_SIGN_IN, address))
    if proof is None:
        return False
    with transaction.atomic():
        return proof.use()
