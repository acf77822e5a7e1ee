"""Deleting what is over: codes, pushed requests, device grants, sign-ins sent to other providers or by mail.

And what is under way for a client that ends.
"""

from datetime import timedelta
from typing import Final

from django.db.models import Model

from accounts.federation.models import UpstreamSignIn
from ironauth.infrastructure.core import clock
from tokens.clients.models import OAuthClient
from tokens.oauth.models import AuthorizationCode, DeviceGrant, MailedPage, PushedRequest

#: Seconds a row stays after its end: a second use of a code is recognised by it, and a device is told why it waits in
#: vain.
KEEP_S: Final = 3_600
KINDS: Final[tuple[type[AuthorizationCode | PushedRequest | DeviceGrant | UpstreamSignIn | MailedPage], ...]] = (
    AuthorizationCode,
    PushedRequest,
    DeviceGrant,
    UpstreamSignIn,
    MailedPage,
)


def purge(kind: type[Model], *, batch: int) -> int:
    """Delete at most ``batch`` rows of one of ``KINDS`` that ended an hour ago; return how many. Two queries.

    Args:
        kind: One of ``KINDS``.
        batch: How many rows at most.
    """
    over = kind._default_manager.filter(expires_at__lte=clock.now() - timedelta(seconds=KEEP_S))  # noqa: SLF001 - documented by Django
    keys = list(over.order_by("expires_at").values_list("pk", flat=True)[:batch])
    return kind._default_manager.filter(pk__in=keys).delete()[0] if keys else 0  # noqa: SLF001 - as above


def end_of_client(*, client: OAuthClient, **_: object) -> None:
    """Delete what is under way for a client; a receiver of ``clients.units.client_ends``. 3 queries.

    Args:
        client: The client that is disabled or deleted.
        **_: What else the signal brings.
    """
    for kind in (AuthorizationCode, DeviceGrant, PushedRequest):
        kind.objects.filter(client=client).delete()
