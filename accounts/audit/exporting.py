"""An export of the trail as CSV or JSON lines, a batch at a time, whatever it is filtered by."""

import csv
import enum
import io
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from django.db import models

from accounts.audit import queries, recording
from accounts.audit.models import AuditEvent
from accounts.audit.outputs import AuditEventOut, AuditExportOut
from accounts.audit.recording import Event

BATCH: Final = 1_000  # events in memory at a time, each about 1 KiB
#: What makes a spreadsheet take a text for a formula, where it is the first of a cell (OWASP, CSV injection).
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001 - the wide ones too


class Format(enum.StrEnum):
    """How an export is written."""

    CSV = "csv"
    JSON_LINES = "jsonl"

    @property
    def media_type(self) -> str:
        """Return its media type."""
        return "text/csv; charset=utf-8" if self is Format.CSV else "application/jsonl"


def record_export(
    *, actor_id: uuid.UUID, session_id: uuid.UUID | None = None, form: Format, filters: Mapping[str, object]
) -> None:
    """Record that the trail was exported, with the filters and the format.

    Args:
        actor_id: The member of staff who exports.
        session_id: The session the request came in; None in the admin.
        form: The format of the file.
        filters: What the export was restricted by; empty values are left out.
    """
    given = [f"{name}={value}"[: recording.MAX_DETAIL] for name, value in sorted(filters.items()) if value]
    details = {"format": form.value, "filters": given}
    recording.record(Event.AUDIT_EXPORTED, actor_id=actor_id, session_id=session_id, details=details)


def batch(
    events: "models.QuerySet[AuditEvent]", *, after: uuid.UUID | None, until: uuid.UUID
) -> Sequence[AuditExportOut]:
    """Return the next events of an export, the oldest first. One query, by the primary key.

    Args:
        events: What is exported.
        after: The id of the last event of the batch before.
        until: The id before which the export ends, so that it ends at all while events are added.
    """
    return queries.exported(_next(events, after=after, until=until))


def _next(
    events: "models.QuerySet[AuditEvent]", *, after: uuid.UUID | None, until: uuid.UUID
) -> "models.QuerySet[AuditEvent]":
    events = events.filter(id__lt=until)
    return (events if after is None else events.filter(id__gt=after)).order_by("id")[:BATCH]


def archived(events: "models.QuerySet[AuditEvent]", *, until: uuid.UUID) -> Iterator[bytes]:
    """Return events as JSON lines without addresses, part by part: an archive outlives the accounts it tells of.

    Args:
        events: The events to export, filtered; their order is chosen here.
        until: Events with a smaller id are exported.
    """
    after: uuid.UUID | None = None
    while found := queries.rows(_next(events, after=after, until=until)):
        yield written(found, Format.JSON_LINES)
        after = found[-1].id


def parts(events: "models.QuerySet[AuditEvent]", form: Format, *, until: uuid.UUID) -> Iterator[bytes]:
    """Return the export part by part, each of at most ``BATCH`` events; it blocks for the database.

    Args:
        events: The events to export, filtered; their order is chosen here.
        form: The format of the file.
        until: Events with a smaller id are exported, so that the export itself is not among them.
    """
    yield head(form)
    after: uuid.UUID | None = None
    while found := batch(events, after=after, until=until):
        yield written(found, form)
        after = found[-1].id


def head(form: Format) -> bytes:
    """Return what a file begins with: the names of the columns, for CSV."""
    return _csv([AuditExportOut.__struct_fields__]) if form is Format.CSV else b""


def written(events: Iterable[AuditEventOut], form: Format) -> bytes:
    """Return events as they stand in a file.

    Args:
        events: The events, in the order in which they are to stand.
        form: The format of the file.
    """
    if form is Format.CSV:
        return _csv(_cells(event) for event in events)
    return "".join(f"{line(event)}\n" for event in events).encode()


def line(event: AuditEventOut) -> str:
    """Return an event as one line of printable ASCII."""
    return json.dumps(msgspec.to_builtins(event), separators=(",", ":")).replace("\x7f", "\\u007f")


def file_name(form: Format) -> dict[str, str]:
    """Return the header that has a browser save the export."""
    return {"Content-Disposition": f'attachment; filename="audit.{form.value}"', "Cache-Control": "no-store"}


def _cells(event: AuditEventOut) -> list[str]:
    values: dict[str, Any] = msgspec.to_builtins(event)
    values["details"] = json.dumps(values["details"], separators=(",", ":"))
    return [_harmless("" if value is None else str(value)) for value in values.values()]


def _harmless(text: str) -> str:
    """Return a cell that a spreadsheet shows and does not compute: an apostrophe before what it would."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def _csv(rows: Iterable[Sequence[str]]) -> bytes:
    """Return rows by RFC 4180, every cell in quotation marks."""
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
    return out.getvalue().encode()
