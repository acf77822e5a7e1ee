"""Invitations in Django's admin: to make, to see what came of them, to send again and to withdraw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from asgiref.sync import async_to_sync
from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin import ActionLocation
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect

from accounts import email_address as emails
from accounts import names
from accounts.access import roles as access_roles
from accounts.access.rights import ADD_INVITATIONS, DELETE_INVITATIONS, VIEW_INVITATIONS, rights_of_request
from accounts.invitations import continuing, queries, units
from accounts.invitations.errors import InvitationExists
from accounts.invitations.models import Invitation
from accounts.invitations.queries import require_grantable
from accounts.lockout import rate_limits
from ironauth.infrastructure.admin.actions import admin_action, holds, is_danger
from ironauth.infrastructure.admin.lists import CheckedSelection, KnownValues
from ironauth.infrastructure.admin.read_only import ReadOnly, breakable, moment
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import DomainError, PermissionDenied
from ironauth.infrastructure.telemetry.logs import get_logger

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    ModelForm = forms.ModelForm[Invitation]
else:
    ModelForm = forms.ModelForm

FIELDS: Final = ("email", "name", "language", "client", "roles")
SHOWN: Final = (
    "email", "name", "language", "application", "role_names", "state", "inviter", "account", "created_at", "expires_at",
    "accepted_at", "withdrawn_at", "id",
)  # fmt: skip


class InvitationForm(ModelForm):
    """Who is invited, and with which roles."""

    email = forms.CharField(label="E-mail address", max_length=emails.MAX_LENGTH, widget=forms.EmailInput)
    language = forms.ChoiceField(
        required=False,
        choices=lambda: [("", "That of this browser"), *settings.LANGUAGES],
        help_text="Of the message, and of the person's pages.",
    )
    client = forms.ChoiceField(
        label="Application",
        required=False,
        choices=lambda: [("", "None"), *continuing.offered()],
        help_text="Where the page leads once the account is there. Offered are those that say where a sign-in begins.",
    )
    roles = forms.ModelMultipleChoiceField(
        queryset=Group.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Given with the account, as far as you may still give them then.",
    )

    #: The roles that the caller may give.
    grantable: ClassVar[QuerySet[Group]] = Group.objects.none()

    class Meta:
        """Which fields."""

        model = Invitation
        fields = FIELDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        roles: Any = self.fields.get("roles")
        if roles is not None:  # not where an invitation is only shown
            roles.queryset = self.grantable
            if not self.grantable.exists():
                roles.help_text = "There are no roles yet that you may give."

    def clean_email(self) -> str:
        """Return the address in its standard form; refuse one that no account may have, or that is invited."""
        email = emails.normalise(self.cleaned_data["email"])
        emails.validate_new(email)
        now = clock.now()
        unanswered = Invitation.objects.filter(accepted_at=None, withdrawn_at=None, organization=None)
        waiting = unanswered.filter(email_key=emails.fold(email))
        if waiting.filter(expires_at__gt=now).exists():
            raise forms.ValidationError("An invitation to this address waits for an answer: send it again in the list.")
        return email

    def clean_name(self) -> str:
        """Return the name in its standard form."""
        name = names.normalise(self.cleaned_data["name"])
        names.validate(name)
        return name

    def clean_roles(self) -> list[str]:
        """Return the names of the roles."""
        return [role.name for role in self.cleaned_data["roles"]]

    def clean(self) -> dict[str, Any]:
        """Count the message, last: nothing was wrong with the rest."""
        data = super().clean() or self.cleaned_data
        if settings.IRONAUTH_SIGN_UP == "closed":
            raise forms.ValidationError("Sign-up is closed (IRONAUTH_SIGN_UP): an invitation would open nothing.")
        if not self.errors:
            try:
                async_to_sync(rate_limits.admit_mail)(kind="invitation", email=data["email"])
            except DomainError as error:
                raise forms.ValidationError(error.detail) from error
        return data


class StateFilter(KnownValues):
    """Invitations by what came of them."""

    title = parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer the four."""
        return [(state, state.capitalize()) for state in ("waiting", "accepted", "withdrawn", "expired")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Invitation]) -> QuerySet[Invitation]:
        """Return the invitations of the chosen state."""
        unanswered, living, now = Q(accepted_at=None, withdrawn_at=None), queries.living(), clock.now()
        wanted = {  # as ``Invitation.state_at`` says it
            "waiting": unanswered & living & Q(expires_at__gt=now),
            "expired": unanswered & living & Q(expires_at__lte=now),
            "accepted": Q(accepted_at__isnull=False),
            "withdrawn": Q(withdrawn_at__isnull=False) | (unanswered & ~living),
        }.get(self.value() or "")
        return queryset if wanted is None else queryset.filter(wanted)


@admin.register(Invitation)
class InvitationAdmin(CheckedSelection, ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """Invitations. Nobody changes one: it is withdrawn, and another is made."""

    form = InvitationForm
    change_form_template = "admin/made_and_ended.html"
    lookups = frozenset({"state"})
    hidden = ("token",)
    list_display = ("to", "role_names", "state", "made", "until")
    list_filter = (StateFilter,)
    search_fields = ("email_key__has_part",)
    search_help_text = "Part of the address"
    sortable_by = ()
    ordering = ("-id",)
    list_per_page = 50
    show_full_result_count = False  # as in the other lists
    show_facets = admin.ShowFacets.NEVER
    readonly_fields = ("application", "role_names", "state", "inviter", "account")
    actions = ("send_again", "withdraw")

    has_view_permission = holds(VIEW_INVITATIONS)
    has_send_permission = holds(ADD_INVITATIONS)
    has_withdraw_permission = holds(DELETE_INVITATIONS)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Anybody who may invite."""
        return request.user.has_perm(ADD_INVITATIONS)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show the list to anybody who may do anything with it."""
        return self.has_view_permission(request) or self.has_add_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Invitation]:
        """Know of each whether its maker may still invite so, without a query a row."""
        rows: QuerySet[Invitation] = super().get_queryset(request)
        return rows.annotate(is_living=ExpressionWrapper(queries.living(), BooleanField()))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Ask for what is needed, and show everything."""
        return SHOWN if obj else FIELDS

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Offer the roles that the caller may give."""
        made: Any = super().get_form(request, obj, change, **kwargs)
        made.grantable = _grantable(request)  # of a class that is made for this request
        return made

    @method_decorator(csrf_protect)
    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show the form, or send it; what has changed since it was judged is said in the list.

        Not in the transaction of Django's method: the form counts the message, by another connection of SQLite, which
        would wait for that one to end. What is stored has a transaction of its own (``save_model``).
        """
        judged: Any = self  # the method of Django's that has no transaction is in no stub
        try:
            return cast("HttpResponse", judged._changeform_view(request, object_id, form_url, extra_context))  # noqa: SLF001 - as above
        except IntegrityError:
            reason = InvitationExists.detail
        except DomainError as error:
            reason = error.detail
        self.message_user(request, reason, messages.WARNING)
        return HttpResponseRedirect(reverse("admin:accounts_invitation_changelist"))

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Offer what may be done with an invitation that nobody has answered."""
        context["make"] = "Invite"
        row: Any = kwargs.get("obj")  # as `get_queryset` has it
        if row is not None and row.accepted_at is None and row.withdrawn_at is None:
            may_send = self.has_send_permission(request) and row.is_living
            offers = (
                ("send_again", "Send again", self.send_again, may_send),
                ("withdraw", "Withdraw", self.withdraw, self.has_withdraw_permission(request)),
            )
            context["acts"] = [
                {"name": name, "title": title, "danger": is_danger(act)} for name, title, act, may in offers if may
            ]
            context["action_checkbox_name"] = ACTION_CHECKBOX_NAME
        return super().render_change_form(request, context, *args, **kwargs)

    def response_action(
        self,
        request: HttpRequest,
        queryset: QuerySet[Invitation],
        action_location: ActionLocation = ActionLocation.CHANGE_LIST,
    ) -> HttpResponse | None:
        """Return to the invitation's page from what was done by a button there."""
        answer = super().response_action(request, queryset, action_location)
        chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if "page" not in request.POST or len(chosen) != 1 or not isinstance(answer, HttpResponseRedirect):
            return answer
        return HttpResponseRedirect(reverse("admin:accounts_invitation_change", args=chosen))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Store the invitation and have its message sent, with its event."""
        caller: Any = request.user
        values = {name: form.cleaned_data[name] for name in FIELDS}
        with transaction.atomic():
            made = units.invite(actor_id=caller.pk, values=values)
        obj.pk = made.id
        get_logger().info("invitation_made", invitation=str(made.id), by=str(caller.pk))

    @admin.display(description="e-mail address")
    def to(self, row: Invitation) -> Any:
        """Return the address, as it fits a narrow column."""
        return breakable(row.email)

    @admin.display(description="roles")
    def role_names(self, row: Invitation) -> str:
        """Return the roles that come with the account."""
        return ", ".join(row.roles) or "-"

    @admin.display(description="application")
    def application(self, row: Invitation) -> str:
        """Return where it leads; the id of an application that cannot be continued to any more."""
        found = continuing.find(row.client)
        return found.name if found is not None else row.client or "-"

    @admin.display(description="state")
    def state(self, row: Any) -> str:
        """Return what came of it."""
        is_dead = row.accepted_at is None and row.withdrawn_at is None and not row.is_living
        state: str = row.state_at(clock.now(), is_dead=is_dead)
        return state.capitalize()

    @admin.display(description="made")
    def made(self, row: Invitation) -> str:
        """Return when it was made."""
        return moment(row.created_at)

    @admin.display(description="works until")
    def until(self, row: Invitation) -> str:
        """Return when its link ends."""
        return moment(row.expires_at)

    @admin.display(description="invited by")
    def inviter(self, row: Invitation) -> str:
        """Return who made it."""
        return row.invited_by.email if row.invited_by else "-"

    @admin.display(description="account")
    def account(self, row: Invitation) -> str:
        """Return the account that was made of it."""
        return row.user.email if row.user else "-"

    @admin_action("Send selected invitations again", permission="send", danger=False, step_up=False)
    def send_again(self, request: HttpRequest, queryset: QuerySet[Invitation]) -> None:
        """Send a new link to each that nobody has answered; the one before opens nothing."""
        self._each(request, queryset, "Sent again", self._sent_again)

    @admin_action("Withdraw selected invitations", permission="withdraw", danger=True, step_up=False)
    def withdraw(self, request: HttpRequest, queryset: QuerySet[Invitation]) -> None:
        """End each that nobody has answered."""
        self._each(request, queryset, "Withdrawn", self._withdrawn)

    @staticmethod
    def _sent_again(actor_id: Any, row: Invitation) -> None:
        async_to_sync(rate_limits.admit_mail)(kind="invitation", email=row.email)
        with transaction.atomic():
            units.send_again(actor_id=actor_id, invitation_id=row.pk)

    @staticmethod
    def _withdrawn(actor_id: Any, row: Invitation) -> None:
        with transaction.atomic():
            units.withdraw(actor_id=actor_id, invitation_id=row.pk)

    def _each(self, request: HttpRequest, queryset: QuerySet[Invitation], words: str, act: Any) -> None:
        """Do ``act`` to each invitation; say for how many, and why not for the others."""
        caller: Any = request.user
        done, refused = 0, []
        for row in list(queryset):
            try:
                act(caller.pk, row)
                done += 1
            except DomainError as error:
                refused.append(error.detail)
        level = messages.SUCCESS if done else messages.WARNING
        self.message_user(request, f"{words}: {done} of {done + len(refused)}.", level)
        for detail in dict.fromkeys(refused):
            self.message_user(request, detail, messages.WARNING)
        get_logger().info("admin_action", action=words.lower().replace(" ", "_"), invitations=done, by=str(caller.pk))


def _grantable(request: HttpRequest) -> QuerySet[Group]:
    """Return the roles that the caller may give."""
    rights = rights_of_request(request)
    chosen = []
    for role in access_roles.with_permissions(Group.objects.all()):
        try:
            require_grantable(rights, (role,))
        except PermissionDenied:
            continue
        chosen.append(role.pk)
    return Group.objects.filter(pk__in=chosen).order_by("name")
