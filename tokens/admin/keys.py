"""Signing keys in Django's admin: to see, to rotate and to drop."""

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse

from ironauth.infrastructure.admin.actions import CONFIRMED, admin_action, ask, holds, is_danger, page_act
from ironauth.infrastructure.admin.lists import CheckedSelection
from ironauth.infrastructure.admin.read_only import moment
from tokens.admin.read_only import ReadOnly, note
from tokens.keys.key_set import Family
from tokens.keys.models import SigningKey
from tokens.keys.units import RotationRefusedError, drop, rotate
from tokens.rights import CHANGE_KEYS

KEY_FIELDS = (
    "kid", "state", "family", "algorithm", "public_jwk", "master_key_id", "created_at", "activated_at", "retired_at",
    "not_after",
)  # fmt: skip
KID_SHOWN = 12  # characters; enough to tell a handful of keys apart


@admin.register(SigningKey)
class SigningKeyAdmin(CheckedSelection, ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """Signing keys and their states; the private part is on no page."""

    lookups = frozenset({"state__exact", "state__isnull", "family__exact", "family__isnull", "alg", "alg__isnull"})
    hidden = ("private_encrypted",)
    list_display = ["state", "short_kid", "alg", "created", "activated", "retired", "ends"]
    list_display_links = ["state", "short_kid"]
    list_filter = ["state", "family", "alg"]
    fields = KEY_FIELDS
    readonly_fields = KEY_FIELDS
    actions = ["drop_as_compromised"]

    @admin.display(description="Key", ordering="kid")
    def short_kid(self, key: SigningKey) -> str:
        """Return the beginning of the kid; the page of the key shows all of it."""
        return f"{key.kid[:KID_SHOWN]}…"

    @admin.display(description="Algorithm")
    def algorithm(self, key: SigningKey) -> str:
        """Return what signs, as tokens name it."""
        return key.alg

    @admin.display(description="Created", ordering="created_at")
    def created(self, key: SigningKey) -> str:
        """Return since when the key is published."""
        return moment(key.created_at)

    @admin.display(description="Activated", ordering="activated_at")
    def activated(self, key: SigningKey) -> str:
        """Return since when the key signs."""
        return moment(key.activated_at)

    @admin.display(description="Retired", ordering="retired_at")
    def retired(self, key: SigningKey) -> str:
        """Return since when the key signs no more."""
        return moment(key.retired_at)

    @admin.display(description="Not after", ordering="not_after")
    def ends(self, key: SigningKey) -> str:
        """Return when the last token of the key has ended."""
        return moment(key.not_after)

    has_rotate_permission = holds(CHANGE_KEYS)  # and drop

    def get_urls(self) -> list[URLPattern]:
        """Add the addresses of the rotate buttons: of Ed25519, and of each other family."""
        rotate_view = self.admin_site.admin_view(self.rotate)
        return [
            path("rotate/", rotate_view, name="tokens_signingkey_rotate"),
            path("rotate/<slug:family>/", rotate_view, name="tokens_signingkey_rotate_family"),
            *super().get_urls(),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the rotate buttons to those who may press them: one for each family that has keys."""
        may_rotate = self.has_rotate_permission(request)
        others = _other_families() if may_rotate else []
        return super().changelist_view(
            request,
            {
                **(extra_context or {}),
                "may_rotate": may_rotate,
                "other_families": others,
                "danger": is_danger(self.rotate),
            },
        )

    @page_act(danger=True)  # the active key signs no more, and that cannot be undone
    def rotate(self, request: HttpRequest, family: str = Family.ED25519.value) -> HttpResponse:
        """Rotate the keys of a family by POST, after asking; say why when it is too early."""
        if not self.has_rotate_permission(request):
            raise PermissionDenied
        if family not in set(Family):
            raise Http404
        if request.method == "POST" and CONFIRMED not in request.POST:
            return ask(
                self,
                request,
                action="rotate",
                title="Rotate",
                question=f"Rotate the {'' if family == Family.ED25519 else family + ' '}signing keys?",
                warning="The next key signs from now on, and a new one is published after it. Nobody is signed out. "
                "This cannot be undone.",
                shown=[],
                danger=is_danger(self.rotate),
            )
        if request.method == "POST":  # a GET comes back from signing in again, and changes nothing
            try:
                with transaction.atomic():
                    kid = rotate(Family(family), actor_id=_caller(request))
                    note(request, SigningKey.objects.filter(kid=kid), "Activated by rotation.", action="rotate_key")
            except RotationRefusedError as error:
                self.message_user(request, f"Not rotated: {error}", messages.ERROR)
            else:
                self.message_user(request, f"Rotated: the key {kid} signs from now on.", messages.SUCCESS)
        return redirect(reverse("admin:tokens_signingkey_changelist"))

    @admin_action("Drop as compromised", permission="rotate", danger=True)
    def drop_as_compromised(self, request: HttpRequest, queryset: QuerySet[SigningKey]) -> HttpResponse | None:
        """Ask once more, then refuse the keys from now on."""
        queryset = queryset.exclude(state=SigningKey.State.DROPPED)
        if not queryset:
            self.message_user(request, "No key in use was selected.", messages.WARNING)
            return None
        if CONFIRMED not in request.POST:
            return ask(
                self,
                request,
                action="drop_as_compromised",
                title="Drop as compromised",
                question=f"Drop {len(queryset)} signing {'key' if len(queryset) == 1 else 'keys'}?",
                warning="Every token these keys signed is refused at once, everyone concerned refreshes or signs in "
                "again, and the private parts are destroyed. This cannot be undone.",
                shown=[f"{key.kid} ({key.get_state_display()})" for key in queryset],
                danger=is_danger(self.drop_as_compromised),
            )
        for key in list(queryset):
            try:
                with transaction.atomic():
                    active = drop(key.kid, actor_id=_caller(request))
                    note(request, [key], "Dropped as compromised.", action="drop_key")
            except RotationRefusedError as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                self.message_user(request, f"Dropped {key.kid}; the active key is now {active}.", messages.SUCCESS)
        return None


def _other_families() -> list[str]:
    """Return the families, without Ed25519, that this installation has keys of."""
    there = SigningKey.objects.exclude(family=Family.ED25519).filter(state=SigningKey.State.NEXT)
    return list(there.order_by("family").values_list("family", flat=True))


def _caller(request: HttpRequest) -> UUID:
    """Return who uses the admin."""
    caller: Any = request.user
    user_id: UUID = caller.pk
    return user_id
