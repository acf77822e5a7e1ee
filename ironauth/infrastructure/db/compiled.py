"""Queries of the hot paths, written with the ORM and compiled once.

Building and compiling a queryset costs 0.2-0.4 ms of CPU, ten times what SQLite takes to answer it; these queries are
the same every time but for their parameters. `Param` marks a parameter. A changed model changes them too, because
they are made from it when the process first runs them. PostgreSQL plans them once for each connection.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import (
    AutoField,
    ExpressionWrapper,
    F,
    Field,
    Model,
    QuerySet,
)
from django.db.models.constants import OnConflict
from django.db.models.lookups import In
from django.db.models.sql import DeleteQuery, InsertQuery, UpdateQuery
from django.db.models.sql.compiler import SQLCompiler
from django.db.transaction import TransactionManagementError

from ironauth.infrastructure.db import prepared as prepared_statements
from ironauth.infrastructure.db.batch import defer, insert_pending, is_pending, run_with_pending
from ironauth.infrastructure.db.compiled_sql import CompiledQuery, CompiledSql, Param
from ironauth.infrastructure.db.unit_of_work import about_to_commit

#: Numbers of parameters of `CompiledOfMany`: a few rows, the usual page of a list, the largest.
_SIZES: Final = (10, 50, 200)


def _fetched(compiled: CompiledSql, connection: BaseDatabaseWrapper, cursor: Any) -> list[list[Any]]:
    return [compiled.converted(row, connection) for row in cursor.fetchall()]


def _named(compiled: CompiledSql, connection: BaseDatabaseWrapper, cursor: Any) -> list[dict[str, Any]]:
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in _fetched(compiled, connection, cursor)]


class CompiledSelect(CompiledQuery):
    """A ``values_list()`` whose SQL does not change; ``build`` returns it, with `Param` for what does."""

    def rows(self, **given: Any) -> list[list[Any]]:
        """Run the query on this thread's connection and return every row. One query.

        Raises ``TransactionManagementError`` for a ``select_for_update()`` outside of a transaction, where its lock
        would end at once.
        """
        return self._read(given, _fetched)

    def dicts(self, **given: Any) -> list[dict[str, Any]]:
        """Do the same and return each row with the names of its columns, as ``values()`` does."""
        return self._read(given, _named)

    def _read[T](self, given: dict[str, Any], take: "Callable[[CompiledSql, BaseDatabaseWrapper, Any], T]") -> T:
        connection = connections[DEFAULT_DB_ALIAS]
        insert_pending()
        compiled = self.prepared(connection)
        if compiled.locks and not connection.in_atomic_block:  # Django asks when it compiles, which is once here
            raise TransactionManagementError("select_for_update cannot be used outside of a transaction")
        return prepared_statements.run(
            connection, compiled.sql, compiled.parameters(given, connection), partial(take, compiled, connection)
        )

    def _compiler(self, connection: BaseDatabaseWrapper) -> SQLCompiler:
        compiler: SQLCompiler = self._build().query.get_compiler(connection=connection)
        return compiler


class CompiledOfMany:
    """A ``values_list()`` in any order of the rows whose ``column``, of the kind ``field``, is among some values."""

    def __init__(self, build: "Callable[[], QuerySet[Any, Any]]", column: str, field: "Field[Any, Any]") -> None:
        # Wrapped, because a relation's own lookup wants its values at once.
        wrapped = ExpressionWrapper(F(column), output_field=field)
        self._queries = {size: _among(build, wrapped, field, size) for size in _SIZES}

    def rows(self, values: Sequence[Any]) -> list[list[Any]]:
        """Return every row. One query for every 200 ``values``, of which each is given once; none for none."""
        found: list[list[Any]] = []
        for start in range(0, len(values), _SIZES[-1]):
            asked = values[start : start + _SIZES[-1]]
            size = next(size for size in _SIZES if size >= len(asked))
            padded = [*asked, *[asked[-1]] * (size - len(asked))]  # the last one again: its rows are found once
            found += self._queries[size].rows(**{f"v{at}": value for at, value in enumerate(padded)})
        return found


def _among(
    build: "Callable[[], QuerySet[Any, Any]]", column: "ExpressionWrapper[Any]", field: "Field[Any, Any]", size: int
) -> CompiledSelect:
    return CompiledSelect(lambda: build().filter(In(column, [Param(f"v{at}", field) for at in range(size)])).order_by())


class _CompiledWrite(CompiledQuery):
    """What updates, inserts and deletes share: the pool is told that from now on something may have happened."""

    def _written[T](self, given: dict[str, Any], result: Callable[[Any], T]) -> T:
        connection = connections[DEFAULT_DB_ALIAS]
        compiled = self.prepared(connection)
        about_to_commit()
        insert_pending()
        return prepared_statements.run(connection, compiled.sql, compiled.parameters(given, connection), result)


def _changed(cursor: Any) -> int:
    return int(cursor.rowcount)


class CompiledUpdate(_CompiledWrite):
    """A ``QuerySet.update()`` whose SQL does not change; ``changes`` are its arguments."""

    def __init__(self, build: "Callable[[], QuerySet[Any, Any]]", **changes: Any) -> None:
        super().__init__(build)
        self._changes = changes

    def run(self, **given: Any) -> int:
        """Run the update on this thread's connection and return how many rows it changed. One query."""
        return run_with_pending((self,), given)[0] if is_pending() else self._written(given, _changed)

    def execute_deferred(self, **given: Any) -> None:
        """Do the same for who need not know how many: held back like an insert in a block of ``batch``."""
        if not defer((self, given, None), in_transaction=True):
            self.run(**given)

    def _compiler(self, connection: BaseDatabaseWrapper) -> SQLCompiler:
        query: Any = self._build().query.chain(UpdateQuery)
        query.add_update_values(self._changes)
        query.clear_select_clause()
        compiler: SQLCompiler = query.get_compiler(connection=connection)
        return compiler


class CompiledDelete(_CompiledWrite):
    """A delete of one table's rows whose SQL does not change: no signals, and no cascade but the database's own."""

    def run(self, **given: Any) -> int:
        """Run the delete on this thread's connection and return how many rows are gone. One query."""
        return run_with_pending((self,), given)[0] if is_pending() else self._written(given, _changed)

    def _compiler(self, connection: BaseDatabaseWrapper) -> SQLCompiler:
        query: Any = self._build().query.chain(DeleteQuery)
        compiler: SQLCompiler = query.get_compiler(connection=connection)
        return compiler


class CompiledInsert(_CompiledWrite):
    """An insert of one row whose SQL does not change; ``build`` returns the object, with `Param` for every value.

    ``ignore_conflicts``: a row that some constraint forbids is left out, without an error.
    """

    def __init__(self, build: Callable[[], Model], *, ignore_conflicts: bool = False) -> None:
        super().__init__(build)
        self._on_conflict = OnConflict.IGNORE if ignore_conflicts else None

    def run(self, **given: Any) -> int:
        """Insert the row on this thread's connection and return whether it was, as 1 or 0. One query.

        None in a block of ``batch``, where it is held back, and 1 is returned.
        """
        if self._on_conflict is None and defer((self, given, None)):
            return 1
        return self._written(given, _changed)

    def _compiler(self, connection: BaseDatabaseWrapper) -> SQLCompiler:
        row = self._build()
        query: Any = InsertQuery(type(row), on_conflict=self._on_conflict)
        query.insert_values(_given_fields(type(row)), [row])
        compiler: SQLCompiler = query.get_compiler(connection=connection)
        return compiler


class CompiledNumberedInsert(CompiledInsert):
    """The same for a row that the database numbers."""

    def new_id(self, **given: Any) -> int:
        """Insert the row on this thread's connection and return its number. One query."""
        return self._written(given, lambda cursor: int(cursor.fetchone()[0]))

    def on_insert_id(self, then: Callable[[int], None], **given: Any) -> None:
        """Do the same and tell ``then`` the number: in a block of ``batch`` when the row is inserted."""
        if not defer((self, given, then), in_transaction=True):
            then(self.new_id(**given))

    def _compiler(self, connection: BaseDatabaseWrapper) -> SQLCompiler:
        compiler: Any = super()._compiler(connection)
        compiler.returning_fields = [compiler.query.model._meta.pk]  # noqa: SLF001 - documented by Django
        return cast("SQLCompiler", compiler)


class CompiledBatch:
    """Writes of which none looks at what another one changes: one statement on PostgreSQL, elsewhere one after another.

    A statement is a round trip there, which costs more than what it does: a transaction of three small inserts takes
    0.53 ms, of one statement with the same three 0.38.
    """

    def __init__(self, *writes: CompiledUpdate | CompiledDelete) -> None:
        self._writes = writes

    def run(self, **given: Any) -> list[int]:
        """Run the writes on this thread's connection and return how many rows each changed. One query, or one each."""
        if connections[DEFAULT_DB_ALIAS].vendor != "postgresql":
            return [write.run(**given) for write in self._writes]
        return run_with_pending(self._writes, given)


def given_row[M: Model](model: type[M]) -> M:
    """Return an object of ``model`` with `Param` for every column that the database does not number, named as it is."""
    return model(**{field.attname: Param(field.attname, field) for field in _given_fields(model)})


def _given_fields(model: type[Model]) -> "list[Field[Any, Any]]":
    return [field for field in model._meta.concrete_fields if not isinstance(field, AutoField)]  # noqa: SLF001 - documented by Django
