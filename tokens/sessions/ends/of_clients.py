"""Ending the sessions of a client that is disabled or deleted, however many there are.

Its tokens are refused as soon as workers hear that the client is no more: one tag stands for all of them, and none of
its sessions has to be told of. Their rows are ended so that nothing lives again when the client is enabled. A few end
at once; many by batches (``batches``), each of which also notes how far it got. Until the last batch the client cannot
be enabled.
"""

from typing import Final
from uuid import UUID

from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.access.codec import AccessClaims
from tokens.clients import registry as clients
from tokens.clients.models import EndingClient, OAuthClient
from tokens.clients.queries import client_ends
from tokens.errors import InvalidToken
from tokens.sessions.models import FIRST_PARTY_CLIENT, SSO_CLIENT, Session

#: Sessions that end with the act itself; with more, all others end by batches.
AT_ONCE: Final = 500
#: Sessions of one transaction: 10 ms in which others may wait for a row.
BATCH: Final = 500
#: Wakes every process: there is something to end.
TAG: Final = "clients:ending"

log = get_logger()


def end_of_client(*, client: OAuthClient, at_once: bool = False, **_: object) -> int:
    """End the sessions of a client, and return how many; a receiver of ``clients.queries.client_ends``. 2 queries.

    No session is published: every token of the client has its tag. With more than ``AT_ONCE`` 3 queries more, and the
    others end by batches.

    Args:
        client: The client that is disabled, enabled or deleted.
        at_once: Whether all end now: a client that is enabled has none but those opened while it was disabled.
        **_: What else the signal brings.
    """
    there = Session.objects.filter(client_id=str(client.pk), revoked_at=None).order_by()
    if at_once:
        return there.revoke(Session.RevokeReason.ENDED_BY_STAFF, clock.now())
    ids = list(there.values_list("pk", flat=True)[: AT_ONCE + 1])
    ended = _end(ids[:AT_ONCE])
    if len(ids) > AT_ONCE:
        EndingClient.objects.update_or_create(client_id=str(client.pk), defaults={"after": None, "ended": ended})
        invalidate(TAG)
    return ended


def end_batch() -> bool:
    """End the next sessions of a client that is being ended, and note it; return whether there was one. 1 to 4 queries.

    Two processes never work at one client at a time: the second goes on with another one, or finds nothing.
    """
    waiting = EndingClient.objects.select_for_update(skip_locked=True).order_by("began_at", "pk")
    one = waiting.first()
    if one is None:
        return False
    there = Session.objects.filter(client_id=one.client_id, revoked_at=None)
    if one.after is not None:
        there = there.filter(pk__gt=one.after)
    ids = list(there.order_by("pk").values_list("pk", flat=True)[:BATCH])
    one.ended += _end(ids)
    if len(ids) == BATCH:
        one.after = ids[-1]
        one.save(update_fields=["after", "ended"])
    else:
        one.delete()
        log.info("client_sessions_ended", client_id=one.client_id, sessions=one.ended)
    return True


async def require_client(client_id: str, claims: AccessClaims) -> None:
    """Refuse a token that was got for one of a client that is no more: the session it lives by ends with that client.

    No query for a client that is known.

    Args:
        client_id: The client that the token's session was opened for.
        claims: What the token says.

    Raises:
        InvalidToken: (401) The client is disabled or deleted.
    """
    if client_id not in (FIRST_PARTY_CLIENT, SSO_CLIENT, *claims.holders) and await clients.find(client_id) is None:
        raise InvalidToken("client")


def _end(ids: list[UUID]) -> int:
    return Session.objects.filter(pk__in=ids).revoke(Session.RevokeReason.ENDED_BY_STAFF, clock.now()) if ids else 0


def connect() -> None:
    """End a client's sessions when it ends."""
    client_ends.connect(end_of_client, dispatch_uid="tokens.sessions_end")
