"""What is particular to one kind of things that staff register: table, rights, rules and words.

What is done to them is written once for all kinds: `units` and `services` for the API, `admin` for its pages, `command`
for scripts. All three store and record by `changes`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django.db import models

from accounts.audit.recording import Event
from ironauth.infrastructure.core.errors import FieldError


class Registered(models.Model):
    """A row that staff register.

    Attributes:
        identifier: What clients name it by. It never changes, since grants and tokens have it.
        active: Without it the row counts as not registered.
    """

    identifier: Any
    active: Any

    class Meta:
        abstract = True


class Shown(Protocol):
    """What the API says of a row."""

    @property
    def identifier(self) -> str:
        """Return that of the row."""


@dataclass(frozen=True, kw_only=True)
class Kind[Row: Registered, Out: Shown]:
    """One kind of things that staff register.

    Args:
        model: The table.
        out: What the API says of a row: a struct whose fields have the names of the row's.
        word: The name of the log's field with the identifier of a row.
        rights: The right that each HTTP method needs.
        created: The event of a new row, in the trail and in the log.
        changed: The event of a change.
        deleted: The event of a deletion.
        told: Returns what every event says of the row.
        changeable: The fields that may change, in the order in which the command prints them.
        most: Rows in a list of the API.
        missing: The message where no row has the id.
        taken: The message where another row has the identifier.
        problems_of: Returns what is wrong with a row before it is stored, each with its remedy.
        tidied: Returns sent values in the form in which they are stored.
    """

    model: type[Row]
    out: type[Out]
    word: str
    rights: dict[str, str]
    created: Event
    changed: Event
    deleted: Event
    told: Callable[[Row], dict[str, object]]
    changeable: Sequence[str]
    most: int
    missing: str
    taken: str
    problems_of: Callable[[Row], list[FieldError]]
    tidied: Callable[[Mapping[str, Any]], dict[str, Any]] = dict

    def rows(self) -> models.QuerySet[Row]:
        """Return all rows, in the order of the model."""
        return self.model._default_manager.all()  # noqa: SLF001 - documented by Django
