"""What a client learns that registers itself, and staff of the tokens that let it."""

import uuid
from datetime import datetime
from typing import Any, NamedTuple

import msgspec


class Registered(NamedTuple):
    """What a client learns once: what is registered, and its two secrets; "" where it has none."""

    metadata: dict[str, Any]
    token: str
    secret: str


class RegistrationTokenOut(msgspec.Struct, frozen=True, kw_only=True):
    """A token with which clients may register; ``left``: how many still."""

    id: uuid.UUID
    name: str
    left: int
    created_at: datetime
    expires_at: datetime


class RegistrationTokenShown(RegistrationTokenOut, frozen=True, kw_only=True):
    """A token that was made just now, which is shown this once."""

    token: str
