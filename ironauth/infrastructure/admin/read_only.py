"""Admin pages of rows that only units of work may write: everything to see, nothing to edit, no secret to read."""

import re
from datetime import datetime
from typing import Any, ClassVar, Final

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

_JOINTS: Final = re.compile(r"(?<=@)|(?=\.)")  # of an e-mail address


class ReadOnly:
    """Mixin of admin pages that show rows which only units of work may write."""

    #: The lookups an address may filter by. Django allows any, so ``?secret__regex=`` would read it out bit by bit.
    lookups: ClassVar[frozenset[str]] = frozenset()
    #: Columns no page shows; they stay in the database.
    hidden: ClassVar[tuple[str, ...]] = ()

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow the filters of the page only."""
        return lookup in self.lookups

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows without their hidden columns."""
        rows: QuerySet[Any] = super().get_queryset(request)  # type: ignore[misc] # a mixin of ModelAdmin
        return rows.defer(*self.hidden)

    def named(self, row: Any) -> str:
        """Return what the heading of a row's page says."""
        return str(row)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Show a row's page below what the row is to people."""
        if (row := kwargs.get("obj")) is not None:
            context["subtitle"] = self.named(row)
        return super().render_change_form(request, context, *args, **kwargs)  # type: ignore[misc] # as above

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody adds a row by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody edits a row."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody deletes a row: it is ended or dropped, which other workers hear of."""
        return False


def moment(at: datetime | None) -> str:
    """Return a time as short as it sorts, so that the lists fit a screen; "-" for none."""
    return date_format(at, "DATETIME_FORMAT") if at else "-"


def breakable(text: str) -> SafeString:
    """Return the text as markup that a narrow column breaks after "@" and before ".", not inside words."""
    return format_html_join(SafeString("<wbr>"), "{}", ((part,) for part in _JOINTS.split(text)))
