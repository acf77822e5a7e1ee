"""Units of work on kept devices: keep one, and end one."""

import secrets
import uuid
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.conf import settings

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.mfa.kept_devices import queries
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.users import rules as user_rules
from accounts.users import second_factors
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id

SECRET_BYTES: Final = 32  # 256 random bits
MOST: Final = 20  # devices of one person; another one takes the place of the oldest


class Made(NamedTuple):
    """A device that is kept from now on: its secret, and when it expires."""

    id: uuid.UUID
    secret: str
    expires_at: datetime


def keep(*, user_id: uuid.UUID, epoch: int, user_agent: str, before: str = "") -> Made | None:
    """Keep a device on which the second factor was proved just now.

    Args:
        user_id: Whose it is.
        epoch: The account's when the factor was proved.
        user_agent: What the browser calls itself.
        before: The secret that the browser had until now; its row goes, and the new one has its id.

    Returns:
        What was made; None where devices are not kept, or there is no factor any more.

    Raises:
        NotAuthenticated: The account was deactivated, or its sessions ended, since.
    """
    user_rules.locked(user_id, epoch=epoch)
    if not settings.IRONAUTH_KEEP_DEVICE_DAYS or not second_factors.methods_of(user_id):
        return None
    mine = KeptDevice.objects.filter(user_id=user_id)
    device_id = new_id()
    if before:
        replaced = mine.filter(digest=queries.digest_of(before))
        device_id = replaced.values_list("pk", flat=True).first() or device_id  # earlier sessions there know it by that
        replaced.delete()
    stay = list(mine.order_by("-created_at", "-pk").values_list("pk", flat=True)[: MOST - 1])
    mine.exclude(pk__in=stay).delete()
    now = clock.now()
    secret = secrets.token_urlsafe(SECRET_BYTES)
    expires_at = now + timedelta(days=settings.IRONAUTH_KEEP_DEVICE_DAYS)
    KeptDevice.objects.create(
        id=device_id,
        user_id=user_id,
        digest=queries.digest_of(secret),
        epoch=epoch,
        user_agent=user_agent,
        created_at=now,
        expires_at=expires_at,
    )
    audit.record_own(Event.DEVICE_KEPT, user_id, None)
    return Made(device_id, secret, expires_at)


def end(*, user_id: uuid.UUID, device_id: uuid.UUID, session_id: uuid.UUID) -> bool:
    """End one of a person's devices; False where they have no such device.

    Args:
        user_id: Who asks.
        device_id: Which device; it has to be theirs.
        session_id: The session it is done in, for the trail.
    """
    ended, _ = KeptDevice.objects.filter(pk=device_id, user_id=user_id).delete()
    if not ended:
        return False
    audit.record_own(Event.DEVICE_FORGOTTEN, user_id, session_id)
    return True
