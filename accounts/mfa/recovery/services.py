"""What people do with recovery codes; async, keyword-only, never sees a request."""

import uuid

from accounts.audit.recording import Event
from accounts.lockout import rate_limits
from accounts.mfa.errors import MfaNotEnabled
from accounts.mfa.outputs import RecoveryCodes
from accounts.mfa.recovery import codes as recovery_codes
from accounts.mfa.recovery import units
from accounts.mfa.recovery.units import Hashes
from accounts.passwords import hashing as passwords
from accounts.users import reauthentication
from accounts.users.proofs import Evidence, ProofRequest
from accounts.users.reauthentication import reauthenticate
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.telemetry.logs import get_logger


async def new_recovery_codes(
    *, user_id: uuid.UUID, shown: Evidence, session_id: uuid.UUID | None = None
) -> RecoveryCodes:
    """Return ten new codes; all older ones are worthless.

    Args:
        user_id: The person who is signed in.
        shown: What proves again that it is them.
        session_id: The session it is done in, for the trail.

    Raises:
        MfaNotEnabled: There is no factor to stand in for; before anything is hashed.
        PasswordChanged: The password was changed meanwhile.
        Throttled: After too many new codes.
        Overloaded: The hash pool is full.
        DomainError: What ``reauthenticate`` raises.
    """
    found = await reauthentication.active_user(user_id)
    if not found.methods:
        raise MfaNotEnabled
    await reauthenticate(found, shown, ProofRequest(user_id, Event.RECOVERY_CODES_CREATED, session_id=session_id))
    await rate_limits.admit_account(rate_limits.NEW_FACTOR, user_id=user_id)
    codes = recovery_codes.new_codes()
    hashes = await hashed(codes)
    await database().write(
        units.replace_codes, user_id=user_id, old=found.encoded, hashes=hashes, session_id=session_id
    )
    get_logger().info("recovery_codes_created", user_id=str(user_id))
    return RecoveryCodes(tuple(codes))


async def hashed(codes: list[str]) -> Hashes:
    """Return the hashes of new recovery codes by their selectors. One Argon2 run each, one after the other.

    So somebody who sets up a factor keeps one hash thread busy, and not all.

    Raises:
        Overloaded: The hash pool is full.
    """
    hash_pool().require_capacity()
    plain = [recovery_codes.normalised(code) or code for code in codes]
    return {recovery_codes.selector(code): await passwords.hash_password(code) for code in plain}
