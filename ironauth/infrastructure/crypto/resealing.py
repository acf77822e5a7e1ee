"""Sealing stored secrets anew, so that an older master key can go."""

from collections.abc import Callable
from typing import NamedTuple

from django.db import transaction
from django.db.models import Model, QuerySet

from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.crypto.sealing import SealBrokenError


class Resealed(NamedTuple):
    """What became of the secrets under older master keys.

    ``left``: those that do not open, because their master key is gone or they were damaged.
    """

    resealed: int
    left: int


def reseal_rows[Row: Model](older: QuerySet[Row], reseal: Callable[[Row], bool], *, batch: int) -> Resealed:
    """Seal rows anew, each once, in transactions of ``batch`` rows; safe at any time.

    Every run changes the rows in the order of their primary keys, so two runs never wait for each other in a circle.
    One row that does not open keeps no other back.

    Args:
        older: The rows that are sealed under an older master key.
        reseal: Stores a row sealed under the newest one. It returns False for a row that has changed since it was
            read. It raises `MasterKeyMissingError` or `SealBrokenError` for one that does not open.
        batch: Rows in a transaction; at least 1.
    """
    older = older.order_by("pk")
    done = left = 0
    rows = list(older[:batch])
    while rows:
        with transaction.atomic():
            for row in rows:
                try:
                    done += reseal(row)
                except (MasterKeyMissingError, SealBrokenError):
                    left += 1
        rows = list(older.filter(pk__gt=rows[-1].pk)[:batch])
    return Resealed(done, left)
