"""Sessions that end by what else happens, in the transaction in which it does.

They are thrown out: by their person, by staff, or with the way in that they began by. With such a session goes the kept
device of its browser: the finder of a lost laptop is asked for the second factor. An ordinary sign-out, a session that
is replaced and one that is too many leave the device.

Or they are replaced: the session that a browser had at this site's own pages ends when somebody signs in there anew.
Its cookie is overwritten, so the browser can neither use nor end it any more; a thief who copied the cookie could. It
is known by the cookie that the sign-in replaces, so programs that hold several tokens by intent, which bring none, keep
theirs. Two tabs may sign in at one moment: both bring the cookie of before. Such sign-ins of one browser wait for each
other by what our pages know it by, so that the later one finds what the earlier one has opened. The answers may arrive
in the other order; the browser then has the cookies of the session that has ended, and its person signs in once more.
Sessions of single sign-on have a rule of their own: there several people may be signed in beside each other
(``browser_sessions``), each in a session that the browser keeps.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import F, Q, Value
from django.db.models.functions import Concat

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.mfa.passkeys.factor import PASSKEY
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.sessions import ending
from tokens.sessions import queries as session_queries
from tokens.sessions import units as sessions
from tokens.sessions.models import BY_PASSKEY, FIRST_PARTY_CLIENT, Session
from tokens.sessions.queries import StoredSession
from tokens.sessions.refresh import units as refresh

#: Sessions in one statement; SQLite as first shipped takes 999 variables.
BATCH: Final = 500


def end_own_session(*, session_id: UUID, user_id: UUID, epoch: int, from_session_id: UUID) -> bool:
    """Revoke one of a person's sessions from another; False when there is no such live session. 5 queries, or 1.

    Args:
        session_id: The session to end.
        user_id: The person whose session it has to be.
        epoch: Their session epoch.
        from_session_id: The session that the request came in, for the trail.
    """
    ended = session_queries.end_own(session_id, user_id=user_id, epoch=epoch, now=clock.now())
    if ended:
        details = {"from_session": str(from_session_id)}
        _end_where_it_began(session_id, from_session_id)
        ending.cascade(session_id, reason=Session.RevokeReason.ENDED_BY_USER)
        if session_id != from_session_id:  # else they sign out here, which leaves the device
            forget_devices([session_id])
            ending.under_way_ends.send(sender=Session, user_id=user_id, session_ids=[session_id], keep=())
        audit.record(Event.SESSION_ENDED, actor_id=user_id, user_id=user_id, session_id=session_id, details=details)
    return ended


def _end_where_it_began(session_id: UUID, from_session_id: UUID) -> None:
    """End the SSO session that a session of the account's pages goes on from: the browser would open another one.

    2 queries, and what ending takes. One of a client leaves it: there the person may be signed in to others.
    """
    own = Session.objects.filter(pk=session_id, client_id=FIRST_PARTY_CLIENT)
    parent_id = own.values_list("parent_id", flat=True).first()
    if parent_id is None or Session.objects.filter(pk=from_session_id, parent_id=parent_id).exists():
        return
    if sessions.end_session(session_id=parent_id, reason=Session.RevokeReason.ENDED_BY_USER):
        forget_devices([parent_id])


def end_one(*, session_id: UUID, user_id: UUID, actor_id: UUID) -> bool:
    """Revoke one session of a person for staff; False when there is no such live session. 1 query, or 6.

    Args:
        session_id: The session to end.
        user_id: The person whose session it has to be.
        actor_id: The member of staff, or the machine.
    """
    if not Session.objects.filter(pk=session_id, user_id=user_id).live(clock.now()).exists():
        return False
    if not sessions.end_session(session_id=session_id, reason=Session.RevokeReason.ENDED_BY_STAFF):
        return False
    forget_devices([session_id])
    ending.under_way_ends.send(sender=Session, user_id=user_id, session_ids=[session_id], keep=())
    audit.record(Event.SESSION_ENDED, actor_id=actor_id, user_id=user_id, session_id=session_id)
    return True


def end_matching(
    which: Q, *, user_id: UUID, actor_id: UUID | None, keep: UUID | None, details: dict[str, Any]
) -> list[UUID]:
    """End those live sessions of a person, leave each in the trail, and return them. 4 queries, and what ending takes.

    Where a client has asked in the person's name, the SSO session that the kept one began in stays, with what else
    began there: it is the same browser's. That of the account's pages ends where it is among ``which``
    (``units.stand_alone``).
    Codes and devices that wait for their sessions end before sessions are looked for once more: what was redeemed at
    this moment is found then, and nothing is redeemed later.

    Args:
        which: What is true of those that end; ``Q()``: of all.
        user_id: The person.
        actor_id: Who throws them out; None for a command.
        keep: The person's session in which they have asked, which stays; None where staff have.
        details: Why, for the trail.
    """
    others = Session.objects.filter(which, user_id=user_id).live(clock.now())
    kept: list[UUID] = []
    if keep is not None:
        if Session.objects.filter(which, pk__in=Session.objects.filter(pk=keep).values("parent_id")).exists():
            sessions.stand_alone(keep)
        parent_id = Session.objects.filter(pk=keep).values_list("parent_id", flat=True).first()
        kept = [keep] if parent_id is None else [keep, parent_id]
        others = others.exclude(pk__in=kept).exclude(parent_id__in=kept)
        details = {**details, "from_session": str(keep)}
    reason = Session.RevokeReason.ENDED_BY_USER if actor_id == user_id else Session.RevokeReason.ENDED_BY_STAFF
    ended: list[UUID] = []
    for again in (False, True):
        if again:
            ending.under_way_ends.send(sender=Session, user_id=user_id, session_ids=None, keep=kept)
        ids = list(others.order_by().values_list("pk", flat=True))
        for part in (ids[at : at + BATCH] for at in range(0, len(ids), BATCH)):
            sessions.end_sessions(session_ids=part, reason=reason)
            forget_devices(part)
            audit.record_each(Event.SESSION_ENDED, [(user_id, one) for one in part], actor_id=actor_id, details=details)
        ended += ids
    return ended


def forget_devices(session_ids: Sequence[UUID]) -> None:
    """End the kept devices of the browsers of these sessions, or of those they began in. 1 to 3 queries.

    Call it after the sessions are marked as ended: a device that is kept at this moment waits for their rows.

    Args:
        session_ids: The sessions that were thrown out, at most ``BATCH`` of them.
    """
    found = Session.objects.filter(pk__in=session_ids).values_list("kept_device_id", "parent_id")
    devices: set[UUID] = set()
    parents: set[UUID] = set()
    for device_id, parent_id in found:
        devices.update(() if device_id is None else (device_id,))
        parents.update(() if parent_id is None else (parent_id,))
    if parents:
        began = Session.objects.filter(pk__in=parents, kept_device_id__isnull=False)
        devices.update(one for one in began.values_list("kept_device_id", flat=True) if one is not None)
    if devices:
        kept_devices.end(devices)


def passkey_gone(*, kind: str, user_id: UUID, row: Any, actor_id: UUID, session_id: UUID | None, **_: object) -> None:
    """End the sessions in which a passkey was used that is removed; a receiver of ``ways_in.removed``.

    Which of a person's passkeys it was, no row says: what was proved since this one was added may have been by it.

    Args:
        kind: Of the way in that is removed; another one than a passkey ends nothing here.
        user_id: Whose it was.
        row: The passkey.
        actor_id: Who has removed it.
        session_id: The person's session that stays; None where staff have.
        **_: What else the signal brings.
    """
    if kind == PASSKEY:
        used = Q(pk__in=_words().filter(user_id=user_id, words__contains=f" {BY_PASSKEY} ").values("pk"))
        since = Q(authenticated_at__gte=row.created_at - timedelta(seconds=1))  # tokens have whole seconds
        details = {"reason": "passkey_removed", "passkey": str(row.pk)}
        end_matching(used & since, user_id=user_id, actor_id=actor_id, keep=session_id, details=details)


def _only_one(browser: str) -> list[UUID]:
    """Return the live sessions of the pages that this browser has, and have its other sign-ins wait until the commit.

    2 queries on PostgreSQL. SQLite has one writer at a time.
    """
    known = sessions.browser_mac(browser)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [int(known[:15], 16)])
    there = Session.objects.filter(browser=known, client_id=FIRST_PARTY_CLIENT).live(clock.now())
    return list(there.order_by("created_at", "pk").values_list("pk", flat=True))


def end_others_of(began_in: StoredSession) -> UUID | None:
    """End the sessions of the account's pages that go on from this SSO session: it is one browser's, which has one.

    The caller holds the row of the SSO session. 1 query, and what ending takes.

    Args:
        began_in: The SSO session.

    Returns:
        One that has ended; None where there was none.
    """
    others = Session.objects.filter(parent_id=began_in.id, client_id=FIRST_PARTY_CLIENT, revoked_at=None).order_by()
    ended = [one for one in others.values_list("pk", flat=True) if _end(one)]
    return ended[0] if ended else None


def _end(session_id: UUID) -> bool:
    return sessions.end_session(session_id=session_id, reason=Session.RevokeReason.SIGNED_OUT)


def sign_out(session: StoredSession) -> None:
    """End a session of the pages, as its person asks. What ``units.sign_out`` takes.

    Args:
        session: The session.
    """
    sessions.sign_out(session_id=session.id, user_id=session.account.id, actor_id=session.actor_id)


def end_replaced(context: ClientContext, *, user_id: UUID, goes_on: bool = False) -> UUID | None:
    """End the session that the replaced cookie names, of any person, and what another tab has opened meanwhile.

    2 queries, 2 more for a browser that our pages know, and what ending takes.

    Of the same person it is no sign-out, and the event of the sign-in names it. Of another one, or of a member of staff
    who acts as a person, it is one. What keeps that account in the browser stays. The cookie that names it came with
    the session's newest token, so of an older one it is somebody else's, and ends.

    Args:
        context: Where the sign-in comes from: the cookie, or the session that it named on the way to another provider.
        user_id: Who has just signed in.
        goes_on: Whether nobody has signed in: it is a switch between the browser's accounts.

    Returns:
        The session of the same person that has ended; None for any other.
    """
    there = _only_one(context.browser) if context.browser else []  # first: others wait here, before they hold rows
    named = refresh.of_replaced_cookie(context.previous) if context.previous else None
    session_id = named.session_id if named is not None else None
    if context.replaces and not context.previous:
        session_id = UUID(context.replaces)
    if session_id is not None and session_id not in there:
        there.append(session_id)
    copied = session_id if named is not None and not named.is_current and not goes_on else None
    ended = [one for one in there if _ended_for(one, user_id, leaves_kept=one != copied)]
    return ended[-1] if ended else None


def _ended_for(session_id: UUID, user_id: UUID, *, leaves_kept: bool) -> bool:
    """End a session of the pages; return whether it was this person's own."""
    found = session_queries.find(session_id)
    if found is None or found.client_id != FIRST_PARTY_CLIENT or found.is_over(clock.now()):
        return False
    if found.account.id != user_id or found.actor_id is not None:
        sessions.sign_out(
            session_id=found.id, user_id=found.account.id, actor_id=found.actor_id, leaves_kept=leaves_kept
        )
        return False
    return _end(found.id)


def _words() -> Any:
    """Return sessions with their ``amr`` between spaces, so that a value is found whole."""
    return Session.objects.order_by().annotate(words=Concat(Value(" "), F("amr"), Value(" ")))
