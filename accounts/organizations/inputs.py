"""What the API accepts about organisations."""

from types import MappingProxyType
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts import names
from accounts.fields import ChoiceField, NewEmailField, TextField
from accounts.lists import ListInput
from accounts.organizations import queries, rules
from accounts.organizations.roles import Role
from accounts.users.inputs import validate_language


@extend_schema_field({"type": "string", "minLength": 1, "maxLength": names.MAX_LENGTH})
class OrganizationNameField(TextField):
    """The name of an organisation, in NFC."""

    def __init__(self, **options: Any) -> None:
        super().__init__(normalise=names.normalise, validate=rules.validate_name, **options)


class RoleField(ChoiceField):
    """A role of ``roles.Role``."""

    def __init__(self, **options: Any) -> None:
        super().__init__([role.value for role in Role], **options)


class OrganizationInput(serializers.Serializer[Any]):
    """Body of ``POST /organizations`` and of ``PATCH /organizations/{id}``."""

    name = OrganizationNameField(help_text="As it is shown. Several organizations may have the same.")


class MemberListInput(ListInput):
    """Query of ``GET /organizations/{id}/members``."""

    places = MappingProxyType({"": queries.MEMBERS_ORDERING})


class MemberRoleInput(serializers.Serializer[Any]):
    """Body of ``PUT /organizations/{id}/members/{id}``."""

    role = RoleField(help_text="`owner`, `admin` or `member`.")


class MemberInvitationInput(serializers.Serializer[Any]):
    """Body of ``POST /organizations/{id}/invitations``."""

    email = NewEmailField()
    role = RoleField(required=False, default=Role.MEMBER.value, help_text="What the person becomes.")
    language = TextField(
        required=False,
        default="",
        allow_blank=True,
        validate=validate_language,
        help_text="Of the message and of the person's pages; the installation's and the browser's unless given.",
    )


class AcceptInvitationInput(serializers.Serializer[Any]):
    """Body of ``POST /organizations/invitations/accept``."""

    token = TextField(help_text="What the link of the message has as `token`.")
