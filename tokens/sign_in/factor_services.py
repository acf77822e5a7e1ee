"""Second factors at work: finishing a sign-in with one, and confirming a session with one. Async, keyword-only."""

from typing import Final

from accounts.audit.recording import Event
from accounts.mfa import factors, proofs
from accounts.mfa.errors import SecondFactorRefused
from accounts.mfa.proofs import Asked, Proof, Shown
from accounts.users import reauthentication
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core.errors import FieldError, ValidationFailed
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

CODE_NEEDED: Final = FieldError(field="code", code="required", message="Send a code of your second factor.")
PASSWORD_NEEDED: Final = FieldError(field="password", code="required", message="Send your password.")

log = get_logger()


async def sign_in_with_factor(*, token: str, shown: Shown, context: ClientContext) -> TokenPair:
    """Open a session for the person whose password ``token`` stands for, and return its tokens.

    Raises:
        SigningKeyMissing: (503) before anything else, when no token could be signed.
        DomainError: What ``verify_second_factor`` and ``services.open_session`` raise.
    """
    mark = token_cache().mark()
    key = await key_store().signing()
    proof = await verify_second_factor(token=token, shown=shown, context=context)
    return token_pair(await open_session(proof, context=context), key, mark)


async def verify_second_factor(*, token: str, shown: Shown, context: ClientContext) -> BySecondFactor:
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
    factor = await _judge(shown, Asked(ticket.user_id, Event.SIGN_IN, context.address))
    return BySecondFactor(ticket, factor, found.email)


async def step_up(*, principal: Principal, password: str | None, shown: Shown, address: str) -> None:
    """Let the caller prove who they are once more: with a second factor where they have one, else with the password.

    Raises ``ValidationFailed`` (400) naming the field that is needed, ``InvalidMfaCode``, ``InvalidPasskey`` or
    ``InvalidCredentials`` (401), ``Throttled`` (429), ``Overloaded`` or ``TotpUnreadable`` (503).
    """
    found = await reauthentication.active_user(principal.id)
    proof: Proof | None = None
    if found.methods:
        proof = await _judge(shown, Asked(principal.id, Event.STEP_UP, address, principal.session_id))
    else:
        if password is None:
            raise ValidationFailed(errors=[PASSWORD_NEEDED])
        await reauthentication.require_password(found, password, Event.STEP_UP, principal.session_id)
    await confirm_session(principal=principal, proof=proof)


async def confirm_session(*, principal: Principal, proof: Proof | None) -> None:
    """Note in the caller's session that they have just proved who they are, by ``proof`` or else the password.

    Raises ``InvalidMfaCode`` or ``InvalidPasskey`` when the proof was used meanwhile, ``NotAuthenticated`` when the
    session is over.
    """
    amr = with_factor(principal.amr, proof)
    try:
        await database().write(
            units.step_up, session_id=principal.session_id, user_id=principal.id, amr=amr, proof=proof
        )
    except SecondFactorRefused as error:
        await proofs.refused(
            user_id=principal.id, event=Event.STEP_UP, session_id=principal.session_id, reason=error.code
        )
        raise
    log.info("stepped_up", user_id=str(principal.id), session_id=str(principal.session_id), amr=amr)


async def _judge(shown: Shown, asked: Asked) -> Proof:
    """Return what proves the second factor; raises what judging it raises, ``ValidationFailed`` for nothing shown."""
    proof = await factors.judge(shown, asked)
    if proof is None:
        raise ValidationFailed(errors=[CODE_NEEDED])
    return proof
