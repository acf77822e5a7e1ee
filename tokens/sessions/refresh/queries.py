"""What a refresh token stands for, asked without changing anything: the session, whether it is good, and why not."""

import enum
from datetime import datetime, timedelta

from django.conf import settings

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.sessions import queries as session_queries
from tokens.sessions import refresh_token
from tokens.sessions import units as sessions
from tokens.sessions.acting import rules
from tokens.sessions.models import FIRST_PARTY_CLIENT
from tokens.sessions.queries import OpenedSession, StoredSession
from tokens.sessions.refresh_token import ParsedRefreshToken

log = get_logger()


class Outcome(enum.StrEnum):
    """What became of a refresh token that was presented."""

    ROTATED = "rotated"
    GRACE = "grace"  # the immediate predecessor, moments ago: the same successor once more
    REUSE = "reuse"  # an older generation, or the predecessor too late: the session has been revoked
    EXPIRED = "expired"
    REVOKED = "revoked"
    INACTIVE = "inactive"  # user deactivated, every session of the user ended, or who acts as them may no longer
    UNKNOWN = "unknown"  # no such session, or another client's
    WIDER = "wider"  # good, but the session has not every scope that was asked for
    NO_MEMBER = "no_member"  # good, but its person belongs to no such organization as was asked for
    TARGET = "target"  # good, but not for the APIs that were asked for, or those of the session have gone
    DETAILS = "details"  # good, but the session has not the authorization details that were asked for
    WRONG_KEY = "wrong_key"  # bound to a key that was not proved (RFC 9449 §5)
    FORGED = "forged"  # the session exists, but this server did not make the token


def usable(*, parsed: ParsedRefreshToken, grace_s: int = 0) -> StoredSession | None:
    """Return the session that a refresh token would be accepted for now, None for any other token. 1 query.

    Args:
        parsed: The token.
        grace_s: Seconds for which the predecessor of the newest token still works, where the setting says less.
    """
    session = session_queries.find(parsed.session_id)
    if session is None or refusal_of(session, parsed, session.client_id) is not None:
        return None
    is_current = parsed.generation == session.generation
    return session if is_current or in_grace(session, parsed, clock.now(), grace_s) else None


def kept(*, parsed: ParsedRefreshToken) -> OpenedSession | None:
    """Return the session of this service's own API that a refresh token is good for, and leave token and session alone.

    None for any other token. 1 query.
    """
    session = usable(parsed=parsed)
    if session is None or session.client_id != FIRST_PARTY_CLIENT or session.dpop_jkt:
        return None
    return as_it_is(session)


def as_it_is(session: StoredSession) -> OpenedSession:
    """Return what tokens of a session's present generation are made from."""
    return sessions.opened(session, session.account)


def moved_on(session: StoredSession, *, now: datetime) -> OpenedSession | None:
    """Move a session of this service's own API on by one refresh; None when another request was first. 1 query.

    Args:
        session: The session, as it was read.
        now: The time of the refresh.
    """
    moved = session_queries.advance(session, now=now, idle_end=sessions.idle_end(now, session.absolute_expires_at))
    return sessions.opened(moved, moved.account) if moved is not None else None


def session_of(*, parsed: ParsedRefreshToken) -> StoredSession | None:
    """Return the session a genuine refresh token names, of whatever generation and state. 1 query.

    None for any other token.
    """
    session = session_queries.find(parsed.session_id)
    return session if session is not None and _is_genuine(session, parsed) else None


def refusal_of(session: StoredSession | None, parsed: ParsedRefreshToken, client_id: str) -> Outcome | None:
    """Return why the token is not worth looking at further, None when it is.

    Args:
        session: The session that it names, as it was read; None where there is none.
        parsed: The token.
        client_id: The client that shows it.
    """
    if session is None or session.client_id != client_id:
        return Outcome.UNKNOWN
    if not _is_genuine(session, parsed):
        return Outcome.FORGED
    if session.revoked_at is not None:
        return Outcome.REVOKED
    if clock.now() >= session.idle_expires_at:
        return Outcome.EXPIRED
    return None if _goes_on(session) else Outcome.INACTIVE


def _goes_on(session: StoredSession) -> bool:
    """Return whether its person, and who acts as them if anybody does, may go on with it."""
    if not session.account.user.is_active or session.account.session_epoch != session.epoch:
        return False
    return session.actor_id is None or rules.actor_of(session) is not None


def _is_genuine(session: StoredSession, parsed: ParsedRefreshToken) -> bool:
    """Return whether this server made the token for this session; False when its master key is gone."""
    try:
        return refresh_token.is_genuine(parsed, secret=session.secret, master_key_id=session.master_key_id)
    except MasterKeyMissingError as error:
        log.error("session_master_key_missing", remedy=str(error))  # noqa: TRY400 - the reason is the message
        return False


def in_grace(session: StoredSession, parsed: ParsedRefreshToken, now: datetime, grace_s: int = 0) -> bool:
    """Return whether the token is the immediate predecessor of the current one, within the grace window.

    Args:
        session: The session that it names, as it was read.
        parsed: The token.
        now: The time at which it is shown.
        grace_s: Seconds, where the setting says less.
    """
    if parsed.generation != session.generation - 1 or session.rotated_at is None:
        return False
    return now < session.rotated_at + timedelta(seconds=max(settings.IRONAUTH_REFRESH_GRACE_S, grace_s))
