"""A page of the admin in parts, each behind a tab: a link, so that it works by keyboard and without JavaScript.

A form that is posted to a tab's address has that tab's fields alone, and changes no other. One that is posted to the
page's own address has every field.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from django.contrib.admin import ModelAdmin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from ironauth.infrastructure.admin.read_only import ReadOnly

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    Admin = ModelAdmin[Any]
else:
    Admin = object

#: The parameter of the address that names a tab.
TAB: Final = "tab"


class Tab(NamedTuple):
    """A part of the page: its name in the address, its words, and the titles of its fieldsets.

    ``is_form``: it has something to save; rows of other applications that can be changed are on the first of these.
    """

    slug: str
    words: str
    titles: tuple[str | None, ...]
    is_form: bool = True


class Link(NamedTuple):
    """A tab as the page shows it."""

    words: str
    address: str
    is_current: bool


class Tabbed(Admin):
    """Mixin of a page whose fieldsets are behind tabs; the first one is shown unless another is asked for."""

    tabs: ClassVar[tuple[Tab, ...]]

    def tab_of(self, request: HttpRequest, obj: Any) -> Tab | None:
        """Return the tab that is shown or sent; None where everything is: a new row's page, a form without a tab."""
        if obj is None:
            return None
        asked = {tab.slug: tab for tab in self.tabs}.get(request.GET.get(TAB, ""))
        return asked or (None if request.method == "POST" else self.tabs[0])

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fieldsets of the tab."""
        return self.behind(self.tab_of(request, obj), super().get_fieldsets(request, obj))

    @staticmethod
    def behind(tab: Tab | None, every: Any) -> Any:
        """Return those of a page's fieldsets that are behind a tab; all of them for None.

        Args:
            tab: The tab.
            every: The fieldsets of the page.
        """
        return every if tab is None else [(title, one) for title, one in every if title in tab.titles]

    def get_inlines(self, request: HttpRequest, obj: Any) -> list[Any]:
        """Return what hangs on the row: to read on the first tab, to change on the first that is a form."""
        every, tab = list(super().get_inlines(request, obj)), self.tab_of(request, obj)
        if tab is None:
            return every
        form = next((one for one in self.tabs if one.is_form), None)
        return [one for one in every if tab is (self.tabs[0] if issubclass(one, ReadOnly) else form)]

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Add the tabs; one without a form has nothing to save."""
        tab = self.tab_of(request, kwargs.get("obj"))
        if kwargs.get("obj") is not None:
            context["tabs"] = [Link(one.words, f"?{TAB}={one.slug}", one is tab) for one in self.tabs]
            context["tab"] = tab
        if tab is not None:
            context["show_delete"] = False  # it is among the acts, on the first tab
        return super().render_change_form(request, context, *args, **kwargs)

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """Stay on the tab that was saved, where editing goes on."""
        answer, tab = super().response_change(request, obj), self.tab_of(request, obj)
        if tab is not None and "_continue" in request.POST and isinstance(answer, HttpResponseRedirect):
            return HttpResponseRedirect(f"{request.path}?{TAB}={tab.slug}")
        return answer
