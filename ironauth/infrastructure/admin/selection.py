"""What a list of the admin is asked to act upon, checked before Django puts it into a query."""

from typing import Any

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import BadRequest, ValidationError
from django.http import HttpRequest, HttpResponse


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
