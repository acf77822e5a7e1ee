"""What units of any room ask about clients of strangers inside their transaction."""

from datetime import timedelta
from hashlib import sha256
from typing import Final

import msgspec
from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet

from accounts.audit.recording import Event
from ironauth.infrastructure.core import clock
from tokens.clients import units as client_units
from tokens.clients.dynamic.errors import TooManyClients
from tokens.clients.dynamic.models import RegistrationToken
from tokens.clients.models import OAuthClient

#: Fields whose change makes a client that staff have verified another one: who it says it is, what people are shown of
#: it, where it is answered at, and by what it is known.
IDENTITY: Final = (
    "name", "redirect_uris", "post_logout_redirect_uris", "auth_method", "jwks", "jwks_uri", "logo_uri", "policy_uri",
    "tos_uri", "sector", "backchannel_logout_uri",
)  # fmt: skip
_MARK: Final = 32  # hexadecimal digits: nobody finds two states of one mark
#: Of a lock on PostgreSQL; any number that is nobody else's.
_LOCK: Final = 7_591
#: Seconds a token that has ended stays, so that staff see what became of it.
_KEEP_S: Final = 7 * 86_400


def make_room(origin: str) -> None:
    """Return when one more unverified client of this origin may be stored, and let nobody else store one meanwhile.

    2 queries on PostgreSQL, 1 on SQLite, which has one writer at a time.

    Args:
        origin: How it came.

    Raises:
        TooManyClients: There are as many as there may be.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    if OAuthClient.objects.filter(origin=origin, verified_at=None).count() >= settings.IRONAUTH_REGISTRATION_MOST:
        raise TooManyClients


def expire(due: "QuerySet[OAuthClient]") -> int:
    """Delete the client, with its sessions, in a transaction of its own; return 1, or 0 where it is not due any more.

    Who verifies it, or lets it in, at the same time either comes first, and it stays, or finds it gone.

    Args:
        due: The client, as long as it is due.
    """
    with transaction.atomic():
        client = due.select_for_update(of=("self",)).first()
        if client is None:
            return 0
        client_units.delete(client, event=Event.CLIENT_EXPIRED)
    return 1


def purge_tokens(*, batch: int) -> int:
    """Delete at most ``batch`` tokens of staff that ended a week ago; return how many. 2 queries."""
    over = RegistrationToken.objects.filter(expires_at__lte=clock.now() - timedelta(seconds=_KEEP_S))
    keys = list(over.order_by("expires_at").values_list("pk", flat=True)[:batch])
    return RegistrationToken.objects.filter(pk__in=keys).delete()[0] if keys else 0


def mark_of(client: OAuthClient, picture: str) -> str:
    """Return a mark of all that verifying a client vouches for.

    Args:
        client: The client; locked where its mark decides.
        picture: A mark of its logo as people are shown it.
    """
    said = [getattr(client, name) for name in IDENTITY]
    return sha256(msgspec.json.encode([said, picture])).hexdigest()[:_MARK]
