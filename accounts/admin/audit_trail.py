"""The audit trail in Django's admin: to find and to read."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from functools import cached_property
from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from accounts import email_address as emails
from accounts.audit.events import FAMILIES, in_words, phrase
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Outcome
from accounts.users.models import User
from ironauth.infrastructure.admin.filters import KnownValues
from ironauth.infrastructure.admin.read_only import ReadOnly, breakable
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import first_id_at

COUNTED: Final = 10_000  # events; counting a million for the sake of a page number takes longer than the page
MAX_FOUND: Final = 50  # people whose address begins as searched for
THEMSELVES: Final = "themselves"  # who did something to their own account
FIELDS: Final = (
    "when", "what", "code", "outcome", "actor", "user", "session_id", "address", "user_agent", "request_id", "details",
    "id",
)  # fmt: skip


class _Limited(Paginator):  # type: ignore[type-arg] # Django's is not generic at run time
    """Pages of the newest events only; older ones are found by filters."""

    @cached_property
    def count(self) -> int:
        """Return how many events there are, as far as they are counted."""
        events: Any = self.object_list
        count: int = events.order_by()[:COUNTED].count()
        return count


class _Trail(ChangeList):
    """The list, with the addresses of the people on a page: one query for all of them."""

    def get_results(self, request: HttpRequest) -> None:
        """Fetch the page, and who the people on it are, for those who may see people."""
        super().get_results(request)
        events = list(self.result_list)
        self.result_list: Any = events
        people = addresses(events) if request.user.has_perm("accounts.view_user") else {}
        for event in events:
            event.people = people


def addresses(events: list[Any]) -> dict[uuid.UUID, str]:
    """Return the addresses of the people these events name, in words. One query, none for nobody."""
    ids = {one for event in events for one in (event.actor_id, event.user_id) if one is not None}
    people = User.objects.filter(pk__in=ids).values_list("pk", "email", "pending_deletion__requested_at")
    return {user_id: emails.describe(email, deleted_at) for user_id, email, deleted_at in people}


class _Codes(KnownValues):
    """A filter over a column of codes; Django's would read every row to learn which there are."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEvent]) -> QuerySet[AuditEvent]:
        """Return the events with the chosen code; of what a search finds they are checked, not searched by.

        SQLite, without statistics, would look for one person's sign-ins among all of them: 9 s at 1,000,000 events.
        """
        name, code = str(self.parameter_name), self.value()
        if code is None:
            return queryset
        if request.GET.get(SEARCH_VAR, "").strip():
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


class AgeFilter(KnownValues):
    """When it happened; asked by the id, which is in order of time."""

    title = "time"
    parameter_name = "hours"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer a few."""
        return [("1", "Past hour"), ("24", "Past 24 hours"), ("168", "Past 7 days"), ("720", "Past 30 days")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEvent]) -> QuerySet[AuditEvent]:
        """Return the events of that time."""
        hours = self.value()
        if hours is None:
            return queryset
        return queryset.filter(id__gte=first_id_at(clock.now() - timedelta(hours=int(hours))))


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """The trail: nobody adds, changes or deletes anything here."""

    lookups = frozenset({"event", "outcome", "hours"})
    list_display = ("when", "what", "result", "actor", "user", "address")
    list_filter = (EventFilter, OutcomeFilter, AgeFilter)
    search_fields = ("user_id",)  # what get_search_results does; without it there is no field
    search_help_text = "Beginning of a person's e-mail address, or the id of a person or a session"
    sortable_by = ()
    ordering = ("-id",)
    list_per_page = 50
    paginator = _Limited
    show_full_result_count = False  # counting millions of rows is what makes an admin list slow
    show_facets = admin.ShowFacets.NEVER  # so does counting them for every filter
    fields = FIELDS
    readonly_fields = FIELDS

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list with the people's addresses."""
        return _Trail

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the event with the addresses of its people, for those who may see people."""
        event: Any = super().get_object(request, object_id, from_field)
        if event is not None and request.user.has_perm("accounts.view_user"):
            event.people = addresses([event])
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
            if not request.user.has_perm("accounts.view_user"):
                return queryset.none(), False
            people = User.objects.filter(email_key__startswith=emails.fold(emails.normalise(term))).order_by(
                "email_key"
            )
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
        return phrase(event.event)

    @admin.display(description="name in the API")
    def code(self, event: AuditEvent) -> str:
        """Return what other programs call it."""
        return event.event

    @admin.display(description="outcome")
    def result(self, event: AuditEvent) -> SafeString:
        """Return how it ended, marked where it did not succeed."""
        return format_html('<span class="outcome-{}">{}</span>', event.outcome, event.outcome)

    @admin.display(description="by")
    def actor(self, event: AuditEvent) -> str:
        """Return who did it."""
        if event.actor_id is not None and event.actor_id == event.user_id:
            return THEMSELVES
        return _person(event, event.actor_id)

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
