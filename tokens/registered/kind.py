"""What is particular to one kind of registered things: its table, rights, rules and words.

What is done to them is written once for all kinds, in the modules beside this one.
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
        identifier: What clients name it by; it never changes, since grants and tokens have it.
        active: Without it, it is as if it were not registered.
    """

    identifier: Any
    active: Any

    class Meta:
        abstract = True


class Shown(Protocol):
    """What the API says of a row."""

    @property
    def identifier(self) -> str:
        """Of the row."""


@dataclass(frozen=True, kw_only=True)
class Kind[Row: Registered, Out: Shown]:
    """One kind of things that staff register.

    Args:
        model: Its table.
        out: What the API says of a row: a struct whose fields are some of the row's.
        word: What the log calls one.
        rights: The right that each method of HTTP needs.
        created: The event of a new row. Those of the trail are those of the log.
        changed: The event of a change.
        deleted: The event of a deletion.
        told: Returns what each event says of the row.
        changeable: The fields that may change.
        most: How many a list has at most.
        missing: What is said to those who ask for one that there is not.
        taken: What is said to those whose identifier is registered already.
        problems_of: Returns what is wrong with a row that is not stored yet, each with its remedy.
        tidied: Returns values that were sent as they are stored.
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
