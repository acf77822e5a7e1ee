"""Pages of users: the orderings of the staff list, and its rows."""

import uuid
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db.models import Q, QuerySet

from accounts.users.models import User
from ironauth.infrastructure.api.paging import Cursor, Page, cut, moment
from ironauth.infrastructure.db.compiled import CompiledSelect

if TYPE_CHECKING:
    from accounts.users.models import UserQuerySet

#: What ``ordering`` may name, and the column behind it. Each has an index that ends in the id.
ORDERINGS: Final = {"created_at": "created_at", "email": "email_key", "name": "name"}
DEFAULT_ORDERING: Final = "-created_at"


class UserRow(NamedTuple):
    """The columns of a user that a list shows or is ordered by; model instances would cost half of a page's time."""

    id: uuid.UUID
    email: str
    email_key: str
    name: str
    is_active: bool
    is_staff: bool
    is_superuser: bool
    email_verified_at: datetime | None
    created_at: datetime
    preferred_username: str
    given_name: str
    family_name: str
    zoneinfo: str
    language: str
    updated_at: datetime


def page(rows: "UserQuerySet", *, ordering: str, cursor: Cursor | None, size: int) -> Page[UserRow]:
    """Return up to ``size`` users after (or before) ``cursor``. One query.

    Args:
        rows: The users to choose from, filtered.
        ordering: A key of ``ORDERINGS``, with "-" before it for descending.
        cursor: Where the last page ended; None for the first page.
        size: Users on a page.
    """
    column = ORDERINGS[ordering.lstrip("-")]
    backwards = cursor is not None and cursor.backwards
    descending = ordering.startswith("-") != backwards
    if cursor is not None:
        value = moment(cursor) if column == "created_at" else cursor.value
        beyond = "lt" if descending else "gt"
        # The first condition alone is what the index is searched by.
        rows = rows.filter(**{f"{column}__{beyond}e": value}).filter(
            Q(**{f"{column}__{beyond}": value}) | Q(**{column: value, f"id__{beyond}": cursor.id})
        )
    found = [UserRow(*row) for row in _ordered(rows, column, descending=descending)[: size + 1]]
    return cut(found, size=size, cursor=cursor, beside=lambda user, back: _cursor(user, ordering, column, back))


def first_page(*, ordering: str, size: int) -> Page[UserRow]:
    """Return the first page of all users, as ``page`` does: what is asked most. One query, compiled once.

    Args:
        ordering: A key of ``ORDERINGS``, with "-" before it for descending.
        size: Users on a page.
    """
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


def _cursor(user: UserRow, ordering: str, column: str, backwards: bool) -> str:
    """Return the cursor beside ``user``."""
    value = user.created_at.isoformat() if column == "created_at" else getattr(user, column)
    return Cursor(ordering, value, user.id, backwards).encode()
