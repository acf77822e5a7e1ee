"""Units of work on refresh tokens: exchange one, or see one replaced. Synchronous, run by the database pool.

Every outcome is a return value, even a refusal: a unit that raised would roll back the revocation that a reused refresh
token calls for (security-bar finding 11). The service raises after the commit.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import about_to_commit, raise_if_timed_out
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.details import queries as detail_queries
from tokens.protocol import scope_set
from tokens.resources.queries import Aim, aimed
from tokens.sessions import browser_sessions, ending, refresh_token
from tokens.sessions import queries as session_queries
from tokens.sessions import units as sessions
from tokens.sessions.acting import units as acting
from tokens.sessions.models import FIRST_PARTY_CLIENT, Session
from tokens.sessions.organizations import changes as organization_changes
from tokens.sessions.organizations import queries as organizations
from tokens.sessions.queries import OpenedSession, StoredSession
from tokens.sessions.refresh.queries import Outcome, in_grace, refusal_of
from tokens.sessions.refresh_token import ParsedRefreshToken

log = get_logger()


#: Outcomes after which the session the token names is over.
SESSION_OVER = frozenset({Outcome.REUSE, Outcome.EXPIRED, Outcome.REVOKED, Outcome.INACTIVE})


@dataclass(frozen=True, slots=True)
class Rotation:
    """The outcome of a refresh; ``opened`` exactly when it is ROTATED or GRACE.

    ``aim``: what the access token is for; None for this server's own audience. ``details``: its authorization details.
    ``on_its_way``: whether the session has ended so short ago that the browser may have other cookies by now.
    """

    outcome: Outcome
    opened: OpenedSession | None = None
    aim: Aim | None = None
    details: str = ""
    on_its_way: bool = False

    @property
    def session_over(self) -> bool:
        """Return whether the session that the token names is over, and its cookies are worth clearing."""
        return self.outcome in SESSION_OVER and not self.on_its_way


class Wanted(NamedTuple):
    """What a refresh asks for: scopes and APIs that the session has, less than all of them or, empty, all.

    ``allowed``: the APIs that the client may ask for; empty for all. ``details``: authorization details that the
    session has; ``detail_types``: the types of those that the client may have. ``organization``: the id or slug of the
    one that the session is to act for from now on, "" for none; None where it stays as it is.
    """

    scopes: frozenset[str] = frozenset()
    resources: str = ""
    allowed: tuple[str, ...] = ()
    details: str = ""
    detail_types: frozenset[str] = frozenset()
    organization: str | None = None


ALL: Final = Wanted()


def rotate(
    *,
    parsed: ParsedRefreshToken,
    client_id: str = FIRST_PARTY_CLIENT,
    wanted: Wanted = ALL,
    idle_s: int | None = None,
    grace_s: int = 0,
    jkt: str = "",
) -> Rotation:
    """Exchange a refresh token: advance the session by one generation, or say why not.

    Needs no transaction: the update names the generation that was read, so it takes effect once or not at all. A
    deactivation committed between the two leaves one pair of tokens of the old epoch, which nothing here accepts.
    2 queries (session with user and roles, update); one more when another refresh of the same token won the race,
    where resources are named, where there are authorization details, and where the session acts for an organization. To
    choose another one takes 3 more.

    Args:
        parsed: The token.
        client_id: The client that shows it; the session has to be its.
        wanted: What the session must have; it is left alone when it has not.
        idle_s: The client's own limit, in seconds; None: the settings'.
        grace_s: Seconds for which the predecessor of the newest token still works, where the setting says less.
        jkt: The key that was proved; without the session's own it is left alone, whatever token was shown.
    """
    session = session_queries.find(parsed.session_id)
    if session is not None and session.dpop_jkt and session.dpop_jkt != jkt and session.client_id == client_id:
        return Rotation(Outcome.WRONG_KEY)
    rotation = _rotate(session, parsed, client_id, wanted, idle_s, grace_s)
    if rotation is None:  # lost the race between SELECT and UPDATE: the winner's row decides
        session = session_queries.find(parsed.session_id)
        rotation = _rotate(session, parsed, client_id, wanted, idle_s, grace_s) or Rotation(Outcome.REVOKED)
    if session is not None and _is_copy(session, parsed, rotation.outcome) and not _used_afterwards(session, parsed):
        rotation = replace(rotation, on_its_way=session.revoked_at is not None)
    if session is not None and session.actor_id is not None and rotation.outcome is Outcome.INACTIVE:
        with transaction.atomic():
            acting.lose(session_id=session.id, user_id=session.account.id, actor_id=session.actor_id)
    return rotation


def _rotate(
    session: StoredSession | None,
    parsed: ParsedRefreshToken,
    client_id: str,
    wanted: Wanted,
    idle_s: int | None,
    grace_s: int,
) -> Rotation | None:
    """Return the outcome for the session as it was read; None when it was changed since."""
    refusal = refusal_of(session, parsed, client_id)
    if refusal is not None or session is None:
        return Rotation(refusal or Outcome.UNKNOWN)
    now = clock.now()
    is_current = parsed.generation == session.generation
    if not is_current and _is_late(session, parsed, grace_s):
        return _reused(session)
    given = _given(session, wanted)
    if isinstance(given, Outcome):
        return Rotation(given)
    aim, details = given
    organization_id = session.organization_id
    if wanted.organization is not None:
        chosen = _chosen(session, wanted.organization)
        if isinstance(chosen, Outcome):
            return Rotation(chosen)
        organization_id = chosen
    idle_end = sessions.idle_end(now, session.absolute_expires_at, idle_s) if is_current else None
    moved = _moved(session, now, idle_end, organization_id)
    if moved is None:
        return None
    outcome = Outcome.ROTATED if is_current else Outcome.GRACE
    return Rotation(outcome, sessions.opened(moved, moved.account), aim, details)


def _chosen(session: StoredSession, name: str) -> UUID | Outcome | None:
    """Return which organization the session is to act for, None for none, or why not. 1 query, or none.

    A session whose scope says nothing of organizations chooses none, nor do staff who act as its person.
    """
    if not name:
        return None
    if not organizations.is_told(session.scope):
        return Outcome.WIDER
    found = organizations.named(session.account.id, name) if session.actor_id is None else None
    return Outcome.NO_MEMBER if found is None else found.id


def _moved(
    session: StoredSession, now: datetime, idle_end: datetime | None, organization_id: UUID | None
) -> StoredSession | None:
    """Return the session moved on by one generation, and acting for this organization; None when it was changed since.

    Without ``idle_end`` its token was good moments ago, and it moves on no more.
    """
    if organization_id == session.organization_id:
        return session if idle_end is None else session_queries.advance(session, now=now, idle_end=idle_end)
    about_to_commit()
    with transaction.atomic():
        moved = session if idle_end is None else session_queries.advance(session, now=now, idle_end=idle_end)
        return None if moved is None else organization_changes.choose(moved, organization_id)


def _given(session: StoredSession, wanted: Wanted) -> tuple[Aim | None, str] | Outcome:
    """Return what the access token is for and its authorization details; the outcome where the session has less."""
    if not wanted.scopes <= scope_set(session.scope):
        return Outcome.WIDER
    aim, details = None, ""
    if session.resources or wanted.resources or wanted.allowed:
        aim = aimed(granted=session.resources, asked=wanted.resources, allowed=wanted.allowed)
        if aim is None:
            return Outcome.TARGET
    if session.details or wanted.details:
        left = detail_queries.given_out(granted=session.details, asked=wanted.details, allowed=wanted.detail_types)
        if left is None:
            return Outcome.DETAILS
        details = left
    return aim, details


class Named(NamedTuple):
    """The session that a cookie names.

    Attributes:
        session_id: Its id.
        is_current: Whether the cookie has its newest token.
    """

    session_id: UUID
    is_current: bool


def of_replaced_cookie(token: str) -> Named | None:
    """Return the session of the pages that a cookie names which a new sign-in replaces. 1 query as a rule.

    The cookie is shown by that as by a refresh: an older one, or one of a session that ended before, is a copy or has
    made the browser's own one a copy.

    Args:
        token: The refresh token of the cookie.

    Returns:
        None where the cookie is good for nothing; what goes on from its session has ended then.

    Raises:
        Unavailable: As for a refresh.
    """
    parsed = refresh_token.parse(token)
    session = session_queries.find(parsed.session_id) if parsed is not None else None
    if parsed is None or session is None:
        return None
    refusal = refusal_of(session, parsed, FIRST_PARTY_CLIENT)
    if refusal in (Outcome.UNKNOWN, Outcome.FORGED):
        return None
    if refusal is not None and _is_copy(session, parsed, refusal):
        _used_afterwards(session, parsed)
        return None
    is_current = parsed.generation == session.generation
    if refusal is None and not is_current and not session.dpop_jkt and _is_late(session, parsed):
        _reused(session)
        return None
    return Named(session.id, is_current)


def _reused(session: StoredSession) -> Rotation:
    """Revoke the session of a token that was used before.

    Raises ``Unavailable``, and revokes nothing, when the client is told to try again: it may have done so.
    """
    raise_if_timed_out()
    with transaction.atomic():
        if sessions.end_session(session_id=session.id, reason=Session.RevokeReason.REUSE):
            _note_reuse(session)
        _end_what_goes_on(session)
    return Rotation(Outcome.REUSE)


def _is_copy(session: StoredSession, parsed: ParsedRefreshToken, outcome: Outcome) -> bool:
    """Return whether a token of a session that is over is none that its browser would have."""
    return outcome is Outcome.REVOKED or (outcome is Outcome.EXPIRED and parsed.generation != session.generation)


def _is_late(session: StoredSession, parsed: ParsedRefreshToken, grace_s: int = 0) -> bool:
    """Return whether an older token is shown after the grace, or by another browser than has gone on since."""
    return not in_grace(session, parsed, clock.now(), grace_s) or _is_elsewhere(session)


def _is_elsewhere(session: StoredSession) -> bool:
    """Return whether another browser has just gone on from a session of the account's pages: it has a copy. 1 query."""
    return session.client_id == FIRST_PARTY_CLIENT and browser_sessions.kept_elsewhere(session)


def _used_afterwards(session: StoredSession, parsed: ParsedRefreshToken) -> bool:
    """End what goes on from a session of the account's pages that has ended, and whose token is used all the same.

    Its browser has other cookies since: somebody else has a copy, or has made the browser's own one a copy. A request
    that was on its way at that moment means nothing: it has a token that was good then, and comes from the browser that
    has gone on, if one has. 2 queries, and what ending takes.

    Raises ``Unavailable``, and ends nothing, as ``_reused`` does.

    Returns:
        Whether the token was judged; False of a request that was on its way.
    """
    now = clock.now()
    grace = timedelta(seconds=settings.IRONAUTH_REFRESH_GRACE_S)
    if session.client_id != FIRST_PARTY_CLIENT:
        return True
    if session.revoked_at is not None and session.revoked_at + grace > now:
        was_good = parsed.generation == session.generation or in_grace(session, parsed, now)
        if was_good and not _is_elsewhere(session):
            return False
    if not session_queries.that_go_on_from([session.id]):
        return True
    raise_if_timed_out()
    about_to_commit()
    with transaction.atomic():
        if _end_what_goes_on(session):
            _note_reuse(session)
    return True


def _end_what_goes_on(session: StoredSession) -> int:
    """End the sessions that were opened from a session of the account's pages, in however many steps; return how many.

    Those of clients with ``offline_access``, too, and codes that wait for theirs: none of it is the owner's. Step by
    step, and through those that have ended: one that is opened at this moment waits for the one that it goes on from.
    """
    ended, passed, step = 0, {session.id}, [session.id]
    whose = {"sender": Session, "user_id": session.account.id, "keep": ()}
    while step := [one for one in session_queries.that_go_on_from(step) if one not in passed]:
        passed.update(step)
        # Those that ended with everybody's, and whose rows are not written yet, were over before.
        lived = Session.objects.filter(pk__in=step, revoked_at=None).outlasting().count()
        ended += min(lived, sessions.end_sessions(session_ids=step, reason=Session.RevokeReason.REUSE))
        ending.under_way_ends.send(session_ids=step, **whose)
    return ended


def _note_reuse(session: StoredSession) -> None:
    audit.record(Event.REFRESH_REUSE, outcome=audit.Outcome.REFUSED, user_id=session.account.id, session_id=session.id)
