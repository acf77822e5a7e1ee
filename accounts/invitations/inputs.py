"""What the API and the pages accept about invitations."""

from typing import Any

from django.core.exceptions import ValidationError
from rest_framework import serializers

from accounts.fields import NameField, NewEmailField, PasswordField, TextField
from accounts.invitations.continuing import UNKNOWN
from accounts.invitations.models import MAX_CLIENT
from accounts.users.inputs import RolesField, validate_language


def validate_client(client_id: str) -> None:
    """Refuse what is longer than any ``client_id``; which ones there are is asked later.

    Raises:
        ValidationError: Django's, with code ``unknown``.
    """
    if len(client_id) > MAX_CLIENT:
        raise ValidationError(UNKNOWN, code="unknown")


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
        validate=validate_client,
        help_text="`client_id` of the application to continue to afterwards; it has an `initiate_login_uri`.",
    )


class AcceptInput(serializers.Serializer[Any]):
    """Fields of the page that an invitation opens; the policy is judged once it is known whose password it is."""

    token = TextField()
    name = NameField(required=False, default="")
    password = PasswordField()
    terms_version = TextField(required=False, default="", allow_blank=True)
