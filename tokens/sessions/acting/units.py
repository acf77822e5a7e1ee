"""A member of staff signed in as a person, for support: a session of the person's that has an actor.

Units of work, synchronous. Such a session is of this server's own API, lasts ``rules.ACTING_S`` whatever is refreshed,
and ends when its member of staff may no longer do so. Its tokens are in no cache: each use comes here. What it may do
is for ``authentication`` to say: to look, where a view has declared itself open.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings

from accounts.access.rights import target_of
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.users import queries as user_queries
from accounts.users.outputs import ActingOut
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.crypto.master_keys import newest_master_key_id
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.sessions import queries as session_queries
from tokens.sessions import units as sessions
from tokens.sessions.acting import rules
from tokens.sessions.models import FIRST_PARTY_CLIENT, FIRST_PARTY_SCOPE, LONG_AGO, Session
from tokens.sessions.queries import LiveSession, NewSession, OpenedSession

#: How such a session was authenticated (RFC 8176): by another person's word.
BY_STAFF: Final = "staff"


class Look(NamedTuple):
    """A live session with an actor; ``by`` is None when that actor may no longer act."""

    live: LiveSession
    by: ActingOut | None


def begin(*, actor_id: UUID, user_id: UUID, reason: str, context: ClientContext, until: datetime) -> OpenedSession:
    """Open a session of a person for a member of staff, and end those this one has open. About 14 queries.

    Args:
        actor_id: The member of staff.
        user_id: The person.
        reason: Why; both trails keep it.
        context: Where the request comes from.
        until: When the session they ask from ends at the latest.

    Raises:
        NotFound: There is no such person, or signing in as somebody is switched off.
        PermissionDenied: They lack the permission, or a right of the person; it is themselves; the account is inactive.
        NotAuthenticated: The caller's account is gone or inactive.
    """
    if not settings.IRONAUTH_SIGN_IN_AS:
        raise NotFound
    rights, target = target_of(actor_id, user_id, rules.PERMISSION)
    actor, account = user_queries.find(actor_id), user_queries.account_snapshot(user_id)
    if target is None or account is None or actor is None:
        raise NotFound
    rules.refuse(rights, actor, target)
    end_all_of(actor_id)
    now = clock.now()
    end = min(now + timedelta(seconds=rules.ACTING_S), until)
    session = NewSession(
        user_id=user_id,
        master_key_id=newest_master_key_id(),
        client_id=FIRST_PARTY_CLIENT,
        scope=FIRST_PARTY_SCOPE,
        epoch=account.session_epoch,
        created_at=now,
        authenticated_at=LONG_AGO,  # nothing here is a proof of the person
        amr=BY_STAFF,
        last_used_at=now,
        idle_expires_at=end,
        absolute_expires_at=end,
        ip=context.address or None,
        user_agent=context.user_agent,
        actor_id=actor_id,
        actor_epoch=actor.session_epoch,
    )
    opened = sessions.store(session, account)
    details = {"reason": reason, "until": end.isoformat(timespec="seconds")}
    audit.record(Event.SIGN_IN_AS, actor_id=actor_id, user_id=user_id, session_id=session.id, details=details)
    return opened


def look(*, session_id: UUID, user_id: UUID, epoch: int) -> Look | None:
    """Return a live session with an actor, and the member of staff who acts while they may. 6 queries at most.

    Args:
        session_id: The ``sid`` of a token.
        user_id: The person of the token.
        epoch: The epoch of the token.

    Returns:
        None when it is over, or has no actor.
    """
    live = session_queries.find_live(session_id=session_id, user_id=user_id, epoch=epoch, now=clock.now())
    if live is None or live.actor_id is None:
        return None
    if not live.account.user.is_active or live.account.session_epoch != epoch:
        return None
    return Look(live, rules.actor_of(live))


def lose(*, session_id: UUID, user_id: UUID, actor_id: UUID | None) -> None:
    """End a session whose actor may no longer act, for good, and record it. 4 queries, 1 when it is over.

    Args:
        session_id: The session.
        user_id: Its person.
        actor_id: Its actor.
    """
    if sessions.end_session(session_id=session_id, reason=Session.RevokeReason.ENDED_BY_STAFF):
        details = {"reason": "no_longer_allowed"}
        audit.record(Event.SIGN_IN_AS_ENDED, actor_id=actor_id, user_id=user_id, session_id=session_id, details=details)


def end_all_of(actor_id: UUID) -> None:
    """End the sessions in which a member of staff acts as somebody, and record each. 1 query where there is none."""
    live = Session.objects.filter(actor_id=actor_id, revoked_at=None, idle_expires_at__gt=clock.now())
    for user_id, session_id in list(live.order_by().values_list("user_id", "pk")):
        sessions.sign_out(session_id=session_id, user_id=user_id, actor_id=actor_id)
