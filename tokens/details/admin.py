"""Types of authorization details in Django's admin: make, change, switch off, delete."""

import json
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from accounts.access.rights import rights_of_request
from ironauth.infrastructure.admin.lists import CheckedSelection
from ironauth.infrastructure.core import strict_json
from tokens.details import changes, rules
from tokens.details.models import DetailType

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    ModelForm = forms.ModelForm[DetailType]
else:
    ModelForm = forms.ModelForm

MAX_DECLARATION: Final = 20_000  # characters of JSON
_MEMBERS: Final = (
    'What an object of it may have beside its type, as JSON: {"amount": {"kind": "text", "required": true}, '
    '"execution": {"kind": "text", "values": ["now", "later"]}}. Kinds: text, integer, flag, texts, and object with '
    "members of its own. Nothing else is accepted."
)


class MembersField(forms.CharField):
    """A declaration as JSON; empty for no members."""

    def __init__(self, **named: Any) -> None:
        widget = forms.Textarea(attrs={"rows": 12, "cols": 70, "spellcheck": "false", "autocapitalize": "none"})
        super().__init__(required=False, max_length=MAX_DECLARATION, widget=widget, **named)

    def prepare_value(self, value: Any) -> Any:
        """Return the declaration as it is read most easily, and what was typed as it is."""
        return json.dumps(value, indent=2) if isinstance(value, dict) else value

    def to_python(self, value: Any) -> Any:
        """Return the parsed JSON."""
        if value in self.empty_values:
            return {}
        try:
            return strict_json.loads(value)
        except strict_json.InvalidJson as error:
            raise ValidationError(
                f'This {error} Write it like {{"amount": {{"kind": "text"}}}}.', code="json"
            ) from error

    def validate(self, value: Any) -> None:
        """Leave the declaration to the rules of the type."""

    def run_validators(self, value: Any) -> None:
        """Leave the length to the widget's limit and the rules."""

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare what the JSON says."""
        try:
            return bool(initial != self.to_python(data))
        except ValidationError:
            return True


class DetailTypeForm(ModelForm):
    """Everything about a type."""

    members = MembersField(help_text=_MEMBERS)

    class Meta:
        """Which fields."""

        model = DetailType
        fields = ("identifier", "words", "members", "unattended", "active")
        widgets = {"words": forms.TextInput(attrs={"size": 70})}

    def clean(self) -> dict[str, Any]:
        """Judge the type as a whole, every bad field by itself."""
        data = super().clean() or self.cleaned_data
        fields = (field.name for field in DetailType._meta.concrete_fields)  # noqa: SLF001 - documented by Django
        judged = DetailType(**{name: data.get(name, getattr(self.instance, name)) for name in fields})
        judged._state.adding = self.instance._state.adding  # noqa: SLF001 - documented by Django
        for one in rules.problems_of(judged):
            if one.field in self.fields and one.field not in self.errors:
                self.add_error(one.field, ValidationError(one.message, code=one.code))
        return data


@admin.register(DetailType)
class DetailTypeAdmin(CheckedSelection, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """What applications may ask for beyond scopes, once their own page names the type."""

    form = DetailTypeForm
    fields = DetailTypeForm.Meta.fields
    list_display = ("identifier", "words", "unattended", "active")
    list_filter = ("active",)
    search_fields = ("identifier", "words")
    search_help_text = "Part of the type or the sentence"
    show_facets = admin.ShowFacets.NEVER
    actions = None

    class Media:
        css = {"all": ["tokens/admin.css"]}

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Keep the identifier: grants and tokens name it."""
        return ("identifier",) if obj else ()

    def save_model(self, request: HttpRequest, obj: DetailType, form: Any, change: bool) -> None:
        """Store the type with its act, which leaves the audit event; a form that changed nothing does not."""
        actor_id = rights_of_request(request).user_id
        if not change:
            changes.create(obj, actor_id=actor_id)
        elif form.changed_data:
            changes.change(obj, fields=sorted(form.changed_data), actor_id=actor_id)

    def delete_model(self, request: HttpRequest, obj: DetailType) -> None:
        """Delete the type, and leave an event."""
        changes.delete(obj, actor_id=rights_of_request(request).user_id)
