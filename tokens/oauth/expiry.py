"""Deleting what is over: codes, pushed requests, device grants, sign-ins sent to other providers or by mail.

And what is under way for a client that ends.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db.models import Model

from accounts.federation.models import UpstreamSignIn
from ironauth.infrastructure.core import clock
from tokens.clients.models import OAuthClient
from tokens.oauth.models import AuthorizationCode, DeviceGrant, MailedPage, PushedRequest
from tokens.sessions import ending

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


def end_under_way(*, user_id: UUID, session_ids: Collection[UUID] | None, keep: Collection[UUID], **_: object) -> None:
    """Delete codes that are not redeemed, and devices that are let in and have not asked since. 2 queries.

    With ``offline_access`` they would open a session after the one in which they began was thrown out. A receiver of
    ``ending.under_way_ends``.

    Args:
        user_id: The person who has allowed it.
        session_ids: The SSO sessions in which it began; None: all of the person's.
        keep: The SSO sessions in which it goes on.
        **_: What else the signal brings.
    """
    codes = AuthorizationCode.objects.filter(user_id=user_id, used_at=None)
    devices = DeviceGrant.objects.filter(user_id=user_id, state=DeviceGrant.State.APPROVED)
    if session_ids is not None:
        codes, devices = codes.filter(sso_session_id__in=session_ids), devices.filter(sso_session_id__in=session_ids)
    if keep:
        codes, devices = codes.exclude(sso_session_id__in=keep), devices.exclude(sso_session_id__in=keep)
    codes.delete()
    devices.delete()


def end_everything_under_way(**_: object) -> None:
    """Delete what ``end_under_way`` does, of everybody; a receiver of ``ending.everything_under_way_ends``. 2 queries.

    Args:
        **_: What the signal brings.
    """
    AuthorizationCode.objects.filter(used_at=None).delete()
    DeviceGrant.objects.filter(state=DeviceGrant.State.APPROVED).delete()


def connect() -> None:
    """End what is under way with the sessions in which it began."""
    ending.under_way_ends.connect(end_under_way, dispatch_uid="tokens.under_way_ends")
    ending.everything_under_way_ends.connect(end_everything_under_way, dispatch_uid="tokens.everything_under_way_ends")


def end_of_client(*, client: OAuthClient, **_: object) -> None:
    """Delete what is under way for a client; a receiver of ``clients.queries.client_ends``. 3 queries.

    Args:
        client: The client that is disabled or deleted.
        **_: What else the signal brings.
    """
    for kind in (AuthorizationCode, DeviceGrant, PushedRequest):
        kind.objects.filter(client=client).delete()
