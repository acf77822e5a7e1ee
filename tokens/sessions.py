"""Units of work on sessions: open, rotate, look up, end. Synchronous, run by the database pool.

Every outcome is a return value, also the bad ones: a unit that raised would roll back the revocation that a reused
refresh token calls for (security-bar finding 11). The service raises after the commit.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction

from accounts import audit
from accounts.audit import Event
from accounts.outputs import Account, Authenticated
from accounts.services import account_snapshot
from ironauth.infrastructure import clock
from ironauth.infrastructure.logs import get_logger
from ironauth.infrastructure.master_keys import MasterKeyMissingError, newest_master_key_id
from ironauth.infrastructure.origin import Origin
from tokens import known_devices, refresh_token, stored_session
from tokens.models import BY_PASSWORD, FIRST_PARTY_CLIENT, FIRST_PARTY_SCOPE, Session
from tokens.oauth import sign_on_ends
from tokens.refresh_token import ParsedRefreshToken
from tokens.stored_session import LiveSession, StoredSession

#: Sessions in one list; who has more, a script that never signs out, ends them all at once.
MOST_LISTED: Final = 1_000

log = get_logger()


class Outcome(enum.StrEnum):
    """What became of a refresh token that was presented."""

    ROTATED = "rotated"
    GRACE = "grace"  # the immediate predecessor, moments ago: the same successor once more
    REUSE = "reuse"  # an older generation, or the predecessor too late: the session has been revoked
    EXPIRED = "expired"
    REVOKED = "revoked"
    INACTIVE = "inactive"  # user deactivated, or every session of the user ended
    UNKNOWN = "unknown"  # no such session, or another client's
    FORGED = "forged"  # the session exists, but this server did not make the token


#: Outcomes after which the session the token names is over.
SESSION_OVER = frozenset({Outcome.REUSE, Outcome.EXPIRED, Outcome.REVOKED, Outcome.INACTIVE})


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """Where a session is opened from, as its owner will see it in the list; ``ip`` empty when unknown.

    ``device``: what the browser's device cookie says; ``new_device``: what it will say after this sign-in. Of these
    two nothing but MACs is stored.
    """

    ip: str = ""
    user_agent: str = ""
    device: str = ""
    new_device: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """All a token pair is made from. ``expires_at``: when the session ends unless it is refreshed."""

    session_id: UUID
    account: Account
    client_id: str
    scope: str
    refresh_token: str
    expires_at: datetime
    authenticated_at: datetime
    amr: str


@dataclass(frozen=True, slots=True)
class Rotation:
    """The outcome of a refresh; ``grant`` exactly when it is ROTATED or GRACE."""

    outcome: Outcome
    grant: Grant | None = None


def open_session(
    *,
    account: Account,
    client: ClientInfo,
    scope: str = FIRST_PARTY_SCOPE,
    amr: str = BY_PASSWORD,
    authenticated_at: datetime | None = None,
) -> Grant:
    """Store a new session of the account and return what its first tokens are made from. 1 query.

    ``amr``, ``authenticated_at``: how the person proved who they are, and when; None: just now.

    The session carries the epoch the password was checked under: if that has been raised meanwhile, it is born dead.
    Raises ``IntegrityError`` when the user was deleted meanwhile.
    """
    now = clock.now()
    absolute = now + timedelta(seconds=settings.IRONAUTH_SESSION_ABSOLUTE_S)
    idle_end = _idle_end(now, absolute)
    session = Session(
        user_id=account.id,
        master_key_id=newest_master_key_id(),
        client_id=FIRST_PARTY_CLIENT,
        scope=scope,
        epoch=account.session_epoch,
        created_at=now,
        authenticated_at=authenticated_at or now,
        amr=amr,
        last_used_at=now,
        idle_expires_at=idle_end,
        absolute_expires_at=absolute,
        ip=client.ip or None,
        user_agent=client.user_agent,
    )
    stored_session.add(session)
    token = refresh_token.mint(
        session_id=session.pk, generation=0, secret=bytes(session.secret), master_key_id=session.master_key_id
    )
    return Grant(
        session.pk, account, session.client_id, session.scope, token, idle_end, session.authenticated_at, session.amr
    )


type Opener = Callable[..., Grant]  # ``open_session``, and ``sign_on.open_session`` for single sign-on


def open_authenticated(
    *, who: Authenticated, client: ClientInfo, amr: str = BY_PASSWORD, opener: Opener = open_session
) -> Grant | None:
    """Store a new session for a person who has just proved who they are, and that they signed in. 3 queries.

    With IRONAUTH_NEW_DEVICE_MAIL what ``known_devices.note`` takes besides: one, for a device seen today.
    None when the person was deleted or deactivated, the password changed, or all sessions were ended, meanwhile. Raises
    ``IntegrityError`` when they were deleted between the two queries.
    """
    account = account_snapshot(who.id)
    if account is None or not account.user.is_active or account.session_epoch != who.session_epoch:
        return None
    grant = opener(account=account, client=client, amr=amr)
    audit.record(Event.SIGN_IN, actor_id=account.id, user_id=account.id, session_id=grant.session_id)
    if settings.IRONAUTH_NEW_DEVICE_MAIL:
        whence = Origin(address=client.ip, user_agent=client.user_agent, device=client.device)
        known_devices.note(account=account, whence=whence, new_device=client.new_device)
    return grant


def rotate(*, parsed: ParsedRefreshToken, client_id: str = FIRST_PARTY_CLIENT) -> Rotation:
    """Exchange a refresh token: advance the session by one generation, or say why not.

    Needs no transaction: the update names the generation that was read, so it takes effect once or not at all. A
    deactivation committed between the two leaves one pair of tokens of the old epoch, which nothing here accepts.
    2 queries (session with user and roles, update); one more when another refresh of the same token won the race.
    """
    session = stored_session.find(parsed.session_id)
    rotation = _rotate(session, parsed, client_id)
    if rotation is None:  # lost the race between SELECT and UPDATE: what the winner wrote decides
        session = stored_session.find(parsed.session_id)
        rotation = _rotate(session, parsed, client_id) or Rotation(Outcome.REVOKED)
    return rotation


def _rotate(session: StoredSession | None, parsed: ParsedRefreshToken, client_id: str) -> Rotation | None:
    """Return the outcome for the session as it was read; None when it was changed since."""
    refusal = _refusal(session, parsed, client_id)
    if refusal is not None or session is None:
        return Rotation(refusal or Outcome.UNKNOWN)
    if not session.account.user.is_active or session.account.session_epoch != session.epoch:
        return Rotation(Outcome.INACTIVE)
    now = clock.now()
    if parsed.generation == session.generation:
        advanced = stored_session.advance(session, now=now, idle_end=_idle_end(now, session.absolute_expires_at))
        return None if advanced is None else Rotation(Outcome.ROTATED, _grant(advanced))
    if _in_grace(session, parsed, now):
        return Rotation(Outcome.GRACE, _grant(session))
    with transaction.atomic():
        if end_session(session_id=session.id, reason=Session.RevokeReason.REUSE):
            audit.record(
                Event.REFRESH_REUSE, outcome=audit.Outcome.REFUSED, user_id=session.account.id, session_id=session.id
            )
    return Rotation(Outcome.REUSE)


def _refusal(session: StoredSession | None, parsed: ParsedRefreshToken, client_id: str) -> Outcome | None:
    """Return why the token is not worth looking at further, None when it is."""
    if session is None or session.client_id != client_id:
        return Outcome.UNKNOWN
    if not _is_genuine(session, parsed):
        return Outcome.FORGED
    if session.revoked_at is not None:
        return Outcome.REVOKED
    if clock.now() >= session.idle_expires_at:
        return Outcome.EXPIRED
    return None


def _is_genuine(session: StoredSession, parsed: ParsedRefreshToken) -> bool:
    """Return whether this server made the token for this session; False when its master key is gone."""
    try:
        return refresh_token.is_genuine(parsed, secret=session.secret, master_key_id=session.master_key_id)
    except MasterKeyMissingError as error:
        log.error("session_master_key_missing", remedy=str(error))  # noqa: TRY400 - the reason is the message
        return False


def _in_grace(session: StoredSession, parsed: ParsedRefreshToken, now: datetime) -> bool:
    """Return whether the token is the immediate predecessor of the current one, within the grace window."""
    if parsed.generation != session.generation - 1 or session.rotated_at is None:
        return False
    return now < session.rotated_at + timedelta(seconds=settings.IRONAUTH_REFRESH_GRACE_S)


def _grant(session: StoredSession) -> Grant:
    """Return what tokens of the session's present generation are made from."""
    token = refresh_token.mint(
        session_id=session.id,
        generation=session.generation,
        secret=session.secret,
        master_key_id=session.master_key_id,
    )
    return Grant(
        session.id,
        session.account,
        session.client_id,
        session.scope,
        token,
        session.idle_expires_at,
        session.authenticated_at,
        session.amr,
    )


def _idle_end(now: datetime, absolute: datetime) -> datetime:
    """Return when a session used at ``now`` ends unless used again; never past its absolute end."""
    return min(now + timedelta(seconds=settings.IRONAUTH_SESSION_IDLE_S), absolute)


def live_account(*, session_id: UUID, user_id: UUID, epoch: int) -> LiveSession | None:
    """Return the account behind a token, and what its session says, while that lives, None otherwise. 1 query."""
    live = stored_session.find_live(session_id=session_id, user_id=user_id, epoch=epoch, now=clock.now())
    if live is None or not live.account.user.is_active or live.account.session_epoch != epoch:
        return None
    return live


def session_of(*, parsed: ParsedRefreshToken) -> tuple[UUID, UUID] | None:
    """Return the session a genuine refresh token names, of whatever generation and state, and its user. 1 query.

    None for any other token.
    """
    session = stored_session.find(parsed.session_id)
    return (session.id, session.account.id) if session is not None and _is_genuine(session, parsed) else None


def sign_out(*, session_id: UUID, user_id: UUID) -> None:
    """Revoke a session whose user, or holder of its refresh token, has done with it. 4 queries, 1 when it is over."""
    if end_session(session_id=session_id, reason=Session.RevokeReason.SIGNED_OUT):
        audit.record(Event.SIGN_OUT, actor_id=user_id, user_id=user_id, session_id=session_id)


def end_own_session(*, session_id: UUID, user_id: UUID, epoch: int, from_session_id: UUID) -> bool:
    """Revoke one of a person's sessions from another; False when there is no such live session. 4 queries, or 1."""
    ended = stored_session.end_own(session_id, user_id=user_id, epoch=epoch, now=clock.now())
    if ended:
        sign_on_ends.follow(session_id)
        details = {"from_session": str(from_session_id)}
        audit.record(Event.SESSION_ENDED, actor_id=user_id, user_id=user_id, session_id=session_id, details=details)
    return ended


def end_session(*, session_id: UUID, reason: Session.RevokeReason) -> bool:
    """Revoke one session, and publish it; False when there is none, or it was revoked before. 3 queries.

    What began in a sign-on session ends with it.
    """
    ended = stored_session.end(session_id, reason=reason, now=clock.now())
    if ended:
        sign_on_ends.follow(session_id)
    return ended


def end_sessions(*, session_ids: Sequence[UUID], reason: Session.RevokeReason) -> int:
    """Revoke sessions with one statement and publish it; return how many were not revoked before. 3 queries."""
    ended = Session.objects.filter(pk__in=session_ids).revoke(reason, clock.now())
    if ended:
        sign_on_ends.follow(*session_ids)
    return ended


def live_sessions(*, user_id: UUID) -> list[Session]:
    """Return the user's live sessions, the ``MOST_LISTED`` most recently used first. 1 query."""
    live = Session.objects.filter(user_id=user_id).live(clock.now()).order_by("-last_used_at", "-id")
    return list(live.defer("secret")[:MOST_LISTED])
