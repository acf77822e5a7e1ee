"""Users in Django's admin (roles: ``admin_roles``). No page lets staff give away rights they do not hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth import admin as auth_admin
from django.contrib.auth.models import Group, Permission
from django.db import IntegrityError, transaction
from django.db.models import ManyToManyField, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.utils.formats import date_format

from accounts import profile
from accounts.access.rights import permissions_of, rights_of_request
from accounts.acts.changes import CHANGES
from accounts.admin import search
from accounts.admin.access import step_up as admin_step_up
from accounts.admin.actions import as_action
from accounts.admin.audited import Audited
from accounts.admin.forms import OwnPasswordForm, SetPasswordForm, UserAddForm, UserEditForm
from accounts.admin.permissions import PermissionChoices, offered
from accounts.admin.user_page import UserPage
from accounts.audit.recording import Event
from accounts.errors import UserProtected
from accounts.mfa import factors
from accounts.organizations import rules as organization_rules
from accounts.passwords import breached as breached_passwords
from accounts.passwords import breached_service, formats
from accounts.privacy import admin as admin_deletions
from accounts.staff import units as staff_units
from accounts.users import rules
from accounts.users.models import User
from ironauth.infrastructure.admin.lists import CheckedSelection, CountedPages, KnownValues
from ironauth.infrastructure.admin.tabs import Tab
from ironauth.infrastructure.core.errors import DomainError, PermissionDenied
from ironauth.infrastructure.telemetry.logs import get_logger

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    Admin = admin.ModelAdmin[Any]
    DjangoUserAdmin = auth_admin.UserAdmin[User]
else:
    Admin = object
    DjangoUserAdmin = auth_admin.UserAdmin

admin.site.password_change_form = OwnPasswordForm


class _HappenedFilter(admin.EmptyFieldListFilter):
    """Whether something has happened: Django's empty/not empty of its moment, as no/yes."""

    words: ClassVar[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = self.words

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Return all, yes and no."""
        every, empty, present = super().choices(changelist)
        yield from (every, {**present, "display": "Yes"}, {**empty, "display": "No"})


class VerifiedFilter(_HappenedFilter):
    """Whether an address was verified."""

    words = "verified"


class FlaggedFilter(_HappenedFilter):
    """Whether the present password was found in the list of breached ones."""

    words = "password found in a breach"


class FactorFilter(KnownValues):
    """Whether somebody has a second factor."""

    title = "second factor"
    parameter_name = "factor"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer yes and no."""
        return [("yes", "Yes"), ("no", "No")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the users with or without one."""
        if self.value() == "yes":
            return queryset.filter(factors.any_of())
        return queryset.exclude(factors.any_of()) if self.value() == "no" else queryset


class ProtectedDelete(Admin):
    """Deletes where the database may refuse: the page explains it, and nothing is deleted or logged.

    Django's own pages know about rows that Django's models protect. A foreign key of another program, or a row added
    after the page was shown, is found by the database only when the transaction ends.
    """

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> Any:
        """Delete one row, which may be refused."""
        try:
            return super().delete_view(request, object_id, extra_context)
        except IntegrityError as error:
            return self._refused(request, error)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Carry actions out; of many that are to be deleted all go, or none."""
        if request.POST.get("action") != "delete_selected":
            return super().changelist_view(request, extra_context)
        try:
            with transaction.atomic():
                return super().changelist_view(request, extra_context)
        except IntegrityError as error:
            return self._refused(request, error)

    def _refused(self, request: HttpRequest, error: IntegrityError) -> HttpResponse:
        get_logger().warning("deletion_refused", by=str(request.user.pk), cause=type(error).__name__)
        self.message_user(request, f"Nothing was deleted. {UserProtected.detail}", messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())


@admin.register(User)
class UserAdmin(CheckedSelection, ProtectedDelete, UserPage, Audited, DjangoUserAdmin):
    """People: find, add, change, deactivate, end sessions.

    Other applications append to ``inlines``, ``more_pages`` and ``more_links``.
    """

    audit_events = (Event.USER_CREATED, Event.USER_CHANGED, Event.USER_DELETED)
    adding_needs_step_up = False  # a new account has no rights
    ordinary_fields = frozenset({"name", *profile.FIELDS})  # they say nothing about who gets in and what they may do
    form = UserEditForm
    add_form = UserAddForm
    change_password_form = SetPasswordForm
    inlines: ClassVar[list[type[admin.options.InlineModelAdmin[Any, Any]]]] = [admin_deletions.PendingInline]
    fieldsets = (
        ("Status", {"fields": UserPage.status_fields}),
        ("Ways in", {"fields": UserPage.way_fields}),
        (
            "Name, address and password",
            {"fields": ("email", "name", *profile.FIELDS, "password")},
        ),
        ("Rights", {"fields": ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")}),
        ("Record", {"fields": ("id", "last_login", "session_epoch", "created_at", "imported_from", "updated_at")}),
    )
    tabs = (
        Tab("overview", "Overview", ("Status", "Ways in"), is_form=False),
        Tab("profile", "Name, address, password", ("Name, address and password",)),
        Tab("rights", "Rights", ("Rights",)),
        Tab("record", "Record", ("Record",), is_form=False),
    )
    add_fieldsets = (
        (None, {"classes": ("wide",), "fields": ("email", "name", "usable_password", "password1", "password2")}),
    )
    readonly_fields = (
        *UserPage.status_fields,
        *UserPage.way_fields,
        "imported_from",
        "id",
        "last_login",
        "session_epoch",
        "created_at",
        "updated_at",
    )
    list_display = (
        "account",
        "name",
        "roles",
        "is_active",
        "is_staff",
        "is_superuser",
        "verified",
        "admin_sign_in",
    )
    list_filter = (
        "is_active",
        "is_staff",
        "is_superuser",
        ("email_verified_at", VerifiedFilter),
        FactorFilter,
        "must_change_password",
        ("password_flagged_at", FlaggedFilter),
        ("groups", admin.RelatedOnlyFieldListFilter),
        "created_at",
        admin_deletions.PendingFilter,
    )
    search_fields = ("email_key__contains", "name")  # what get_search_results does; without it there is no field
    search_help_text = "Part of the e-mail address, or of a name; one or two letters: how it begins"
    ordering = ("-created_at",)
    list_per_page = 50
    paginator = CountedPages
    show_full_result_count = False  # counting every user is what makes a long list slow
    show_facets = admin.ShowFacets.NEVER  # so does counting them for every filter
    filter_horizontal = ("groups", "user_permissions")
    actions = (*map(as_action, CHANGES), admin_deletions.restore)

    @admin.display(description="e-mail address", ordering="email")
    def account(self, user: User) -> str:
        """Return the address, or since when the account is being deleted."""
        return str(user)

    @admin.display(description="roles")
    def roles(self, user: User) -> str:
        """Return the role names; prefetched with the list."""
        return ", ".join(sorted(role.name for role in user.groups.all())) or "-"

    @admin.display(description="verified", boolean=True, ordering="email_verified_at")
    def verified(self, user: User) -> bool:
        """Tell whether the address was verified."""
        return user.email_verified_at is not None

    @admin.display(description="admin sign-in", ordering="last_login")
    def admin_sign_in(self, user: User) -> str:
        """Return the day of the last sign-in to this admin; the API's are in the sessions."""
        return date_format(user.last_login, "DATE_FORMAT") if user.last_login else "-"

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        """Return the users with their roles, one more query for the page, and since when they are being deleted."""
        return super().get_queryset(request).select_related("pending_deletion").prefetch_related("groups")

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Leave out the stand-in address of somebody being deleted, and the password for those who may only look."""
        shown = super().get_fieldsets(request, obj)
        if obj is None:
            return shown
        hidden = {"email"} if obj.is_being_deleted else set()
        if not self.has_change_permission(request, obj):
            hidden.add("password")
        if not organization_rules.enabled():
            hidden.add("memberships_here")
        return [
            (title, {**one, "fields": [name for name in one["fields"] if name not in hidden]}) for title, one in shown
        ]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[User], search_term: str
    ) -> tuple[QuerySet[User], bool]:
        """Find part of the address or of the name, for every word."""
        return (search.people(queryset, search_term) if search_term else queryset), False

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Allow what Django takes for a question about passwords, by its first letters: when one was flagged."""
        return lookup == "password_flagged_at__isempty" or super().lookup_allowed(lookup, value, request)

    def get_urls(self) -> list[Any]:
        """Add the pages of other applications below a person's."""
        return [*(page(self) for page in self.more_pages), *super().get_urls()]

    def add_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Have a service asked about the password before the transaction begins in which Django judges the form."""
        password = request.POST.get("password1", "")
        if not password or formats.too_long(password) or not self.has_add_permission(request):
            return super().add_view(request, *args, **kwargs)
        with breached_service.asked_beforehand(breached_passwords.sha1_of(password)):
            return super().add_view(request, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """Save, and tell who has another address from now on at the one of before.

        Raises ``StepUpRequired``, and nothing is saved, for more than a name from a session proved too long ago.
        """
        if change:
            admin_step_up.require_for_form(request, form, ordinary=self.ordinary_fields)
            staff_units.tell_of_move(obj.pk, old=form.initial.get("email", obj.email), new=obj.email)
        super().save_model(request, obj, form, change)

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        """Save what other applications append. Raises ``StepUpRequired`` as above, and nothing of the page is saved."""
        admin_step_up.require_for_rows(request, formset)
        super().save_formset(request, form, formset, change)

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Show a person with rights the caller lacks read-only: anybody who may edit an account can take it over.

        So is one who is being deleted: to be restored first.
        """
        editable = obj is None or (not obj.is_being_deleted and _may_take_over(request, obj))
        return super().has_change_permission(request, obj) and editable

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Nobody deletes a person with rights the caller lacks."""
        return super().has_delete_permission(request, obj) and (obj is None or _may_take_over(request, obj))

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        """Leave staff status and single permissions to superusers, and addresses to staff who may take factors away."""
        fixed, rights = tuple(super().get_readonly_fields(request, obj)), rights_of_request(request)
        if rights.is_superuser:
            return fixed
        fixed = (*fixed, "is_staff", "is_superuser", "user_permissions")
        try:
            if obj is not None:
                staff_units.require_factors_of(rights, obj.pk)
        except PermissionDenied:
            return (*fixed, "email")
        return fixed

    def get_form(self, request: HttpRequest, obj: User | None = None, change: bool = False, **kwargs: Any) -> type[Any]:
        """Tell the form who fills it in: nobody may lock themselves out."""
        form: type[Any] = super().get_form(request, obj, change=change, **kwargs)
        form.caller_id = request.user.pk  # made for this request by Django
        return form

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:  # noqa: A002 - Django's name
        """Lead who means themselves to the page that asks for the old password."""
        user = self.get_object(request, unquote(id))
        if user is not None and user.pk == request.user.pk:
            return redirect("admin:password_change")
        return super().user_change_password(request, id, form_url)

    def get_inlines(self, request: HttpRequest, obj: User | None) -> list[Any]:
        """Show what other applications append only once there is a user it can belong to."""
        return [] if obj is None else list(super().get_inlines(request, obj))

    def formfield_for_manytomany(self, db_field: ManyToManyField[Any, Any], request: HttpRequest, **kwargs: Any) -> Any:
        """Offer only the roles whose every permission the caller holds, and permissions that open something."""
        rights = rights_of_request(request)
        if db_field.name == "user_permissions":
            kwargs |= {"queryset": offered(Permission.objects.all()), "form_class": PermissionChoices}
        if db_field.name == "groups" and not rights.is_superuser:
            groups = Group.objects.prefetch_related("permissions__content_type")
            grantable = [group.pk for group in groups if permissions_of(group) <= rights.permissions]
            kwargs["queryset"] = Group.objects.filter(pk__in=grantable)
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> Any:
        """Protect the last superuser; what hangs on a user (sessions, log entries) goes with the user."""
        users = list(objs)
        deleted, counts, perms_needed, protected = super().get_deleted_objects(users, request)
        protected = [
            *protected,
            *(f"{user}: holds rights you do not" for user in users if not _may_take_over(request, user)),
            *(f"{user}: this is you; ask a colleague" for user in users if user.pk == request.user.pk),
        ]
        try:
            with transaction.atomic():
                rules.require_deletable(users)
        except DomainError as refused:
            protected = [*protected, refused.detail]
        return deleted, counts, {self.opts.verbose_name} & perms_needed, protected

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Delete the selected users together, or none when that would leave no superuser."""
        with transaction.atomic():
            rules.require_deletable(queryset)
            super().delete_queryset(request, queryset)


def _may_take_over(request: HttpRequest, user: User) -> bool:
    """Tell whether the caller holds every right of ``user``."""
    try:
        rights_of_request(request).require_all_of(user)
    except PermissionDenied:
        return False
    return True
