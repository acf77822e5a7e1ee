"""Clients in Django's admin: make, change, delete; what else their pages can do: ``client_acts``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import ChangeList
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from accounts.access.rights import rights_of_request
from ironauth.infrastructure.admin.lists import CheckedSelection, KnownValues
from ironauth.infrastructure.admin.made_once import NEW_ID, MadeOnce
from ironauth.infrastructure.admin.read_only import moment
from ironauth.infrastructure.admin.tabs import Tab
from ironauth.infrastructure.core import clock
from tokens.admin import client_presets
from tokens.admin.client_acts import ClientActs, caller_of, page_of, secret_of
from tokens.admin.client_form import OTHER_SCOPES, ClientForm
from tokens.clients import profiles
from tokens.clients import rules as client_rules
from tokens.clients import units as client_units
from tokens.clients.models import OAuthClient
from tokens.clients.profiles import PROFILES
from tokens.oauth.models import Consent
from tokens.sessions.models import Session

GRANT_WORDS: Final = {"refresh_token": "", "authorization_code": "sign-in", "client_credentials": "machine"}
_ADDRESSES: Final = ("redirect_uris", "post_logout_redirect_uris", "backchannel_logout_uri", "initiate_login_uri")
_AUTHENTICATION: Final = (
    "auth_method",
    "jwks",
    "jwks_uri",
    "tls_client_auth_subject_dn",
    "require_pkce",
    "require_par",
    "dpop",
    "certificate_bound",
)
_SIGNED: Final = (
    "request_object_signing_alg",
    "request_uris",
    "authorization_signed_response_alg",
    "userinfo_signed_response_alg",
)
_LIFETIMES_TITLE: Final = "Lifetimes in seconds; empty: as the settings say"
_LIFETIMES: Final = ("access_token_s", "session_idle_s", "session_absolute_s")
#: Sessions looked at, the newest first, as on the start page: a list is not to wait for a million.
LOOKED_AT: Final = 20_000


class Counts(NamedTuple):
    """By client. ``complete``: no session was left out."""

    sessions: Mapping[UUID, int]
    consents: Mapping[UUID, int]
    complete: bool


def counts_of(client_ids: Sequence[UUID]) -> Counts:
    """Return the counts of these clients. Three queries, whatever their number."""
    recent = Session.objects.order_by("-pk").values_list("pk", flat=True)
    oldest = list(recent[LOOKED_AT - 1 : LOOKED_AT])
    live = Session.objects.live(clock.now()).filter(user__is_active=True, client_id__in=map(str, client_ids))
    if oldest:
        live = live.filter(pk__gte=oldest[0])
    sessions = live.order_by().values_list("client_id").annotate(Count("pk"))
    consents = Consent.objects.filter(client__in=client_ids).order_by().values_list("client").annotate(Count("pk"))
    return Counts({UUID(client_id): count for client_id, count in sessions}, dict(consents), not oldest)


class StateFilter(KnownValues):
    """Clients in use or disabled."""

    title = parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer the two."""
        return [("enabled", "Enabled"), ("disabled", "Disabled")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[OAuthClient]) -> QuerySet[OAuthClient]:
        """Return the clients of the chosen state."""
        wanted = {"enabled": True, "disabled": False}.get(self.value() or "")
        return queryset if wanted is None else queryset.filter(disabled_at__isnull=wanted)


class _Counted(ChangeList):
    """The list, with what is counted of the clients on a page."""

    def get_results(self, request: HttpRequest) -> None:
        """Fetch the page and the counts."""
        super().get_results(request)
        clients = list(self.result_list)
        self.result_list: Any = clients
        counts = counts_of([client.pk for client in clients])
        for client in clients:
            client.counted_consents = counts.consents.get(client.pk, 0)
            client.counted_sessions = f"{counts.sessions.get(client.pk, 0):,}{'' if counts.complete else '+'}"


@admin.register(OAuthClient)
class OAuthClientAdmin(CheckedSelection, MadeOnce, ClientActs, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """Applications that sign their users in here.

    One that acts for people without asking them, on their accounts, or as staff do, is a superuser's to make and to
    change (``clients.rules``): who sets its addresses receives tokens of everybody who signs in.
    """

    form = ClientForm
    made_already = "This client has been made already; its secret is not shown again."
    list_display = ("name", "came_from", "kind", "used_for", "state", "sessions", "consents")
    list_filter = (StateFilter, "origin", "profile", "auth_method", "trusted")
    search_fields = ("name",)  # what get_search_results does; without it there is no field
    search_help_text = "Part of the name, or a client_id"
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    actions = None
    readonly_fields = ("client_id", "came_from", "state", "secrets_in_use", "rules", "created_at")
    fieldsets = (
        (None, {"fields": ("name", "client_id", "came_from", "state", "secrets_in_use", "trusted", NEW_ID)}),
        ("Addresses", {"fields": _ADDRESSES}),
        (
            "What it may do",
            {
                "fields": (
                    "grants",
                    "scopes",
                    OTHER_SCOPES,
                    "strict_scopes",
                    "resources",
                    "authorization_details_types",
                    "resource_server",
                    "serves",
                    "administers",
                )
            },
        ),
        ("Rules that it keeps", {"fields": ("profile", "rules")}),
        (client_presets.PROOF, {"fields": _AUTHENTICATION}),
        ("ID tokens", {"fields": ("id_token_alg", "id_token_claims", "subject_type", "sector")}),
        ("Access tokens", {"fields": ("access_token_alg",)}),
        ("Signed messages", {"fields": _SIGNED}),
        ("What people are shown", {"fields": ("logo_uri", "policy_uri", "tos_uri")}),
        (_LIFETIMES_TITLE, {"fields": _LIFETIMES}),
    )

    tabs = (
        Tab("overview", "Overview", (None, "What people are shown")),
        Tab("use", "Addresses and rights", ("Addresses", "What it may do")),
        Tab("proof", "Rules and proof", ("Rules that it keeps", client_presets.PROOF, "Signed messages")),
        Tab("tokens", "Tokens", ("ID tokens", "Access tokens", _LIFETIMES_TITLE)),
        Tab("all", "All", tuple(title for title, _ in fieldsets)),
    )

    class Media:
        css = {"all": ["tokens/admin.css"]}

    @admin.display(description="client ID")
    def client_id(self, client: OAuthClient) -> str:
        """Return the id by which the application names itself."""
        return client.public_id

    @admin.display(description="origin", ordering="origin")
    def came_from(self, client: OAuthClient) -> str:
        """Return who made it, and whether staff have looked at one that none of them made."""
        made = client.get_origin_display()
        if client.origin == OAuthClient.Origin.STAFF:
            return made
        return f"{made}, " + ("unverified" if client.verified_at is None else f"verified {moment(client.verified_at)}")

    @admin.display(description="kind", ordering="auth_method")
    def kind(self, client: OAuthClient) -> str:
        """Return how the client proves who it is, in a word or two."""
        words = {"secret": "Secret", "private_key_jwt": "Key", "none": "Public"}
        return words.get(client.auth_method, "Certificate") + (", trusted" if client.trusted else "")

    @admin.display(description="for")
    def used_for(self, client: OAuthClient) -> str:
        """Return what the client is for, in words."""
        words = (GRANT_WORDS.get(grant, grant.rpartition(":")[2].replace("_code", "")) for grant in client.grants)
        return ", ".join(filter(None, words))

    @admin.display(description="state", ordering="disabled_at")
    def state(self, client: OAuthClient) -> str:
        """Return whether the client is disabled, since when, and how many sessions have ended while others are to."""
        if client.disabled_at is None:
            return "Enabled"
        ending = client.sessions_ending
        more = "" if ending is None else f"; its sessions are ending, {ending:,} so far"
        return f"Disabled {moment(client.disabled_at)}{more}"

    @admin.display(description="live sessions")
    def sessions(self, client: Any) -> str:
        """Return how many sessions it has; counted for the whole page."""
        return str(client.counted_sessions)

    @admin.display(description="consents")
    def consents(self, client: Any) -> SafeString:
        """Return how many people have let it in, linked to them; counted for the whole page."""
        link = f"{reverse('admin:tokens_consent_changelist')}?client__id__exact={client.pk}"
        return format_html('<a href="{}">{}</a>', link, client.counted_consents)

    @admin.display(description="secrets in use")
    def secrets_in_use(self, client: OAuthClient) -> SafeString | str:
        """Return the last characters of each secret, since when it is there, and until when. 1 query."""
        now = clock.now()
        usable = client.secrets.filter(Q(expires_at=None) | Q(expires_at__gt=now)).order_by("-created_at")
        lines = [
            (one.hint, moment(one.created_at), f", works until {moment(one.expires_at)}" if one.expires_at else "")
            for one in usable
        ]
        return format_html_join(SafeString("<br>"), "…{}, since {}{}", lines) or "None"

    @admin.display(description="other profiles")
    def rules(self, client: OAuthClient) -> SafeString:
        """Return which profiles the client would keep as it is, and what it misses of the others."""
        lines = []
        for name in PROFILES:
            missed = " ".join(one.message for one in profiles.missed(client, name))
            lines.append((name, missed or "Keeps all its rules."))
        return format_html_join(SafeString("<br>"), "<strong>{}</strong>: {}", lines)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow the filters of the page only: any other would read stored digests out bit by bit."""
        return lookup in {"state", "origin__exact", "profile__exact", "auth_method__exact", "trusted__exact"}

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[OAuthClient], search_term: str
    ) -> tuple[QuerySet[OAuthClient], bool]:
        """Find a part of the name, or the whole client_id."""
        term = search_term.strip()
        try:
            return queryset.filter(pk=UUID(term)), False
        except ValueError:
            return queryset.filter(name__has_part=term), False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list with the counts."""
        return _Counted

    def get_fieldsets(self, request: HttpRequest, obj: OAuthClient | None = None) -> Any:
        """Leave out what there is not yet on the page of a new client, and what only a form has where there is none."""
        unseen = {"client_id", "came_from", "state", "secrets_in_use", "rules"} if obj is None else {NEW_ID}
        if obj is not None and not self.has_change_permission(request, obj):
            unseen |= {OTHER_SCOPES}
        shown = [
            (title, {**options, "fields": [name for name in options["fields"] if name not in unseen]})
            for title, options in self.fieldsets
        ]
        preset = client_presets.chosen(request) if obj is None else None
        return self.behind(self.tab_of(request, obj), shown if preset is None else client_presets.folded(shown, preset))

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Begin a new client as the kind of application that the address names."""
        preset = client_presets.chosen(request)
        return super().get_changeform_initial_data(request) if preset is None else {**preset.initial}

    def get_form(self, request: HttpRequest, obj: Any | None = None, change: bool = False, **kwargs: Any) -> type[Any]:
        """Tell the form what the caller may give away."""
        form: type[Any] = super().get_form(request, obj, change=change, **kwargs)
        shown = set(flatten_fieldsets(self.get_fieldsets(request, obj)))  # Django keeps what a form declares itself
        form.base_fields = {name: field for name, field in form.base_fields.items() if name in shown}
        form.may_trust = rights_of_request(request).is_superuser  # made for this request by Django
        return form

    def has_change_permission(self, request: HttpRequest, obj: OAuthClient | None = None) -> bool:
        """Show what is a superuser's alone to change read-only to all others."""
        allowed = super().has_change_permission(request, obj)
        if not allowed or obj is None or not client_rules.is_superusers(obj):
            return allowed
        return rights_of_request(request).is_superuser

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Store the client by its unit of work, which leaves the audit event; a form that changed nothing does not."""
        obj.new_secret = ""
        changed = {"scopes" if name == OTHER_SCOPES else name for name in form.changed_data} - {NEW_ID}
        if not change:
            obj.new_secret = client_units.create(obj, actor_id=caller_of(request))
        elif changed:
            obj.new_secret = client_units.change(obj, fields=sorted(changed), actor_id=caller_of(request))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Ask for the right over clients alone: consents, which nobody deletes by hand, go with theirs."""
        deleted, counts, perms_needed, protected = super().get_deleted_objects(objs, request)
        return deleted, counts, {self.opts.verbose_name} & perms_needed, protected

    def delete_model(self, request: HttpRequest, obj: OAuthClient) -> None:
        """Delete the client and end its sessions."""
        client_units.delete(obj, actor_id=caller_of(request))

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        """Show the secret, this once, or the client's page."""
        if obj.new_secret:
            return secret_of(self, request, obj, obj.new_secret)
        self.message_user(request, f"{obj.name} was made.", messages.SUCCESS)
        return HttpResponseRedirect(page_of(obj.pk))

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """Show the secret, this once, of a client that has got its first one."""
        if obj.new_secret:
            return secret_of(self, request, obj, obj.new_secret)
        return super().response_change(request, obj)
