"""Single use of tokens that have no row: using one up inserts its name, and the first insert wins.

It is for tokens that carry everything themselves: making one writes nothing, so asking for many fills no table.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.db import models

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.compiled import CompiledInsert, given_row
from ironauth.infrastructure.models import UsedOnce

#: Seconds a row stays after its token's end: a worker whose clock is behind must still find it.
KEEP_S: Final = 3_600

_INSERT: Final = CompiledInsert(lambda: given_row(UsedOnce), ignore_conflicts=True)


def consume(purpose: str, token_id: UUID, expires_at: int, *, led_to: UUID | None = None) -> bool:
    """Use the token up; return whether it had not been before. Of several at once one gets True. One query.

    A rollback gives it back.

    Args:
        purpose: A short name, so that ids of different kinds never meet.
        token_id: Unique among the tokens of that purpose.
        expires_at: The unix second from which the token is refused for its age.
        led_to: The session that was opened by it, where somebody asks for that (``uses_of``).
    """
    return _INSERT.run(key=_key(purpose, token_id), expires_at=expires_at, led_to=led_to) > 0


def renew(purpose: str, token_id: UUID, expires_at: int, *, led_to: UUID | None = None) -> bool:
    """Have a use that has expired, and is not purged yet, count as one of now; any other stays. One query.

    Of several at once one gets True, as of ``consume``.

    Args:
        purpose: As of ``consume``.
        token_id: As of ``consume``.
        expires_at: As of ``consume``.
        led_to: As of ``consume``.
    """
    old = UsedOnce.objects.filter(pk=_key(purpose, token_id), expires_at__lte=int(clock.unix()))
    return old.update(expires_at=expires_at, led_to=led_to) > 0


def uses_of(purpose: str, token_ids: Sequence[UUID]) -> dict[UUID, UUID | None]:
    """Return which of these tokens were used and have not expired, with the session that each has led to. One query.

    Args:
        purpose: As of ``consume``.
        token_ids: As of ``consume``.
    """
    keys = {_key(purpose, token_id): token_id for token_id in token_ids}
    alive = UsedOnce.objects.filter(pk__in=keys, expires_at__gt=int(clock.unix()))
    return {keys[key]: led_to for key, led_to in alive.values_list("key", "led_to")}


def give_back(purpose: str, token_id: UUID) -> None:
    """Let the token be used once more, because the act it was used for did not happen. One query.

    Args:
        purpose: As of ``consume``.
        token_id: As of ``consume``.
    """
    UsedOnce.objects.filter(pk=_key(purpose, token_id)).delete()


def is_used(purpose: str, token_id: UUID) -> bool:
    """Tell whether the token is used up by now: a hint that spares work, where `consume` decides. One query.

    Args:
        purpose: As of ``consume``.
        token_id: As of ``consume``.
    """
    return UsedOnce.objects.filter(pk=_key(purpose, token_id)).exists()


def purge(*, batch: int) -> int:
    """Delete at most ``batch`` rows whose tokens died an hour ago; return how many. Two queries."""
    over: models.QuerySet[UsedOnce] = UsedOnce.objects.filter(expires_at__lte=int(clock.unix()) - KEEP_S)
    keys = list(over.order_by("expires_at").values_list("pk", flat=True)[:batch])
    return UsedOnce.objects.filter(pk__in=keys).delete()[0] if keys else 0


def _key(purpose: str, token_id: UUID) -> str:
    return f"{purpose}:{token_id.hex}"
