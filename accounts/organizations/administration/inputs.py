"""What the staff API accepts about organisations."""

from types import MappingProxyType
from typing import Any

from django.core.exceptions import ValidationError
from rest_framework import serializers

from accounts import names
from accounts.fields import TextField
from accounts.lists import ListInput, SearchField
from accounts.organizations.administration import units
from accounts.organizations.inputs import OrganizationNameField
from accounts.organizations.models import SLUG, SLUG_CHARACTERS


def validate_slug(slug: str) -> None:
    """Refuse what is no short name.

    Raises:
        ValidationError: Django's, with code ``slug_too_long`` or ``invalid``.
    """
    if len(slug) > SLUG_CHARACTERS:
        raise ValidationError(f"A short name has at most {SLUG_CHARACTERS} characters.", code="slug_too_long")
    SLUG(slug)


class StaffOrganizationListInput(ListInput):
    """Query of ``GET /staff/organizations``."""

    places = MappingProxyType({"": units.ORDERING})

    search = SearchField(most=names.MAX_LENGTH, help_text="Words of the name or of the slug; all must occur.")


class StaffOrganizationInput(serializers.Serializer[Any]):
    """Body of ``POST /staff/organizations``."""

    name = OrganizationNameField(help_text="As it is shown. Several organizations may have the same.")
    slug = TextField(
        required=False,
        default="",
        allow_blank=True,
        validate=lambda text: validate_slug(text) if text else None,
        help_text=f"Small letters, digits and single hyphens, at most {SLUG_CHARACTERS}, of no other organization. "
        "Unless given it begins like the name and ends at random. It stays.",
    )
    owner = serializers.UUIDField(help_text="The person who owns it.")


class StaffOrganizationPatchInput(serializers.Serializer[Any]):
    """Body of ``PATCH /staff/organizations/{id}``; a field that is not sent stays as it is."""

    name = OrganizationNameField(required=False, help_text="As it is shown.")
