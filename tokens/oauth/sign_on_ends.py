"""What ends with a sign-on session: the sessions of clients that began in it, and what those clients are told.

Whatever ends a session one by one calls ``follow``. What ends all of a person's at once raises their epoch, which the
sessions of clients carry as well, so that nothing is left to be ended; ``all_end`` has their clients told.
"""

from collections.abc import Sequence
from uuid import UUID

from django.db.models import F, Q, Value
from django.db.models.functions import Concat

from ironauth.infrastructure import clock
from ironauth.infrastructure.invalidation import invalidate, sid_tag
from tokens.models import SSO_CLIENT, LogoutNotice, OAuthClient, Session, SessionQuerySet
from tokens.oauth.protocol import Scope


def follow(*ended: UUID) -> None:
    """Publish that these sessions have just been revoked, and end what began in them. 2 queries.

    Clients that were given ``offline_access`` keep their sessions (OpenID Connect Back-Channel Logout §2.7); those with
    an address for it are told anyway. For sign-on sessions in which clients have sessions 2 more, 1 with notices.
    """
    begun = list(Session.objects.filter(parent_id__in=ended).values_list("pk", "parent_id", "client_id", "user_id"))
    if not begun:
        invalidate(*map(sid_tag, ended))
        return
    _online(*ended).revoke(Session.RevokeReason.SIGNED_OUT, clock.now())
    _tell({(client_id, user_id, parent_id) for _, parent_id, client_id, user_id in begun if parent_id is not None})
    invalidate(*map(sid_tag, ended), *(sid_tag(session_id) for session_id, *_ in begun))


def all_end(*, user_ids: Sequence[UUID], **_: object) -> None:
    """Have clients told that every session of these people ends; a receiver of ``accounts.guarded.sessions_end``.

    1 query, however many people; where clients have sessions in a live sign-on session 1 more, and 1 with notices.
    """
    live = Session.objects.filter(user_id__in=user_ids, client_id=SSO_CLIENT).live(clock.now())
    begun = Session.objects.filter(parent_id__in=live.order_by().values("pk")).order_by()
    signed_in = set(begun.values_list("client_id", "user_id", "parent_id"))
    _tell({(client_id, user_id, parent_id) for client_id, user_id, parent_id in signed_in if parent_id is not None})


def _online(*parents: UUID) -> SessionQuerySet:
    """Return the sessions that live no longer than the sign-on sessions they began in."""
    words = Session.objects.filter(parent_id__in=parents).annotate(words=Concat(Value(" "), F("scope"), Value(" ")))
    return words.exclude(words__contains=f" {Scope.OFFLINE_ACCESS} ")


def _tell(signed_in: set[tuple[str, UUID, UUID]]) -> None:
    """Queue a notice for each client, person and sign-on session whose client wants to hear of its end."""
    if not signed_in:
        return
    wanted = OAuthClient.objects.filter(
        ~Q(backchannel_logout_uri=""), pk__in={client_id for client_id, *_ in signed_in}, disabled_at=None
    )
    listening = {str(client_id) for client_id in wanted.values_list("pk", flat=True)}
    LogoutNotice.objects.bulk_create(
        LogoutNotice(client_id=UUID(client_id), user_id=user_id, session_id=parent_id)
        for client_id, user_id, parent_id in sorted(signed_in, key=str)
        if client_id in listening
    )
