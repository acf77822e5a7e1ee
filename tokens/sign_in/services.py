"""Signing in and out, refreshing, changing the password, and a person's own sessions."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.errors import InvalidCredentials
from accounts.lockout import rate_limits
from accounts.users import services as accounts
from accounts.users.outputs import Account, Authenticated
from ironauth.infrastructure.cache.two_level import ReadMark, token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.db.faults import refers_to_nothing
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import hash_claims
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.clients import registry as clients
from tokens.errors import InvalidRefreshToken, InvalidToken, MfaRequired
from tokens.keys.key_set import ActiveKey
from tokens.keys.store import key_store
from tokens.principal import Principal
from tokens.sessions import access_tokens, client_sessions, refresh_token
from tokens.sessions import lists as session_lists
from tokens.sessions import queries as session_queries
from tokens.sessions import rotation as session_rotation
from tokens.sessions import units as sessions
from tokens.sessions.models import FIRST_PARTY_CLIENT
from tokens.sessions.outputs import SessionOut, TokenPair
from tokens.sessions.rotation import SESSION_OVER, Outcome
from tokens.sessions.units import OpenedSession, SessionFactory
from tokens.sign_in import mfa_token

log = get_logger()


async def sign_in(*, email: str, password: str, context: ClientContext) -> TokenPair:
    """Open a session for the person whose address and password these are, and return its tokens.

    Raises what ``open_by_password`` raises, ``SigningKeyMissing`` (503) before any hashing when no token could be
    signed.
    """
    reading = token_cache().mark()  # before the key is chosen: it may be dropped while the password is hashed
    key = await key_store().signing()
    return token_pair(await open_by_password(email=email, password=password, context=context), key, reading)


async def open_by_password(
    *, email: str, password: str, context: ClientContext, opener: SessionFactory = sessions.FIRST_PARTY
) -> OpenedSession:
    """Open a session, as ``opener`` does, for the person whose address and password these are.

    Raises ``InvalidCredentials`` (401; unknown, wrong, inactive and not proved yet alike), ``PasswordChangeRequired``
    (403, only after a right password), ``Overloaded`` (503) when the hash pool is full, ``Throttled`` (429) before any
    hashing when the account or the client has failed too often. Raises ``MfaRequired`` (401) instead of opening a
    session for somebody who has a second factor.
    """
    with hash_claims.named(emails.lookup_key(email) or email):
        who = await accounts.authenticate(email=email, password=password, context=context)
    if who.methods:
        log.info("second_factor_asked", user_id=str(who.id))
        await _second_factor_asked(who.id)
        raise MfaRequired(mfa_token=mfa_token.mint(who), methods=who.methods)
    grant = await _opened(who, context, opener)
    if grant is None:  # only who knows the password gets here
        await audit.record_later(audit.Event.SIGN_IN, outcome=audit.Outcome.REFUSED, actor_id=who.id, user_id=who.id)
        raise InvalidCredentials("The account was changed while you were signing in: sign in again.")
    log.info("signed_in", user_id=str(who.id), session_id=str(grant.session_id))
    return grant


async def _second_factor_asked(user_id: UUID) -> None:
    """Leave in the trail that somebody has the password; the answer does not wait for it."""
    details = {"on_the_way_to": audit.Event.SIGN_IN.value}
    await audit.record_later(
        audit.Event.SECOND_FACTOR_ASKED, outcome=audit.Outcome.SUCCESS, user_id=user_id, details=details
    )


async def refresh(*, token: str, address: str = "") -> TokenPair:
    """Exchange a refresh token for the next pair; a reused one ends its session, committed, before this raises.

    Raises ``InvalidRefreshToken`` (401), saying whether the session is over; ``SigningKeyMissing`` (503) before
    anything is changed; ``Throttled`` (429) instead of the 401 when too many came from the client's ``address`` ("":
    unknown, not counted). A valid token is never counted, which costs nothing.
    """
    parsed = refresh_token.parse(token)
    if parsed is None:
        await rate_limits.admit(rate_limits.REFRESH, address=address)
        raise InvalidRefreshToken
    reading = token_cache().mark()
    key = await key_store().signing()
    rotation = await database().write_autocommit(session_rotation.rotate, parsed=parsed)
    event = log.warning if rotation.outcome is Outcome.REUSE else log.info
    event("refresh", outcome=rotation.outcome.value, session_id=str(parsed.session_id))
    if rotation.grant is None:
        await rate_limits.admit(rate_limits.REFRESH, address=address)
        raise InvalidRefreshToken(session_over=rotation.outcome in SESSION_OVER)
    return token_pair(rotation.grant, key, reading)


async def sign_out(*, session_id: UUID, user_id: UUID) -> None:
    """End one session of this user; ending one that is over already is no error."""
    await database().write(sessions.sign_out, session_id=session_id, user_id=user_id)
    log.info("signed_out", session_id=str(session_id))


async def sign_out_by_refresh_token(*, token: str) -> None:
    """End the session a refresh token of ours names, whatever its generation.

    Raises ``InvalidRefreshToken`` (401) when this server did not make the token or has forgotten its session.
    """
    parsed = refresh_token.parse(token)
    found = await database().read(session_rotation.session_of, parsed=parsed) if parsed is not None else None
    if found is None:
        raise InvalidRefreshToken
    await sign_out(session_id=found.id, user_id=found.account.id)


async def sign_out_everywhere(*, principal: Principal) -> None:
    """End every session of the caller, in one statement on the user's row."""
    await accounts.end_all_sessions(user_id=principal.id, session_id=principal.session_id)


async def change_password(
    *, principal: Principal, current_password: str, new_password: str, context: ClientContext
) -> TokenPair:
    """Set a new password, which ends every session, and open a new one for the caller, of the same client.

    Raises what ``accounts.change_password`` raises; ``SigningKeyMissing`` (503) and ``InvalidToken`` (401), when the
    caller's client has just been disabled, before anything is changed.
    """
    key = await key_store().signing()
    reopen = await _reopening(principal, context)
    account = await accounts.change_password(
        user_id=principal.id,
        session_id=principal.session_id,
        current_password=current_password,
        new_password=new_password,
        authenticated_at=principal.authenticated_at,
    )
    try:
        # A transaction: its BEGIN finds out whether the connection still lives, before anything is written. The
        # password is changed already, so this must not fail for a connection that died unused.
        grant = await database().write(reopen, account)
    except IntegrityError as error:
        if not refers_to_nothing(error):
            raise
        raise InvalidCredentials from error  # deleted meanwhile
    # Its user was read before everything of theirs was invalidated: not to be kept.
    return token_pair(grant, key, subject=principal.subject, jkt=principal.jkt)


async def _reopening(principal: Principal, context: ClientContext) -> Callable[[Account], OpenedSession]:
    """Return the unit of work that opens the session which replaces the caller's: as strong, as old, the same client's.

    An application's stays the application's, so that it ends with it: disabled, or taken back by its person. It stays
    with the sign-on session it began in, too, and ends with that. Raises ``InvalidToken`` (401) when client or session
    is gone.
    """
    # A password alone does not make the session newer than the one it replaces.
    amr, since = principal.amr, datetime.fromtimestamp(principal.authenticated_at, UTC)
    if principal.client_id == FIRST_PARTY_CLIENT:
        return lambda account: sessions.open_session(
            account=account, context=context, scope=principal.scope, amr=amr, authenticated_at=since
        )
    application = await clients.find(principal.client_id)
    if application is None:
        raise InvalidToken("client")
    present = await database().read(session_queries.find, principal.session_id)
    if present is None or present.is_over(clock.now()):
        raise InvalidToken("session")

    def reopen(account: Account) -> OpenedSession:
        bound_to = principal.jkt if application.is_public else ""  # as when it began: RFC 9449 §5
        consented = client_sessions.ConsentedAccess(account, principal.scope, since, amr, present.parent_id, bound_to)
        grant = client_sessions.open_client_session(client=application, consented=consented, context=context)
        if grant is None:  # its sign-on was ended while the password was hashed
            raise InvalidToken("sign-on")
        return grant

    return reopen


async def list_sessions(*, principal: Principal) -> list[SessionOut]:
    """Return the caller's live sessions, the most recently used first."""
    return await database().read(session_lists.of_user, user_id=principal.id, current_id=principal.session_id)


async def end_own_session(*, principal: Principal, session_id: UUID) -> None:
    """End one of the caller's sessions.

    Raises ``NotFound`` (404) when the caller has no such live session: another person's is not told apart.
    """
    ended = await database().write(
        sessions.end_own_session,
        session_id=session_id,
        user_id=principal.id,
        epoch=principal.epoch,
        from_session_id=principal.session_id,
    )
    if not ended:
        raise NotFound("You have no such session: see /api/v1/access/sessions for those you have.")
    log.info("session_ended", user_id=str(principal.id), session_id=str(session_id))


async def _opened(who: Authenticated, context: ClientContext, opener: SessionFactory) -> OpenedSession | None:
    """Return a new session's grant; None when the account is not what it was when the password was checked.

    Session, audit event and the reset of the account's counts are one transaction; where nothing is counted, session
    and event are one statement on PostgreSQL. A try whose session was not stored stays counted against the account.
    """
    alone = opener.only_inserts and not settings.IRONAUTH_NEW_DEVICE_MAIL and who.settle is None
    write = database().write_single_statement if alone else database().write

    def open_and_settle() -> OpenedSession | None:
        grant = sessions.open_authenticated(who=who, context=context, opener=opener)
        if grant is not None and who.settle is not None:  # last: many share its rows
            who.settle()
        return grant

    try:
        return await write(open_and_settle)
    except IntegrityError as error:
        if not refers_to_nothing(error):
            raise
        return None  # deleted in this very moment


def token_pair(
    grant: OpenedSession, key: ActiveKey, reading: ReadMark | None = None, *, subject: UUID | None = None, jkt: str = ""
) -> TokenPair:
    """Return the tokens of a grant; the access token never outlives the session.

    ``reading``: taken before the key was chosen and the grant's account and session were read; with it, this process
    knows the token already. ``subject``, ``jkt``: as in ``access_tokens.of_session``.
    """
    access = access_tokens.of_session(grant, key, reading, subject=subject, jkt=jkt)
    return TokenPair(
        access_token=access.text,
        token_type="DPoP" if jkt else "Bearer",
        expires_in=access.expires_in,
        refresh_token=grant.refresh_token,
        refresh_expires_in=int(grant.expires_at.timestamp()) - int(clock.unix()),
        session_id=grant.session_id,
    )
