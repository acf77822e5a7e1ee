"""What the API says about a message; what it says itself is made when it is sent."""

import uuid
from datetime import datetime

import msgspec


class MessageOut(msgspec.Struct, frozen=True):
    """A message that was not accepted yet; what was sent is gone from here.

    ``next_try_at``: null where it was given up, at ``failed_at``.
    """

    id: uuid.UUID
    kind: str
    recipient: str
    tries: int
    created_at: datetime
    next_try_at: datetime | None
    failed_at: datetime | None
