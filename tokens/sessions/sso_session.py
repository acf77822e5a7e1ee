"""Single sign-on: the session in which a person uses this provider's own pages, one for each browser and person.

Units of work on rows of ``Session`` whose client is ``SSO_CLIENT``. Such a session has no refresh token and no access
token. It answers authorization requests of clients, and ends in all the ways in which any session ends.

A browser is recognised by a cookie, ``base64url(session id ‖ HMAC-SHA-256(server key ‖ session secret, "sso" ‖ session
id))``: 48 bytes, 64 characters. As with refresh tokens, neither the database nor the settings alone make one. Unlike a
refresh token it renews nothing.
"""

import hmac
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.users import queries as user_queries
from accounts.users.outputs import Account
from ironauth.config import cookies as cookie_names
from ironauth.infrastructure.core import base64url, clock
from ironauth.infrastructure.crypto.master_keys import (
    MasterKeyMissingError,
    mac,
    newest_master_key_id,
    register_purpose,
)
from ironauth.infrastructure.db.unit_of_work import about_to_commit
from ironauth.infrastructure.http import cookies
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.sessions import queries as session_queries
from tokens.sessions import units as sessions
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.sessions.queries import LAST_USE_STEP, NewSession, OpenedSession, StoredSession

_PURPOSE: Final = register_purpose("ironauth sign-on")
ID_BYTES: Final = 16
CHARACTERS: Final = 64  # 48 bytes * 4 / 3: no padding
#: SSO sessions that a browser keeps at most, each of another person: the current one, and the others.
MOST_IN_BROWSER: Final = 5
SEPARATOR: Final = "."  # between those of the second cookie; of no base64url

log = get_logger()


class SsoCookie(NamedTuple):
    """A cookie taken apart; nothing is verified yet."""

    session_id: UUID
    mac: bytes

    @property
    def text(self) -> str:
        """What the cookie says."""
        return base64url.encode(self.session_id.bytes + self.mac)


def cookie_name() -> str:
    """Return the cookie's name."""
    return cookies.name_of(cookie_names.SSO)


def mint_cookie(*, session_id: UUID, secret: bytes, master_key_id: str) -> str:
    """Return what the cookie says.

    Args:
        session_id: The SSO session, which stands in the cookie in clear.
        secret: The session's random bytes.
        master_key_id: The master key that the session was opened under.

    Raises:
        MasterKeyMissingError: the session's master key is gone.
    """
    return base64url.encode(session_id.bytes + _mac(session_id, secret, master_key_id))


def read_cookie(request: HttpRequest | Request) -> SsoCookie | None:
    """Return the request's cookie, None without one of this form."""
    return parse_cookie(request.COOKIES.get(cookie_name(), ""))


def read_others(request: HttpRequest | Request) -> tuple[SsoCookie, ...]:
    """Return what the request's second cookie names: the other SSO sessions of this browser, the last used first.

    What has another form is left out, and so is what is beyond the bound.
    """
    text = request.COOKIES.get(cookies.name_of(cookie_names.SSO_OTHERS), "")
    if not text or len(text) > MOST_IN_BROWSER * (CHARACTERS + 1):
        return ()
    found = [cookie for part in text.split(SEPARATOR) if (cookie := parse_cookie(part)) is not None]
    return tuple(found[: MOST_IN_BROWSER - (cookie_name() in request.COOKIES)])


def parse_cookie(text: str) -> SsoCookie | None:
    """Return the parts of what a cookie says, None for any other text."""
    raw = base64url.decode(text, CHARACTERS)
    return None if raw is None else SsoCookie(UUID(bytes=raw[:ID_BYTES]), raw[ID_BYTES:])


def is_genuine(cookie: SsoCookie, *, secret: bytes, master_key_id: str) -> bool:
    """Return whether this server made the cookie for the session with this ``secret``; False when its key is gone.

    Args:
        cookie: The cookie's parts, not yet judged.
        secret: The random bytes of the session that it names.
        master_key_id: The master key that the session was opened under.
    """
    try:
        return hmac.compare_digest(cookie.mac, _mac(cookie.session_id, secret, master_key_id))
    except MasterKeyMissingError as error:
        log.error("session_master_key_missing", remedy=str(error))  # noqa: TRY400 - the reason is the message
        return False


def give_cookie(response: HttpResponse, value: str, *, max_age_s: int) -> None:
    """Let the browser bring ``value`` from now on; Lax, because clients send people here from their own sites.

    Args:
        response: The response that sets it.
        value: What ``mint_cookie`` returned.
        max_age_s: Seconds that the browser keeps it.
    """
    cookies.give(response, cookie_names.SSO, value, max_age_s=max_age_s)


def clear_cookie(response: HttpResponse) -> None:
    """Make the browser forget it."""
    give_cookie(response, "", max_age_s=0)


def _mac(session_id: UUID, secret: bytes, master_key_id: str) -> bytes:
    return mac(_PURPOSE, b"sso" + session_id.bytes, master_key_id, secret=secret)


def find(cookie: SsoCookie) -> StoredSession | None:
    """Return the live session of a genuine cookie, whose person may still sign in; None for any other. 1 query."""
    session = find_to_end(cookie)
    return session if session is not None and signs_in(session) else None


def signs_in(session: StoredSession) -> bool:
    """Return whether the session, as it was read, signs its person in: not after they have a new password."""
    return session.account.user.is_active and session.account.session_epoch == session.epoch


def hold(session: StoredSession) -> bool:
    """Lock the session's person until the commit; return whether the session still signs them in. 1 query.

    Call it before storing what outlives the session. Without the lock, a consent given while the owner of an address
    proves it would be stored after the older consents were removed.
    """
    user = user_queries.lock(session.account.id)
    return user is not None and user.is_active and user.session_epoch == session.epoch


def find_to_end(cookie: SsoCookie) -> StoredSession | None:
    """Return the session of a genuine cookie unless it was revoked or has expired. 1 query.

    It may sign nobody in any more, because its person has a new password. But the client's session in which they set it
    still depends on this one, and ends with it.
    """
    session = _alive(cookie.session_id)
    if session is None:
        return None
    genuine = is_genuine(cookie, secret=session.secret, master_key_id=session.master_key_id)
    return session if genuine else None


def opened_just_now(session_id: UUID) -> tuple[SsoCookie, StoredSession] | None:
    """Return a session and its cookie, for the browser that opened it and may have dropped the answer. 1 query.

    None where it does not sign its person in any more.

    Args:
        session_id: What the note of that request says.
    """
    session = _alive(session_id)
    if session is None or not signs_in(session):
        return None
    try:
        return SsoCookie(session.id, _mac(session.id, session.secret, session.master_key_id)), session
    except MasterKeyMissingError:
        return None


def _alive(session_id: UUID) -> StoredSession | None:
    session = session_queries.find(session_id)
    if session is None or session.client_id != SSO_CLIENT or session.is_over(clock.now()):
        return None
    return session if session.actor_id is None else None  # who acts as somebody gets no codes: there is no such row


def touch(session: StoredSession) -> None:
    """Note that the session is being used, which moves its idle end: 1 query a minute, none in between."""
    now = clock.now()
    if now - session.last_used_at >= LAST_USE_STEP:
        about_to_commit()
        Session.objects.filter(pk=session.id, revoked_at=None).update(
            last_used_at=now,
            idle_expires_at=sessions.idle_end(now, session.absolute_expires_at, settings.IRONAUTH_SSO_IDLE_S),
        )


def end(*, session_id: UUID, user_id: UUID) -> bool:
    """End an SSO session as its person asks, with what began in it; False when it was over before. 4 queries.

    Up to 3 more where clients have sessions in it: those without ``offline_access`` end, and clients that want to hear
    of it are told. The audit trail records that its person signed out.

    Args:
        session_id: The SSO session.
        user_id: Its person.
    """
    if not sessions.end_session(session_id=session_id, reason=Session.RevokeReason.SIGNED_OUT):
        return False
    audit.record(Event.SIGN_OUT, actor_id=user_id, user_id=user_id, session_id=session_id)
    return True


def store(
    *,
    account: Account,
    context: ClientContext,
    amr: str,
    authenticated_at: datetime,
    previous: StoredSession | None = None,
    until: datetime | None = None,
) -> OpenedSession:
    """Store the browser's SSO session from now on, and return what its cookie is made from.

    Nothing a browser brought counts any more (ASVS 7.2.4). A person who signs in again stays in their session, under
    another secret, so that ``sid`` means to clients what it meant before; somebody else's session ends. 1 query, 2 for
    the first session in a browser somebody else was signed in with, and what ending that takes.

    Args:
        account: Whose session it is.
        context: Where the sign-in comes from.
        amr: How the person proved who they are (RFC 8176).
        authenticated_at: When they did.
        previous: The session that the browser's cookie named until now.
        until: When it ends at the latest; None: as long after now as the settings say.

    Returns:
        The opened session: its ``refresh_token`` is the cookie's value, ``stored`` the row.
    """
    now = clock.now()
    absolute = now + timedelta(seconds=settings.IRONAUTH_SSO_ABSOLUTE_S)
    if until is not None:
        absolute = min(absolute, until)
    session = NewSession(
        user_id=account.id,
        master_key_id=newest_master_key_id(),
        client_id=SSO_CLIENT,
        scope="",
        epoch=account.session_epoch,
        created_at=now,
        authenticated_at=authenticated_at,
        amr=amr,
        last_used_at=now,
        idle_expires_at=sessions.idle_end(now, absolute, settings.IRONAUTH_SSO_IDLE_S),
        absolute_expires_at=absolute,
        ip=context.address or None,
        user_agent=context.user_agent,
    )
    if previous is not None and previous.account.id == account.id and _renewed(previous.id, session):
        session.id = previous.id
    else:
        if previous is not None:
            end(session_id=previous.id, user_id=previous.account.id)
        session_queries.add(session)
    return OpenedSession(
        session_id=session.id,
        account=account,
        client_id=SSO_CLIENT,
        scope="",
        refresh_token=mint_cookie(session_id=session.id, secret=session.secret, master_key_id=session.master_key_id),
        expires_at=absolute,
        authenticated_at=authenticated_at,
        amr=amr,
        stored=session_queries.as_read(session, account),
    )


def _renewed(session_id: UUID, renewal: NewSession) -> bool:
    """Give a live session of the same person and epoch all that a new one would have; return whether there is one.

    What it goes on from stays. The secret is new, so a copy of the cookie is worth nothing. But what somebody opened
    with that copy before, for a client, is still there, and has to end when a copy of the first token is found out.
    """
    same = ("user_id", "client_id", "epoch")
    changed = (
        "secret", "master_key_id", "authenticated_at", "amr", "last_used_at", "idle_expires_at",
        "absolute_expires_at", "ip", "user_agent",
    )  # fmt: skip
    alive = Session.objects.filter(pk=session_id, revoked_at=None, idle_expires_at__gt=renewal.last_used_at)
    matching = alive.filter(**{name: getattr(renewal, name) for name in same})
    return matching.update(**{name: getattr(renewal, name) for name in changed}) > 0
