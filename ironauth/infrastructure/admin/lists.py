"""Lists of the admin: they count no more than is worth it, and refuse values and keys that Django ignores."""

from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import BadRequest, ValidationError
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.utils.functional import cached_property

COUNTED: Final = 10_000  # rows; counting a million for the sake of a page number takes longer than the page


class CountedPages(Paginator):  # type: ignore[type-arg] # Django's is not generic at run time
    """Pages of the first ``COUNTED`` rows only; others are found by filters."""

    @cached_property
    def count(self) -> int:
        """Return how many rows there are, as far as they are counted."""
        rows: Any = self.object_list
        count: int = rows.order_by()[:COUNTED].count()
        return count


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


class CheckedSelection:
    """A ``ModelAdmin`` that answers 400 to a selected key that can be none; stock Django answers 500."""

    opts: Any

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list or carry out an action. Raises ``BadRequest`` (400) for a malformed key."""
        if request.POST.get("select_across") != "1":  # else the list itself is what is acted upon
            for key in request.POST.getlist(ACTION_CHECKBOX_NAME):
                try:
                    self.opts.pk.clean(key, None)
                except ValidationError as error:
                    raise BadRequest("A selected key is malformed") from error
                if "\x00" in key:
                    raise BadRequest("A selected key is malformed")
        response: HttpResponse = super().changelist_view(request, extra_context)  # type: ignore[misc] # a mixin of ModelAdmin
        return response
