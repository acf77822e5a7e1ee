"""What staff may do with the audit trail: read it; async, keyword-only."""

import uuid
from collections.abc import Mapping
from typing import Any

from accounts.audit import units as audit_units
from accounts.staff.rights import for_holder
from accounts.users.outputs import AuditEventOut
from accounts.users.paging import Page
from ironauth.infrastructure.db.unit_of_work import database


async def list_events(*, actor_id: uuid.UUID, filters: Mapping[str, Any]) -> Page[AuditEventOut]:
    """Return one page of the trail, the newest first.

    Raises ``PermissionDenied`` without ``accounts.view_auditevent``, ``ValidationFailed`` for a cursor of another list.
    """
    return await database().read(for_holder, actor_id, "accounts.view_auditevent", audit_units.page, filters)
