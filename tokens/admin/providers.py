"""Sign-in providers in Django's admin: make, change, try, switch off. A superuser's alone.

Staff who decide what a provider is trusted with could sign in as anybody whose address it names.
"""

from typing import TYPE_CHECKING, Any, Final

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.federation.errors import UpstreamUnavailable
from accounts.federation.kinds.registry import KINDS
from accounts.federation.models import UpstreamProvider
from accounts.federation.secrets import seal_into
from ironauth.infrastructure.admin.actions import admin_action
from ironauth.infrastructure.admin.lists import CheckedSelection
from tokens.admin.client_form import LinesField
from tokens.upstream import client_secret, discovery, exchange, lost_ways, services

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    ModelForm = forms.ModelForm[UpstreamProvider]
else:
    ModelForm = forms.ModelForm

MAX_SECRET: Final = 1_024  # characters


class ProviderForm(ModelForm):
    """A provider; its secret is typed and never shown."""

    kind = forms.ChoiceField(choices=[(kind.name, kind.label) for kind in KINDS.values()])
    secret = forms.CharField(
        label="Client secret",
        required=False,
        max_length=MAX_SECRET,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="From the provider. It is sealed and never shown; leave it empty to keep the one that is stored.",
    )
    leave_without_way_in = forms.BooleanField(
        required=False,
        label="Leave people without a way in",
        help_text="Asked for where somebody could not sign in any more without this provider, or with another issuer.",
    )
    shuts_out = False
    second_factors = LinesField(
        rows=2,
        label="Values that mean a second factor",
        help_text=UpstreamProvider._meta.get_field("second_factors").help_text,  # noqa: SLF001 - documented by Django
    )
    domains = LinesField(rows=2, label="Mail domains", help_text=UpstreamProvider._meta.get_field("domains").help_text)  # noqa: SLF001 - documented by Django

    class Meta:
        """Which fields."""

        model = UpstreamProvider
        fields = (
            "name", "slug", "kind", "issuer", "client_id", "secret", "enabled", "creates_accounts", "trusts_email",
            "domains", "second_factors", "updates_name",
        )  # fmt: skip

    def clean_domains(self) -> list[str]:
        """Return the domains in small letters; refuse what is no domain."""
        found = [str(one).lower().removeprefix("@") for one in self.cleaned_data["domains"]]
        for one in found:
            if "." not in one or not one.isprintable() or any(c in one for c in "@/ :"):
                raise ValidationError(f"{one!r} is no domain: write example.com, one to a line.")
        return found

    def clean(self) -> dict[str, Any]:
        """Judge what depends on the kind."""
        data = super().clean() or self.cleaned_data
        kind = KINDS.get(data.get("kind", ""))
        if kind is None:
            return data
        if kind.issuer:
            data["issuer"] = kind.issuer
        elif not exchange.is_acceptable(data.get("issuer", "")):
            self.add_error("issuer", "Give the issuer's https address, as the provider's discovery document has it.")
        is_new = self.instance._state.adding  # noqa: SLF001 - documented by Django
        if is_new and not data.get("secret"):
            self.add_error("secret", "Give the client secret that the provider has made for this application.")
        if not is_new:
            self._judge_change(data)
        if kind.signs_secret and data.get("secret"):
            try:
                client_secret.require_usable(data["secret"])
            except client_secret.InvalidSecretError as error:
                self.add_error("secret", str(error))
        return data

    def _judge_change(self, data: dict[str, Any]) -> None:
        """Demand the secret anew for another issuer, and a word where people would be left without a way in."""
        before = UpstreamProvider.objects.get(pk=self.instance.pk)
        moves = (before.kind, before.issuer) != (data.get("kind"), data.get("issuer"))
        if moves and not data.get("secret"):
            self.add_error(
                "secret",
                "Give the client secret that the new issuer has made: the stored one is for the issuer before, and is "
                "sent to no other.",
            )
        self.shuts_out = moves or not data.get("enabled")  # saved again, it ends what an interruption has left
        if before.enabled and self.shuts_out and not data.get("leave_without_way_in"):
            words = lost_ways.warning(before)
            if words:
                self.add_error("leave_without_way_in", words)


@admin.register(UpstreamProvider)
class UpstreamProviderAdmin(CheckedSelection, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """Providers that people may sign in with."""

    form = ProviderForm
    list_display = ("name", "slug", "kind", "issuer", "enabled")
    show_facets = admin.ShowFacets.NEVER
    actions = ["try_now"]
    readonly_fields = ("redirect_uri", "logout_uri")

    @admin.display(description="redirect URI")
    def redirect_uri(self, provider: UpstreamProvider) -> str:
        """Return what is registered at the provider."""
        return format_html("<code>{}</code>", services.redirect_uri(provider.slug)) if provider.slug else "—"

    @admin.display(description="back-channel logout URI")
    def logout_uri(self, provider: UpstreamProvider) -> str:
        """Return where the provider tells that somebody has signed out there."""
        return format_html("<code>{}/logout</code>", services.redirect_uri(provider.slug)) if provider.slug else "—"

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Keep the short name: it is in the redirect URI that the provider knows."""
        return (*self.readonly_fields, "slug") if obj else self.readonly_fields

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Show where the provider sends people back."""
        asked = ("leave_without_way_in",) if obj else ()
        return (*ProviderForm.Meta.fields, *asked, *self.readonly_fields)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Tell whether the caller is a superuser."""
        return bool(request.user.is_superuser)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the caller is a superuser."""
        return bool(request.user.is_superuser)

    has_add_permission = has_module_permission
    has_change_permission = has_view_permission
    has_try_permission = has_view_permission

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the caller is a superuser, and the provider is switched off, which asks who is left without."""
        return bool(request.user.is_superuser) and (obj is None or not obj.enabled)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Protect providers that are switched on."""
        deleted, counts, perms_needed, protected = super().get_deleted_objects(objs, request)
        enabled = [f"{one.name}: switch it off first" for one in objs if one.enabled]
        return deleted, counts, set() if enabled else perms_needed, [*protected, *enabled]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Store the provider with its secret, and leave an event."""
        with transaction.atomic():
            if form.cleaned_data.get("secret"):
                seal_into(obj, form.cleaned_data["secret"])
            super().save_model(request, obj, form, change)
            fields = sorted({*form.changed_data} - {"leave_without_way_in"}) if change else []
            _record(request, obj, "changed" if change else "added", fields)
            if form.shuts_out:
                caller: Any = request.user
                lost_ways.end_after_commit(provider_id=obj.pk, slug=obj.slug, actor_id=caller.pk)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete the provider with the identities there, and leave an event."""
        with transaction.atomic():
            _record(request, obj, "deleted", [])
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete each with its event."""
        for one in queryset:
            self.delete_model(request, one)

    @admin_action("Try the selected providers", permission="try", step_up=False)
    def try_now(self, request: HttpRequest, queryset: QuerySet[UpstreamProvider]) -> None:
        """Fetch each provider's document and keys now, and say what is there or what is wrong."""
        for provider in queryset:
            level, words = tried(provider)
            self.message_user(request, f"{provider.name}: {words}", level)


def tried(provider: UpstreamProvider) -> tuple[int, str]:
    """Return what a provider answers now, in words, and the level of the message."""
    kind = KINDS[provider.kind]
    if kind.endpoints is not None:
        return messages.INFO, "It has no discovery document; sign in with it to try it."
    try:
        where = async_to_sync(discovery.fetched)(kind.issuer or provider.issuer)
        keys, _ = async_to_sync(discovery.keys)(where.jwks_uri)
    except UpstreamUnavailable as error:
        reason = {"discovery": "its discovery document is missing, incomplete or another issuer's"}
        return messages.ERROR, f"It does not answer: {reason.get(error.cause, error.cause)}. Check the issuer."
    if not keys:
        return (
            messages.ERROR,
            "It answers, and none of its keys is of a kind that is accepted here (RS256, ES256, EdDSA).",
        )
    return (
        messages.SUCCESS,
        f"It answers, with {len(keys)} keys. Register {services.redirect_uri(provider.slug)} there.",
    )


def _record(request: HttpRequest, provider: UpstreamProvider, act: str, fields: list[str]) -> None:
    caller: Any = request.user
    details = {"provider": provider.slug, "act": act, "fields": fields}
    audit.record(Event.PROVIDER_CHANGED, actor_id=caller.pk, details=details)
