"""Cursor paging over an ordered set of rows: a page costs the same wherever it is, and no row is shown twice."""

import base64
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from django.db.models import Q, QuerySet

from accounts.users.models import User
from ironauth.infrastructure.core import strict_json
from ironauth.infrastructure.core.errors import FieldError, ValidationFailed
from ironauth.infrastructure.db.compiled import CompiledSelect

if TYPE_CHECKING:
    from accounts.users.managers import UserQuerySet

#: What ``ordering`` may name, and the column behind it. Each has an index that ends in the id.
ORDERINGS: Final = {"created_at": "created_at", "email": "email_key", "name": "name"}
DEFAULT_ORDERING: Final = "-created_at"


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


class UserRow(NamedTuple):
    """The columns of a user that a list shows or is ordered by; a model's object for each would be half of a page."""

    id: uuid.UUID
    email: str
    email_key: str
    name: str
    is_active: bool
    is_staff: bool
    is_superuser: bool
    email_verified_at: datetime | None
    created_at: datetime


class Page[T](msgspec.Struct, frozen=True):
    """Rows in the asked order, and the cursors of the neighbouring pages, if there are any."""

    rows: Sequence[T]
    next: str | None
    previous: str | None


def decode(text: str, ordering: str) -> Cursor:
    """Return the cursor in ``text``; raises ``ValidationFailed`` (field ``cursor``) for any but one of ours."""
    try:
        value = strict_json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        cursor = msgspec.convert(value, Cursor)
        if ordering.lstrip("-") == "created_at":
            _moment(cursor)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise _refused() from error
    if cursor.ordering != ordering or "\x00" in cursor.value:
        raise _refused()
    return cursor


def belongs(text: str, ordering: str) -> bool:
    """Tell whether ``text`` is a cursor of ours for ``ordering``."""
    try:
        decode(text, ordering)
    except ValidationFailed:
        return False
    return True


def page(rows: "UserQuerySet", *, ordering: str, cursor: Cursor | None, size: int) -> Page[UserRow]:
    """Return up to ``size`` users after (or before) ``cursor``. One query."""
    column = ORDERINGS[ordering.lstrip("-")]
    backwards = cursor is not None and cursor.backwards
    descending = ordering.startswith("-") != backwards
    if cursor is not None:
        value = _moment(cursor) if column == "created_at" else cursor.value
        beyond = "lt" if descending else "gt"
        # The first condition alone is what the index is searched by.
        rows = rows.filter(**{f"{column}__{beyond}e": value}).filter(
            Q(**{f"{column}__{beyond}": value}) | Q(**{column: value, f"id__{beyond}": cursor.id})
        )
    found = [UserRow(*row) for row in _ordered(rows, column, descending=descending)[: size + 1]]
    return cut(found, size=size, cursor=cursor, beside=lambda user, back: _cursor(user, ordering, column, back))


def first_page(*, ordering: str, size: int) -> Page[UserRow]:
    """Return the first page of all users, as ``page`` does: what is asked most. One query, compiled once."""
    column = ORDERINGS[ordering.lstrip("-")]
    found = [UserRow(*row) for row in _first(ordering, size).rows()]
    return cut(found, size=size, cursor=None, beside=lambda user, back: _cursor(user, ordering, column, back))


@lru_cache(maxsize=16)  # orderings and sizes in use; there are 1,200 a client could ask for
def _first(ordering: str, size: int) -> CompiledSelect:
    column, descending = ORDERINGS[ordering.lstrip("-")], ordering.startswith("-")
    return CompiledSelect(lambda: _ordered(User.objects.get_queryset(), column, descending=descending)[: size + 1])


def _ordered(rows: "UserQuerySet", column: str, *, descending: bool) -> "QuerySet[User, Any]":
    sign = "-" if descending else ""
    return rows.order_by(f"{sign}{column}", f"{sign}id").values_list(*UserRow._fields)


def cut[T](found: list[T], *, size: int, cursor: Cursor | None, beside: Callable[[T, bool], str]) -> Page[T]:
    """Return the page that ``found`` begins: up to ``size`` rows, and one more where there are more, as they were read.

    ``beside``: returns the cursor next to a row, to read on from there, or backwards if told so.
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


def _moment(cursor: Cursor) -> datetime:
    """Return the time a cursor stands at, in UTC; raises ``ValueError`` or ``OverflowError`` for one not of ours."""
    moment = datetime.fromisoformat(cursor.value)
    if moment.tzinfo is None:
        raise ValueError
    return moment.astimezone(UTC)


def _cursor(user: UserRow, ordering: str, column: str, backwards: bool) -> str:
    """Return the cursor beside ``user``."""
    value = user.created_at.isoformat() if column == "created_at" else getattr(user, column)
    return Cursor(ordering, value, user.id, backwards).encode()


def _refused() -> ValidationFailed:
    """Return the error of a cursor that is not one of ours, or belongs to another ordering."""
    message = "This cursor does not belong to this list and ordering: start without one."
    return ValidationFailed(errors=[FieldError("cursor", "invalid_cursor", message)])
