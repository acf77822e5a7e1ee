"""Queries of the hot paths, written with the ORM and compiled once.

Building and compiling a queryset costs 0.2-0.4 ms of CPU, ten times what SQLite takes to answer it; these queries are
the same every time but for their parameters. `Param` marks a parameter. A changed model changes them too, because
they are made from it when the process first runs them. PostgreSQL plans them once for each connection.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, cast
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import (
    AutoField,
    BigIntegerField,
    BooleanField,
    CharField,
    DateTimeField,
    Expression,
    ExpressionWrapper,
    F,
    Field,
    ForeignKey,
    IntegerField,
    Model,
    PositiveIntegerField,
    PositiveSmallIntegerField,
    QuerySet,
    TextField,
    UUIDField,
)
from django.db.models.constants import OnConflict
from django.db.models.lookups import In
from django.db.models.sql import DeleteQuery, InsertQuery, UpdateQuery
from django.db.models.sql.compiler import SQLCompiler
from django.db.transaction import TransactionManagementError

from ironauth.infrastructure.db import prepared as prepared_statements
from ironauth.infrastructure.db.unit_of_work import about_to_commit

#: Numbers of parameters of `CompiledOfMany`: a few rows, the usual page of a list, the largest.
_SIZES: Final = (10, 50, 200)

type Converter = tuple[int, Sequence[Callable[[Any, Any, BaseDatabaseWrapper], Any]], Any]

#: Values that these very fields leave as they are; a field derived from one may not.
_PLAIN: "Final[Mapping[type[Field[Any, Any]], tuple[type, ...]]]" = {
    CharField: (str,), TextField: (str,), BooleanField: (bool,), IntegerField: (int,), PositiveIntegerField: (int,),
    PositiveSmallIntegerField: (int,), BigIntegerField: (int,),
}  # fmt: skip


def adaptation(field: "Field[Any, Any]") -> tuple[Callable[[Any, BaseDatabaseWrapper], Any], tuple[type, ...]]:
    """Return what makes a value the driver's as the field would, and the types of values it would leave as they are."""
    while isinstance(field, ForeignKey):
        field = field.target_field
    prepare: Any = field.get_db_prep_value

    def moment(value: Any, connection: BaseDatabaseWrapper) -> Any:
        if type(value) is datetime and value.tzinfo is UTC:
            if connection.vendor == "postgresql":
                return value
            if connection.vendor == "sqlite" and connection.timezone is UTC:
                return value.isoformat(" ")[: -len("+00:00")]
        return prepare(value, connection)

    def identifier(value: Any, connection: BaseDatabaseWrapper) -> Any:
        if type(value) is UUID:
            return value if connection.features.has_native_uuid_field else value.hex
        return prepare(value, connection)

    quicker = {DateTimeField: moment, UUIDField: identifier}
    return quicker.get(type(field), prepare), _PLAIN.get(type(field), ())


class Param(Expression):
    """A parameter of a fixed query, named in the call that runs it; ``output_field`` turns its value into SQL's."""

    def __init__(self, name: str, output_field: "Field[Any, Any]") -> None:
        super().__init__(output_field=output_field)
        self.name = name

    def as_sql(self, _compiler: SQLCompiler, _connection: BaseDatabaseWrapper) -> tuple[str, Any]:
        """Return a placeholder, and this very object where its value belongs."""
        return "%s", [self]


class CompiledSql:
    """The SQL, and what becomes of parameters and columns."""

    def __init__(self, compiler: SQLCompiler) -> None:
        compiled: Any = compiler.as_sql()
        self.sql, parameters = compiled[0] if isinstance(compiled, list) else compiled  # an insert has a list of one
        self._parameters = [
            (parameter.name, *adaptation(parameter.output_field))
            if isinstance(parameter, Param)
            else (None, parameter, ())
            for parameter in parameters
        ]
        self.locks = bool(getattr(compiler.query, "select_for_update", False))
        selected = getattr(compiler, "select", None)
        columns = [column[0] for column in selected] if isinstance(selected, list) else []
        self._converters: list[Converter] = [
            (position, functions, expression)
            for position, (functions, expression) in compiler.get_converters(columns).items()
        ]

    def parameters(self, given: dict[str, Any], connection: BaseDatabaseWrapper) -> list[Any]:
        """Return the values for the placeholders; raises ``KeyError`` for one that is missing."""
        values = []
        for name, adapt, plain in self._parameters:
            if name is None:
                values.append(adapt)
                continue
            value = given[name]
            values.append(value if value is None or type(value) in plain else adapt(value, connection))
        return values

    def converted(self, row: Sequence[Any], connection: BaseDatabaseWrapper) -> list[Any]:
        """Return ``row`` as Python values, as the ORM would."""
        values = list(row)
        for position, functions, expression in self._converters:
            value = values[position]
            for function in functions:
                value = function(value, expression, connection)
            values[position] = value
        return values


class CompiledQuery:
    """What all kinds share: the query, compiled when it is first run on a kind of database."""

    def __init__(self, build: "Callable[[], Any]") -> None:
        self._build = build
        self._compiled: dict[str, CompiledSql] = {}

    def prepared(self, connection: BaseDatabaseWrapper) -> CompiledSql:
        """Return the query as this kind of database takes it."""
        compiled = self._compiled.get(connection.vendor)
        if compiled is None:  # two threads at once do the same
            compiled = self._compiled[connection.vendor] = CompiledSql(self._compiler(connection))
        return compiled

    def _compiler(self, connection: BaseDatabaseWrapper) -> SQLCompiler:
        raise NotImplementedError


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

    def run(self, **given: Any) -> int:
        """Run it on this thread's connection and return how many rows it changed, inserted or deleted. One query."""
        return self._written(given, lambda cursor: int(cursor.rowcount))

    def _written[T](self, given: dict[str, Any], result: Callable[[Any], T]) -> T:
        connection = connections[DEFAULT_DB_ALIAS]
        compiled = self.prepared(connection)
        about_to_commit()
        return prepared_statements.run(connection, compiled.sql, compiled.parameters(given, connection), result)


class CompiledUpdate(_CompiledWrite):
    """A ``QuerySet.update()`` whose SQL does not change; ``changes`` are its arguments."""

    def __init__(self, build: "Callable[[], QuerySet[Any, Any]]", **changes: Any) -> None:
        super().__init__(build)
        self._changes = changes

    def _compiler(self, connection: BaseDatabaseWrapper) -> SQLCompiler:
        query: Any = self._build().query.chain(UpdateQuery)
        query.add_update_values(self._changes)
        query.clear_select_clause()
        compiler: SQLCompiler = query.get_compiler(connection=connection)
        return compiler


class CompiledDelete(_CompiledWrite):
    """A delete of one table's rows whose SQL does not change: no signals, and no cascade but the database's own."""

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

    def _compiler(self, connection: BaseDatabaseWrapper) -> SQLCompiler:
        compiler: Any = super()._compiler(connection)
        compiler.returning_fields = [compiler.query.model._meta.pk]  # noqa: SLF001 - documented by Django
        return cast("SQLCompiler", compiler)


def given_row[M: Model](model: type[M]) -> M:
    """Return an object of ``model`` with `Param` for every column that the database does not number, named as it is."""
    return model(**{field.attname: Param(field.attname, field) for field in _given_fields(model)})


def _given_fields(model: type[Model]) -> "list[Field[Any, Any]]":
    return [field for field in model._meta.concrete_fields if not isinstance(field, AutoField)]  # noqa: SLF001 - documented by Django
