"""Fixed queries about many rows at once: compiled for a few numbers of parameters, and asked with the next larger."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from django.db.models import ExpressionWrapper, F, Field, QuerySet
from django.db.models.lookups import In

from ironauth.infrastructure.db.compiled import CompiledSelect, Param

#: Numbers of parameters: a few rows, the usual page of a list, the largest.
_SIZES: Final = (10, 50, 200)


class CompiledOfMany:
    """A ``values_list()`` in any order of the rows whose ``column``, of the kind ``field``, is among some values."""

    def __init__(self, build: "Callable[[], QuerySet[Any, Any]]", column: str, field: "Field[Any, Any]") -> None:
        # Wrapped, because a relation's own lookup wants its values at once.
        wrapped = ExpressionWrapper(F(column), output_field=field)
        self._queries = {size: _query(build, wrapped, field, size) for size in _SIZES}

    def rows(self, values: Sequence[Any]) -> list[list[Any]]:
        """Return every row. One query for every 200 ``values``, of which each is given once; none for none."""
        found: list[list[Any]] = []
        for start in range(0, len(values), _SIZES[-1]):
            asked = values[start : start + _SIZES[-1]]
            size = next(size for size in _SIZES if size >= len(asked))
            padded = [*asked, *[asked[-1]] * (size - len(asked))]  # the last one again: its rows are found once
            found += self._queries[size].rows(**{f"v{at}": value for at, value in enumerate(padded)})
        return found


def _query(
    build: "Callable[[], QuerySet[Any, Any]]", column: "ExpressionWrapper[Any]", field: "Field[Any, Any]", size: int
) -> CompiledSelect:
    return CompiledSelect(lambda: build().filter(In(column, [Param(f"v{at}", field) for at in range(size)])).order_by())
