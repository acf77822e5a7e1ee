"""Which second factors people have, read together with the person, so that a person without one costs no query.

Each kind of factor registers itself (``mfa.factors``). With two look-ups a sign-in's query takes 96 µs instead of 76
(SQLite).
"""

import uuid
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple

from django.db import models
from django.db.models import Exists, OuterRef, Q

from accounts.users.models import User
from ironauth.infrastructure.db.compiled import CompiledSelect, Param


class Kind(NamedTuple):
    """The rows behind a kind of factor. ``stands_alone``: False for one that only stands in for another."""

    rows: Callable[[], models.QuerySet[Any]]
    stands_alone: bool


#: By their names in the API, in the order in which people are offered them.
_kinds: Final[dict[str, Kind]] = {}
_METHODS: Final = CompiledSelect(
    lambda: User.objects.filter(pk=Param("id", models.UUIDField())).order_by().values_list(*columns())
)


def register(name: str, rows: Callable[[], models.QuerySet[Any]], *, stands_alone: bool) -> None:
    """Add a kind of factor. Registering it twice is harmless.

    Args:
        name: What the API calls it.
        rows: Returns its rows, of a model with a field ``user``.
        stands_alone: False where a person with nothing else has no second factor.
    """
    _kinds[name] = Kind(rows, stands_alone)


def columns() -> tuple[Exists, ...]:
    """Return what a query of users selects in addition, for `named`.

    Raises:
        RuntimeError: no kind is registered: everybody would pass for a person without a second factor.
    """
    if not _kinds:
        raise RuntimeError("No second factor is registered: import accounts.mfa.factors in the app's ready().")
    return tuple(Exists(kind.rows().filter(user=OuterRef("pk"))) for kind in _kinds.values())


def any_of() -> Q:
    """Return the condition by which a query of users finds those who have a factor."""
    return reduce(or_, map(Q, columns()))


def named(flags: Sequence[Any]) -> tuple[str, ...]:
    """Return the methods that `columns` of one user say there are."""
    methods = tuple(method for method, has in zip(_kinds, flags, strict=True) if has)
    return methods if any(_kinds[method].stands_alone for method in methods) else ()


def methods_of(user_id: uuid.UUID) -> tuple[str, ...]:
    """Return the methods of this user, none for nobody. One query."""
    rows = _METHODS.rows(id=user_id)
    return named(rows[0]) if rows else ()
