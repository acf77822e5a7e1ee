"""Ending the sessions of everybody at once, however many there are: after a break-in, say.

One row has the moment. From its commit on, no session that was opened before is accepted, because whatever judges a
session asks for the moment as well (``Session.objects.live``, ``with_end``). Tokens that workers remember have the tag
of the key that signed them: a few invalidations end all of them, instead of one a session. A device that was kept
before spares nobody the second factor (``everybodys_end``).

The rows of the sessions are ended afterwards by batches, as those of a client are (``batches``): they are listed as
ended, those of kept devices go, and clients are told. Each batch notes how far it got, and a process that dies takes
nothing with it. The moment stays: a session that was being opened when the last batch ran is over too. What was opened
from a session that is over, while the moment was being committed, ends with its row.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

from django.contrib.sessions.models import Session as AdminSession
from django.db import transaction
from django.db.models import F, Q

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.mfa.kept_devices import queries as kept_devices
from ironauth.infrastructure.admin.session_store import stored_key
from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.keys.key_set import kid_tag
from tokens.keys.models import SigningKey
from tokens.sessions import ending
from tokens.sessions import units as sessions
from tokens.sessions.ends import clocks
from tokens.sessions.models import FIRST_PARTY_CLIENT, EverybodysEnd, Session, SessionQuerySet

#: Sessions of one transaction: 10 ms in which others may wait for a row.
BATCH: Final = 500
#: Wakes every process: there is something to end.
TAG: Final = "everybody:ending"
#: What somebody types who means it.
PHRASE: Final = "end everybody's sessions"

log = get_logger()


def begin(*, actor_id: UUID | None, spared: str | None = None, despite_clocks: bool = False) -> EverybodysEnd:
    """End the sessions of everybody now, those of the admin too, and leave it in the trail. 9 or 10 queries.

    An earlier end whose rows are not all written is left to this one, which has them all.

    Args:
        actor_id: The member of staff; None for a command.
        spared: The key of the admin's session in which they have asked, which stays.
        despite_clocks: Whether to end them by a clock that seems to be wrong.

    Raises:
        ClockIsWrongError: This machine's clock is off, and nothing was done.
    """
    if not despite_clocks:
        clocks.require_right()
    with transaction.atomic():
        EverybodysEnd.objects.filter(finished_at=None).update(finished_at=clock.now())
        ending.everything_under_way_ends.send(sender=Session)
        staff = AdminSession.objects.all()
        (staff.exclude(pk=stored_key(spared)) if spared else staff).delete()
        kids = list(SigningKey.objects.exclude(state=SigningKey.State.DROPPED).values_list("kid", flat=True))
        # As late as can be: what is opened between the moment and the commit is younger than the moment.
        one, _ = EverybodysEnd.objects.get_or_create(at=clock.now(), defaults={"actor_id": actor_id})
        invalidate(*map(kid_tag, kids), TAG)
        audit.record(Event.EVERYBODYS_SESSIONS_ENDED, actor_id=actor_id)
    log.warning("everybodys_sessions_end", by=str(actor_id) if actor_id else "")
    return one


def end_batch() -> bool:
    """End the next rows of sessions that are over with everybody's, and note it; return whether there are more.

    1 query where there is nothing to do, 4 to 9 otherwise, more where staff acted as somebody. Two processes never do
    it at a time.
    """
    one = EverybodysEnd.objects.select_for_update(skip_locked=True).filter(finished_at=None).order_by("-at").first()
    if one is None:
        return False
    rows = Session.objects.order_by("pk")
    looked_at = list((rows.filter(pk__gt=one.after) if one.after else rows).values_list("pk", "created_at")[:BATCH])
    old = [session_id for session_id, created_at in looked_at if created_at <= one.at]
    over = Session.objects.filter(pk__in=old, revoked_at=None).order_by()
    found = list(over.values_list("pk", "client_id", "user_id", "parent_id", "actor_id"))
    if found:
        if any(actor_id for *_, actor_id in found):
            _record_acting(over, one.at)
        ids = [session_id for session_id, *_ in found]
        one.ended += Session.objects.filter(pk__in=ids).revoke(Session.RevokeReason.ENDED_BY_STAFF, one.at)
        signed_in = {
            (client_id, user_id, parent_id)
            for _, client_id, user_id, parent_id, _ in found
            if parent_id is not None and client_id != FIRST_PARTY_CLIENT
        }
        if signed_in:
            ending.clients_signed_out.send(sender=Session, signed_in=signed_in)
    one.ended += _end_begun_since(old, one.at)
    # By their age: one that was kept again since has the id that the sessions of before name.
    devices = kept_devices.end_older(one.at, batch=BATCH)
    one.after = looked_at[-1][0] if looked_at else one.after
    if len(looked_at) < BATCH and devices < BATCH:
        one.finished_at = clock.now()
        log.info("everybodys_sessions_ended", sessions=one.ended)
    one.save(update_fields=["after", "ended", "finished_at"])
    return one.finished_at is None


def _record_acting(over: SessionQuerySet, at: datetime) -> None:
    """Leave in the trail the end of sessions in which staff acted as somebody until that moment."""
    acting = over.filter(actor_id__isnull=False, idle_expires_at__gt=at, epoch=F("user__session_epoch"))
    details = {"reason": "everybodys_sessions_ended"}
    for session_id, user_id, actor_id in acting.values_list("pk", "user_id", "actor_id"):
        audit.record(Event.SIGN_IN_AS_ENDED, actor_id=actor_id, user_id=user_id, session_id=session_id, details=details)


def _end_begun_since(old: list[UUID], at: datetime) -> int:
    """End what was opened after the moment from sessions that are over; return how much. 1 query as a rule.

    A request that read such a session before the commit has taken it for good. Sessions with ``offline_access`` end as
    well.
    """
    ended, passed, step = 0, set(old), old
    while step:
        begun = Session.objects.filter(Q(parent_id__in=step) | Q(goes_on_from__in=step), created_at__gt=at).order_by()
        step = [session_id for session_id in begun.values_list("pk", flat=True) if session_id not in passed]
        passed.update(step)
        if step:
            ended += sessions.end_sessions(session_ids=step, reason=Session.RevokeReason.ENDED_BY_STAFF)
    return ended


def progress() -> str:
    """Return in a sentence how far the newest end is; "" where there never was one. 1 query."""
    one = EverybodysEnd.objects.first()
    if one is None:
        return ""
    when = f"{one.at:%Y-%m-%d %H:%M:%S} UTC"
    if one.finished_at is None:
        return f"Everybody's sessions ended at {when}; {one.ended:,} are written as ended so far, the others follow."
    return f"Everybody's sessions ended at {when}: {one.ended:,} of them."
