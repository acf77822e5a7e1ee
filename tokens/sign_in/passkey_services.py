"""Signing in with a passkey, alone or after the password, and what browsers need for it. Async, keyword-only."""

from django.db import IntegrityError

from accounts.audit.recording import Event
from accounts.lockout import rate_limits
from accounts.mfa.outputs import PasskeyOptions
from accounts.mfa.passkeys import proofs as passkey_proofs
from accounts.mfa.passkeys import services as passkeys
from accounts.mfa.passkeys.challenges import Purpose
from accounts.mfa.passkeys.errors import InvalidPasskey
from accounts.mfa.passkeys.facts import Json
from accounts.users import services as accounts
from accounts.users import units
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.db.faults import refers_to_nothing
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.errors import InvalidMfaToken
from tokens.keys.store import key_store
from tokens.principal import Principal
from tokens.sessions.outputs import TokenPair
from tokens.sessions.units import FIRST_PARTY, OpenedSession, SessionFactory
from tokens.sign_in import factor_units as factor_sessions
from tokens.sign_in import mfa_token
from tokens.sign_in.services import token_pair

log = get_logger()


async def sign_in_options(*, address: str) -> PasskeyOptions:
    """Return what the browser needs to sign anybody in who has a passkey; the same for everybody.

    Nothing is stored but how often the client at ``address`` has asked. Raises ``Throttled`` (429).
    """
    await rate_limits.admit(rate_limits.PASSKEY, address=address)
    return await passkeys.sign_in_options()


async def second_factor_options(*, token: str) -> PasskeyOptions:
    """Return what the browser needs to finish the sign-in of ``token`` with a passkey of its person.

    Raises ``InvalidMfaToken`` (401) when it is no good.
    """
    ticket = mfa_token.parse(token)
    if ticket is None:
        raise InvalidMfaToken
    await database().read(factor_sessions.holder_of, ticket)
    return await passkeys.assertion_options(Purpose.SECOND_FACTOR, user_id=ticket.user_id)


async def step_up_options(*, principal: Principal) -> PasskeyOptions:
    """Return what the browser needs to confirm the caller's session with one of their passkeys."""
    return await passkeys.assertion_options(Purpose.STEP_UP, user_id=principal.id)


async def sign_in(*, challenge_token: str, credential: Json, context: ClientContext) -> TokenPair:
    """Open a session for whoever holds the passkey, and return its tokens.

    Raises what ``open_by_passkey`` raises, ``SigningKeyMissing`` (503) before that.
    """
    reading = token_cache().mark()
    key = await key_store().signing()
    grant = await open_by_passkey(challenge_token=challenge_token, credential=credential, context=context)
    return token_pair(grant, key, reading)


async def open_by_passkey(
    *, challenge_token: str, credential: Json, context: ClientContext, opener: SessionFactory = FIRST_PARTY
) -> OpenedSession:
    """Open a session, as ``opener`` does, for who holds the passkey and was verified by its authenticator.

    Two factors at once. Raises ``InvalidPasskey`` (401; unknown, wrong, used before, and of inactive people alike),
    ``EmailNotVerified`` and ``PasswordChangeRequired`` (403) after a right one, ``Throttled`` (429) after too many that
    were not.
    """
    proof = await passkey_proofs.judge(
        credential,
        challenge_token=challenge_token,
        purpose=Purpose.SIGN_IN,
        user_id=None,
        event=Event.SIGN_IN,
        address=context.address,
    )
    found = await database().read(units.credentials_of_id, proof.user_id)
    if found is None or not found.is_active:
        await passkey_proofs.refused(
            Event.SIGN_IN, "account", user_id=proof.user_id, passkey_id=proof.passkey_id, address=context.address
        )
    await accounts.require_admissible(found)
    try:
        grant = await database().write(
            factor_sessions.open_with_passkey, found=found, proof=proof, context=context, opener=opener
        )
    except InvalidPasskey:
        await passkey_proofs.refused(
            Event.SIGN_IN, "used", user_id=found.id, passkey_id=proof.passkey_id, address=context.address
        )
    except IntegrityError as error:
        if not refers_to_nothing(error):
            raise
        raise InvalidPasskey from error  # deleted in this very moment
    log.info("signed_in", user_id=str(found.id), session_id=str(grant.session_id), amr=grant.amr)
    return grant
