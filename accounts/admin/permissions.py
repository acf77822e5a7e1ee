"""Which permissions the admin offers for a person or a role, and what it calls them."""

from typing import TYPE_CHECKING, Final

from django.contrib import admin
from django.contrib.auth.models import Permission
from django.db.models import QuerySet
from django.forms import ModelMultipleChoiceField

from accounts.users.models import Role

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    Choices = ModelMultipleChoiceField[Permission]
else:
    Choices = ModelMultipleChoiceField

#: Django and this product keep rows there that no page shows: the permissions Django makes for them open nothing.
_INWARD: Final = ("admin", "auth", "contenttypes", "infrastructure", "sessions")


def offered(permissions: QuerySet[Permission]) -> QuerySet[Permission]:
    """Return those of ``permissions`` that open something here, or are of another application."""
    shown = {(model._meta.app_label, model._meta.model_name) for model in admin.site._registry}  # noqa: SLF001 - no public list
    shown.add(("auth", "group"))  # asked for under its proxy, ``Role``
    inward = Permission.objects.filter(content_type__app_label__in=_INWARD).select_related("content_type")
    closed = [one.pk for one in inward if (one.content_type.app_label, one.content_type.model) not in shown]
    return permissions.exclude(pk__in=closed)


class PermissionChoices(Choices):
    """Permissions, those over Django's groups under the name that groups have here."""

    def label_from_instance(self, obj: Permission) -> str:
        """Return the area, the thing and what may be done with it."""
        if (obj.content_type.app_label, obj.content_type.model) != ("auth", "group"):
            return str(obj)
        options = Role._meta  # noqa: SLF001 - documented by Django
        return f"{options.app_config.verbose_name} | {options.verbose_name} | {obj.name.replace('group', 'role')}"
