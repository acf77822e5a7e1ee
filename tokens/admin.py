"""Sessions and signing keys in Django's admin: everything to see and to end, nothing to edit, no secret shown."""

from collections.abc import Iterable
from itertools import batched
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from accounts.admin import UserAdmin
from ironauth.infrastructure import clock
from ironauth.infrastructure.logs import get_logger
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


AGENT_SHOWN = 40  # characters; the list has to fit a screen
KID_SHOWN = 12  # characters; enough to tell a handful of keys apart
BATCH = 500  # sessions in one statement; SQLite as first shipped takes 999 variables


def note(request: HttpRequest, rows: Iterable[Any], message: str, *, action: str) -> None:
    """Leave an entry in Django's admin log and a line in ours for each row; call it in the act's transaction."""
    chosen, caller = list(rows), request.user.pk
    LogEntry.objects.log_actions(str(caller), chosen, CHANGE, change_message=message)
    for row in chosen:
        get_logger().info("admin_action", action=action, target=str(row.pk), by=str(caller))


class ReadOnly:
    """Mixin of admin pages that show rows which only units of work may write."""

    #: What an address may filter by. Django allows every column, so ``?secret__regex=`` would read it out bit by bit.
    lookups: ClassVar[frozenset[str]] = frozenset()
    #: Columns no page shows; they stay in the database.
    hidden: ClassVar[tuple[str, ...]] = ()

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow the filters of the page only."""
        return lookup.split("__", maxsplit=1)[0] in self.lookups

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows without their hidden columns."""
        rows: QuerySet[Any] = super().get_queryset(request)  # type: ignore[misc] # a mixin of ModelAdmin
        return rows.defer(*self.hidden)

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

    lookups = frozenset({"state", "revoke_reason", "created_at"})
    hidden = ("secret",)
    list_display = ["user", "state", "last_used_at", "created_at", "idle_expires_at", "ip", "browser"]
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

    @admin.display(description="Browser")
    def browser(self, session: Session) -> str:
        """Return the beginning of the user agent; the page of the session shows all of it."""
        return session.user_agent[:AGENT_SHOWN]

    def has_end_permission(self, request: HttpRequest) -> bool:
        """Whoever may delete sessions may end them."""
        return request.user.has_perm("tokens.delete_session")

    @admin.action(description="End selected sessions", permissions=["end"])
    def end_sessions(self, request: HttpRequest, queryset: QuerySet[Session]) -> None:
        """End the live ones; every worker refuses their tokens within its staleness bound. Superusers are spared."""
        caller: Any = request.user
        chosen = queryset.filter(revoked_at=None)
        if not caller.is_superuser:
            chosen = chosen.filter(user__is_superuser=False)
        ended = list(chosen)
        with transaction.atomic():
            for part in batched(ended, BATCH):
                ids = [session.pk for session in part]
                sessions.end_sessions(session_ids=ids, reason=Session.RevokeReason.ENDED_BY_STAFF)
            note(request, ended, "Ended.", action="end_session")
        spared = queryset.count() - len(ended)
        self.message_user(
            request,
            f"{len(ended)} {'session' if len(ended) == 1 else 'sessions'} ended."
            + (f" {spared} left as they were (over already, or a superuser's)." if spared else ""),
            messages.SUCCESS if ended else messages.WARNING,
        )


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

    lookups = frozenset({"state", "alg"})
    hidden = ("private_encrypted",)
    list_display = ["state", "short_kid", "alg", "created_at", "activated_at", "retired_at", "not_after"]
    list_display_links = ["state", "short_kid"]
    list_filter = ["state", "alg"]
    fields = KEY_FIELDS
    readonly_fields = KEY_FIELDS
    actions = ["drop_as_compromised"]

    @admin.display(description="Key", ordering="kid")
    def short_kid(self, key: SigningKey) -> str:
        """Return the beginning of the kid; the page of the key shows all of it."""
        return f"{key.kid[:KID_SHOWN]}…"

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
        if not self.has_rotate_permission(request):
            raise PermissionDenied
        if request.method == "POST":  # a GET comes back from signing in again, and changes nothing
            try:
                with transaction.atomic():
                    kid = rotate()
                    note(request, SigningKey.objects.filter(kid=kid), "Activated by rotation.", action="rotate_key")
            except RotationRefusedError as error:
                self.message_user(request, f"Not rotated: {error}", messages.ERROR)
            else:
                self.message_user(request, f"Rotated: the key {kid} signs from now on.", messages.SUCCESS)
        return redirect(reverse("admin:tokens_signingkey_changelist"))

    @admin.action(description="Drop as compromised", permissions=["rotate"])
    def drop_as_compromised(self, request: HttpRequest, queryset: QuerySet[SigningKey]) -> HttpResponse | None:
        """Ask once more, then refuse the keys from now on."""
        queryset = queryset.exclude(state=SigningKey.State.DROPPED)
        if not queryset:
            self.message_user(request, "These keys have been dropped before.", messages.WARNING)
            return None
        if request.POST.get("confirmed") != "yes":
            context = {
                **self.admin_site.each_context(request),
                "title": "Drop signing keys?",
                "opts": self.opts,
                "keys": queryset,
                "checkbox": ACTION_CHECKBOX_NAME,
            }
            return TemplateResponse(request, "admin/tokens/signingkey/confirm_drop.html", context)
        for key in list(queryset):
            try:
                with transaction.atomic():
                    active = drop(key.kid)
                    note(request, [key], "Dropped as compromised.", action="drop_key")
            except RotationRefusedError as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                self.message_user(request, f"Dropped {key.kid}; the active key is now {active}.", messages.SUCCESS)
        return None
