"""What people do with their second factors; async, keyword-only, never sees a request.

``session_id`` is the session it is done in, for the audit trail. The view asks whether the caller signed in recently.
"""

import uuid

from accounts.mfa import factors, units
from accounts.mfa.errors import InvalidMfaCode
from accounts.mfa.outputs import MfaOut
from accounts.mfa.second_factor import refused
from accounts.users.proofs import Evidence, ProofRequest
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger


async def overview(*, user_id: uuid.UUID) -> MfaOut:
    """Return what the person has."""
    return await database().read(factors.overview, user_id)


async def reset(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> None:
    """Take every factor of a person away, for staff; ``units.reset`` says which staff may.

    Args:
        actor_id: The member of staff.
        user_id: The person whose factors go.
    """
    if await database().write(units.reset, user_id, actor_id):
        get_logger().info("mfa_reset", user_id=str(user_id), by=str(actor_id))


async def prove(shown: Evidence, asked: ProofRequest) -> None:
    """Judge a second factor as a sign-in does, and use it up.

    Args:
        shown: A code, or an authenticator's answer.
        asked: Whose it is, and for what.

    Raises:
        SecondFactorRefused: It is wrong, was used before, or nothing was shown; ``asked.event`` is left as failed in
            the trail, but for the last.
        Throttled: After too many of those.
        Unavailable: Nothing could be judged: ``Overloaded``, ``TotpUnreadable``.
    """
    proof = await factors.judge(shown, asked)
    if proof is None:
        raise InvalidMfaCode
    if not await database().write(proof.use):
        await refused(asked, proof.refusal.code, cause="used")
        raise proof.refusal
