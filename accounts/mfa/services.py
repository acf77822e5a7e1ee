"""What people do with their second factors; async, keyword-only, never sees a request. Forms of the admin at the end.

``session_id``: the session it is done in, for the audit trail. That the caller signed in recently is the view's to ask.
"""

import uuid
from typing import Final

from django.db import transaction

from accounts.audit.recording import Event
from accounts.lockout import rate_limits
from accounts.mfa import factors, proofs, units
from accounts.mfa.errors import InvalidMfaCode, MfaNotEnabled, MfaNotStarted
from accounts.mfa.outputs import MfaOut, RecoveryCodes, TotpSetup
from accounts.mfa.recovery import codes as recovery_codes
from accounts.mfa.totp import codes as totp
from accounts.mfa.units import Hashes
from accounts.passwords import hashing as passwords
from accounts.users import reauthentication
from accounts.users.models import User
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.crypto.sealing import SealBrokenError
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.telemetry.logs import get_logger

# No recovery code is the way out of this one, as it is at a sign-in.
_NOT_YET: Final = "The code does not fit. Check the clock of the phone, and that the app shows this account."


async def overview(*, user_id: uuid.UUID) -> MfaOut:
    """Return what the person has."""
    return await database().read(factors.overview, user_id)


async def start_totp(*, user_id: uuid.UUID) -> TotpSetup:
    """Make a secret for an app; it counts once its first code is confirmed, and replaces one that still waits for it.

    Raises ``MfaAlreadyEnabled``, ``NotAuthenticated``.
    """
    secret = totp.new_secret()
    key_id, sealed = totp.seal(secret, user_id)
    email = await database().write_autocommit(units.store_secret, user_id=user_id, sealed=sealed, master_key_id=key_id)
    address = totp.uri(secret, email)
    return TotpSetup(secret=totp.as_text(secret), otpauth_uri=address, qr_svg=totp.qr_svg(address))


async def confirm_totp(
    *, user_id: uuid.UUID, code: str, session_id: uuid.UUID | None = None, epoch: int | None = None
) -> RecoveryCodes:
    """Make the app a factor by its first code; return new recovery codes, in place of any older ones.

    ``epoch``: the session's, which must not have ended.
    No session ends. Raises ``InvalidMfaCode``, which leaves the secret as it is, ``MfaNotStarted``,
    ``MfaAlreadyEnabled``, ``Throttled`` after too many new factors, ``Overloaded``.
    """
    judged = await database().read(units.pending, user_id)
    typed = proofs.without_spaces(code)
    try:
        secret = totp.unseal(judged.master_key_id, judged.sealed, user_id)
    except (MasterKeyMissingError, SealBrokenError) as error:
        raise MfaNotStarted from error  # nobody depends on it yet: a new one is quickly made
    step = totp.step_of(typed, secret) if totp.is_code(typed) else None
    if step is None:
        await proofs.refused(user_id=user_id, event=Event.MFA_ENABLED, session_id=session_id)
        raise InvalidMfaCode(_NOT_YET)
    await rate_limits.admit_account(rate_limits.NEW_FACTOR, user_id=user_id)
    codes = recovery_codes.new_codes()
    hashes = await hashed(codes)
    await database().write(
        units.confirm_totp,
        user_id=user_id,
        judged=judged,
        step=step,
        hashes=hashes,
        session_id=session_id,
        epoch=epoch,
    )
    get_logger().info("mfa_enabled", user_id=str(user_id), method=factors.TOTP)
    return RecoveryCodes(tuple(codes))


async def new_recovery_codes(
    *, user_id: uuid.UUID, password: str, session_id: uuid.UUID | None = None
) -> RecoveryCodes:
    """Return ten new codes; all older ones are worthless.

    Raises ``MfaNotEnabled`` before anything is hashed, ``InvalidCredentials``, ``Throttled``, ``PasswordChanged``,
    ``Overloaded``.
    """
    found = await reauthentication.active_user(user_id)
    if not found.methods:
        raise MfaNotEnabled
    await reauthentication.require_password(found, password, Event.RECOVERY_CODES_CREATED, session_id)
    await rate_limits.admit_account(rate_limits.NEW_FACTOR, user_id=user_id)
    codes = recovery_codes.new_codes()
    hashes = await hashed(codes)
    await database().write(
        units.replace_codes, user_id=user_id, old=found.encoded, hashes=hashes, session_id=session_id
    )
    get_logger().info("recovery_codes_created", user_id=str(user_id))
    return RecoveryCodes(tuple(codes))


async def remove_totp(*, user_id: uuid.UUID, password: str, session_id: uuid.UUID | None = None) -> None:
    """Take the app away. Errors as above."""
    found = await reauthentication.active_user(user_id)
    if factors.TOTP not in found.methods:
        raise MfaNotEnabled
    await reauthentication.require_password(found, password, Event.MFA_DISABLED, session_id)
    await database().write(units.remove_totp, user_id=user_id, old=found.encoded, session_id=session_id)
    get_logger().info("mfa_disabled", user_id=str(user_id), method=factors.TOTP)


async def reset(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> None:
    """Take every factor of a person away, for staff; see ``units.reset`` for who may."""
    if await database().write(units.reset, user_id, actor_id):
        get_logger().info("mfa_reset", user_id=str(user_id), by=str(actor_id))


async def hashed(codes: list[str]) -> Hashes:
    """Return the hashes of new recovery codes by their selectors. One Argon2 run each, one after the other.

    So that who sets up a factor keeps one hash thread busy, and not all. Raises ``Overloaded``.
    """
    hash_pool().require_capacity()
    plain = [recovery_codes.normalised(code) or code for code in codes]
    return {recovery_codes.selector(code): await passwords.hash_password(code) for code in plain}


# ------------------------------------------------------------------ the admin: on its own threads
def methods_blocking(user: User) -> tuple[str, ...]:
    """Return the person's second factors, none for who needs none. One query."""
    return factors.methods_of(user.pk)


def verify_code_blocking(user: User, code: str, *, address: str) -> bool:
    """Judge a code as a sign-in through the API does, under the same counts, and use it up; False for a wrong one.

    ``address``: the client's, "" when unknown. What the audit trail is to say of it is the caller's business. Raises
    ``Throttled``, ``Overloaded``, ``TotpUnreadable``.
    """
    proof = proofs.judge_blocking(user_id=user.pk, code=code, address=address)
    if proof is None:
        return False
    with transaction.atomic():
        return proof.use()
