"""Units of work on sessions: open, look up, end. Synchronous, run by the database pool."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.users.outputs import Account
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto.master_keys import newest_master_key_id
from ironauth.infrastructure.db.batch import batch
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.sessions import queries as session_queries
from tokens.sessions import refresh_token, sso_logout
from tokens.sessions.models import BY_PASSWORD, FIRST_PARTY_CLIENT, FIRST_PARTY_SCOPE, Session
from tokens.sessions.queries import LiveSession, NewSession, StoredSession

#: Sessions in one list; who has more, a script that never signs out, ends them all at once.
MOST_LISTED: Final = 1_000


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """All a token pair is made from. ``expires_at``: when the session ends unless it is refreshed.

    ``parent_id``: the SSO session it began in, if any. ``stored``: for an SSO session, the row as it will be read.
    """

    session_id: UUID
    account: Account
    client_id: str
    scope: str
    refresh_token: str
    expires_at: datetime
    authenticated_at: datetime
    amr: str
    parent_id: UUID | None = None
    stored: StoredSession | None = None


def store_first_party(
    *,
    account: Account,
    context: ClientContext,
    scope: str = FIRST_PARTY_SCOPE,
    amr: str = BY_PASSWORD,
    authenticated_at: datetime | None = None,
) -> OpenedSession:
    """Store a new session of the account and return what its first tokens are made from. 1 query.

    ``amr``, ``authenticated_at``: how the person proved who they are, and when; None: just now.

    The session carries the epoch the password was checked under: if that has been raised meanwhile, it is born dead.
    Raises ``IntegrityError`` when the user was deleted meanwhile.
    """
    now = clock.now()
    absolute = now + timedelta(seconds=settings.IRONAUTH_SESSION_ABSOLUTE_S)
    session = NewSession(
        user_id=account.id,
        master_key_id=newest_master_key_id(),
        client_id=FIRST_PARTY_CLIENT,
        scope=scope,
        epoch=account.session_epoch,
        created_at=now,
        authenticated_at=authenticated_at or now,
        amr=amr,
        last_used_at=now,
        idle_expires_at=idle_end(now, absolute),
        absolute_expires_at=absolute,
        ip=context.address or None,
        user_agent=context.user_agent,
    )
    return store(session, account)


def store(session: NewSession, account: Account) -> OpenedSession:
    """Store a new session of the account and return what its first tokens are made from. 1 query.

    Raises ``IntegrityError`` when the user was deleted meanwhile.
    """
    session_queries.add(session)
    token = refresh_token.mint(
        session_id=session.id, generation=0, secret=session.secret, master_key_id=session.master_key_id
    )
    return OpenedSession(
        session_id=session.id,
        account=account,
        client_id=session.client_id,
        scope=session.scope,
        refresh_token=token,
        expires_at=session.idle_expires_at,
        authenticated_at=session.authenticated_at,
        amr=session.amr,
        parent_id=session.parent_id,
    )


def idle_end(now: datetime, absolute: datetime, idle_s: int | None = None) -> datetime:
    """Return when a session used at ``now`` ends unless used again; never past its absolute end.

    ``idle_s``: seconds, where its client has a limit of its own.
    """
    return min(now + timedelta(seconds=settings.IRONAUTH_SESSION_IDLE_S if idle_s is None else idle_s), absolute)


def live_account(*, session_id: UUID, user_id: UUID, epoch: int) -> LiveSession | None:
    """Return the account behind a token, and what its session says, while that lives, None otherwise. 1 query."""
    live = session_queries.find_live(session_id=session_id, user_id=user_id, epoch=epoch, now=clock.now())
    if live is None or not live.account.user.is_active or live.account.session_epoch != epoch:
        return None
    return live


def sign_out(*, session_id: UUID, user_id: UUID) -> None:
    """Revoke a session whose user, or holder of its refresh token, has done with it. 4 queries, 1 when it is over.

    3 on PostgreSQL, here and below, where all that is inserted is one.
    """
    with batch():
        if end_session(session_id=session_id, reason=Session.RevokeReason.SIGNED_OUT):
            audit.record(Event.SIGN_OUT, actor_id=user_id, user_id=user_id, session_id=session_id)


def end_own_session(*, session_id: UUID, user_id: UUID, epoch: int, from_session_id: UUID) -> bool:
    """Revoke one of a person's sessions from another; False when there is no such live session. 4 queries, or 1."""
    ended = session_queries.end_own(session_id, user_id=user_id, epoch=epoch, now=clock.now())
    if ended:
        details = {"from_session": str(from_session_id)}
        with batch():
            sso_logout.cascade(session_id)
            audit.record(Event.SESSION_ENDED, actor_id=user_id, user_id=user_id, session_id=session_id, details=details)
    return ended


def end_session(*, session_id: UUID, reason: Session.RevokeReason) -> bool:
    """Revoke one session, and publish it; False when there is none, or it was revoked before. 3 queries.

    What began in a sign-on session ends with it.
    """
    ended = session_queries.end(session_id, reason=reason, now=clock.now())
    if ended:
        sso_logout.cascade(session_id)
    return ended


def end_sessions(*, session_ids: Sequence[UUID], reason: Session.RevokeReason) -> int:
    """Revoke sessions with one statement and publish it; return how many were not revoked before. 3 queries."""
    ended = Session.objects.filter(pk__in=session_ids).revoke(reason, clock.now())
    if ended:
        sso_logout.cascade(*session_ids)
    return ended


def live_sessions(*, user_id: UUID) -> list[Session]:
    """Return the user's live sessions, the ``MOST_LISTED`` most recently used first. 1 query."""
    live = Session.objects.filter(user_id=user_id).live(clock.now()).order_by("-last_used_at", "-id")
    return list(live.defer("secret")[:MOST_LISTED])
