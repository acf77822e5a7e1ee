"""The audit trail's table: rows are added and, when they are old, deleted; nothing ever changes one."""

from collections.abc import Iterable
from typing import Any, ClassVar, Never

from django.db import models
from django.db.models import Q
from django.db.models.lookups import IsNull

from accounts.audit import events as audit_events
from accounts.audit.agents import AgentField
from accounts.audit.indexed import Detail
from ironauth.infrastructure.db import networks  # noqa: F401 - registers the lookup of the address
from ironauth.infrastructure.http.client_context import USER_AGENT_CHARACTERS


class AppendOnlyError(TypeError):
    """Somebody tried to change or delete events of the audit trail."""

    def __init__(self) -> None:
        super().__init__("The audit trail is append-only: record another event, and leave deleting to purge_expired.")


class AuditEventQuerySet(models.QuerySet["AuditEvent"]):
    """Events, to be read and added."""

    def update(self, **changes: Any) -> Never:
        """Raise ``AppendOnlyError``; ``bulk_update`` comes here too."""
        raise AppendOnlyError

    def delete(self) -> Never:
        """Raise ``AppendOnlyError``."""
        raise AppendOnlyError

    update.alters_data = delete.alters_data = True  # type: ignore[attr-defined]  # Django's mark for templates

    def bulk_create(self, objs: Iterable["AuditEvent"], *args: Any, **kwargs: Any) -> list["AuditEvent"]:
        """Insert many events; raises ``AppendOnlyError`` when asked to update those that exist."""
        if kwargs.get("update_conflicts"):
            raise AppendOnlyError
        return super().bulk_create(objs, *args, **kwargs)


class AuditEvent(models.Model):
    """One security-relevant act: who did what to which account, and how it ended. Written by ``audit.recording``.

    The ids of people and sessions are plain columns: the trail outlives them. They and the details name, but never
    hold, secrets; addresses people typed are not kept either, because passwords are typed there by mistake. The id
    is made from the time, so that one order, and the primary key, serves paging, time limits and the purge. Each
    index serves a filter of the API; those over ids leave out the rows without one.

    The database refuses changes itself (``triggers``): that stops mistakes and injected SQL, not the owner of
    the database. Operators who have to prove the trail to others export it elsewhere (``manage.py audit_export``).
    """

    id = models.UUIDField(primary_key=True, editable=False)
    at = models.DateTimeField()
    event = models.CharField(max_length=40)  # audit.Event; no choices here: a new one needs no migration
    outcome = models.CharField(max_length=8)
    actor_id = models.UUIDField(null=True)
    user_id = models.UUIDField(null=True)
    session_id = models.UUIDField(null=True)
    address = models.GenericIPAddressField(null=True)
    user_agent = AgentField(max_length=USER_AGENT_CHARACTERS)
    request_id = models.CharField(max_length=64)
    details = models.JSONField(default=dict)

    objects = AuditEventQuerySet.as_manager()

    class Meta:
        """Newest first; there is a right to see events and none to change them."""

        ordering = ("-id",)
        default_permissions = ("view",)
        indexes: ClassVar = [
            models.Index(fields=["actor_id", "id"], name="accounts_audit_actor", condition=Q(actor_id__isnull=False)),
            models.Index(fields=["user_id", "id"], name="accounts_audit_user", condition=Q(user_id__isnull=False)),
            models.Index(
                fields=["session_id", "id"], name="accounts_audit_session", condition=Q(session_id__isnull=False)
            ),
            # Each with the other's column: failures of an event that hardly ever fails are found in the index alone.
            models.Index(fields=["event", "id", "outcome"], name="accounts_audit_event"),
            models.Index(fields=["outcome", "id", "event"], name="accounts_audit_outcome"),
            models.Index(
                Detail("details", key="reason"),
                "id",
                name="accounts_audit_cause",
                condition=Q(IsNull(Detail("details", key="reason"), False)),
            ),
            models.Index(
                Detail("details", key="client"),
                "id",
                name="accounts_audit_client",
                condition=Q(IsNull(Detail("details", key="client"), False)),
            ),
            models.Index(fields=["address", "id"], name="accounts_audit_address", condition=Q(address__isnull=False)),
        ]

    def __str__(self) -> str:
        return audit_events.sentence(self.event, self.outcome, self.details)

    def save(self, **kwargs: Any) -> None:
        """Add the event; raises ``AppendOnlyError`` for one that was added before."""
        if not self._state.adding or kwargs.get("force_update") or kwargs.get("update_fields"):
            raise AppendOnlyError
        super().save(**(kwargs | {"force_insert": True}))

    def delete(self, *_args: Any, **_kwargs: Any) -> Never:
        """Raise ``AppendOnlyError``."""
        raise AppendOnlyError
