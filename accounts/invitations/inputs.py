"""What the API and the pages accept about invitations."""

from typing import Any

from rest_framework import serializers

from accounts.fields import NameField, NewEmailField, PasswordField, TextField
from accounts.users.inputs import RolesField, validate_language


class InvitationInput(serializers.Serializer[Any]):
    """Body of ``POST /users/invitations``."""

    email = NewEmailField()
    name = NameField(required=False, default="", help_text="Proposed to the person, who may choose another.")
    language = TextField(
        required=False,
        default="",
        allow_blank=True,
        validate=validate_language,
        help_text="Of the message and of the person's pages; the caller's and the browser's unless given.",
    )
    roles = RolesField(required=False, default=list)
    client = TextField(
        required=False,
        default="",
        allow_blank=True,
        help_text="`client_id` of the application to continue to afterwards; it has an `initiate_login_uri`.",
    )


class AcceptInput(serializers.Serializer[Any]):
    """Fields of the page that an invitation opens; the policy is judged once it is known whose password it is."""

    token = TextField()
    name = NameField(required=False, default="")
    password = PasswordField()
    terms_version = TextField(required=False, default="", allow_blank=True)
