"""What is asked of the audit trail: its events by filters, one page of them, the next part of a purge."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db import models
from django.db.models.functions import Coalesce

from accounts.audit.models import AuditEvent
from accounts.audit.outputs import AuditEventOut
from ironauth.infrastructure.api import paging
from ironauth.infrastructure.core.ids import first_id_at
from ironauth.infrastructure.db.compiled import CompiledDelete, Param

#: The only order there is; part of each cursor, so that one of another list is refused.
ORDERING: Final = "-at"
_COLUMNS: Final = AuditEventOut.__struct_fields__
#: Where the output's names differ from the table's.
_FIELDS: Final = {"actor": "actor_id", "user": "user_id", "session": "session_id", "ip": "address"}
#: Filters that ask the details and the address.
_TOLD: Final = {"cause": "details__reason", "client": "details__client", "network": "address__in_network"}
_SOURCES: Final = tuple(_FIELDS.get(column, column) for column in _COLUMNS)
_BEFORE: Final = Param("before", models.UUIDField())
_DELETE: Final = CompiledDelete(lambda: AuditEvent.objects.filter(id__lte=_BEFORE))


def page(filters: Mapping[str, Any]) -> paging.Page[AuditEventOut]:
    """Return one page, the newest first; ``filters`` are those of ``AuditListInput``. One query.

    Ids are in order of time, so that an index over a filter's column and the id finds the page without sorting.
    """
    events = filtered(filters)
    cursor = paging.decode(filters["cursor"], ORDERING) if filters.get("cursor") else None
    backwards = cursor is not None and cursor.backwards
    if cursor is not None:
        events = events.filter(**{"id__gt" if backwards else "id__lt": cursor.id})
    size: int = filters["page_size"]
    found = rows(events.order_by("id" if backwards else "-id")[: size + 1])
    return paging.cut(found, size=size, cursor=cursor, beside=_cursor)


def filtered(filters: Mapping[str, Any]) -> "models.QuerySet[AuditEvent]":
    """Return the events for which all of ``filters`` hold, in no order: those of ``AuditListInput``.

    No index serves ``cause``, ``client`` and ``network``: with a person, a session or dates they read what is left.
    """
    events = between(AuditEvent.objects.get_queryset(), filters.get("since"), filters.get("until"))
    for name in ("user", "actor", "session"):
        if filters.get(name):
            events = events.filter(**{_FIELDS[name]: filters[name]})
    if filters.get("person"):
        events = events.filter(models.Q(user_id=filters["person"]) | models.Q(actor_id=filters["person"]))
    return _coded(told(events, filters), filters)


def told(events: "models.QuerySet[AuditEvent]", filters: Mapping[str, Any]) -> "models.QuerySet[AuditEvent]":
    """Return those of ``events`` whose details name this cause and client, and that came from this network.

    Args:
        events: The events to choose from.
        filters: Values by the name of a filter; filters of other kinds are ignored.
    """
    for name, column in _TOLD.items():
        if filters.get(name):
            events = events.filter(**{column: filters[name]})
    return events


def between(
    events: "models.QuerySet[AuditEvent]", since: datetime | None, until: datetime | None
) -> "models.QuerySet[AuditEvent]":
    """Return those of ``events`` from ``since`` on and before ``until``, where they are given; asked by the id.

    Args:
        events: The events to choose from.
        since: The first moment that counts, with a time zone.
        until: The first moment that does not, with a time zone.
    """
    if since is not None:
        events = events.filter(id__gte=first_id_at(since))
    return events if until is None else events.filter(id__lt=first_id_at(until))


def delete_batch(before: datetime, *, size: int) -> int:
    """Delete the ``size`` oldest events of before ``before``; return how many there were. Two queries.

    The database refuses those younger than ``triggers.LOCKED_DAYS``: ``IntegrityError``, and none is deleted.

    Args:
        before: Only events of an earlier time are deleted.
        size: How many events at most.
    """
    due = AuditEvent.objects.filter(id__lt=first_id_at(before)).order_by("id")
    ids = list(due.values_list("id", flat=True)[:size])
    return _DELETE.run(before=ids[-1]) if ids else 0


def _coded(events: "models.QuerySet[AuditEvent]", filters: Mapping[str, Any]) -> "models.QuerySet[AuditEvent]":
    """Return the events of the asked code and outcome; with a person or a session they are checked, not searched by.

    SQLite, without statistics, would look for one person's events among all sign-ins: 120 ms for 1 at 1,000,000 events.
    """
    searched = not any(filters.get(name) for name in ("user", "actor", "person", "session"))
    for name in ("event", "outcome"):
        if filters.get(name):
            column = name if searched else f"checked_{name}"
            if not searched:
                events = events.alias(**{column: Coalesce(name, models.Value(""))})
            events = events.filter(**{column: filters[name]})
    return events


def rows(events: "models.QuerySet[AuditEvent]") -> list[AuditEventOut]:
    """Return events as they leave. One query."""
    return [AuditEventOut(*row) for row in events.values_list(*_SOURCES)]


def _cursor(event: AuditEventOut, backwards: bool) -> str:
    return paging.Cursor(ORDERING, "", event.id, backwards).encode()
