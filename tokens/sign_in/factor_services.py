"""Second factors at work: finishing a sign-in with one, and confirming a session with one. Async, keyword-only."""

from accounts.audit.recording import Event
from accounts.mfa import factors
from accounts.mfa.errors import SecondFactorRefused
from accounts.mfa.reauthentication import SecondFactorMethod
from accounts.mfa.second_factor import refused
from accounts.users import reauthentication
from accounts.users.proofs import Evidence, Proof, ProofRequest
from accounts.users.reauthentication import reauthenticate
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core.errors import ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.errors import InvalidMfaToken
from tokens.keys.store import key_store
from tokens.principal import Principal
from tokens.sessions.access_tokens import token_pair
from tokens.sessions.outputs import TokenPair
from tokens.sign_in import mfa_token, units
from tokens.sign_in.proofs import BySecondFactor, with_factor
from tokens.sign_in.services import open_session

log = get_logger()


async def sign_in_with_factor(*, token: str, shown: Evidence, context: ClientContext) -> TokenPair:
    """Open a session for the person whose password ``token`` stands for, and return its tokens.

    Args:
        token: The token that the right password was answered with.
        shown: The code or the passkey.
        context: Where the sign-in comes from.

    Raises:
        SigningKeyMissing: (503) before anything else, when no token could be signed.
        DomainError: What ``verify_second_factor`` and ``services.open_session`` raise.
    """
    mark = token_cache().mark()
    key = await key_store().signing()
    proof = await verify_second_factor(token=token, shown=shown, context=context)
    return token_pair(await open_session(proof, context=context), key, mark)


async def verify_second_factor(*, token: str, shown: Evidence, context: ClientContext) -> BySecondFactor:
    """Return the proof of the person whose password ``token`` stands for, by their second factor.

    Args:
        token: The one that was given for the right password.
        shown: A code, or an authenticator's answer.
        context: Where the sign-in comes from.

    Raises:
        ValidationFailed: (400) nothing was shown.
        InvalidMfaToken: (401) the token is no good.
        InvalidMfaCode: (401) the code is wrong; ``InvalidPasskey`` for a passkey.
        Throttled: (429) after too many of those, for a code before anything is judged.
        Overloaded: (503) the hash pool is full; ``TotpUnreadable`` when the secret cannot be read.
    """
    ticket = mfa_token.parse(token)
    if ticket is None:
        raise InvalidMfaToken
    found = await database().read(units.holder_of, ticket)
    factor = await factors.judge(shown, ProofRequest(ticket.user_id, Event.SIGN_IN, context.address))
    if factor is None:
        raise ValidationFailed(errors=[SecondFactorMethod.missing])
    return BySecondFactor(ticket, factor, found.email)


async def step_up(*, principal: Principal, shown: Evidence, address: str) -> None:
    """Let the caller prove who they are once more: with a second factor where they have one, else with the password.

    Args:
        principal: The caller.
        shown: The password, the code or the passkey.
        address: The client's IP address.

    Raises:
        ValidationFailed: (400) nothing was shown that is needed; names the field.
        InvalidCredentials: (401) the password is wrong; ``InvalidMfaCode`` or ``InvalidPasskey`` for a second factor.
        Throttled: (429) after too many of those.
        Overloaded: (503) the hash pool is full; ``TotpUnreadable`` when the secret cannot be read.
    """
    found = await reauthentication.active_user(principal.id)
    asked = ProofRequest(principal.id, Event.STEP_UP, address, principal.session_id)
    await confirm_session(principal=principal, proof=await reauthenticate(found, shown, asked))


async def confirm_session(*, principal: Principal, proof: Proof | None) -> None:
    """Note in the caller's session that they have just proved who they are, by ``proof`` or else the password.

    Args:
        principal: The caller.
        proof: What was judged to be right; it is used up. None where the password was.

    Raises:
        InvalidMfaCode: (401) the proof was used meanwhile; ``InvalidPasskey`` for a passkey.
        NotAuthenticated: (401) the session is over.
    """
    amr = with_factor(principal.amr, proof)
    try:
        await database().write(
            units.step_up, session_id=principal.session_id, user_id=principal.id, amr=amr, proof=proof
        )
    except SecondFactorRefused as error:
        await refused(ProofRequest(principal.id, Event.STEP_UP, session_id=principal.session_id), error.code)
        raise
    log.info("stepped_up", user_id=str(principal.id), session_id=str(principal.session_id), amr=amr)
