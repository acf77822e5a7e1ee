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


class AuditExportOut(AuditEventOut, frozen=True):
    """One event of an export: it can be read without asking for the ids.

    The addresses are those of the accounts at the time of the export; None where there is none, or none any more. The
    reason is that of the details, None for an event without.
    """

    actor_email: str | None
    user_email: str | None
    reason: str | None


class AuditPage(msgspec.Struct, frozen=True):
    """One page of the audit trail; ``next`` and ``previous`` are addresses, null at the ends."""

    results: tuple[AuditEventOut, ...]
    next: str | None
    previous: str | None
