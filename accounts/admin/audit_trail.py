"""The audit trail in Django's admin: to find and to read."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ALL_VAR, ERROR_FLAG, PAGE_VAR, SEARCH_VAR, ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from accounts import email_address as emails
from accounts.access.rights import VIEW_USERS
from accounts.admin import search
from accounts.audit import exporting
from accounts.audit import queries as audit_queries
from accounts.audit.events import FAMILIES, REASONS, ended, facts, in_words, told
from accounts.audit.exporting import Format
from accounts.audit.models import AuditEvent
from accounts.audit.recording import MAX_DETAIL, Outcome
from accounts.users.models import User
from ironauth.infrastructure.admin.lists import CountedPages, KnownValues
from ironauth.infrastructure.admin.read_only import ReadOnly, breakable
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import first_id_at
from ironauth.infrastructure.db import networks

SEE_CLIENTS: Final = "tokens.view_oauthclient"
MAX_FOUND: Final = 50  # people whose address or name has what is searched for
_EXPORT: Final = "accounts_auditevent_export"  # the name of its address
THEMSELVES: Final = "themselves"  # who did something to their own account
FIELDS: Final = (
    "when", "what", "code", "result", "actor", "user", "session_id", "address", "user_agent", "request_id", "more",
    "id",
)  # fmt: skip


class FilterField(NamedTuple):
    """A field of the filter; ``read`` returns its value, or raises ``ValueError`` or ``OverflowError``."""

    label: str
    read: Callable[[str], Any]
    kind: str = "text"
    example: str = ""
    choices: tuple[tuple[str, str], ...] = ()


def _cause(text: str) -> str:
    if text not in REASONS:
        raise ValueError
    return text


def _client(text: str) -> str:
    if len(text) > MAX_DETAIL or not text.isprintable():
        raise ValueError
    return text


def _day(text: str) -> datetime:
    return datetime.combine(date.fromisoformat(text), time.min, UTC)


def _after_day(text: str) -> datetime:
    return _day(text) + timedelta(days=1)


FIELDS_ASKED: Final = {
    "cause": FilterField("Cause of a failure", _cause, "select", choices=tuple(REASONS.items())),
    "client": FilterField("Client (its client_id)", _client),
    "network": FilterField("Address or network", networks.network, example="192.0.2.0/24"),
    "since": FilterField("From this day (UTC)", _day, "date"),
    "until": FilterField("To this day, inclusive", _after_day, "date"),
}


class _Trail(ChangeList):
    """The list, with the addresses of the people on a page: one query for all of them."""

    def get_results(self, request: HttpRequest) -> None:
        """Fetch the page, and who the people on it are, for those who may see people."""
        super().get_results(request)
        events = list(self.result_list)
        self.result_list: Any = events
        people = addresses(events) if request.user.has_perm(VIEW_USERS) else {}
        machines = machines_of(events, people) if request.user.has_perm(SEE_CLIENTS) else {}
        for event in events:
            event.people, event.machines = people, machines


def addresses(events: list[Any]) -> dict[uuid.UUID, str]:
    """Return the addresses of the people these events name, in words. One query, none for nobody."""
    ids = {one for event in events for one in (event.actor_id, event.user_id) if one is not None}
    people = User.objects.filter(pk__in=ids).values_list("pk", "email", "pending_deletion__requested_at")
    return {user_id: emails.describe(email, deleted_at) for user_id, email, deleted_at in people}


#: What names clients that did something by themselves; the room of clients registers it.
_names_of_machines: Final[list[Callable[[Iterable[uuid.UUID]], Mapping[uuid.UUID, str]]]] = []


def register_machines(names_of: Callable[[Iterable[uuid.UUID]], Mapping[uuid.UUID, str]]) -> None:
    """Have the trail name clients that administer by themselves.

    Args:
        names_of: Returns the names of those ids that are clients'.
    """
    _names_of_machines.append(names_of)


def machines_of(events: list[Any], people: Mapping[uuid.UUID, str]) -> dict[uuid.UUID, str]:
    """Return the names of the clients that did these events by themselves. One query, none where people did all.

    Args:
        events: The events of a page.
        people: The people that are known to be in them.
    """
    ids = {event.actor_id for event in events if event.actor_id is not None} - people.keys()
    return {one: name for names_of in _names_of_machines if ids for one, name in names_of(ids).items()}


class _Codes(KnownValues):
    """A filter over a column of codes; Django's would read every row to learn which there are."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEvent]) -> QuerySet[AuditEvent]:
        """Return the events with the chosen code; of what a rarer filter finds they are checked, not searched by.

        SQLite, without statistics, would look for one person's sign-ins among all of them: 9 s at 1,000,000 events.
        """
        name, code = str(self.parameter_name), self.value()
        if code is None:
            return queryset
        if request.GET.get(SEARCH_VAR, "").strip() or audit_queries.goes_first(request.GET):
            checked = f"checked_{name}"
            return queryset.alias(**{checked: Coalesce(name, Value(""))}).filter(**{checked: code})
        return queryset.filter(**{name: code})


class EventFilter(_Codes):
    """What happened."""

    title = parameter_name = "event"
    template = "admin/event_filter.html"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer every event, family by family."""
        return [one for family in FAMILIES.values() for one in family.items()]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        """Return all, and each event with its family, for the template to fold."""
        every, *events = super().choices(changelist)
        yield every
        names = [name for name, family in FAMILIES.items() for _ in family]
        yield from ({**event, "family": name} for event, name in zip(events, names, strict=True))


class OutcomeFilter(_Codes):
    """How it ended."""

    title = parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer the three."""
        return [(outcome.value, in_words(outcome.value)) for outcome in Outcome]


class AskedFilter(admin.ListFilter):
    """What is typed or chosen: client, network, cause, and dates, which are days in UTC."""

    title = "details"
    template = "admin/asked_filter.html"

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        """Read the values. Raises ``IncorrectLookupParameters`` for one that cannot be meant."""
        super().__init__(request, params, model, model_admin)
        for name in FIELDS_ASKED:
            if name in params:
                self.used_parameters[name] = params.pop(name)[-1].strip()
        self._filters: dict[str, Any] = {}
        try:
            for name, value in self.used_parameters.items():
                if value:
                    self._filters[name] = FIELDS_ASKED[name].read(str(value))
        except (ValueError, OverflowError) as error:
            raise IncorrectLookupParameters from error

    def has_output(self) -> bool:
        """Tell that there are always fields to show."""
        return True

    def expected_parameters(self) -> list[str | None]:
        """Return the names of the fields."""
        return list(FIELDS_ASKED)

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        """Return the fields, and what else the address has, for the form to keep."""
        kept = {name: values[-1] for name, values in changelist.filter_params.items() if name not in FIELDS_ASKED}
        if changelist.query:
            kept[SEARCH_VAR] = changelist.query
        yield {"kept": kept.items(), "selected": bool(self._filters)}
        for name, field in FIELDS_ASKED.items():
            yield {"name": name, "value": self.used_parameters.get(name, ""), "field": field}

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEvent]) -> QuerySet[AuditEvent]:
        """Return the events of what was asked."""
        exporting = request.resolver_match is not None and request.resolver_match.url_name == _EXPORT
        searched = not exporting and not request.GET.get(SEARCH_VAR, "").strip()
        found = audit_queries.told(queryset, self._filters, searched=searched)
        return audit_queries.between(found, self._filters.get("since"), self._filters.get("until"))


class AgeFilter(KnownValues):
    """When it happened; asked by the id, which is in order of time."""

    title = "time"
    parameter_name = "hours"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer a few."""
        return [
            ("1", "Past hour"), ("24", "Past 24 hours"), ("168", "Past 7 days"), ("720", "Past 30 days"),
            ("24-48", "The 24 hours before"), ("168-336", "The 7 days before"),
            ("720-1440", "The 30 days before"),
        ]  # fmt: skip

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEvent]) -> QuerySet[AuditEvent]:
        """Return the events of that time."""
        hours = self.value()
        if hours is None:
            return queryset
        until, _, since = hours.rpartition("-")
        now = clock.now()
        before = now - timedelta(hours=int(until)) if until else None
        return audit_queries.between(queryset, now - timedelta(hours=int(since)), before)


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """The trail: nobody adds, changes or deletes anything here."""

    lookups = frozenset({"event", "outcome", "hours", *FIELDS_ASKED})
    change_list_template = "admin/audit_list.html"
    list_display = ("when", "what", "result", "actor", "user", "address")
    list_filter = (AskedFilter, EventFilter, OutcomeFilter, AgeFilter)
    search_fields = ("user_id",)  # what get_search_results does; without it there is no field
    search_help_text = "Part of a person's e-mail address or name, or the id of a person or a session"
    sortable_by = ()
    ordering = ("-id",)
    list_per_page = 50
    paginator = CountedPages
    show_full_result_count = False  # counting millions of rows is what makes an admin list slow
    show_facets = admin.ShowFacets.NEVER  # so does counting them for every filter
    fields = FIELDS
    readonly_fields = FIELDS

    def get_urls(self) -> list[Any]:
        """Add the addresses of the exports; their queries are those of the list."""
        view = self.admin_site.admin_view(self.export)
        return [path("export/<str:form>/", view, name=_EXPORT), *super().get_urls()]

    @method_decorator(require_safe)
    def export(self, request: HttpRequest, form: str) -> HttpResponseBase:
        """Send the events that the list of this query shows, all of its pages, as a file.

        Raises:
            Http404: There is no such format.
            PermissionDenied: The caller may not read the trail.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        if form not in list(Format):
            raise Http404
        try:
            events = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters:
            return HttpResponseRedirect(f"{reverse('admin:accounts_auditevent_changelist')}?e=1")
        until, chosen = first_id_at(clock.now()), Format(form)
        asked = {name: value for name, value in request.GET.items() if name != SEARCH_VAR}
        searched: dict[str, object] = {"search": "yes"} if request.GET.get(SEARCH_VAR, "").strip() else {}
        caller: Any = request.user
        exporting.record_export(actor_id=caller.pk, form=chosen, filters=asked | searched)
        parts = exporting.parts(events, chosen, until=until)
        return StreamingHttpResponse(parts, content_type=chosen.media_type, headers=exporting.file_name(chosen))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show the list, with the links to its exports."""
        query = request.GET.copy()
        for name in (PAGE_VAR, ALL_VAR, ERROR_FLAG):
            query.pop(name, None)
        exports = [
            (label, f"{reverse('admin:accounts_auditevent_export', args=[form])}?{query.urlencode()}")
            for label, form in (("Export as CSV", Format.CSV.value), ("Export as JSON lines", Format.JSON_LINES.value))
        ]
        return super().changelist_view(request, {**(extra_context or {}), "exports": exports})

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list with the people's addresses."""
        return _Trail

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the event with the addresses of its people, for those who may see people."""
        event: Any = super().get_object(request, object_id, from_field)
        if event is not None and request.user.has_perm(VIEW_USERS):
            event.people = addresses([event])
        if event is not None and request.user.has_perm(SEE_CLIENTS):
            event.machines = machines_of([event], getattr(event, "people", {}))
        return event

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AuditEvent], search_term: str
    ) -> tuple[QuerySet[AuditEvent], bool]:
        """Find what concerns a person or was done by one, or in a session. People who are gone have their id only."""
        term = search_term.strip()
        if not term:
            return queryset, False
        try:
            found = [uuid.UUID(term)]
        except ValueError:
            if not request.user.has_perm(VIEW_USERS):
                return queryset.none(), False
            people = search.people(User.objects.all(), term).order_by("email_key")
            found = list(people.values_list("pk", flat=True)[:MAX_FOUND])
            return queryset.filter(Q(actor_id__in=found) | Q(user_id__in=found)), False
        return queryset.filter(Q(actor_id__in=found) | Q(user_id__in=found) | Q(session_id__in=found)), False

    @admin.display(description="at")
    def when(self, event: AuditEvent) -> str:
        """Return when it happened, to the second."""
        return f"{event.at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="event")
    def what(self, event: AuditEvent) -> str:
        """Return what happened, in words."""
        return told(event.event, event.details)

    @admin.display(description="name in the API")
    def code(self, event: AuditEvent) -> str:
        """Return what other programs call it."""
        return event.event

    @admin.display(description="outcome")
    def result(self, event: AuditEvent) -> SafeString:
        """Return how it ended and why, marked where it did not succeed."""
        return format_html('<span class="outcome-{}">{}</span>', event.outcome, ended(event.outcome, event.details))

    @admin.display(description="details")
    def more(self, event: AuditEvent) -> SafeString | str:
        """Return what else is known of it, one fact a line."""
        return format_html_join(mark_safe("<br>"), "{}: {}", facts(event.details)) or "-"

    @admin.display(description="by")
    def actor(self, event: AuditEvent) -> str:
        """Return who did it."""
        if event.actor_id is not None and event.actor_id == event.user_id:
            return THEMSELVES
        machine = getattr(event, "machines", {}).get(event.actor_id)
        return f"{machine} (application)" if machine else _person(event, event.actor_id)

    @admin.display(description="account")
    def user(self, event: AuditEvent) -> str:
        """Return whose account it is about."""
        return _person(event, event.user_id)


def _person(event: Any, user_id: uuid.UUID | None) -> str:
    """Return a link to a person, by address where that is known, or the bare id."""
    if user_id is None:
        return "-"
    address = getattr(event, "people", {}).get(user_id)
    page = reverse("admin:accounts_user_change", args=[user_id])
    return format_html('<a href="{}">{}</a>', page, breakable(address) if address else user_id)
