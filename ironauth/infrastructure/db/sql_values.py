"""What becomes of a value on its way to the database: as its field would have it, chosen once for each parameter."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import (
    BigIntegerField,
    BooleanField,
    CharField,
    DateTimeField,
    Field,
    ForeignKey,
    IntegerField,
    PositiveIntegerField,
    PositiveSmallIntegerField,
    TextField,
    UUIDField,
)

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
