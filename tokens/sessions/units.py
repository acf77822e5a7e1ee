"""Units of work on sessions: open, look up, list, end. Synchronous, run by the database pool.

A person has a limited number of sessions: opening another one ends the longest unused. Signing in with the right
password costs nothing, and lists, counts and purges walk through the row of every session. Sessions that several
requests open at the same moment may exceed the limit by a few; the next one ends those.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import models, transaction
from django.db.models import Count, OuterRef, Subquery

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.lockout.rate_limits import mac
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.users.outputs import Account
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotAuthenticated
from ironauth.infrastructure.crypto.master_keys import newest_master_key_id
from ironauth.infrastructure.db.compiled import CompiledSelect, Param
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.sessions import ending, refresh_token
from tokens.sessions import queries as session_queries
from tokens.sessions.models import BY_PASSWORD, FIRST_PARTY_CLIENT, FIRST_PARTY_SCOPE, Session
from tokens.sessions.organizations import queries as organizations
from tokens.sessions.queries import NewSession, OpenedSession, StoredSession

#: Stored with each of them in the trail.
TOO_MANY_DETAILS: Final = {"reason": Session.RevokeReason.TOO_MANY.value}
#: Sessions that end for a new one, at most. More are due after the limit was lowered; then each sign-in ends so many.
MOST_ENDED_AT_ONCE: Final = 100


class _Held(NamedTuple):
    """What decides which session ends."""

    id: UUID
    client_id: str
    epoch: int
    idle_expires_at: datetime
    ended_with_all_at: datetime | None

    def is_over(self, account: Account, now: datetime) -> bool:
        return self.epoch != account.session_epoch or self.idle_expires_at <= now


def _held_by(user_id: UUID | Param) -> "models.QuerySet[Session, tuple[int]]":
    """Return how many sessions of a person nothing has ended, dead ones of an earlier epoch among them; one row."""
    mine = Session.objects.filter(user_id=user_id, revoked_at=None).order_by()
    return mine.values("user_id").annotate(held=Count("*")).values_list("held")


_USER: Final = Param("user_id", models.UUIDField())
_HELD: Final = CompiledSelect(lambda: _held_by(_USER))
_ALL: Final = CompiledSelect(
    lambda: (
        Session.objects.filter(user_id=_USER, revoked_at=None)
        .with_all_end()
        .order_by("last_used_at", "pk")
        .values_list(*_Held._fields)
    )
)


def store_first_party(
    *,
    account: Account,
    context: ClientContext,
    scope: str = FIRST_PARTY_SCOPE,
    amr: str = BY_PASSWORD,
    authenticated_at: datetime | None = None,
    parent_id: UUID | None = None,
    until: datetime | None = None,
) -> OpenedSession:
    """Store a new session of the account and return what its first tokens are made from. 1 query.

    The session carries the epoch the password was checked under: if that has been raised meanwhile, it is born dead.

    Args:
        account: Whose it is.
        context: Where the sign-in comes from.
        scope: What its tokens may do.
        amr: How the person proved who they are (RFC 8176).
        authenticated_at: When they did; None: just now.
        parent_id: The SSO session it begins in, if any.
        until: When it ends at the latest; None: as long after now as the settings say.

    Raises:
        IntegrityError: the user was deleted meanwhile.
    """
    now = clock.now()
    absolute = now + timedelta(seconds=settings.IRONAUTH_SESSION_ABSOLUTE_S)
    if until is not None:
        absolute = min(absolute, until)
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
        parent_id=parent_id,
        browser=browser_mac(context.browser),
    )
    return store(session, account)


def browser_mac(browser: str) -> str:
    """Return what is stored of what our pages know a browser by; "" of nothing. A new SECRET_KEY makes all others."""
    return mac("session browser", browser) if browser else ""


def store(session: NewSession, account: Account) -> OpenedSession:
    """Store a new session of the account and return what its first tokens are made from. 1 query.

    Args:
        session: The session, complete.
        account: Whose session it is.

    Raises:
        IntegrityError: the user was deleted meanwhile.
    """
    session_queries.add(session)
    return opened(session, account)


def opened(session: NewSession | StoredSession, account: Account) -> OpenedSession:
    """Return what tokens of the session's present generation are made from. No query, 1 with an organization.

    Args:
        session: The session as it is stored now.
        account: Whose session it is.
    """
    token = refresh_token.mint(
        session_id=session.id,
        generation=session.generation,
        secret=session.secret,
        master_key_id=session.master_key_id,
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
        actor_id=session.actor_id,
        resources=session.resources,
        organization=organizations.of_session(session) if session.organization_id is not None else None,
    )


def idle_end(now: datetime, absolute: datetime, idle_s: int | None = None) -> datetime:
    """Return when a session used at ``now`` ends unless used again; never past its absolute end.

    Args:
        now: When it is used.
        absolute: Its absolute end.
        idle_s: Seconds, where its client has a limit of its own.
    """
    return min(now + timedelta(seconds=settings.IRONAUTH_SESSION_IDLE_S if idle_s is None else idle_s), absolute)


def sign_out(*, session_id: UUID, user_id: UUID, actor_id: UUID | None = None, leaves_kept: bool = False) -> None:
    """Revoke a session that its user, or the holder of its refresh token, needs no more. 4 queries, 1 when it is over.

    Args:
        session_id: The session.
        user_id: Its person.
        actor_id: The member of staff who acts as the person in it, None as a rule.
        leaves_kept: As of ``end_session``.
    """
    if end_session(session_id=session_id, reason=Session.RevokeReason.SIGNED_OUT, leaves_kept=leaves_kept):
        event = Event.SIGN_OUT if actor_id is None else Event.SIGN_IN_AS_ENDED
        audit.record(event, actor_id=actor_id or user_id, user_id=user_id, session_id=session_id)


def end_other_sessions(*, user_id: UUID, epoch: int, from_session_id: UUID) -> int:
    """Revoke every live session of a person but one, and publish it; return how many. 8 queries, 5 for none.

    No device of theirs is kept any longer.

    Args:
        user_id: The person.
        epoch: Their session epoch.
        from_session_id: The session that stays: the request came in it.

    Raises:
        NotAuthenticated: That one is over.
    """
    now = clock.now()
    if session_queries.find_live(session_id=from_session_id, user_id=user_id, epoch=epoch, now=now) is None:
        raise NotAuthenticated
    kept_devices.end_all_of(user_id)
    stand_alone(from_session_id)
    others = Session.objects.filter(user_id=user_id).live(now).exclude(pk=from_session_id).order_by()
    ending.under_way_ends.send(sender=Session, user_id=user_id, session_ids=None, keep=())
    ended = 0
    while ids := list(others.values_list("pk", flat=True)):  # again: a code may be redeemed at this moment
        end_sessions(session_ids=ids, reason=Session.RevokeReason.ENDED_BY_USER)
        details = {"from_session": str(from_session_id)}
        audit.record_each(Event.SESSION_ENDED, [(user_id, one) for one in ids], actor_id=user_id, details=details)
        ended += len(ids)
    return ended


def stand_alone(session_id: UUID) -> None:
    """Let a session of the account's pages live on without the SSO session that it goes on from. 1 query.

    Where others are thrown out, that one is too: a copy of its cookie shows nothing of itself when it is used. For a
    client's session this does nothing: it belongs to the single sign-on. What the SSO session went on from is kept: a
    thief may be who asks, and is found out when the token that they copied is used.

    Args:
        session_id: The session that stays.
    """
    began = Session.objects.filter(pk=OuterRef("parent_id")).order_by().values("goes_on_from")
    of_pages = Session.objects.filter(pk=session_id, client_id=FIRST_PARTY_CLIENT, parent_id__isnull=False)
    of_pages.update(parent_id=None, goes_on_from=Subquery(began))


def end_session(*, session_id: UUID, reason: Session.RevokeReason, leaves_kept: bool = False) -> bool:
    """Revoke one session, and publish it; False when there is none, or it was revoked before. 3 queries.

    What began in an SSO session ends with it.

    Args:
        session_id: The session.
        reason: What is stored as the reason.
        leaves_kept: Whether the SSO sessions stay that keep its account in the browser: somebody else signs in there.
    """
    ended = session_queries.end(session_id, reason=reason, now=clock.now())
    if ended:
        ending.cascade(session_id, leaves_kept=leaves_kept, reason=reason)
    return ended


def end_sessions(*, session_ids: Sequence[UUID], reason: Session.RevokeReason) -> int:
    """Revoke sessions with one statement and publish it; return how many were not revoked before. 3 queries.

    Args:
        session_ids: The sessions, of any people.
        reason: What is stored as the reason.
    """
    ended = Session.objects.filter(pk__in=session_ids).revoke(reason, clock.now())
    if ended:
        ending.cascade(*session_ids, reason=reason)
    return ended


def make_room(account: Account, *, keep: UUID | None = None) -> None:
    """End sessions of the person, so that another one may be opened; the trail tells the reason. 1 query as a rule.

    Where there is no room: 1 query more, 1 to mark sessions that are dead anyway, and what ending a session takes. It
    ends the longest unused session of the client that has most of them. So an application that opens sessions without
    end ends its own. Call it before rows of sessions are locked.

    Args:
        account: The person.
        keep: The session in which the new one begins, or goes on from.
    """
    rows = _HELD.rows(user_id=account.id)
    if rows and rows[0][0] >= settings.IRONAUTH_MAX_SESSIONS_PER_USER:
        with transaction.atomic(savepoint=False):
            _end_oldest(account, keep)


def _end_oldest(account: Account, keep: UUID | None) -> None:
    now = clock.now()
    oldest_first = [_Held(*row) for row in _ALL.rows(user_id=account.id)]
    # The rows of those that ended with everybody's are left to `of_everybody`, which tells their applications.
    others = [one for one in oldest_first if one.ended_with_all_at is None]
    dead = [one.id for one in others if one.is_over(account, now)]
    if dead:
        # Else people who end everything again and again would leave more and more rows to be counted.
        Session.objects.filter(pk__in=dead).revoke("", now)
    live = [one for one in others if one.id not in dead]
    excess = min(len(live) - settings.IRONAUTH_MAX_SESSIONS_PER_USER + 1, MOST_ENDED_AT_ONCE)
    stay = _that_hold(keep) if keep is not None else set()
    for session_id in _longest_unused((one for one in live if one.id not in stay), excess):
        # One that somebody else ends at this moment is theirs to record.
        if session_queries.end(session_id, reason=Session.RevokeReason.TOO_MANY, now=now):
            ending.cascade(session_id)
            audit.record(Event.SESSION_ENDED, user_id=account.id, session_id=session_id, details=TOO_MANY_DETAILS)


def _that_hold(session_id: UUID) -> set[UUID]:
    """Return a session and those with which it would end. 2 queries at most."""
    found = {session_id}
    for _ in range(2):  # one of the pages, the SSO session it began in, and what that one goes on from
        rows = Session.objects.filter(pk__in=found).order_by().values_list("parent_id", "goes_on_from")
        found |= {one for row in rows for one in row if one is not None}
    return found


def _longest_unused(oldest_first: Iterable[_Held], count: int) -> list[UUID]:
    """Return that many sessions, each the oldest of the client that has most of those left."""
    by_client: dict[str, list[UUID]] = defaultdict(list)
    for one in oldest_first:
        by_client[one.client_id].append(one.id)
    chosen: list[UUID] = []
    while len(chosen) < count and any(by_client.values()):
        chosen.append(max(by_client.values(), key=len).pop(0))
    return chosen
