"""Queries of kept devices, for the sign-in and for changes that end devices. Synchronous."""

import hashlib
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.conf import settings
from django.db import models

from accounts.mfa.kept_devices.models import KeptDevice
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.compiled import CompiledDelete, Param

#: Deletes the devices of one person, in a change of their factors or sessions.
FORGET: Final = CompiledDelete(lambda: KeptDevice.objects.filter(user_id=Param("user_id", models.UUIDField())))


#: Each returns a moment: a device that was kept at it or before has ended, whether or not its row is gone yet.
_ended: Final[list[Callable[[], models.Expression]]] = []


def register_end(moment: Callable[[], models.Expression]) -> None:
    """Have every device that was kept until a moment count as ended. ``moment`` is called for each query."""
    if moment not in _ended:
        _ended.append(moment)


class LiveDevice(NamedTuple):
    """A kept device that a sign-in brings, and the account it is of. ``proved_at``: when its person proved a factor."""

    id: uuid.UUID
    user_id: uuid.UUID
    epoch: int
    proved_at: datetime


def digest_of(secret: str) -> str:
    """Return what is stored of a device's secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def find(*, user_id: uuid.UUID, epoch: int, secret: str) -> LiveDevice | None:
    """Return the live device of this person that has this secret. One query.

    Args:
        user_id: Whose password was right.
        epoch: The account's when it was.
        secret: What the browser brings.
    """
    row = _live().filter(user_id=user_id, epoch=epoch, digest=digest_of(secret)).first()
    return None if row is None else LiveDevice(row.pk, user_id, epoch, row.created_at)


def use(kept: LiveDevice) -> bool:
    """Note that a device was used; return False where it was ended, or has expired, since it was found. One query."""
    return _live().filter(pk=kept.id, user_id=kept.user_id, epoch=kept.epoch).update(last_used_at=clock.now()) == 1


def of_user(user_id: uuid.UUID) -> list[KeptDevice]:
    """Return a person's live devices, the newest first. One query."""
    return list(_live().filter(user_id=user_id, epoch=models.F("user__session_epoch")).order_by("-created_at", "-pk"))


def end_all_of(user_id: uuid.UUID) -> None:
    """End every device of a person, in the transaction of a change of their factors or sessions. One query."""
    FORGET.run(user_id=user_id)


def end(device_ids: Iterable[uuid.UUID]) -> None:
    """End these devices. One query."""
    KeptDevice.objects.filter(pk__in=device_ids).delete()


def end_older(moment: datetime, *, batch: int) -> int:
    """End devices that were kept at or before a moment, ``batch`` at once; return how many. One query, two with any.

    Args:
        moment: When every one of them ended.
        batch: How many at most.
    """
    older = KeptDevice.objects.filter(created_at__lte=moment).order_by("pk").values_list("pk", flat=True)[:batch]
    keys = list(older)
    return KeptDevice.objects.filter(pk__in=keys).delete()[0] if keys else 0


def purge(*, batch: int) -> int:
    """Delete devices that have expired, ``batch`` at once; return how many."""
    over = KeptDevice.objects.filter(expires_at__lte=clock.now()).order_by("pk").values_list("pk", flat=True)[:batch]
    return KeptDevice.objects.filter(pk__in=list(over)).delete()[0]


def _live() -> models.QuerySet[KeptDevice]:
    """Return the devices that spare their person the factor: also of those kept under a longer setting."""
    now = clock.now()
    since = now - timedelta(days=settings.IRONAUTH_KEEP_DEVICE_DAYS)
    live = KeptDevice.objects.filter(expires_at__gt=now, created_at__gt=since)
    for moment in _ended:
        live = live.filter(created_at__gt=moment())
    return live
