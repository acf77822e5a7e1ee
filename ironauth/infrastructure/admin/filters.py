"""Filters of the admin's lists that refuse a value they do not offer, where Django's own ignore it silently."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.http import HttpRequest


class KnownValues(admin.SimpleListFilter):
    """A filter by the values it offers and no other.

    Django's ``SimpleListFilter`` leaves a wrong value to its ``queryset()``, which as a rule shows the whole list.
    Somebody who mistyped an address would believe that everybody is being deleted.
    """

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        """Read the value. Raises ``IncorrectLookupParameters`` for one that is not offered: the list with ``?e=1``."""
        super().__init__(request, params, model, model_admin)
        if self.value() is not None and self.value() not in dict(self.lookup_choices):
            raise IncorrectLookupParameters
