"""What is asked of the audit trail: its events by filters, one page of them, the next part of a purge."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import connection, models
from django.db.models import Q
from django.db.models.functions import Coalesce

from accounts import email_address as emails
from accounts.audit import partitions
from accounts.audit.indexed import Detail, TextRange, text_range
from accounts.audit.models import AuditEvent
from accounts.audit.outputs import AuditEventOut, AuditExportOut
from ironauth.infrastructure.api import paging
from ironauth.infrastructure.core.ids import first_id_at
from ironauth.infrastructure.db.compiled import CompiledDelete, Param

#: The only order there is; part of each cursor, so that one of another list is refused.
ORDERING: Final = "-at"
_COLUMNS: Final = AuditEventOut.__struct_fields__
#: Where the output's names differ from the table's.
_FIELDS: Final = {"actor": "actor_id", "user": "user_id", "session": "session_id", "ip": "address"}
#: Filters that ask the details, with their keys there, and the address; an index of the first one given finds events.
_TOLD: Final = {"client": "client", "cause": "reason", "network": ""}
#: Events of one range of addresses, of which some are not asked for: 20 ms for SQLite to ask each.
MANY: Final = 20_000
_SOURCES: Final = tuple(_FIELDS.get(column, column) for column in _COLUMNS)
_DETAILS: Final = _COLUMNS.index("details")
_BEFORE: Final = Param("before", models.UUIDField())
_DELETE: Final = CompiledDelete(lambda: AuditEvent.objects.filter(id__lte=_BEFORE))


def page(filters: Mapping[str, Any]) -> paging.Page[AuditEventOut]:
    """Return one page, the newest first; ``filters`` are those of ``AuditListInput``. 1 query, 3 at most.

    Ids are in order of time, so that an index over a filter's column and the id finds the page without sorting.
    """
    return paging.newest_first(filtered(filters), filters, ordering=ORDERING, show=rows, id_of=lambda event: event.id)


def filtered(filters: Mapping[str, Any], *, exporting: bool = False) -> "models.QuerySet[AuditEvent]":
    """Return the events for which all of ``filters`` hold, in no order: those of ``AuditListInput``.

    With a person or a session, ``cause``, ``client`` and ``network`` read what is left; else an index finds them.

    Args:
        filters: Values by name.
        exporting: Whether all of them are read, in the order of ids.
    """
    events = between(AuditEvent.objects.get_queryset(), filters.get("since"), filters.get("until"))
    for name in ("user", "actor", "session"):
        if filters.get(name):
            events = events.filter(**{_FIELDS[name]: filters[name]})
    if filters.get("person"):
        events = events.filter(models.Q(user_id=filters["person"]) | models.Q(actor_id=filters["person"]))
    return _coded(told(events, filters, searched=not exporting and not _has_people(filters)), filters)


def told(
    events: "models.QuerySet[AuditEvent]", filters: Mapping[str, Any], *, searched: bool
) -> "models.QuerySet[AuditEvent]":
    """Return those of ``events`` whose details name this cause and client, and that came from this network.

    Args:
        events: The events to choose from.
        filters: Values by the name of a filter; filters of other kinds are ignored.
        searched: Whether an index of one of them is to find the events. Else they are checked, as codes are: beside a
            person or a session, of whose events there are fewer, and in an export, which reads in the order of ids.
    """
    given = {name: key for name, key in _TOLD.items() if filters.get(name)}
    if searched and len(given) > 1 and "network" in given and _is_rare(filters["network"]):
        given = {"network": "", **given}
    for name, key in given.items():
        if name == "network":
            events = _from_network(events, filters[name], searched=searched)
        else:
            detail: Any = Detail("details", key=key)
            column = f"told_{name}"
            known = detail if searched else Coalesce(detail, models.Value(""))
            events = events.alias(**{column: known}).filter(**{column: filters[name]})
        searched = False  # one index finds them
    return events


def goes_first(filters: Mapping[str, Any]) -> bool:
    """Return whether SQLite, which has no statistics, has to look by a filter of ``told`` and not by a code."""
    return connection.vendor == "sqlite" and any(filters.get(name) for name in _TOLD)


def _is_rare(network: str) -> bool:
    """Return whether SQLite should look for the network before a cause or a client; Postgres knows by itself."""
    found = text_range(network) if connection.vendor == "sqlite" else None
    return found is not None and _events_within(found) < MANY


def _events_within(found: TextRange) -> int:
    """Return how many events have an address in the range, ``MANY`` at most. 1 query."""
    within = AuditEvent.objects.filter(address__gte=found.first, address__lt=found.end)
    return within.order_by().values("address")[:MANY].count()


def _from_network(
    events: "models.QuerySet[AuditEvent]", network: str, *, searched: bool
) -> "models.QuerySet[AuditEvent]":
    """Return the events from a network. 1 query, or none, to choose the way.

    SQLite is given the range of texts in which the network's addresses are, where there is one. Where others are in it,
    too, and there are many events, a page is found sooner from the newest event on than by asking each in the range.
    """
    found = text_range(network) if searched and connection.vendor == "sqlite" else None
    if found is None:
        return events.filter(address__in_network=network)
    within = Q(address__gte=found.first, address__lt=found.end)
    if found.exact:
        return events.filter(within)
    if _events_within(found) == MANY:
        return events.filter(address__in_network=network)
    return events.filter(within, address__in_network=network)


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

    The database refuses those younger than ``triggers.LOCKED_DAYS``: ``IntegrityError``, and none is deleted. Where the
    table has partitions, events of a month stay until all of it goes (``partitions.drop_old``).

    Args:
        before: Only events of an earlier time are deleted.
        size: How many events at most.
    """
    if partitions.is_partitioned(connection):
        return partitions.delete_rows(connection, before, size=size)
    due = AuditEvent.objects.filter(id__lt=first_id_at(before)).order_by("id")
    ids = list(due.values_list("id", flat=True)[:size])
    return _DELETE.run(before=ids[-1]) if ids else 0


def _coded(events: "models.QuerySet[AuditEvent]", filters: Mapping[str, Any]) -> "models.QuerySet[AuditEvent]":
    """Return the events of the asked code and outcome; beside rarer filters they are checked, not searched by.

    SQLite, without statistics, would look for one person's events among all sign-ins: 120 ms for 1 at 1,000,000 events.
    """
    searched = not _has_people(filters) and not goes_first(filters)
    for name in ("event", "outcome"):
        if filters.get(name):
            column = name if searched else f"checked_{name}"
            if not searched:
                events = events.alias(**{column: Coalesce(name, models.Value(""))})
            events = events.filter(**{column: filters[name]})
    return events


def _has_people(filters: Mapping[str, Any]) -> bool:
    return any(filters.get(name) for name in ("user", "actor", "person", "session"))


def rows(events: "models.QuerySet[AuditEvent]") -> list[AuditEventOut]:
    """Return events as they leave. One query."""
    return [AuditEventOut(*row) for row in events.values_list(*_SOURCES)]


def exported(events: "models.QuerySet[AuditEvent]") -> list[AuditExportOut]:
    """Return events as they stand in a file, with the addresses that accounts have now. One query."""
    found = events.values_list(*_SOURCES, _address_of("actor_id"), _address_of("user_id"))
    shown = ((*row, _shown(actor), _shown(user), _reason(row[_DETAILS])) for *row, actor, user in found)
    return [AuditExportOut(*row) for row in shown]


def _address_of(column: str) -> models.Subquery:
    """Return the address of an event's account, found by its primary key: events refer to none by the database."""
    return models.Subquery(get_user_model().objects.filter(pk=models.OuterRef(column)).values("email")[:1])


def _shown(email: str | None) -> str | None:
    """Return an address, and None for what stands in place of one while an account is being deleted."""
    return None if email is None or emails.is_stand_in(email) else email


def _reason(details: Mapping[str, Any]) -> str | None:
    reason = details.get("reason")
    return None if reason is None else str(reason)
