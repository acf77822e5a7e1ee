"""Organisations and memberships in Django's admin, for staff; what is done goes through the units of the API."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe

from accounts import email_address as emails
from accounts import names
from accounts.access.rights import (
    ADD_ORGANIZATIONS,
    CHANGE_ORGANIZATIONS,
    DELETE_ORGANIZATIONS,
    VIEW_ORGANIZATIONS,
)
from accounts.organizations import queries, rules
from accounts.organizations.administration import units
from accounts.organizations.administration.inputs import validate_slug
from accounts.organizations.models import SLUG_CHARACTERS, Membership, Organization
from accounts.users.models import User
from ironauth.infrastructure.admin.actions import holds
from ironauth.infrastructure.admin.lists import CheckedSelection
from ironauth.infrastructure.admin.read_only import breakable, moment
from ironauth.infrastructure.core.errors import DomainError
from ironauth.infrastructure.telemetry.logs import get_logger

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    OrganizationModelForm = forms.ModelForm[Organization]
    MembershipModelForm = forms.ModelForm[Membership]
else:
    OrganizationModelForm = MembershipModelForm = forms.ModelForm

SHOWN: Final = 50  # members on the page of an organisation; all of them are a link away


class OnlyWithOrganizations:
    """Mixin of pages that are not there where there are no organisations, and that say why an act was refused."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show the list to anybody who may see organisations, where there are some."""
        return rules.enabled() and request.user.has_perm(VIEW_ORGANIZATIONS)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list. Raises ``Http404`` where there are no organisations."""
        return self._there("changelist_view", request, extra_context)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Show the history of a row. Raises ``Http404`` where there are no organisations."""
        return self._there("history_view", request, object_id, extra_context)

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show or store the form. Raises ``Http404`` where there are no organisations."""
        return self._there("changeform_view", request, object_id, form_url, extra_context)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Ask before a row is deleted, or delete it. Raises ``Http404`` where there are no organisations."""
        return self._there("delete_view", request, object_id, extra_context)

    def _there(self, view: str, request: HttpRequest, *args: Any) -> HttpResponse:
        if not rules.enabled():
            raise Http404
        try:
            answer: HttpResponse = getattr(super(), view)(request, *args)
        except DomainError as error:
            messages.warning(request, error.detail)
            return HttpResponseRedirect(request.get_full_path())
        return answer


class PersonField(forms.CharField):
    """An account, by its e-mail address."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=emails.MAX_LENGTH, widget=forms.EmailInput, **options)

    def clean(self, value: Any) -> Any:
        """Return the account. Raises Django's ``ValidationError`` where none that is active has the address."""
        typed = super().clean(value)
        key = emails.fold(emails.normalise(typed))
        found = User.objects.filter(email_key=key, is_active=True).first() if "\x00" not in typed else None
        if found is None:
            raise forms.ValidationError("There is no active account with this address.", code="unknown")
        return found


class RenameForm(OrganizationModelForm):
    """What an organisation is called."""

    class Meta:
        """Which fields."""

        model = Organization
        fields: tuple[str, ...] = ("name",)

    def clean_name(self) -> str:
        """Return the name in its standard form."""
        name = names.normalise(self.cleaned_data["name"])
        rules.validate_name(name)
        return name


class OrganizationForm(RenameForm):
    """What a new organisation is called, and who owns it."""

    owner = PersonField(label="E-mail address of the owner", help_text="An account that there is.")
    slug = forms.CharField(
        label="Short name",
        max_length=SLUG_CHARACTERS,
        required=False,
        help_text="For addresses of applications; it cannot be changed later. Unless given it begins like the name.",
    )

    class Meta(RenameForm.Meta):
        """Which fields."""

        fields = ("name", "slug")

    def clean_slug(self) -> str:
        """Return the short name, or one that is made of the name."""
        slug = str(self.cleaned_data["slug"])
        if not slug:
            return rules.new_slug(str(self.cleaned_data.get("name", "")))
        validate_slug(slug)
        return slug


@admin.register(Organization)
class OrganizationAdmin(OnlyWithOrganizations, CheckedSelection, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """Organisations of people."""

    list_display = ("called", "slug", "how_many", "made")
    list_filter = ("created_at",)
    search_fields = ("name__has_part", "slug__has_part")
    search_help_text = "Part of the name or the short name"
    sortable_by = ()
    ordering = ("-id",)
    list_per_page = 50
    show_full_result_count = False  # as in the other lists
    show_facets = admin.ShowFacets.NEVER
    actions = None
    readonly_fields = ("how_many", "member_list", "made", "id")

    has_view_permission = holds(VIEW_ORGANIZATIONS)
    has_change_permission = holds(CHANGE_ORGANIZATIONS)
    has_delete_permission = holds(DELETE_ORGANIZATIONS)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Anybody who may make organisations."""
        return request.user.has_perm(ADD_ORGANIZATIONS)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Organization]:
        """Return the organisations with the number of their members."""
        return units.counted(super().get_queryset(request))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Ask for what is needed, and show everything."""
        return ("name", "slug", *self.readonly_fields) if obj else ("name", "slug", "owner")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Keep the short name: applications have it in addresses."""
        return (*self.readonly_fields, "slug") if obj else self.readonly_fields

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Ask for an owner of a new one only."""
        return super().get_form(request, obj, change, **kwargs, form=RenameForm if obj else OrganizationForm)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Store it by the unit of the API, which leaves the event."""
        caller: Any = request.user
        queries.lock_people(caller.pk)  # the entry of the log refers to them
        if change:
            units.rename(actor_id=caller.pk, organization_id=obj.pk, name=form.cleaned_data["name"])
            return
        data = form.cleaned_data
        values = {"name": data["name"], "slug": data["slug"], "owner": data["owner"].pk}
        obj.pk = units.create(actor_id=caller.pk, values=values).id
        get_logger().info("organization_created", organization=str(obj.pk), by=str(caller.pk))

    def delete_model(self, request: HttpRequest, obj: Organization) -> None:
        """Delete it by the unit of the API: members hear of it, and there is an event."""
        caller: Any = request.user
        units.delete(actor_id=caller.pk, organization_id=obj.pk)
        get_logger().info("organization_deleted", organization=str(obj.pk), by=str(caller.pk))

    @admin.display(description="name")
    def called(self, row: Organization) -> str:
        """Return the name."""
        return row.name

    @admin.display(description="members")
    def how_many(self, row: Any) -> int:
        """Return how many members there are; counted with the list."""
        return int(row.members)

    @admin.display(description="made")
    def made(self, row: Organization) -> str:
        """Return when it was made."""
        return moment(row.created_at)

    @admin.display(description="who they are")
    def member_list(self, row: Organization) -> SafeString:
        """Return the newest members with their roles, linked to their memberships, and where to add one."""
        found = Membership.objects.filter(organization=row).select_related("user").order_by("-pk")[:SHOWN]
        lines = (
            (reverse("admin:accounts_membership_change", args=[one.pk]), one.user.email, one.role) for one in found
        )
        every = f"{reverse('admin:accounts_membership_changelist')}?{urlencode({'q': row.slug})}"
        new = f"{reverse('admin:accounts_membership_add')}?{urlencode({'belongs_to': row.slug})}"
        listed = format_html_join(mark_safe("<br>"), '<a href="{}">{}</a>, {}', lines) or "None"
        links = format_html('<a href="{}">All of them</a>, <a href="{}">add one</a>', every, new)
        return format_html("{}<br>{}", listed, links)


class RoleForm(MembershipModelForm):
    """The role of a member."""

    class Meta:
        """Which fields."""

        model = Membership
        fields = ("role",)


class MembershipForm(RoleForm):
    """Who becomes a member of what."""

    person = PersonField(label="E-mail address", help_text="Of an account that there is.")
    belongs_to = forms.CharField(label="Organization", max_length=SLUG_CHARACTERS, help_text="By its short name.")

    def clean_belongs_to(self) -> uuid.UUID:
        """Return the id of the organisation. Raises Django's ``ValidationError`` where there is none."""
        slug = str(self.cleaned_data["belongs_to"])
        found = Organization.objects.filter(slug=slug).values_list("pk", flat=True).first()
        if found is None:
            raise forms.ValidationError("There is no organization with this short name.", code="unknown")
        return found


@admin.register(Membership)
class MembershipAdmin(OnlyWithOrganizations, CheckedSelection, admin.ModelAdmin):  # type: ignore[type-arg] # as above
    """Who is a member of which organisation."""

    list_display = ("member", "of", "role", "since")
    list_filter = ("role",)
    search_fields = ("user__email_key__has_part", "organization__name__has_part", "organization__slug__has_part")
    search_help_text = "Part of the e-mail address, or of the name of the organization"
    sortable_by = ()
    ordering = ("-id",)
    list_select_related = ("user", "organization")
    list_per_page = 50
    show_full_result_count = False  # as in the other lists
    show_facets = admin.ShowFacets.NEVER
    actions = None
    readonly_fields = ("member", "of", "since", "id")

    has_view_permission = holds(VIEW_ORGANIZATIONS)
    has_change_permission = holds(CHANGE_ORGANIZATIONS)
    has_delete_permission = holds(CHANGE_ORGANIZATIONS)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Anybody who may change organisations."""
        return request.user.has_perm(CHANGE_ORGANIZATIONS)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Ask for what is needed, and show everything."""
        return ("member", "of", "role", "since", "id") if obj else ("person", "belongs_to", "role")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Ask who it is of a new one only."""
        return super().get_form(request, obj, change, **kwargs, form=RoleForm if obj else MembershipForm)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Store it by the unit of the API, which leaves the event."""
        caller: Any = request.user
        data = form.cleaned_data
        user_id, organization_id = (
            (obj.user_id, obj.organization_id) if change else (data["person"].pk, data["belongs_to"])
        )
        whose = {"organization_id": organization_id, "user_id": user_id}
        queries.lock_people(caller.pk, user_id)  # the entry of the log refers to the first
        units.set_member(actor_id=caller.pk, **whose, role=data["role"])
        found = Membership.objects.get(user_id=user_id, organization_id=organization_id)
        obj.pk, obj.user_id, obj.organization_id = found.pk, user_id, organization_id
        get_logger().info("member_set", organization=str(organization_id), user_id=str(user_id), by=str(caller.pk))

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        """End it by the unit of the API: others hear of it, and there is an event."""
        caller: Any = request.user
        whose = {"organization_id": obj.organization_id, "user_id": obj.user_id}
        units.remove_member(actor_id=caller.pk, **whose)
        get_logger().info("member_removed", organization=str(obj.organization_id), user_id=str(obj.user_id))

    @admin.display(description="member")
    def member(self, row: Membership) -> SafeString:
        """Return the address of the person, as it fits a narrow column."""
        return breakable(row.user.email)

    @admin.display(description="organization")
    def of(self, row: Membership) -> str:
        """Return the name of the organisation."""
        return row.organization.name

    @admin.display(description="since")
    def since(self, row: Membership) -> str:
        """Return when it began."""
        return moment(row.created_at)
