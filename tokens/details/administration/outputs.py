"""What the API says about types of authorization details."""

import uuid
from datetime import datetime
from typing import Any

import msgspec


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
