"""What people do with their passkeys; async, keyword-only, never sees a request.

``session_id`` is the session it is done in, for the audit trail. The view asks whether the caller signed in recently.
"""

import uuid

from django.db import IntegrityError

from accounts.lockout import rate_limits
from accounts.mfa.outputs import AddedPasskey, PasskeyOptions, PasskeyOut
from accounts.mfa.passkeys import challenges, removal
from accounts.mfa.passkeys import units as passkey_units
from accounts.mfa.passkeys.challenges import Purpose
from accounts.mfa.passkeys.errors import PasskeyNotMade, PasskeyTaken
from accounts.mfa.passkeys.facts import Json, UnusableAnswer, load_ceremonies
from accounts.mfa.recovery import codes as recovery_codes
from accounts.mfa.recovery import services as recovery_services
from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger

DEFAULT_NAME = "Passkey"


async def registration_options(*, user_id: uuid.UUID) -> PasskeyOptions:
    """Return what the browser needs to make a passkey. Nothing is stored.

    Raises:
        TooManyPasskeys: The person has as many as one may have.
        NotAuthenticated: The account is gone or inactive.
    """
    ceremonies = await load_ceremonies()
    holder = await database().read(passkey_units.holder, user_id)
    token, challenge = challenges.mint(Purpose.REGISTER, user_id)
    options = ceremonies.registration_options(
        challenge=challenge, user_id=user_id, email=holder.email, name=holder.name, present=holder.passkeys
    )
    return PasskeyOptions(token, options)


async def add(
    *,
    user_id: uuid.UUID,
    challenge_token: str,
    credential: Json,
    name: str = "",
    session_id: uuid.UUID | None = None,
    epoch: int | None = None,
) -> AddedPasskey:
    """Store the passkey an authenticator has made; with the first factor come recovery codes. No session ends.

    Args:
        user_id: Whose it is.
        challenge_token: What ``registration_options`` gave.
        credential: The authenticator's answer.
        name: What its owner calls it.
        session_id: The session it is done in.
        epoch: That session's, which must not have ended.

    Raises:
        PasskeyNotMade: The answer does not make one.
        PasskeyTaken: This very credential is registered.
        TooManyPasskeys: The person has as many as one may have.
        NotAuthenticated: The account or the session is gone.
        Throttled: After too many new factors.
        Overloaded: The hash pool is full.
    """
    challenge = challenges.parse(challenge_token, Purpose.REGISTER)
    if challenge is None or challenge.user_id != user_id:
        raise PasskeyNotMade
    ceremonies = await load_ceremonies()
    try:
        made = ceremonies.verify_registration(credential, challenge=challenge.value)
    except UnusableAnswer as error:
        get_logger().info("passkey_not_made", reason=error.reason, user_id=str(user_id))
        raise PasskeyNotMade from error
    holder = await database().read(passkey_units.holder, user_id)
    await rate_limits.admit_account(rate_limits.NEW_FACTOR, user_id=user_id)
    codes = [] if holder.methods else recovery_codes.new_codes()
    hashes = await recovery_services.hashed(codes) if codes else None
    try:
        passkey, with_codes = await database().write(
            passkey_units.add,
            user_id=user_id,
            challenge=challenge,
            credential=made,
            name=name or DEFAULT_NAME,
            hashes=hashes,
            session_id=session_id,
            epoch=epoch,
        )
    except IntegrityError as error:  # somebody registered the same credential at this very moment
        raise PasskeyTaken from error
    get_logger().info("passkey_added", user_id=str(user_id), passkey_id=str(passkey.id))
    return AddedPasskey(passkey, tuple(codes)) if with_codes else AddedPasskey(passkey)


async def rename(*, user_id: uuid.UUID, passkey_id: uuid.UUID, name: str) -> PasskeyOut:
    """Give a passkey another name.

    Args:
        user_id: The person who is signed in.
        passkey_id: Which passkey; it has to be theirs.
        name: The new name, validated.

    Raises:
        NotFound: The person has no such passkey; another's is not told apart.
    """
    renamed = await database().write(passkey_units.rename, user_id=user_id, passkey_id=passkey_id, name=name)
    if renamed is None:
        raise NotFound("You have no such passkey: see /api/v1/access/mfa for those you have.")
    return renamed


async def remove(*, user_id: uuid.UUID, passkey_id: uuid.UUID, session_id: uuid.UUID | None = None) -> None:
    """Take a passkey away.

    Args:
        user_id: The person who is signed in.
        passkey_id: Which passkey; it has to be theirs.
        session_id: The session it is done in, for the trail.

    Raises:
        NotFound: The person has no such passkey; another's is not told apart.
        LastWayIn: They could not sign in without it.
    """
    if not await database().write(removal.remove, user_id=user_id, passkey_id=passkey_id, session_id=session_id):
        raise NotFound("You have no such passkey: see /api/v1/access/mfa for those you have.")
    get_logger().info("passkey_removed", user_id=str(user_id), passkey_id=str(passkey_id))


async def assertion_options(purpose: Purpose, *, user_id: uuid.UUID) -> PasskeyOptions:
    """Return what the browser needs to use one of the person's passkeys. Nothing is stored. One query.

    Args:
        purpose: The only purpose that the challenge is good for.
        user_id: Whose passkeys the browser may use.
    """
    ceremonies = await load_ceremonies()
    allowed = await database().read(passkey_units.known_of, user_id)
    token, challenge = challenges.mint(purpose, user_id)
    return PasskeyOptions(token, ceremonies.assertion_options(challenge=challenge, allowed=allowed, verified=False))


async def sign_in_options() -> PasskeyOptions:
    """Return what the browser needs to use a passkey of anybody's. Nothing is stored, or asked of the database."""
    ceremonies = await load_ceremonies()
    token, challenge = challenges.mint(Purpose.SIGN_IN)
    return PasskeyOptions(token, ceremonies.assertion_options(challenge=challenge, verified=True))
