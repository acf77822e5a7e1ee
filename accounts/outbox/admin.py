"""The queue of messages in Django's admin: what waits, what was given up, and "try again now".

Its rights are those over users: staff who may see people may see what they are sent, staff who may change people may
have it sent.
No page shows the text of a message or its token: neither exists before it is sent.
"""

from typing import Any, Final

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from accounts.audit.events import in_words
from accounts.outbox import queue as outbox
from accounts.outbox.models import OutgoingMail
from ironauth.infrastructure.admin.actions import CONFIRMED, SHOWN, admin_action, ask, is_danger
from ironauth.infrastructure.admin.lists import CheckedSelection, KnownValues
from ironauth.infrastructure.admin.read_only import ReadOnly, breakable, moment
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.telemetry.logs import get_logger

FIELDS: Final = (
    "recipient", "person", "about", "state", "tries", "created_at", "next_try_at", "failed_at", "id",
)  # fmt: skip


def state_of(mail: OutgoingMail) -> str:
    """Return what becomes of a message, in words."""
    if mail.failed_at is not None:
        return "Given up"
    if mail.claimed_until is not None and mail.claimed_until > clock.now():
        return "Being sent"
    return "Failing" if mail.tries else "Waiting"


class StateFilter(KnownValues):
    """Messages by what becomes of them."""

    title = parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer the three."""
        return [("waiting", "Waiting"), ("failing", "Failing"), ("given_up", "Given up")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[OutgoingMail]) -> QuerySet[OutgoingMail]:
        """Return the messages of the chosen state."""
        if self.value() == "given_up":
            return queryset.filter(failed_at__isnull=False)
        if self.value() == "failing":
            return queryset.filter(failed_at=None, tries__gt=0)
        return queryset.filter(failed_at=None, tries=0) if self.value() == "waiting" else queryset


@admin.register(OutgoingMail)
class OutgoingMailAdmin(CheckedSelection, ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """Messages that were not accepted yet; what was sent is gone from here."""

    lookups = frozenset({"state", "user__id__exact"})
    hidden = ("token", "facts")
    list_display = ("to", "about", "state", "tries", "queued", "next_try")
    list_filter = (StateFilter,)
    search_fields = ("recipient__has_part",)
    search_help_text = "Part of the address"
    sortable_by = ()
    ordering = ("-id",)
    list_per_page = 50
    show_full_result_count = False  # as in the other lists
    show_facets = admin.ShowFacets.NEVER
    fields = FIELDS
    readonly_fields = FIELDS
    actions = ("try_again",)

    def named(self, row: OutgoingMail) -> str:
        """Return what is sent, and the address."""
        return f"{self.about(row)}: {row.recipient}"

    @admin.display(description="recipient")
    def to(self, mail: OutgoingMail) -> SafeString:
        """Return the address, as it fits a narrow column."""
        return breakable(mail.recipient)

    @admin.display(description="about")
    def about(self, mail: OutgoingMail) -> str:
        """Return what the message is about."""
        return in_words(mail.kind)

    @admin.display(description="state")
    def state(self, mail: OutgoingMail) -> str:
        """Return what becomes of the message."""
        return state_of(mail)

    @admin.display(description="queued")
    def queued(self, mail: OutgoingMail) -> str:
        """Return since when the message waits."""
        return moment(mail.created_at)

    @admin.display(description="next try")
    def next_try(self, mail: OutgoingMail) -> str:
        """Return when the message is tried next, if ever."""
        return moment(mail.next_try_at if mail.failed_at is None else None)

    @admin.display(description="account")
    def person(self, mail: OutgoingMail) -> str:
        """Return a link to whose account it is about."""
        if mail.user is None:
            return "-"
        return format_html('<a href="{}">{}</a>', reverse("admin:accounts_user_change", args=[mail.user_id]), mail.user)

    def get_queryset(self, request: HttpRequest) -> QuerySet[OutgoingMail]:
        """Return what is to be sent: rows without a recipient are there for the sake of equal timing only."""
        return super().get_queryset(request).exclude(recipient="")

    def has_view_permission(self, request: HttpRequest, obj: OutgoingMail | None = None) -> bool:
        """Anybody who may see users sees what they are to be sent."""
        return request.user.has_perm("accounts.view_user") or self.has_send_permission(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show the list to them."""
        return self.has_view_permission(request)

    def has_send_permission(self, request: HttpRequest) -> bool:
        """Anybody who may change users may have a message tried again."""
        return request.user.has_perm("accounts.change_user")

    @admin_action("Try to send selected messages again now", permission="send", danger=False, step_up=False)
    def try_again(self, request: HttpRequest, queryset: QuerySet[OutgoingMail]) -> HttpResponse | None:
        """Have the messages sent at once, those given up too, after asking; one being sent is left to it."""
        idle = queryset.filter(Q(claimed_until=None) | Q(claimed_until__lte=clock.now()))
        total = idle.count()
        if total and CONFIRMED not in request.POST:
            return ask(
                self,
                request,
                action="try_again",
                title="Try again now",
                question=f"Try to send {_count(total)} again now?",
                warning="Each is tried again at once, also when it was given up; links in it are valid from then.",
                shown=[f"{mail.recipient}: {self.about(mail)}" for mail in idle[:SHOWN]],
                danger=is_danger(self.try_again),
                unshown=max(0, total - SHOWN),
            )
        caller: Any = request.user
        with transaction.atomic():
            again = outbox.try_again(list(idle.values_list("pk", flat=True)), actor_id=caller.pk)
        get_logger().info("admin_action", action="try_again", messages=again, by=str(caller.pk))
        if again:
            self.message_user(request, f"{_count(again)} will be tried again at once.", messages.SUCCESS)
        else:
            self.message_user(request, "Nothing to do: all of these are being sent.", messages.WARNING)
        return None


def _count(number: int) -> str:
    """Return e.g. "1 message" or "3 messages"."""
    return f"{number} message" if number == 1 else f"{number} messages"
