"""Users and roles in Django's admin. Nobody can give away, through any page, rights they do not hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.contrib.auth import admin as auth_admin
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.db.models import Count, ManyToManyField, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from accounts import admin_actions, emails, units
from accounts.admin_forms import RoleForm, StaffSignInForm, UserAddForm, UserEditForm
from accounts.errors import LastSuperuser
from accounts.managers import UserQuerySet
from accounts.models import User
from accounts.rights import Rights, permissions_of, rights_of_user
from ironauth.infrastructure.errors import Overloaded, PermissionDenied

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    DjangoUserAdmin = auth_admin.UserAdmin[User]
else:
    DjangoUserAdmin = auth_admin.UserAdmin

admin.site.login_form = StaffSignInForm


def _rights(request: HttpRequest) -> Rights:
    """Return the rights of whoever uses the admin; Django keeps them on the user for the request."""
    user: Any = request.user
    return rights_of_user(user)


@admin.register(User)
class UserAdmin(DjangoUserAdmin):
    """People: find, add, change, deactivate, end sessions. Other applications append to ``inlines``."""

    form = UserEditForm
    add_form = UserAddForm
    inlines: ClassVar[list[type[admin.options.InlineModelAdmin[Any, Any]]]] = []
    fieldsets = (
        (None, {"fields": ("email", "name", "password")}),
        ("Rights", {"fields": ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")}),
        ("Record", {"fields": ("id", "email_verified_at", "last_login", "session_epoch", "created_at", "updated_at")}),
    )
    add_fieldsets = (
        (None, {"classes": ("wide",), "fields": ("email", "name", "usable_password", "password1", "password2")}),
    )
    readonly_fields = ("id", "email_verified_at", "last_login", "session_epoch", "created_at", "updated_at")
    list_display = (
        "email",
        "name",
        "roles",
        "is_active",
        "is_staff",
        "is_superuser",
        "verified",
        "last_login",
        "created_at",
    )
    list_filter = (
        "is_active",
        "is_staff",
        "is_superuser",
        ("email_verified_at", admin.EmptyFieldListFilter),
        ("groups", admin.RelatedOnlyFieldListFilter),
        "created_at",
    )
    search_fields = ("email_key__startswith", "name")
    search_help_text = "Beginning of the e-mail address, or part of the name"
    ordering = ("-created_at",)
    list_per_page = 50
    show_full_result_count = False  # counting every user is what makes a long list slow
    filter_horizontal = ("groups", "user_permissions")
    actions = ("end_all_sessions", "deactivate", "activate")

    @admin.display(description="roles")
    def roles(self, user: User) -> str:
        """Return the role names; prefetched with the list."""
        return ", ".join(sorted(role.name for role in user.groups.all())) or "-"

    @admin.display(description="verified", boolean=True, ordering="email_verified_at")
    def verified(self, user: User) -> bool:
        """Tell whether the address was verified."""
        return user.email_verified_at is not None

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        """Return the users with their roles: one more query for the page, not one for each row."""
        return super().get_queryset(request).prefetch_related("groups")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[User], search_term: str
    ) -> tuple[QuerySet[User], bool]:
        """Search by the folded address, so that case does not matter and the index can be used."""
        return super().get_search_results(request, queryset, emails.fold(search_term))

    @admin.action(description="End all sessions of selected users", permissions=["change"])
    def end_all_sessions(self, request: HttpRequest, queryset: UserQuerySet) -> HttpResponse | None:
        """Sign the users out everywhere."""
        return admin_actions.perform(admin_actions.END_SESSIONS, self, request, queryset)

    @admin.action(description="Deactivate selected users", permissions=["change"])
    def deactivate(self, request: HttpRequest, queryset: UserQuerySet) -> HttpResponse | None:
        """Sign the users out everywhere and keep them out."""
        return admin_actions.perform(admin_actions.DEACTIVATE, self, request, queryset)

    @admin.action(description="Activate selected users", permissions=["change"])
    def activate(self, request: HttpRequest, queryset: UserQuerySet) -> HttpResponse | None:
        """Let the users sign in again."""
        return admin_actions.perform(admin_actions.ACTIVATE, self, request, queryset)

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Show a person with rights the caller lacks read-only: whoever may edit an account can take it over."""
        return super().has_change_permission(request, obj) and (obj is None or _may_take_over(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Nobody deletes a person with rights the caller lacks."""
        return super().has_delete_permission(request, obj) and (obj is None or _may_take_over(request, obj))

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        """Leave staff status and single permissions to superusers."""
        fixed = tuple(super().get_readonly_fields(request, obj))
        return fixed if _rights(request).is_superuser else (*fixed, "is_staff", "is_superuser", "user_permissions")

    def get_inlines(self, request: HttpRequest, obj: User | None) -> list[Any]:
        """Show what other applications append only once there is a user it can belong to."""
        return [] if obj is None else list(super().get_inlines(request, obj))

    def formfield_for_manytomany(self, db_field: ManyToManyField[Any, Any], request: HttpRequest, **kwargs: Any) -> Any:
        """Offer only the roles whose every permission the caller holds."""
        rights = _rights(request)
        if db_field.name == "groups" and not rights.is_superuser:
            groups = Group.objects.prefetch_related("permissions__content_type")
            grantable = [group.pk for group in groups if permissions_of(group) <= rights.permissions]
            kwargs["queryset"] = Group.objects.filter(pk__in=grantable)
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Add a user; say so when the hash pool is too busy."""
        try:
            return super().add_view(request, form_url, extra_context)
        except Overloaded as busy:
            return self._busy(request, busy)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:  # noqa: A002 - Django's signature
        """Set a password; say so when the hash pool is too busy."""
        try:
            return super().user_change_password(request, id, form_url)
        except Overloaded as busy:
            return self._busy(request, busy)

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> Any:
        """Protect the last superuser; what hangs on a user (sessions, log entries) goes with the user."""
        users = list(objs)
        deleted, counts, perms_needed, protected = super().get_deleted_objects(users, request)
        protected = [
            *protected,
            *(f"{user}: holds rights you do not" for user in users if not _may_take_over(request, user)),
        ]
        try:
            with transaction.atomic():
                units.keep_a_superuser(without=users)
        except LastSuperuser as refused:
            protected = [*protected, refused.detail]
        return deleted, counts, {self.opts.verbose_name} & perms_needed, protected

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Delete the selected users together, or none when that would leave no superuser."""
        with transaction.atomic():
            units.keep_a_superuser(without=list(queryset))
            queryset.delete()

    def _busy(self, request: HttpRequest, busy: Overloaded) -> HttpResponse:
        """Return to the form with the reason; nothing was changed."""
        self.message_user(request, f"The server is busy. Try again in {busy.retry_after_s} s.", messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())


def _may_take_over(request: HttpRequest, user: User) -> bool:
    """Tell whether the caller holds every right of ``user``."""
    try:
        _rights(request).require_all_of(user)
    except PermissionDenied:
        return False
    return True


admin.site.unregister(Group)


@admin.register(Group)
class RoleAdmin(auth_admin.GroupAdmin):
    """Roles: Django's groups."""

    form = RoleForm
    list_display = ("name", "members", "granted")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        """Return the roles with their counts, in the one query of the list."""
        counts = {
            "member_count": Count("user", distinct=True),
            "permission_count": Count("permissions", distinct=True),
        }
        return super().get_queryset(request).annotate(**counts)

    @admin.display(description="members", ordering="member_count")
    def members(self, role: Any) -> int:
        """Return how many people have the role."""
        count: int = role.member_count
        return count

    @admin.display(description="permissions", ordering="permission_count")
    def granted(self, role: Any) -> int:
        """Return how many permissions the role grants."""
        count: int = role.permission_count
        return count

    def has_change_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        """Show a role that grants more than the caller holds read-only."""
        return super().has_change_permission(request, obj) and (obj is None or _covers(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        """Let nobody delete a role that grants more than they hold."""
        return super().has_delete_permission(request, obj) and (obj is None or _covers(request, obj))

    def formfield_for_manytomany(
        self,
        db_field: ManyToManyField[Any, Any],
        request: HttpRequest | None = None,
        **kwargs: Any,
    ) -> Any:
        """Offer only the permissions the caller holds."""
        if db_field.name == "permissions" and request is not None and not (rights := _rights(request)).is_superuser:
            known = Permission.objects.select_related("content_type")
            held = [permission.pk for permission in known if permission.user_perm_str in rights.permissions]
            kwargs["queryset"] = Permission.objects.filter(pk__in=held)
        return super().formfield_for_manytomany(db_field, request, **kwargs)


def _covers(request: HttpRequest, role: Group) -> bool:
    """Tell whether the caller holds everything ``role`` grants."""
    rights = _rights(request)
    return rights.is_superuser or permissions_of(role) <= rights.permissions
