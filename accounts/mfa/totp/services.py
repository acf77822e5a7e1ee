"""What people do with an app for one-time codes; async, keyword-only, never sees a request.

``session_id`` is the session it is done in, for the audit trail. The view asks whether the caller signed in recently.
"""

import uuid
from typing import Final

from django.utils.translation import gettext_noop as _

from accounts.audit.recording import Event
from accounts.lockout import rate_limits
from accounts.mfa.errors import InvalidMfaCode, MfaNotEnabled
from accounts.mfa.outputs import RecoveryCodes
from accounts.mfa.recovery import codes as recovery_codes
from accounts.mfa.recovery.services import hashed
from accounts.mfa.second_factor import refused, without_spaces
from accounts.mfa.totp import codes as totp
from accounts.mfa.totp import units
from accounts.mfa.totp.errors import MfaNotStarted
from accounts.mfa.totp.outputs import TotpSetup
from accounts.mfa.totp.units import TOTP
from accounts.users import reauthentication
from accounts.users.proofs import Evidence, ProofRequest
from accounts.users.reauthentication import reauthenticate
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.crypto.sealing import SealBrokenError
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger

# No recovery code is the way out of this one, as it is at a sign-in.
_NOT_YET: Final = _("The code does not fit. Check the clock of the phone, and that the app shows this account.")


async def start_totp(*, user_id: uuid.UUID) -> TotpSetup:
    """Make a secret for an app; it counts once its first code is confirmed, and replaces one that still waits for it.

    Raises:
        MfaAlreadyEnabled: There is an app.
        NotAuthenticated: The account is gone or inactive.
    """
    secret = totp.new_secret()
    key_id, sealed = totp.seal(secret, user_id)
    email = await database().write_autocommit(units.store_secret, user_id=user_id, sealed=sealed, master_key_id=key_id)
    address = totp.uri(secret, email)
    return TotpSetup(secret=totp.as_text(secret), otpauth_uri=address, qr_svg=totp.qr_svg(address))


async def waiting_totp(*, user_id: uuid.UUID) -> TotpSetup:
    """Return the secret that waits for its first code, for a page that shows it again.

    Raises:
        MfaNotStarted: No secret waits.
        MfaAlreadyEnabled: There is an app.
    """
    judged = await database().read(units.pending, user_id)
    found = await reauthentication.active_user(user_id)
    try:
        secret = totp.unseal(judged.master_key_id, judged.sealed, user_id)
    except (MasterKeyMissingError, SealBrokenError) as error:
        raise MfaNotStarted from error
    address = totp.uri(secret, found.email)
    return TotpSetup(secret=totp.as_text(secret), otpauth_uri=address, qr_svg=totp.qr_svg(address))


async def confirm_totp(
    *, user_id: uuid.UUID, code: str, session_id: uuid.UUID | None = None, epoch: int | None = None
) -> RecoveryCodes:
    """Make the app a factor by its first code; return new recovery codes, in place of any older ones. No session ends.

    Args:
        user_id: Whose it is.
        code: As it was typed.
        session_id: The session it is done in.
        epoch: That session's, which must not have ended.

    Raises:
        InvalidMfaCode: The code is wrong; the secret stays as it is.
        MfaNotStarted: No secret waits.
        MfaAlreadyEnabled: There is an app.
        Throttled: After too many new factors.
        Overloaded: The hash pool is full.
    """
    judged = await database().read(units.pending, user_id)
    typed = without_spaces(code)
    try:
        secret = totp.unseal(judged.master_key_id, judged.sealed, user_id)
    except (MasterKeyMissingError, SealBrokenError) as error:
        raise MfaNotStarted from error  # nobody depends on it yet: a new one is quickly made
    step = totp.step_of(typed, secret) if totp.is_code(typed) else None
    if step is None:
        await refused(ProofRequest(user_id, Event.MFA_ENABLED, session_id=session_id))
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
    get_logger().info("mfa_enabled", user_id=str(user_id), method=TOTP)
    return RecoveryCodes(tuple(codes))


async def remove_totp(*, user_id: uuid.UUID, shown: Evidence, session_id: uuid.UUID | None = None) -> None:
    """Take the app away.

    Args:
        user_id: The person who is signed in.
        shown: What proves again that it is them.
        session_id: The session it is done in, for the trail.

    Raises:
        MfaNotEnabled: There is none.
        PasswordChanged: The password was changed meanwhile.
        DomainError: What ``reauthenticate`` raises.
    """
    found = await reauthentication.active_user(user_id)
    if TOTP not in found.methods:
        raise MfaNotEnabled
    await reauthenticate(found, shown, ProofRequest(user_id, Event.MFA_DISABLED, session_id=session_id))
    await database().write(units.remove_totp, user_id=user_id, old=found.encoded, session_id=session_id)
    get_logger().info("mfa_disabled", user_id=str(user_id), method=TOTP)
