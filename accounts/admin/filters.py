"""Filters of the admin's lists, in words people use."""

from collections.abc import Iterator
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.mfa import factors
from ironauth.infrastructure.admin.filters import KnownValues


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


class FactorFilter(KnownValues):
    """Whether somebody has a second factor."""

    title = "second factor"
    parameter_name = "factor"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer yes and no."""
        return [("yes", "Yes"), ("no", "No")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the users with or without one."""
        if self.value() == "yes":
            return queryset.filter(factors.any_of())
        return queryset.exclude(factors.any_of()) if self.value() == "no" else queryset
