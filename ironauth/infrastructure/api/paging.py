"""Cursor paging over an ordered set of rows: a page costs the same wherever it is, and no row is shown twice."""

import base64
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.db.models import Model, QuerySet
from rest_framework.utils.urls import replace_query_param

from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core import strict_json
from ironauth.infrastructure.core.errors import FieldError, ValidationFailed


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """A place between two rows: the ordering it belongs to, the row's value and id, and the direction to read in.

    Not secret and not signed: it names a place, and a made-up one only shows rows the caller may list anyway.
    """

    ordering: str
    value: str
    id: uuid.UUID
    backwards: bool

    def encode(self) -> str:
        """Return the form that stands in an address."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


class Page[T](msgspec.Struct, frozen=True):
    """Rows in the asked order, and the cursors of the neighbouring pages, if there are any."""

    rows: Sequence[T]
    next: str | None
    previous: str | None


def decode(text: str, ordering: str) -> Cursor:
    """Return the cursor in ``text``.

    Args:
        text: The query parameter as it was received.
        ordering: The ordering of this list; a cursor of another is refused.

    Raises:
        ValidationFailed: It is none of ours (field ``cursor``).
    """
    try:
        value = strict_json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        cursor = msgspec.convert(value, Cursor)
        if ordering.lstrip("-") == "created_at":
            moment(cursor)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise _refused() from error
    if cursor.ordering != ordering or "\x00" in cursor.value:
        raise _refused()
    return cursor


def belongs(text: str, ordering: str) -> bool:
    """Tell whether ``text`` is a cursor of ours for ``ordering``.

    Args:
        text: The query parameter as it was received.
        ordering: The ordering of this list.
    """
    try:
        decode(text, ordering)
    except ValidationFailed:
        return False
    return True


def cursor_of(filters: Mapping[str, Any], ordering: str) -> Cursor | None:
    """Return the cursor that a validated query has; None for the first page.

    Args:
        filters: The validated query of the list.
        ordering: The ordering of this list.
    """
    return decode(filters["cursor"], ordering) if filters.get("cursor") else None


def newest_first[M: Model, T](
    rows: QuerySet[M],
    filters: Mapping[str, Any],
    *,
    ordering: str,
    show: Callable[[QuerySet[M]], list[T]],
    id_of: Callable[[T], uuid.UUID],
) -> Page[T]:
    """Return one page of a list that has one order: the newest first, by ids that are in order of time.

    Args:
        rows: The rows to choose from, filtered.
        filters: The validated query: cursor and page size.
        ordering: What cursors of this list belong to.
        show: Reads rows and returns them as they leave, in the same order.
        id_of: Returns the id of a row that ``show`` has returned.
    """
    cursor = cursor_of(filters, ordering)
    backwards = cursor is not None and cursor.backwards
    if cursor is not None:
        rows = rows.filter(**{"id__gt" if backwards else "id__lt": cursor.id})
    size: int = filters["page_size"]
    found = show(rows.order_by("id" if backwards else "-id")[: size + 1])
    return cut(
        found, size=size, cursor=cursor, beside=lambda row, back: Cursor(ordering, "", id_of(row), back).encode()
    )


def cut[T](found: list[T], *, size: int, cursor: Cursor | None, beside: Callable[[T, bool], str]) -> Page[T]:
    """Return the page that ``found`` begins, as the rows were read.

    Args:
        found: Up to ``size`` rows, and one more where there are more.
        size: Rows of a page.
        cursor: Where the page begins; None for the first.
        beside: Returns the cursor next to a row, to read on from there, or backwards if told so.
    """
    backwards = cursor is not None and cursor.backwards
    more, rows = len(found) > size, found[:size]
    if backwards:
        rows.reverse()
    has_next, has_previous = (True, more) if backwards else (more, cursor is not None)
    return Page(
        rows=rows,
        next=beside(rows[-1], False) if has_next and rows else None,
        previous=beside(rows[0], True) if has_previous and rows else None,
    )


def moment(cursor: Cursor) -> datetime:
    """Return the time a cursor stands at, in UTC.

    Raises:
        ValueError: It is not one of ours.
        OverflowError: As ``ValueError``.
    """
    moment = datetime.fromisoformat(cursor.value)
    if moment.tzinfo is None:
        raise ValueError
    return moment.astimezone(UTC)


def listed[T](make: Callable[..., T], request: ApiRequest, page: Page[Any]) -> T:
    """Return one page of a list as ``make`` builds it, with the addresses of the pages beside it.

    Args:
        make: The class of the answer.
        request: The request for this page.
        page: The rows, with the cursors of the pages beside it.
    """
    return make(results=tuple(page.rows), next=page_url(request, page.next), previous=page_url(request, page.previous))


def page_url(request: ApiRequest, cursor: str | None) -> str | None:
    """Return this page's address with another cursor.

    Args:
        request: The request for this page; its other parameters stay.
        cursor: The other page's; None where there is no such page.
    """
    return None if cursor is None else replace_query_param(request.build_absolute_uri(), "cursor", cursor)


def _refused() -> ValidationFailed:
    """Return the error of a cursor that is not one of ours, or belongs to another ordering."""
    message = "This cursor does not belong to this list and ordering: start without one."
    return ValidationFailed(errors=[FieldError("cursor", "invalid_cursor", message)])
