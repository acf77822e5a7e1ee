"""What the forms of /oauth/ send: plain serializers, no database."""

from typing import Any

from rest_framework import serializers

from accounts.fields import PasswordField, TextField


class PasswordFormInput(serializers.Serializer[Any]):
    """Form of ``POST /oauth/signin``, without the request."""

    email = TextField()
    password = PasswordField()


class DecisionInput(serializers.Serializer[Any]):
    """Form of ``POST /oauth/consent``, without the request."""

    decision = serializers.ChoiceField(choices=["allow", "deny", "switch"])
