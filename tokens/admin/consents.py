"""Consents in Django's admin: what people have allowed applications, to see and to take back."""

from itertools import batched
from typing import Any, Final

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from accounts.acts.change import BATCH
from accounts.admin import search
from accounts.users.models import User
from ironauth.infrastructure.admin.actions import CONFIRMED, SHOWN, admin_action, ask, holds, is_danger
from ironauth.infrastructure.admin.lists import CheckedSelection, CountedPages
from ironauth.infrastructure.admin.read_only import breakable, moment
from tokens.admin.client_acts import caller_of
from tokens.admin.read_only import ReadOnly, note
from tokens.oauth.consent import units as consent_units
from tokens.oauth.models import Consent
from tokens.rights import DELETE_CONSENTS
from tokens.sessions.models import Session

FIELDS: Final = ("user", "client", "scope", "created_at", "updated_at", "id")


@admin.register(Consent)
class ConsentAdmin(CheckedSelection, ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """What people have allowed applications."""

    lookups = frozenset({"client__id__exact", "user__id__exact"})
    list_display = ("person", "client", "scope", "since")
    list_filter = (("client", admin.RelatedOnlyFieldListFilter),)
    list_select_related = ("user__pending_deletion", "client")
    search_fields = ("user__email_key",)  # what get_search_results does; without it there is no field
    search_help_text = "Part of a person's e-mail address or name"
    ordering = ("-created_at",)
    list_per_page = 50
    paginator = CountedPages
    show_full_result_count = False  # as in the other lists
    show_facets = admin.ShowFacets.NEVER
    fields = FIELDS
    readonly_fields = FIELDS
    actions = ("revoke_consents",)

    def named(self, row: Consent) -> str:
        """Return the application, and who has allowed it."""
        return f"{row.client.name}, allowed by {row.user}"

    @admin.display(description="person", ordering="user__email_key")
    def person(self, consent: Consent) -> Any:
        """Return who has allowed it, as it fits a narrow column."""
        return breakable(str(consent.user))

    @admin.display(description="since", ordering="created_at")
    def since(self, consent: Consent) -> str:
        """Return when they first did."""
        return moment(consent.created_at)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Consent], search_term: str
    ) -> tuple[QuerySet[Consent], bool]:
        """Find part of the person's address or name."""
        if not search_term.strip():
            return queryset, False
        return queryset.filter(user__in=search.people(User.objects.all(), search_term).values("pk")), False

    has_revoke_permission = holds(DELETE_CONSENTS)

    @admin_action("Take back selected consents", permission="revoke", danger=True)
    def revoke_consents(self, request: HttpRequest, queryset: QuerySet[Consent]) -> HttpResponse | None:
        """Take them back and end the applications' sessions, asking first."""
        chosen = queryset.select_related("user__pending_deletion", "client")
        total = chosen.count()
        if total and CONFIRMED not in request.POST:
            return ask(
                self,
                request,
                action="revoke_consents",
                title="Take back",
                question=f"Take back {_count(total)}?",
                warning="The applications' sessions with these people end at once. They are asked again when they "
                "sign in there.",
                shown=[f"{one.user}, {one.client.name}" for one in chosen[:SHOWN]],
                danger=is_danger(self.revoke_consents),
                unshown=max(0, total - SHOWN),
            )
        for part in batched(list(chosen), BATCH):
            with transaction.atomic():
                note(request, part, "Taken back.", action="revoke_consent")
                reason = Session.RevokeReason.ENDED_BY_STAFF
                consent_units.revoke_each(part, actor_id=caller_of(request), reason=reason)
        self.message_user(request, f"{_count(total)} taken back.", messages.SUCCESS)
        return None


def _count(number: int) -> str:
    """Return e.g. "1 consent" or "3 consents"."""
    return f"{number} consent" if number == 1 else f"{number} consents"
