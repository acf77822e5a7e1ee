"""SQL that the ORM compiled once, and what becomes of its parameters and columns."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import (
    BigIntegerField,
    BooleanField,
    CharField,
    DateTimeField,
    Expression,
    Field,
    ForeignKey,
    IntegerField,
    PositiveIntegerField,
    PositiveSmallIntegerField,
    TextField,
    UUIDField,
)
from django.db.models.sql.compiler import SQLCompiler

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
