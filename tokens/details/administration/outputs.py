"""What the API says about types of authorization details."""

import uuid
from datetime import datetime
from typing import Any

import msgspec

from tokens.details.models import DetailType


class DetailTypeOut(msgspec.Struct, frozen=True):
    """A type of authorization details (RFC 9396). ``words``: what people read; ``members``: what an object of it has.

    ``unattended``: whether applications may have it for themselves.
    """

    id: uuid.UUID
    identifier: str
    words: str
    members: dict[str, Any]
    unattended: bool
    active: bool
    created_at: datetime


def detail_type_out(row: DetailType) -> DetailTypeOut:
    """Return a type as it leaves."""
    return DetailTypeOut(
        id=row.pk,
        identifier=row.identifier,
        words=row.words,
        members=row.members,
        unattended=row.unattended,
        active=row.active,
        created_at=row.created_at,
    )
