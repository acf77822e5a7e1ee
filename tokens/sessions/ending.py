"""What follows the end of sessions: every worker hears of it, and with an SSO session end those that began in it.

Code that ends single sessions calls ``cascade``. Code that ends all of a person's sessions raises their epoch, which
the sessions of clients carry as well, so those end by themselves; ``all_end`` has their clients told.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import DateTimeField, F, Q, QuerySet, UUIDField, Value
from django.db.models.functions import Concat
from django.dispatch import Signal

from accounts.mfa.kept_devices.models import KeptDevice
from accounts.mfa.kept_devices.queries import FORGET
from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.compiled import CompiledSelect, Param
from tokens.protocol import Scope
from tokens.sessions.models import FIRST_PARTY_CLIENT, SSO_CLIENT, Session, SessionQuerySet, sid_tag

#: Sent with ``signed_in``, a set of (client id, person, SSO session), when these SSO sessions have ended, in the same
#: transaction.
clients_signed_out: Final = Signal()

#: Sent with ``user_id`` when sessions of a person are thrown out, in the same transaction: what they have under way for
#: clients, and has no session yet, ends too. ``session_ids``: what began in these alone; None: all of it but what began
#: in ``keep``.
under_way_ends: Final = Signal()

#: Sent when the sessions of everybody end, in the same transaction: what anybody has under way ends too.
everything_under_way_ends: Final = Signal()

type _Rows = QuerySet[Session, tuple[UUID, str, UUID, UUID | None]]


def _children() -> _Rows:
    """Return the sessions that began in another one: id, client, person, and in which."""
    return Session.objects.order_by().values_list("pk", "client_id", "user_id", "parent_id")


def _signed_in(whose: Q, now: datetime | Param) -> _Rows:
    """Return the sessions that began in a live SSO session of these people."""
    live = Session.objects.filter(whose, client_id=SSO_CLIENT).live(now)
    return _children().filter(parent_id__in=live.order_by().values("pk"))


# Of one session, and of one person: what is asked whenever somebody signs out.
_BEGUN_IN: Final = CompiledSelect(
    lambda: _children().filter(
        Q(parent_id=Param("parent_id", UUIDField())) | Q(goes_on_from=Param("origin", UUIDField()))
    )
)
_SIGNED_IN: Final = CompiledSelect(
    lambda: _signed_in(Q(user_id=Param("user_id", UUIDField())), Param("now", DateTimeField()))
)


def cascade(
    *ended: UUID, leaves_kept: bool = False, reason: Session.RevokeReason = Session.RevokeReason.SIGNED_OUT
) -> None:
    """Publish that these sessions have just been revoked, and end what began in them or goes on from them. 2 queries.

    Clients that were given ``offline_access`` keep their sessions (OpenID Connect Back-Channel Logout §2.7); those with
    an address for it are told anyway. For SSO sessions in which clients have sessions 2 more, 1 with notices; 1 more
    where the account's pages have. Each session counts once, so that a ring of them, however it came about, has an end.

    Args:
        *ended: The sessions.
        leaves_kept: Whether the SSO sessions stay that were opened from them for an account to stay in its browser.
        reason: Why they have ended, which is stored for SSO sessions that go on from them.
    """
    passed: set[UUID] = set()
    while ended:
        passed.update(ended)
        kept = [one for one in _end_begun_in(*ended, leaves_kept=leaves_kept) if one not in passed]
        if kept:
            Session.objects.filter(pk__in=kept).revoke(reason, clock.now())
        ended, leaves_kept = tuple(kept), False


def _end_begun_in(*ended: UUID, leaves_kept: bool) -> list[UUID]:
    """Publish these sessions, and end what lives no longer; return the SSO sessions that go on from them."""
    if len(ended) == 1:
        begun = _BEGUN_IN.rows(parent_id=ended[0], origin=ended[0])
    else:
        begun = [list(row) for row in _children().filter(Q(parent_id__in=ended) | Q(goes_on_from__in=ended))]
    kept = [] if leaves_kept else [session_id for session_id, client_id, *_ in begun if client_id == SSO_CLIENT]
    begun = [row for row in begun if row[1] != SSO_CLIENT and row[3] in ended]
    if begun:
        _online(*ended).revoke(Session.RevokeReason.SIGNED_OUT, clock.now())
        _tell({(client_id, user_id, parent_id) for _, client_id, user_id, parent_id in begun})
        of_pages = [session_id for session_id, client_id, *_ in begun if client_id == FIRST_PARTY_CLIENT]
        if of_pages:
            kept += Session.objects.filter(goes_on_from__in=of_pages).order_by().values_list("pk", flat=True)
    invalidate(*map(sid_tag, ended), *(sid_tag(session_id) for session_id, *_ in begun))
    return kept


def all_end(*, user_ids: Sequence[UUID], **_: object) -> None:
    """Have clients told that every session of these people ends; a receiver of ``users.invariants.sessions_end``.

    No device of theirs is kept any longer. 2 queries, however many people; where clients have sessions in a live SSO
    session 1 more, and 1 with notices.

    Args:
        user_ids: The people.
        **_: What else the signal brings.
    """
    if len(user_ids) == 1:
        FORGET.run(user_id=user_ids[0])
        begun = _SIGNED_IN.rows(user_id=user_ids[0], now=clock.now())
    else:
        KeptDevice.objects.filter(user_id__in=user_ids).delete()
        begun = [list(row) for row in _signed_in(Q(user_id__in=user_ids), clock.now())]
    _tell({(client_id, user_id, parent_id) for _, client_id, user_id, parent_id in begun})


def _online(*parents: UUID) -> SessionQuerySet:
    """Return the sessions that live no longer than the SSO sessions they began in."""
    words = Session.objects.filter(parent_id__in=parents).annotate(words=Concat(Value(" "), F("scope"), Value(" ")))
    return words.exclude(words__contains=f" {Scope.OFFLINE_ACCESS} ")


def _tell(signed_in: set[tuple[str, UUID, UUID]]) -> None:
    of_clients = {one for one in signed_in if one[0] != FIRST_PARTY_CLIENT}  # the account's pages need no notice
    if of_clients:
        clients_signed_out.send(sender=Session, signed_in=of_clients)
