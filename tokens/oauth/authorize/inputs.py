"""What the forms of /oauth/, and requests about identities, send: plain serializers, no database."""

from typing import Any

from rest_framework import serializers

from accounts.fields import EmailField, PasswordField, TextField
from accounts.users.inputs import SignupInput


class PasswordFormInput(serializers.Serializer[Any]):
    """Form of ``POST /oauth/signin``, without the request."""

    email = TextField()
    password = PasswordField()


class SignUpFormInput(SignupInput):
    """Form of ``POST /oauth/signup``, without the state. Invited people have a page of their own."""

    invitation = None  # type: ignore[assignment]  # leaves the field out, as the REST framework documents


class EmailFormInput(serializers.Serializer[Any]):
    """Form of ``POST /oauth/signin/email``, without the state."""

    email = EmailField()


class CodeFormInput(serializers.Serializer[Any]):
    """Form of ``POST /oauth/code``, without the state."""

    code = TextField()


class DecisionInput(serializers.Serializer[Any]):
    """Form of ``POST /oauth/consent``, without the request."""

    decision = serializers.ChoiceField(choices=["allow", "deny", "switch"])


class ConnectInput(serializers.Serializer[Any]):
    """Body of ``POST /api/v1/access/identities``."""

    provider = serializers.SlugField(max_length=32, help_text="The provider's short name.")
