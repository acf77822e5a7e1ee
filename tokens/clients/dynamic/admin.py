"""Tokens with which clients register themselves, in Django's admin: to make, to see what came of them, and to end."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from accounts.access.rights import rights_of_request
from ironauth.infrastructure.admin.actions import CONFIRMED, SHOWN, admin_action, ask, holds, is_danger
from ironauth.infrastructure.admin.lists import CheckedSelection, KnownValues
from ironauth.infrastructure.admin.made_once import NEW_ID, MadeOnce, NewIdField, secret_page, signed_id
from ironauth.infrastructure.admin.read_only import ReadOnly, moment
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.clients.dynamic import units
from tokens.clients.dynamic.inputs import DAYS, MOST_DAYS, MOST_USES, USES, short
from tokens.clients.dynamic.models import LABEL_CHARACTERS, Registration, RegistrationToken
from tokens.rights import ADD_CLIENTS, CHANGE_CLIENTS, VIEW_CLIENTS

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    ModelForm = forms.ModelForm[RegistrationToken]
else:
    ModelForm = forms.ModelForm

FIELDS: Final = ("label", "uses", "days", NEW_ID)
FACTS: Final = ("owner", "state", "left", "made", "until", "clients")


class RegistrationTokenForm(ModelForm):
    """Who gets a token, and how much it lets them do."""

    label = forms.CharField(
        label="For", max_length=LABEL_CHARACTERS, validators=[short], help_text="Who gets it: a team, a program."
    )
    uses = forms.IntegerField(
        label="Applications",
        min_value=1,
        max_value=MOST_USES,
        initial=USES,
        help_text=f"How many may register with it: 1 to {MOST_USES:,}.",
    )
    days = forms.IntegerField(
        label="Days", min_value=1, max_value=MOST_DAYS, initial=DAYS, help_text=f"How long it works: 1 to {MOST_DAYS}."
    )
    new_id = NewIdField()

    class Meta:
        """Which fields."""

        model = RegistrationToken
        fields = ("label",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial.setdefault(NEW_ID, signed_id(new_id()))


class StateFilter(KnownValues):
    """Tokens by whether somebody can still register with them."""

    title = parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer the three."""
        return [("usable", "Usable"), ("used_up", "Used up"), ("expired", "Expired")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[RegistrationToken]) -> QuerySet[RegistrationToken]:
        """Return the tokens of the chosen state."""
        good = queryset.filter(expires_at__gt=clock.now())
        chosen = self.value()
        if chosen == "usable":
            return good.filter(left__gt=0)
        if chosen == "used_up":
            return good.filter(left=0)
        return queryset.filter(expires_at__lte=clock.now()) if chosen else queryset


@admin.register(RegistrationToken)
class RegistrationTokenAdmin(CheckedSelection, MadeOnce, ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """Tokens with which clients register themselves (RFC 7591). Nobody changes one: it is ended and replaced."""

    form = RegistrationTokenForm
    change_form_template = "admin/made_and_ended.html"
    made_already = "This token has been made already, and is not shown again: end it, and make another."
    lookups = frozenset({"state"})
    hidden = ("digest",)
    list_display = ("owner", "state", "left", "registered", "made", "until")
    list_filter = (StateFilter,)
    sortable_by = ()
    list_per_page = 50
    show_facets = admin.ShowFacets.NEVER
    readonly_fields = ("owner", "state", "made", "until", "clients")
    actions = ("end_tokens",)

    has_view_permission = holds(VIEW_CLIENTS)
    has_end_permission = holds(CHANGE_CLIENTS)

    class Media:
        css = {"all": ["tokens/admin.css"]}

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Anybody who may make clients."""
        return request.user.has_perm(ADD_CLIENTS)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show the list to anybody who may do anything with it."""
        return self.has_view_permission(request) or self.has_add_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[RegistrationToken]:
        """Add how many clients came by each."""
        came = Registration.objects.filter(token=OuterRef("pk")).order_by().values("token")
        counted = Subquery(came.annotate(number=Count("pk")).values("number"), output_field=IntegerField())
        rows: QuerySet[RegistrationToken] = super().get_queryset(request)
        return rows.annotate(registered=Coalesce(counted, 0))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Ask for what is needed, and show everything; say where a token opens nothing."""
        if obj is not None:
            return ((None, {"fields": FACTS}),)
        closed = "Registration is closed (IRONAUTH_REGISTRATION): the token opens nothing until that is token or open."
        words = {"description": closed} if settings.IRONAUTH_REGISTRATION == "closed" else {}
        return ((None, {"fields": FIELDS, **words}),)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Name the button by what it does, and offer to end a token."""
        context["make"] = "Make the token"
        if kwargs.get("obj") is not None and self.has_end_permission(request):
            context["acts"] = [{"name": "end_tokens", "title": "End", "danger": is_danger(self.end_tokens)}]
            context["action_checkbox_name"] = ACTION_CHECKBOX_NAME
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Store the token with its act, which leaves the audit event."""
        values, caller = form.cleaned_data, rights_of_request(request).user_id
        made, obj.shown = units.make_token(
            label=values["label"],
            uses=values["uses"],
            expires_at=clock.now() + timedelta(days=values["days"]),
            actor_id=caller,
            token_id=values[NEW_ID],
        )
        obj.pk = made.pk
        get_logger().info("registration_token_made", row_id=str(made.pk), by=str(caller))

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        """Show the token, this once."""
        may_see = self.has_view_permission(request)
        return secret_page(
            self,
            request,
            what="token",
            owner=obj.label,
            page=_page_of(obj.pk) if may_see else reverse("admin:index"),
            advice="Give it to those who register the application: nobody can look it up here later. Where it is lost, "
            "end it and make another.",
            lines=(("token", obj.shown), ("address", f"{settings.IRONAUTH_ISSUER}/oauth/register")),
        )

    @admin.display(description="for")
    def owner(self, row: RegistrationToken) -> str:
        """Return who got it."""
        return row.label

    @admin.display(description="state")
    def state(self, row: RegistrationToken) -> str:
        """Return whether somebody can still register with it."""
        if row.expires_at <= clock.now():
            return "Expired"
        return "Usable" if row.left else "Used up"

    @admin.display(description="registered")
    def registered(self, row: Any) -> str:
        """Return how many clients came by it; counted with the list."""
        return str(row.registered)

    @admin.display(description="made")
    def made(self, row: RegistrationToken) -> str:
        """Return when it was made."""
        return moment(row.created_at)

    @admin.display(description="works until")
    def until(self, row: RegistrationToken) -> str:
        """Return when it ends by itself."""
        return moment(row.expires_at)

    @admin.display(description="applications")
    def clients(self, row: RegistrationToken) -> SafeString | str:
        """Return the clients that came by it, the newest first, linked to theirs. 1 query."""
        came = Registration.objects.filter(token=row).order_by("-pk").values_list("client_id", "client__name")[:SHOWN]
        links = ((reverse("admin:tokens_oauthclient_change", args=[pk]), name) for pk, name in came)
        return format_html_join(SafeString("<br>"), '<a href="{}">{}</a>', links) or "None"

    @admin_action("End selected tokens", permission="end", danger=True)
    def end_tokens(self, request: HttpRequest, queryset: QuerySet[RegistrationToken]) -> HttpResponse | None:
        """Ask, then let nobody register with them any more."""
        rows = list(queryset)
        if CONFIRMED not in request.POST:
            return ask(
                self,
                request,
                action="end_tokens",
                title="End",
                question=f"End {len(rows):,} registration {'token' if len(rows) == 1 else 'tokens'}?",
                warning="Nobody registers with it any more. Applications that have done so stay.",
                shown=[row.label for row in rows[:SHOWN]],
                unshown=max(len(rows) - SHOWN, 0),
                danger=is_danger(self.end_tokens),
            )
        caller = rights_of_request(request).user_id
        ended = sum(units.end_token(row.pk, actor_id=caller) for row in rows)
        for row in rows:
            get_logger().info("registration_token_ended", row_id=str(row.pk), by=str(caller))
        self.message_user(request, f"{ended:,} {'token' if ended == 1 else 'tokens'} ended.", messages.SUCCESS)
        return None


def _page_of(token_id: UUID) -> str:
    """Return the address of a token's page."""
    return reverse("admin:tokens_registrationtoken_change", args=[token_id])
