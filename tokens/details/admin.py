"""Types of authorization details in Django's admin: make, change, switch off, delete."""

from typing import Final

from django import forms
from django.contrib import admin

from ironauth.infrastructure.admin.json_text import JsonField
from tokens.details.administration.kind import DETAIL_TYPES
from tokens.details.models import DetailType
from tokens.registered.admin import RegisteredAdmin, RegisteredForm

MAX_DECLARATION: Final = 20_000  # characters of JSON
_MEMBERS: Final = (
    'What an object of it may have beside its type, as JSON: {"amount": {"kind": "text", "required": true}, '
    '"execution": {"kind": "text", "values": ["now", "later"]}}. Kinds: text, integer, flag, texts, and object with '
    "members of its own. Nothing else is accepted."
)


class MembersField(JsonField):
    """A declaration as JSON; empty for no members."""

    rows, most, empty = 12, MAX_DECLARATION, "{}"
    remedy = 'Write it like {"amount": {"kind": "text"}}.'


class DetailTypeForm(RegisteredForm):
    """Everything about a type."""

    kind = DETAIL_TYPES
    members = MembersField(help_text=_MEMBERS)

    class Meta:
        """Which fields."""

        model = DetailType
        fields = ("identifier", "words", "members", "unattended", "active")
        widgets = {"words": forms.TextInput(attrs={"size": 70})}


@admin.register(DetailType)
class DetailTypeAdmin(RegisteredAdmin):
    """What applications may ask for beyond scopes, once their own page names the type."""

    form = DetailTypeForm
    fields = DetailTypeForm.Meta.fields
    list_display = ("identifier", "words", "unattended", "active")
    search_fields = ("identifier", "words")
    search_help_text = "Part of the type or the sentence"
