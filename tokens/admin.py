"""Sessions and signing keys in Django's admin: everything to see and to end, nothing to edit, no secret shown."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from accounts.admin import UserAdmin
from ironauth.infrastructure import clock
from tokens import sessions
from tokens.key_rotation import RotationRefusedError, drop, rotate
from tokens.models import Session, SigningKey

SESSION_FIELDS = (
    "id", "user", "state", "created_at", "last_used_at", "idle_expires_at", "absolute_expires_at", "ip", "user_agent",
    "client_id", "scope", "generation", "revoked_at", "revoke_reason",
)  # fmt: skip
KEY_FIELDS = (
    "kid", "state", "alg", "public_jwk", "master_key_id", "created_at", "activated_at", "retired_at", "not_after",
)  # fmt: skip


class ReadOnly:
    """Mixin of admin pages that show rows which only units of work may write."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody adds a row by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody edits a row."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody deletes a row: it is ended or dropped, which other workers hear of."""
        return False


class LiveFilter(admin.SimpleListFilter):
    """Live sessions or ended ones."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer the two."""
        return [("live", "Live"), ("ended", "Ended")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        """Return the sessions of the chosen state."""
        live = Session.objects.live(clock.now()).filter(user__is_active=True).values("pk")
        if self.value() == "live":
            return queryset.filter(pk__in=live)
        return queryset.exclude(pk__in=live) if self.value() == "ended" else queryset


@admin.register(Session)
class SessionAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """Every session; ending one takes effect at once."""

    list_display = ["id", "user", "state", "created_at", "last_used_at", "idle_expires_at", "ip", "user_agent"]
    list_filter = [LiveFilter, "revoke_reason", "created_at"]
    search_fields = ["user__email", "=ip"]
    search_help_text = "E-mail address, or an exact IP address"
    date_hierarchy = "created_at"
    list_select_related = ["user"]
    show_full_result_count = False  # counting millions of rows is what makes an admin list slow
    fields = SESSION_FIELDS
    readonly_fields = SESSION_FIELDS
    actions = ["end_sessions"]

    @admin.display(description="State")
    def state(self, session: Session) -> str:
        """Return whether the session lives, and if not, why."""
        if session.revoked_at is not None:
            return session.get_revoke_reason_display()
        if session.is_over(clock.now()):
            return "Expired"
        if session.epoch != session.user.session_epoch:
            return "Ended with all others"
        return "Live" if session.user.is_active else "User inactive"

    def has_end_permission(self, request: HttpRequest) -> bool:
        """Whoever may delete sessions may end them."""
        return request.user.has_perm("tokens.delete_session")

    @admin.action(description="End selected sessions", permissions=["end"])
    def end_sessions(self, request: HttpRequest, queryset: QuerySet[Session]) -> None:
        """End the sessions; every worker refuses their tokens within its staleness bound."""
        chosen = list(queryset.values_list("pk", flat=True))
        with transaction.atomic():
            ended = sessions.end_sessions(session_ids=chosen, reason=Session.RevokeReason.ENDED_BY_STAFF)
        self.message_user(request, f"{ended} sessions ended.", messages.SUCCESS)


class SessionInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg] # as above
    """The live sessions of a person, on the person's page."""

    model = Session
    verbose_name_plural = "Live sessions"
    fields = ["created_at", "last_used_at", "idle_expires_at", "ip", "user_agent"]
    readonly_fields = ["created_at", "last_used_at", "idle_expires_at", "ip", "user_agent"]
    extra = 0
    show_change_link = True

    def get_queryset(self, request: HttpRequest) -> QuerySet[Session]:
        """Return the live ones only."""
        return super().get_queryset(request).filter(pk__in=Session.objects.live(clock.now()).values("pk"))


UserAdmin.inlines.append(SessionInline)


@admin.register(SigningKey)
class SigningKeyAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg] # as above
    """Signing keys and their states; the private part is on no page."""

    list_display = ["kid", "state", "alg", "created_at", "activated_at", "retired_at", "not_after"]
    list_filter = ["state", "alg"]
    fields = KEY_FIELDS
    readonly_fields = KEY_FIELDS
    actions = ["drop_as_compromised"]

    def has_rotate_permission(self, request: HttpRequest) -> bool:
        """Whoever may change signing keys may rotate and drop them."""
        return request.user.has_perm("tokens.change_signingkey")

    def get_urls(self) -> list[URLPattern]:
        """Add the address of the rotate button."""
        rotate_url = path("rotate/", self.admin_site.admin_view(self.rotate), name="tokens_signingkey_rotate")
        return [rotate_url, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the rotate button to those who may press it."""
        return super().changelist_view(
            request, {**(extra_context or {}), "may_rotate": self.has_rotate_permission(request)}
        )

    def rotate(self, request: HttpRequest) -> HttpResponse:
        """Rotate by POST; say why when it is too early."""
        if request.method != "POST" or not self.has_rotate_permission(request):
            raise PermissionDenied
        try:
            self.message_user(request, f"The active key is now {rotate()}.", messages.SUCCESS)
        except RotationRefusedError as error:
            self.message_user(request, str(error), messages.ERROR)
        return redirect(reverse("admin:tokens_signingkey_changelist"))

    @admin.action(description="Drop as compromised", permissions=["rotate"])
    def drop_as_compromised(self, request: HttpRequest, queryset: QuerySet[SigningKey]) -> HttpResponse | None:
        """Ask once more, then refuse the keys from now on."""
        if request.POST.get("confirmed") != "yes":
            context = {
                **self.admin_site.each_context(request),
                "title": "Drop signing keys",
                "keys": queryset,
                "checkbox": ACTION_CHECKBOX_NAME,
            }
            return TemplateResponse(request, "admin/tokens/signingkey/confirm_drop.html", context)
        for kid in queryset.values_list("kid", flat=True):
            try:
                self.message_user(request, f"Dropped {kid}; the active key is now {drop(kid)}.", messages.SUCCESS)
            except RotationRefusedError as error:
                self.message_user(request, str(error), messages.ERROR)
        return None
