"""Registered APIs in Django's admin: make, change, switch off, delete."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from accounts import names
from accounts.access.rights import rights_of_request
from ironauth.infrastructure.admin.lines import LinesField
from ironauth.infrastructure.admin.lists import CheckedSelection
from tokens.resources import changes, rules
from tokens.resources.models import ApiResource

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    ModelForm = forms.ModelForm[ApiResource]
else:
    ModelForm = forms.ModelForm


class ResourceForm(ModelForm):
    """Everything about an API."""

    scopes = LinesField(
        rows=3, help_text="Its own scopes, such as orders:read; one to a line. A token for it has no other API's."
    )

    class Meta:
        """Which fields."""

        model = ApiResource
        fields = ("identifier", "name", "scopes", "signing_alg", "access_token_s", "for_self_registered", "active")

    def clean(self) -> dict[str, Any]:
        """Judge the API as a whole, every bad field by itself."""
        data = super().clean() or self.cleaned_data
        if "name" in data:
            data["name"] = names.normalise(data["name"])
        fields = (field.name for field in ApiResource._meta.concrete_fields)  # noqa: SLF001 - documented by Django
        judged = ApiResource(**{name: data.get(name, getattr(self.instance, name)) for name in fields})
        for one in rules.problems_of(judged):
            if one.field in self.fields and one.field not in self.errors:
                self.add_error(one.field, ValidationError(one.message, code=one.code))
        return data


@admin.register(ApiResource)
class ApiResourceAdmin(CheckedSelection, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """APIs that access tokens can be made for."""

    form = ResourceForm
    fields = ResourceForm.Meta.fields
    list_display = ("name", "identifier", "signing_alg", "active")
    list_filter = ("active",)
    search_fields = ("name", "identifier")
    search_help_text = "Part of the name or the identifier"
    show_facets = admin.ShowFacets.NEVER
    actions = None

    class Media:
        css = {"all": ["tokens/admin.css"]}

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Keep the identifier: tokens and grants name it."""
        return ("identifier",) if obj else ()

    def save_model(self, request: HttpRequest, obj: ApiResource, form: Any, change: bool) -> None:
        """Store the API with its act, which leaves the audit event; a form that changed nothing does not."""
        actor_id = rights_of_request(request).user_id
        if not change:
            changes.create(obj, actor_id=actor_id)
        elif form.changed_data:
            changes.change(obj, fields=sorted(form.changed_data), actor_id=actor_id)

    def delete_model(self, request: HttpRequest, obj: ApiResource) -> None:
        """Delete the API, and leave an event."""
        changes.delete(obj, actor_id=rights_of_request(request).user_id)
