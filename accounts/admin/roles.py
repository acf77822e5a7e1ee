"""Roles in Django's admin. Nobody can make, change or delete one that grants more than they hold."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.auth import admin as auth_admin
from django.contrib.auth.models import Group, Permission
from django.db.models import Count, ManyToManyField, QuerySet
from django.http import HttpRequest

from accounts.access.rights import permissions_of, rights_of_request
from accounts.admin.audited import Audited
from accounts.admin.forms import KeepsUnseen
from accounts.admin.permissions import PermissionChoices, offered
from accounts.audit.recording import Event
from accounts.users.inputs import validate_role_name
from accounts.users.models import Role
from ironauth.infrastructure.admin.lists import CheckedSelection

admin.site.unregister(Group)


class RoleForm(KeepsUnseen):
    """A role; its name must fit a path and a header."""

    class Meta:
        """Which fields."""

        model = Role
        fields = ("name", "permissions")
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Travels in the tokens of everybody who has the role: applications may grant rights by it. Staff "
            "who may change users can give every role whose permissions they hold, so all of them can give a role "
            "without permissions. To limit who gives it, add a permission that only those hold.",
            "permissions": "What the role allows here.",
        }

    def clean_name(self) -> str:
        """Return the name; one that was accepted before is left alone."""
        name: str = self.cleaned_data["name"]
        if name != self.instance.name:
            validate_role_name(name)
        return name


def _may(request: HttpRequest, verb: str) -> bool:
    """Tell whether the caller may ``verb`` roles: the permissions over Django's groups, not over the proxy."""
    return request.user.has_perm(f"auth.{verb}_group")


def _covers(request: HttpRequest, role: Group) -> bool:
    """Tell whether the caller holds everything ``role`` grants."""
    rights = rights_of_request(request)
    return rights.is_superuser or permissions_of(role) <= rights.permissions


@admin.register(Role)
class RoleAdmin(CheckedSelection, Audited, auth_admin.GroupAdmin):
    """Roles: Django's groups."""

    audit_events = (Event.ROLE_CREATED, Event.ROLE_CHANGED, Event.ROLE_DELETED)
    form = RoleForm
    list_display = ("name", "members", "granted")
    search_fields = ("name__has_part",)
    show_facets = admin.ShowFacets.NEVER

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        """Return the roles with their counts, in the one query of the list."""
        counts = {
            "member_count": Count("user", distinct=True),
            "permission_count": Count("permissions", distinct=True),
        }
        roles: QuerySet[Group] = super().get_queryset(request).annotate(**counts)
        return roles

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

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show roles to anybody who may do anything with them."""
        return any(_may(request, verb) for verb in ("view", "add", "change", "delete"))

    def has_view_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        """Anybody who may view or change groups sees roles."""
        return _may(request, "view") or _may(request, "change")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Anybody who may add groups adds roles."""
        return _may(request, "add")

    def has_change_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        """Show a role that grants more than the caller holds read-only."""
        return _may(request, "change") and (obj is None or _covers(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        """Let nobody delete a role that grants more than they hold."""
        return _may(request, "delete") and (obj is None or _covers(request, obj))

    def formfield_for_manytomany(
        self,
        db_field: ManyToManyField[Any, Any],
        request: HttpRequest | None = None,
        **kwargs: Any,
    ) -> Any:
        """Offer only permissions that open something, and that the caller holds."""
        if db_field.name == "permissions" and request is not None:
            rights, choices = rights_of_request(request), Permission.objects.all()
            if not rights.is_superuser:
                known = Permission.objects.select_related("content_type")
                held = [permission.pk for permission in known if permission.user_perm_str in rights.permissions]
                choices = choices.filter(pk__in=held)
            kwargs |= {"queryset": offered(choices), "form_class": PermissionChoices}
        return super().formfield_for_manytomany(db_field, request, **kwargs)
