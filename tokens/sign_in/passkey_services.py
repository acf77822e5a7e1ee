"""Signing in with a passkey, alone or after the password, and what browsers need for it. Async, keyword-only."""

from accounts.audit.recording import Event
from accounts.lockout import rate_limits
from accounts.mfa.outputs import PasskeyOptions
from accounts.mfa.passkeys import proofs as passkey_proofs
from accounts.mfa.passkeys import services as passkeys
from accounts.mfa.passkeys.challenges import Purpose
from accounts.mfa.passkeys.facts import Json
from accounts.users import queries as user_queries
from accounts.users import services as accounts
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.errors import InvalidMfaToken
from tokens.keys.store import key_store
from tokens.principal import Principal
from tokens.sessions.access_tokens import token_pair
from tokens.sessions.outputs import TokenPair
from tokens.sign_in import mfa_token, units
from tokens.sign_in.proofs import ByPasskey
from tokens.sign_in.services import open_session


async def sign_in_options(*, address: str) -> PasskeyOptions:
    """Return what the browser needs to sign anybody in who has a passkey; the same for everybody.

    Nothing is stored but how often the client at ``address`` has asked.

    Raises:
        Throttled: (429) too many tries.
    """
    await rate_limits.admit(rate_limits.PASSKEY, address=address)
    return await passkeys.sign_in_options()


async def second_factor_options(*, token: str) -> PasskeyOptions:
    """Return what the browser needs to finish the sign-in of ``token`` with a passkey of its person.

    Raises:
        InvalidMfaToken: (401) it is no good.
    """
    ticket = mfa_token.parse(token)
    if ticket is None:
        raise InvalidMfaToken
    await database().read(units.holder_of, ticket)
    return await passkeys.assertion_options(Purpose.SECOND_FACTOR, user_id=ticket.user_id)


async def step_up_options(*, principal: Principal) -> PasskeyOptions:
    """Return what the browser needs to confirm the caller's session with one of their passkeys."""
    return await passkeys.assertion_options(Purpose.STEP_UP, user_id=principal.id)


async def sign_in(*, challenge_token: str, credential: Json, context: ClientContext) -> TokenPair:
    """Open a session for the person who holds the passkey, and return its tokens.

    Args:
        challenge_token: The token that was handed out with the challenge.
        credential: What the browser returned, not yet judged.
        context: Where the sign-in comes from.

    Raises:
        SigningKeyMissing: (503) before anything else, when no token could be signed.
        DomainError: what ``verify_passkey`` and ``services.open_session`` raise.
    """
    mark = token_cache().mark()
    key = await key_store().signing()
    proof = await verify_passkey(challenge_token=challenge_token, credential=credential, context=context)
    return token_pair(await open_session(proof, context=context), key, mark)


async def verify_passkey(*, challenge_token: str, credential: Json, context: ClientContext) -> ByPasskey:
    """Return the proof of the person who holds the passkey and was verified by its authenticator: two factors at once.

    Args:
        challenge_token: What the browser was given with the challenge.
        credential: The authenticator's answer.
        context: Where the sign-in comes from.

    Raises:
        InvalidPasskey: (401) unknown, wrong, used before, and of inactive people alike.
        EmailNotVerified: (403) after a right one; ``PasswordChangeRequired`` too.
        Throttled: (429) after too many that were not.
    """
    assertion = await passkey_proofs.judge(
        credential,
        challenge_token=challenge_token,
        purpose=Purpose.SIGN_IN,
        user_id=None,
        event=Event.SIGN_IN,
        address=context.address,
    )
    found = await database().read(user_queries.credentials_of_id, assertion.user_id)
    if found is None or not found.is_active:
        await passkey_proofs.refused(
            Event.SIGN_IN,
            "account",
            user_id=assertion.user_id,
            passkey_id=assertion.passkey_id,
            address=context.address,
        )
    await accounts.require_admissible(found)
    return ByPasskey(assertion, found.session_epoch, found.email)
