"""Filters of the admin's lists, in words people use."""

from collections.abc import Iterator
from typing import Any

from django.contrib import admin


class VerifiedFilter(admin.EmptyFieldListFilter):
    """Whether an address was verified: Django's empty/not empty of the moment, as no/yes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = "verified"

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Return all, yes and no."""
        every, empty, present = super().choices(changelist)
        yield from (every, {**present, "display": "Yes"}, {**empty, "display": "No"})
