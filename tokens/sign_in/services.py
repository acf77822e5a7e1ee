"""Signing in with a password, opening sessions for proofs, and changing the password. Async, keyword-only."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from uuid import UUID

from django.db import IntegrityError

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.email import codes
from accounts.email.services import Confirmed
from accounts.errors import InvalidCredentials, InvalidEmailCode
from accounts.mfa.kept_devices import services as kept_devices
from accounts.outbox import tokens as email_tokens
from accounts.users import queries as user_queries
from accounts.users import services as accounts
from accounts.users.outputs import Account
from accounts.users.proofs import Evidence
from accounts.users.services import Authenticated
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import DomainError
from ironauth.infrastructure.db.faults import refers_to_nothing
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing import claims as hash_claims
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.access.codec import confirmation
from tokens.clients import registry as clients
from tokens.clients.registry import Client
from tokens.errors import InvalidToken, MfaRequired
from tokens.keys.store import key_store
from tokens.principal import Principal
from tokens.sessions import client_sessions, sso_session
from tokens.sessions import queries as session_queries
from tokens.sessions import units as sessions
from tokens.sessions.access_tokens import token_pair
from tokens.sessions.models import BY_EMAIL, FIRST_PARTY_CLIENT
from tokens.sessions.outputs import TokenPair
from tokens.sessions.queries import OpenedSession
from tokens.sign_in import mfa_token, units
from tokens.sign_in.proofs import ByConfirmation, ByEmailCode, ByKeptDevice, ByPassword, SignInProof

log = get_logger()


async def sign_in(*, email: str, password: str, context: ClientContext) -> TokenPair:
    """Open a session for the person whose address and password these are, and return its tokens.

    Args:
        email: The address that was typed, not yet judged.
        password: What was typed.
        context: Where the sign-in comes from.

    Raises:
        SigningKeyMissing: (503) before any hashing, when no token could be signed.
        DomainError: What ``verify_password`` and ``open_session`` raise.
    """
    mark = token_cache().mark()  # before the key is chosen: it may be dropped while the password is hashed
    key = await key_store().signing()
    proof = await verify_password(email=email, password=password, context=context)
    return token_pair(await open_session(proof, context=context), key, mark)


async def verify_password(*, email: str, password: str, context: ClientContext) -> ByPassword | ByKeptDevice:
    """Return the proof of the person whose address and password these are.

    Args:
        email: The address that was typed, not yet judged.
        password: What was typed.
        context: Where the sign-in comes from.

    Raises:
        InvalidCredentials: (401) unknown, wrong, inactive and not proved yet alike.
        MfaRequired: (401) the password is right, and the person has a second factor, which no kept device spares.
        PasswordChangeRequired: (403) only after a right password.
        Throttled: (429) before any hashing, when the account or the client has failed too often.
        Overloaded: (503) the hash pool is full.
    """
    with hash_claims.named(emails.lookup_key(email) or email):
        who = await accounts.authenticate(email=email, password=password, context=context)
    if who.methods:
        kept = await kept_devices.find(user_id=who.id, epoch=who.session_epoch, secret=context.kept_device)
        if kept is not None:
            return ByKeptDevice(kept, who.attempt)
        log.info("second_factor_asked", user_id=str(who.id))
        await _second_factor_asked(who.id)
        raise MfaRequired(mfa_token=mfa_token.mint(who), methods=who.methods)
    return ByPassword(who.id, who.session_epoch, who.attempt)


async def verify_email_code(*, code_id: UUID, code: str, email: str, context: ClientContext) -> ByEmailCode:
    """Return the proof of the person whose address this is, by a code that was mailed to it.

    Args:
        code_id: The token that the code belongs to.
        code: What was typed.
        email: The address that the code was asked for.
        context: Where the sign-in comes from.

    Raises:
        InvalidEmailCode: (401) see there.
        MfaRequired: (401) the code is right, and the person has a second factor.
        PasswordChangeRequired: (403) only after a right code.
        Throttled: (429) the account or the client has failed too often.
    """
    return await _by_email(*await codes.judge_sign_in_code(code_id=code_id, code=code, email=email, context=context))


async def verify_email_link(*, code_id: UUID, token: str, address: str) -> ByEmailCode:
    """Return the proof of the person who has opened the link of a message, in the browser that asked for it.

    Args:
        code_id: The token that this browser has asked for.
        token: What the link has brought.
        address: The client's.

    Raises:
        InvalidEmailToken: (400) the link signs nobody in here.
        InvalidEmailCode: (401) it was used meanwhile.
        MfaRequired: (401) the person has a second factor.
        PasswordChangeRequired: (403) staff have asked for another password.
        Throttled: (429) after too many invalid ones.
    """
    return await _by_email(*await codes.judge_sign_in_link(code_id=code_id, token=token, address=address))


async def _by_email(who: Authenticated, token_id: UUID | None) -> ByEmailCode:
    """Return the proof of a person who has read a message; raise ``MfaRequired`` where that is not all they prove."""
    if who.methods:
        if token_id is not None and not await database().write(email_tokens.consume, token_id):
            raise InvalidEmailCode
        await _second_factor_asked(who.id)
        raise MfaRequired(mfa_token=mfa_token.mint(who, BY_EMAIL), methods=who.methods)
    return ByEmailCode(who.id, who.session_epoch, token_id, who.attempt)


async def verify_confirmation(confirmed: Confirmed) -> ByConfirmation:
    """Return the proof of the person who has just confirmed their address, with all that a sign-in asks them for.

    Args:
        confirmed: What they have shown with the link.

    Raises:
        InvalidCredentials: (401) the account has changed since.
        PasswordChangeRequired: (403) staff have asked for another password.
    """
    account = await database().read(user_queries.credentials_of_id, confirmed.user_id)
    if account is None or account.session_epoch != confirmed.epoch or bool(account.methods) != bool(confirmed.factor):
        raise InvalidCredentials
    await accounts.require_admissible(account)
    return ByConfirmation(account.id, account.session_epoch, account.email, confirmed.factor)


async def ask_factor_again(*, user_id: UUID) -> None:
    """Raise ``MfaRequired`` once more for a person whose message was read, and used up by it, just now.

    Args:
        user_id: Who it is.

    Raises:
        MfaRequired: (401) Where they have a second factor still.
    """
    account = await database().read(user_queries.credentials_of_id, user_id)
    if account is not None and account.is_active and account.methods:
        await _by_email(Authenticated(account.id, account.session_epoch, account.methods), None)


async def verify_sign_up(*, user_id: UUID) -> ByPassword:
    """Return the proof of the person who has just made this account, with a password, in the same request.

    Raises:
        InvalidCredentials: (401) the account has changed since.
    """
    account = await database().read(user_queries.credentials_of_id, user_id)
    if account is None or not account.is_active or account.session_epoch or account.methods:
        raise InvalidCredentials
    return ByPassword(user_id, account.session_epoch)


async def open_session(
    proof: SignInProof, *, context: ClientContext, kind: units.SessionKind = units.FIRST_PARTY
) -> OpenedSession:
    """Open a session of this service's own API for a proof. One unit of work.

    A try whose session was not stored stays counted against the account.

    Args:
        proof: What was judged to be right; it is used up.
        context: Where the sign-in comes from.
        kind: What kind of session is opened.

    Raises:
        DomainError: What the proof says where it was used, or the account has changed, since it was judged.
    """
    async with recorded_refusals(proof, context):
        opened = await database().write(units.open_session, proof, context=context, kind=kind)
    log.info("signed_in", user_id=str(proof.user_id), session_id=str(opened.session_id), amr=proof.amr)
    return opened


async def opened_just_now(session_id: UUID) -> OpenedSession | None:
    """Return a session of this service's own API, for the browser that opened it and may have dropped the answer.

    None where it does not sign its person in any more, or was refreshed: then some browser has its tokens.

    Args:
        session_id: What the note of that request says.
    """
    found = await database().read(session_queries.find, session_id)
    if found is None or found.client_id != FIRST_PARTY_CLIENT or found.is_over(clock.now()) or found.generation:
        return None
    if found.actor_id is not None or not sso_session.signs_in(found):
        return None
    return sessions.opened(found, found.account)


async def keep_device(*, session_id: UUID, device_id: UUID) -> None:
    """Note that the session just opened is in the browser of this device; thrown out meanwhile, it takes it along.

    Args:
        session_id: The session.
        device_id: The device.
    """
    await database().write(units.keep_device, session_id=session_id, device_id=device_id)


@asynccontextmanager
async def recorded_refusals(proof: SignInProof, context: ClientContext) -> AsyncIterator[None]:
    """Record in the trail why the block opened no session.

    Args:
        proof: The proof that the block opens a session for.
        context: Where the sign-in comes from.

    Raises:
        DomainError: What the block raises; what the proof says of a changed account, where its person was deleted.
    """
    try:
        try:
            yield
        except IntegrityError as error:
            if not refers_to_nothing(error):
                raise
            raise proof.account_changed() from error
    except DomainError as error:
        await proof.record_refusal(error, context)
        raise


async def _second_factor_asked(user_id: UUID) -> None:
    """Leave in the trail that somebody has the password; the answer does not wait for it."""
    details = {"on_the_way_to": audit.Event.SIGN_IN.value}
    await audit.record_later(
        audit.Event.SECOND_FACTOR_ASKED, outcome=audit.Outcome.SUCCESS, user_id=user_id, details=details
    )


async def change_password(
    *, principal: Principal, shown: Evidence, new_password: str, context: ClientContext
) -> TokenPair:
    """Set a new password, which ends every session, and open a new session for the caller, of the same client.

    Args:
        principal: The caller.
        shown: What proves again that it is them.
        new_password: What was chosen; the policy has been asked by the input.
        context: Where the request comes from.

    Raises:
        SigningKeyMissing: (503) before anything is changed.
        InvalidToken: (401) the caller's client has just been disabled; before anything is changed.
        DomainError: What ``accounts.change_password`` raises.
    """
    key = await key_store().signing()
    application, parent_id = await _application_of(principal)
    account = await accounts.change_password(
        user_id=principal.id,
        session_id=principal.session_id,
        shown=shown,
        new_password=new_password,
        authenticated_at=principal.authenticated_at,
    )
    try:
        # A transaction: its BEGIN finds out whether the connection still lives, before anything is written. The
        # password is changed already, so this must not fail for a connection that died unused.
        opened = await database().write(
            _reopen,
            account=account,
            principal=principal,
            application=application,
            parent_id=parent_id,
            context=context,
        )
    except IntegrityError as error:
        if not refers_to_nothing(error):
            raise
        raise InvalidCredentials from error  # deleted meanwhile
    # Its user was read before everything of theirs was invalidated: not to be kept.
    return token_pair(opened, key, subject=principal.subject, cnf=confirmation(jkt=principal.jkt, x5t=principal.x5t))


def _reopen(
    *,
    account: Account,
    principal: Principal,
    application: Client | None,
    parent_id: UUID | None,
    context: ClientContext,
) -> OpenedSession:
    """Open the session that replaces the caller's: as strong, as old, of the same client. A unit of work.

    An application's session stays the application's, so it ends when the application is disabled or its consent is
    taken back. It also stays with the SSO session it began in, and ends with that.

    Args:
        account: The caller's, under its new epoch.
        principal: The caller, in the session that has just ended.
        application: The session's client; None for this service's own API.
        parent_id: The SSO session it began in.
        context: Where the request comes from.

    Raises:
        InvalidToken: (401) the SSO session was ended while the password was hashed.
    """
    # A password alone does not make the session newer than the one it replaces.
    amr, since = principal.amr, datetime.fromtimestamp(principal.authenticated_at, UTC)
    if application is None:
        return sessions.store_first_party(
            account=account, context=context, scope=principal.scope, amr=amr, authenticated_at=since
        )
    bound_to = principal.jkt or principal.x5t if application.is_public else ""  # as when it began: RFC 9449 §5
    consented = client_sessions.ConsentedAccess(account, principal.scope, since, amr, parent_id, bound_to)
    opened = client_sessions.open_client_session(client=application, consented=consented, context=context)
    if opened is None:
        raise InvalidToken("sign-on")
    return opened


async def _application_of(principal: Principal) -> tuple[Client | None, UUID | None]:
    """Return the client of the caller's session, None for this service's own, and the SSO session it began in.

    Raises ``InvalidToken`` (401) when client or session is gone.
    """
    if principal.client_id == FIRST_PARTY_CLIENT:
        return None, None
    application = await clients.find(principal.client_id)
    if application is None:
        raise InvalidToken("client")
    present = await database().read(session_queries.find, principal.session_id)
    if present is None or present.is_over(clock.now()):
        raise InvalidToken("session")
    return application, present.parent_id
