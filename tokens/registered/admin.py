"""Registered rows of one kind in Django's admin: make, change, switch off, delete."""

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from accounts.access.rights import rights_of_request
from ironauth.infrastructure.admin.lists import CheckedSelection
from tokens.registered import changes
from tokens.registered.kind import Kind, Registered

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    ModelForm = forms.ModelForm[Registered]
else:
    ModelForm = forms.ModelForm


class RegisteredForm(ModelForm):
    """Everything about a row."""

    kind: ClassVar[Kind[Any, Any]]

    def clean(self) -> dict[str, Any]:
        """Judge the row as a whole, every bad field by itself."""
        data = self.kind.tidied(super().clean() or self.cleaned_data)
        fields = (field.name for field in self.kind.model._meta.concrete_fields)  # noqa: SLF001 - documented by Django
        judged = self.kind.model(**{name: data.get(name, getattr(self.instance, name)) for name in fields})
        judged._state.adding = self.instance._state.adding  # noqa: SLF001 - documented by Django
        for one in self.kind.problems_of(judged):
            if one.field in self.fields and one.field not in self.errors:
                self.add_error(one.field, ValidationError(one.message, code=one.code))
        return data


class RegisteredAdmin(CheckedSelection, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """The page of one kind; its form says which."""

    form: type[RegisteredForm]
    list_filter = ("active",)
    show_facets = admin.ShowFacets.NEVER
    actions = None

    class Media:
        css = {"all": ["tokens/admin.css"]}

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Keep the identifier: grants and tokens name it."""
        return ("identifier",) if obj else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Store the row with its act, which leaves the audit event; a form that changed nothing does not."""
        actor_id = rights_of_request(request).user_id
        if not change:
            changes.create(self.form.kind, obj, actor_id=actor_id)
        elif form.changed_data:
            changes.change(self.form.kind, obj, fields=form.changed_data, actor_id=actor_id)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete the row, and leave an event."""
        changes.delete(self.form.kind, obj, actor_id=rights_of_request(request).user_id)
