"""Filters of the admin's lists, in words people use."""

from collections.abc import Iterator
from typing import Any, ClassVar

from django.contrib import admin


class _HappenedFilter(admin.EmptyFieldListFilter):
    """Whether something has happened: Django's empty/not empty of its moment, as no/yes."""

    words: ClassVar[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = self.words

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Return all, yes and no."""
        every, empty, present = super().choices(changelist)
        yield from (every, {**present, "display": "Yes"}, {**empty, "display": "No"})


class VerifiedFilter(_HappenedFilter):
    """Whether an address was verified."""

    words = "verified"


class FlaggedFilter(_HappenedFilter):
    """Whether the present password was found in the list of breached ones."""

    words = "password found in a breach"
