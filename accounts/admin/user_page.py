"""What a person's page in the admin shows beside the form: state of sign-in and mail, what happened, buttons."""

import uuid
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple

from django.contrib.admin import ActionLocation, display
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe

from accounts.access.rights import REMOVE_FACTORS, VIEW_AUDIT
from accounts.acts.changes import CHANGES
from accounts.admin.actions import asked_of_admin, offered, person_page
from accounts.admin.audit_trail import THEMSELVES, addresses
from accounts.audit.events import ended, told
from accounts.audit.models import AuditEvent
from accounts.federation import queries as federation
from accounts.mfa import factors
from accounts.organizations.models import Membership
from accounts.outbox.models import OutgoingMail
from accounts.privacy.admin import buttons
from accounts.transfer.models import ImportedUser
from accounts.users.models import User
from accounts.verdict import units as verdicts
from ironauth.infrastructure.admin.read_only import moment
from ironauth.infrastructure.admin.tabs import Tabbed

EVENTS: Final = 20  # on the page; all of them are a link away


class Happening(NamedTuple):
    """A line of the trail on a person's page."""

    at: str
    event: str
    outcome: str
    ended: str
    by: str
    address: str
    link: str


class UserPage(Tabbed):
    """Mixin of the page: state, trail and buttons; each costs the same number of queries for everybody."""

    #: What makes the URL patterns of other applications' pages below a person's, of the model's admin.
    more_pages: ClassVar[list[Callable[[Any], URLPattern]]] = []
    #: What says where such a page is and what its link is called, of a request and a person; None: not offered.
    more_links: ClassVar[list[Callable[[HttpRequest, User], tuple[str, str] | None]]] = []
    status_fields = ("standing", "verified_address", "accepted_terms", "mail_state", "memberships_here")
    way_fields = ("password_state", "second_factor", "identities")

    @display(description="account")
    def standing(self, user: User) -> str:
        """Return whether the account is active, and what it may do here. One query."""
        kind = "superuser" if user.is_superuser else "staff" if user.is_staff else ""
        roles = ", ".join(sorted(role.name for role in user.groups.all()))
        parts = ("Active" if user.is_active else "Inactive", kind, f"roles: {roles}" if roles else "")
        return ", ".join(filter(None, parts))

    @display(description="current password")
    def password_state(self, user: User) -> str:
        """Return whether there is one, and what speaks against it."""
        flagged = user.password_flagged_at
        found = [
            "Set" if user.has_usable_password() else "None",
            "has to be changed before signing in" if user.must_change_password else "",
            f"found in a list of breached passwords at {moment(flagged)}" if flagged else "",
        ]
        return "; ".join(filter(None, found))

    @display(description="second factor")
    def second_factor(self, user: User) -> str:
        """Return what the person proves in addition to the password. As many queries as `factors.overview`."""
        found = factors.overview(user.pk)
        if not found.methods:
            return "None"
        return ", ".join(filter(None, (factor.in_words(found) for factor in factors.FACTORS)))

    @display(description="other providers")
    def identities(self, user: User) -> str | SafeString:
        """Return who the person is elsewhere, and when they last came from there. One query."""
        found = federation.identities(user.pk)
        lines = ((one.provider.name, one.email or "no address", moment(one.last_used_at)) for one in found)
        return format_html_join(mark_safe("<br>"), "{}: {}, last used {}", lines) or "None"

    @display(description="e-mail verified")
    def verified_address(self, user: User) -> str:
        """Return since when the address is verified."""
        return moment(user.email_verified_at) if user.email_verified_at else "No"

    @display(description="terms accepted")
    def accepted_terms(self, user: User) -> str:
        """Return which version of the terms the person accepted when the account was made, and when."""
        return f"Version {user.terms_version}, {moment(user.terms_accepted_at)}" if user.terms_version else "None"

    @display(description="imported")
    def imported_from(self, user: User) -> str:
        """Return which other system somebody came from, by which id, and when. One query."""
        found = ImportedUser.objects.filter(user=user).select_related("run").first()
        if found is None:
            return "No"
        when = f"on {moment(found.run.started_at)}" if found.run else "at the first sign-in"
        return f"Imported from {found.source}, id {found.external_id}, {when}"

    @display(description="organizations")
    def memberships_here(self, user: User) -> str | SafeString:
        """Return what the person is a member of, with the role, linked to the membership. One query."""
        found = Membership.objects.filter(user=user.pk).select_related("organization").order_by("organization__name")
        lines = (
            (reverse("admin:accounts_membership_change", args=[one.pk]), one.organization.name, one.role)
            for one in found
        )
        return format_html_join(mark_safe("<br>"), '<a href="{}">{}</a>, {}', lines) or "None"

    @display(description="mail")
    def mail_state(self, user: User) -> str | SafeString:
        """Return how many messages to this account are waiting or were given up, linked to them. One query."""
        counts = OutgoingMail.objects.filter(user=user.pk).aggregate(
            waiting=Count("pk", filter=Q(failed_at=None)), given_up=Count("pk", filter=Q(failed_at__isnull=False))
        )
        if not any(counts.values()):
            return "Nothing waits"
        link = f"{reverse('admin:accounts_outgoingmail_changelist')}?{urlencode({'user__id__exact': str(user.pk)})}"
        return format_html('<a href="{}">{waiting} waiting, {given_up} given up</a>', link, **counts)

    def has_reset_mfa_permission(self, request: HttpRequest) -> bool:
        """Tell whether the caller may remove second factors at all."""
        return request.user.has_perm(REMOVE_FACTORS) and self.has_change_permission(request)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Add the buttons, also where the rest of the page is read-only, and the trail."""
        user: User | None = kwargs.get("obj")
        if user is not None:
            caller: Any = request.user
            context["verdict"] = verdicts.verdict_of(user.pk)
            context["subtitle"] = f"{user.name}, {user}" if user.name else str(user)
        if user is not None and self.tab_of(request, user) in (None, self.tabs[0]):
            allowed = [
                change for change in CHANGES if getattr(self, f"has_{asked_of_admin(change)}_permission")(request)
            ]
            offers = offered(allowed, caller, user) if allowed else []
            context["changes"] = [*offers, *(buttons(request, user) if self.has_change_permission(request) else ())]
            context["links"] = [link for offer in self.more_links if (link := offer(request, user)) is not None]
            context["acts_shown"] = not context.get("is_popup") and bool(
                context["changes"] or context["links"] or self.has_delete_permission(request, user)
            )
            context["action_checkbox_name"] = ACTION_CHECKBOX_NAME
            context["may_see_trail"] = caller.has_perm(VIEW_AUDIT)
            if context["may_see_trail"]:
                context["trail"] = _trail(user.pk)
                context["trail_link"] = (
                    f"{reverse('admin:accounts_auditevent_changelist')}?{urlencode({'q': str(user.pk)})}"
                )
        return super().render_change_form(request, context, *args, **kwargs)

    def response_action(
        self,
        request: HttpRequest,
        queryset: QuerySet[User],
        action_location: ActionLocation = ActionLocation.CHANGE_LIST,
    ) -> HttpResponse | None:
        """Return to the person's page from what was done by a button there."""
        answer = super().response_action(request, queryset, action_location)
        page = person_page(request)
        return HttpResponseRedirect(page) if page and isinstance(answer, HttpResponseRedirect) else answer


def _trail(user_id: uuid.UUID) -> list[Happening]:
    """Return the newest events about a person or by one. Three queries, two of them by an index that ends there."""
    newest = AuditEvent.objects.order_by("-id")
    found = (*newest.filter(user_id=user_id)[:EVENTS], *newest.filter(actor_id=user_id)[:EVENTS])
    unique = {event.id: event for event in found}  # what somebody did to their own account is in both
    events = sorted(unique.values(), key=lambda event: event.id, reverse=True)[:EVENTS]
    people = addresses(events)
    return [
        Happening(
            at=moment(event.at),
            event=told(event.event, event.details),
            outcome=event.outcome,
            ended=ended(event.outcome, event.details),
            by=_who(event, user_id, people),
            address=event.address or "-",
            link=reverse("admin:accounts_auditevent_change", args=[event.pk]),
        )
        for event in events
    ]


def _who(event: AuditEvent, user_id: uuid.UUID, people: dict[uuid.UUID, str]) -> str:
    """Return who did it, and to which account, as seen from a person's page."""
    if event.actor_id is not None and event.actor_id == event.user_id:
        return THEMSELVES
    by = "-" if event.actor_id is None else people.get(event.actor_id, str(event.actor_id))
    if event.user_id is not None and event.user_id != user_id:
        return f"{by}, to {people.get(event.user_id, str(event.user_id))}"
    return by
