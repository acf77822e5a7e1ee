"""Units of work on sessions that began at another provider: synchronous, one transaction each."""

from uuid import UUID

from django.db.models import Q
from django.utils.translation import gettext_noop as _

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.federation import units as federation
from accounts.federation.kinds.kind import UpstreamPerson
from accounts.federation.queries import Begun
from accounts.users import rules as user_rules
from ironauth.infrastructure.core.errors import NotAuthenticated
from ironauth.infrastructure.db import single_use
from tokens.sessions import queries as session_queries
from tokens.sessions import units as sessions
from tokens.sessions.ends import queries as session_ends
from tokens.sessions.models import Session
from tokens.upstream.id_token import SignedOut
from tokens.upstream.models import UpstreamSession

#: What `single_use` knows logout tokens by.
ONCE = "upstream-logout"


def note_session(
    *, user_id: UUID, session_id: UUID, waiting_id: UUID, browser: str, by_identity: bool
) -> list[str] | None:
    """Link the identity that waits in this browser, and note which session began with it.

    Where it is linked now, the account's other sessions end: a stranger may have opened one. At most ten queries, and
    what ending sessions takes.

    Args:
        user_id: Who has just signed in.
        session_id: The session that was opened.
        waiting_id: The sign-in with the provider.
        browser: What this browser's cookie says.
        by_identity: Whether the identity itself has signed them in; if it waits no more, the provider has signed them
            out meanwhile, and the session ends at once.

    Returns:
        The user agents of the sessions that have ended by the linking; None where nothing was linked now.
    """
    ended: list[str] | None = None
    shown = federation.link_waiting(user_id=user_id, waiting_id=waiting_id, browser=browser)
    if shown is not None:
        if shown.is_new:
            ended = _linked(user_id=user_id, session_id=session_id, slug=shown.slug)
        UpstreamSession.objects.update_or_create(
            session_id=session_id,
            defaults={"provider_id": shown.provider_id, "subject": shown.subject, "sid": shown.sid},
        )
    elif by_identity:
        sessions.end_session(session_id=session_id, reason=Session.RevokeReason.SIGNED_OUT)
    return ended


def connect(*, provider_id: UUID, begun: Begun, person: UpstreamPerson) -> list[str] | None:
    """Link the identity, and end the account's other sessions, unless this one was ended meanwhile.

    As it is by an owner who has thrown out a thief.

    Args:
        provider_id: The provider that has confirmed it.
        begun: The sign-in there, used up: whose it is, and the session that has asked.
        person: What the provider said.

    Returns:
        The user agents of the sessions that have ended; None where the identity was theirs already.

    Raises:
        IdentityTaken: It is another account's, or they have one of this provider.
        NotAuthenticated: The account is gone or inactive, or the session is over.
        UpstreamRefused: The provider is no longer enabled.
    """
    user_id, (session, _colon, epoch) = begun.user_id, begun.page.partition(":")
    session_id = UUID(session)
    assert user_id is not None
    user_rules.locked(user_id)  # first: the end of all sessions writes this row
    if session_queries.live_account(session_id=session_id, user_id=user_id, epoch=int(epoch)) is None:
        raise NotAuthenticated(_("This session has ended: sign in again."))
    slug = federation.connect(user_id=user_id, provider_id=provider_id, person=person)
    return _linked(user_id=user_id, session_id=session_id, slug=slug) if slug is not None else None


def _linked(*, user_id: UUID, session_id: UUID, slug: str) -> list[str]:
    """End a person's sessions but this browser's, after an identity was linked: a stranger may have opened one.

    The SSO session that this one began in, or goes on from, is the same browser's: its person has just proved who they
    are. It stays, with what began there.

    Returns:
        The user agents of those that have ended.
    """
    details = {"reason": "identity_linked", "provider": slug}
    began_in = Session.objects.filter(pk=session_id, parent_id__isnull=False).values("parent_id")
    others = ~Q(pk__in=began_in)
    ended = session_ends.end_matching(others, user_id=user_id, actor_id=user_id, keep=session_id, details=details)
    return list(Session.objects.filter(pk__in=ended).values_list("user_agent", flat=True)) if ended else []


def signed_out_there(*, provider_id: UUID, slug: str, told: SignedOut) -> int | None:
    """End the sessions that began in a session at the provider, or in any of a subject's, and leave each in the trail.

    Args:
        provider_id: The provider where they have signed out.
        slug: Its short name, for the trail.
        told: What its logout token says.

    Returns:
        How many have ended; None where the token was used before.
    """
    if not single_use.consume(ONCE, told.id, told.expires_at):
        return None
    federation.forget_waiting(provider_id=provider_id, subject=told.subject, sid=told.sid)
    named = {name: value for name, value in (("subject", told.subject), ("sid", told.sid)) if value}
    begun = UpstreamSession.objects.filter(provider_id=provider_id, session__revoked_at=None, **named)
    ended = 0
    while found := list(begun.values_list("session__user_id", "session_id")):  # again: one may be opened at this moment
        reason = Session.RevokeReason.SIGNED_OUT
        sessions.end_sessions(session_ids=[session_id for _, session_id in found], reason=reason)
        audit.record_each(Event.SESSION_ENDED, found, actor_id=None, details={"provider": slug})
        ended += len(found)
    return ended
