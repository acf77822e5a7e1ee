"""Registered APIs in Django's admin: make, change, switch off, delete."""

from django.contrib import admin

from ironauth.infrastructure.admin.lines import LinesField
from tokens.registered.admin import RegisteredAdmin, RegisteredForm
from tokens.resources.administration.kind import RESOURCES
from tokens.resources.models import ApiResource


class ResourceForm(RegisteredForm):
    """Everything about an API."""

    kind = RESOURCES
    scopes = LinesField(
        rows=3, help_text="Its own scopes, such as orders:read; one to a line. A token for it has no other API's."
    )

    class Meta:
        """Which fields."""

        model = ApiResource
        fields = ("identifier", "name", "scopes", "signing_alg", "access_token_s", "for_self_registered", "active")


@admin.register(ApiResource)
class ApiResourceAdmin(RegisteredAdmin):
    """APIs that access tokens can be made for."""

    form = ResourceForm
    fields = ResourceForm.Meta.fields
    list_display = ("name", "identifier", "signing_alg", "active")
    search_fields = ("name", "identifier")
    search_help_text = "Part of the name or the identifier"
