"""Sign-in providers in Django's admin: make, change, try, switch off. A superuser's alone.

Staff who decide what a provider is trusted with could sign in as anybody whose address it names.
"""

from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from accounts.federation.kinds.registry import KINDS
from accounts.federation.models import UpstreamProvider
from ironauth.infrastructure.admin.actions import admin_action
from ironauth.infrastructure.admin.lists import CheckedSelection
from tokens.admin.client_acts import caller_of
from tokens.admin.provider_trial import ProviderTrial
from tokens.upstream import answers
from tokens.upstream.administration import queries, trial
from tokens.upstream.administration.form import LEAVE, ProviderForm


@admin.register(UpstreamProvider)
class UpstreamProviderAdmin(CheckedSelection, ProviderTrial, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """Providers that people may sign in with."""

    form = ProviderForm
    list_display = ("name", "slug", "preset", "issuer", "enabled")
    show_facets = admin.ShowFacets.NEVER
    actions = ["try_now"]
    readonly_fields = ("redirect_uri", "logout_uri")

    class Media:
        css = {"all": ["tokens/admin.css"]}

    @admin.display(description="kind", ordering="kind")
    def preset(self, provider: UpstreamProvider) -> str:
        """Return the kind in the words of the form."""
        return KINDS[provider.kind].label if provider.kind in KINDS else provider.kind

    @admin.display(description="redirect URI")
    def redirect_uri(self, provider: UpstreamProvider) -> str:
        """Return what is registered at the provider."""
        return format_html("<code>{}</code>", answers.redirect_uri(provider.slug)) if provider.slug else "—"

    @admin.display(description="back-channel logout URI")
    def logout_uri(self, provider: UpstreamProvider) -> str:
        """Return where the provider tells that somebody has signed out there."""
        return format_html("<code>{}/logout</code>", answers.redirect_uri(provider.slug)) if provider.slug else "—"

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Keep the short name: it is in the redirect URI that the provider knows."""
        return (*self.readonly_fields, "slug") if obj else self.readonly_fields

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Show where the provider sends people back."""
        asked = (LEAVE,) if obj else ()
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
        stored = UpstreamProvider.objects.filter(pk=obj.pk, enabled=True) if obj is not None else None  # not as typed
        return bool(request.user.is_superuser) and (stored is None or not stored.exists())

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Protect providers that are switched on."""
        deleted, counts, perms_needed, protected = super().get_deleted_objects(objs, request)
        enabled = [f"{one.name}: switch it off first" for one in objs if one.enabled]
        return deleted, counts, set() if enabled else perms_needed, [*protected, *enabled]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Store the provider with its secret, and leave an event."""
        queries.store(obj, form, is_new=not change, actor_id=caller_of(request))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete the provider with the identities there, and leave an event."""
        queries.remove(obj, actor_id=caller_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete each with its event."""
        for one in queryset:
            self.delete_model(request, one)

    @admin_action("Fetch documents and keys of selected providers", permission="try", danger=False, step_up=False)
    def try_now(self, request: HttpRequest, queryset: QuerySet[UpstreamProvider]) -> None:
        """Fetch each provider's document and keys now, and say what is there or what is wrong."""
        for provider in queryset:
            level, words = tried(provider)
            self.message_user(request, f"{provider.name}: {words}", level)


def tried(provider: UpstreamProvider) -> tuple[int, str]:
    """Return what a provider answers now, in words, and the level of the message."""
    found = async_to_sync(trial.of)(provider)
    levels = {None: messages.INFO, True: messages.SUCCESS, False: messages.ERROR}
    return levels[found.answers], found.detail
