"""What the API says about the audit trail; the field order is the contract's."""

import uuid
from datetime import datetime

import msgspec


class AuditEventOut(msgspec.Struct, frozen=True):
    """One event of the audit trail; ``actor`` did it, to the account of ``user``, in or to ``session`` (ids)."""

    id: uuid.UUID
    at: datetime
    event: str
    outcome: str
    actor: uuid.UUID | None
    user: uuid.UUID | None
    session: uuid.UUID | None
    ip: str | None
    user_agent: str
    request_id: str
    details: dict[str, str | int | bool | list[str]]


class AuditPage(msgspec.Struct, frozen=True):
    """One page of the audit trail; ``next`` and ``previous`` are addresses, null at the ends."""

    results: tuple[AuditEventOut, ...]
    next: str | None
    previous: str | None
