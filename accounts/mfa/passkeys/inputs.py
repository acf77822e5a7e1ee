"""What the API accepts about passkeys: plain serializers, no database."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail

from accounts.fields import NameField, TextField
from accounts.mfa.inputs import CodeField


@extend_schema_field({"type": "object", "description": "What `toJSON()` of the browser's PublicKeyCredential returns."})
class CredentialField(serializers.DictField):
    """An authenticator's answer as JSON (WebAuthn Level 3 §5.1); what is in it is judged by ``ceremonies``."""


class NewPasskeyInput(serializers.Serializer[Any]):
    """Body of ``POST /mfa/passkeys``."""

    challenge_token = TextField()
    credential = CredentialField()
    name = NameField(required=False, default="")


class RenamePasskeyInput(serializers.Serializer[Any]):
    """Body of ``PATCH /mfa/passkeys/{id}``."""

    name = NameField()


class FactorInput(serializers.Serializer[Any]):
    """What proves a second factor: a code, or an authenticator's answer to a challenge."""

    code = CodeField(required=False)
    challenge_token = TextField(required=False)
    credential = CredentialField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the values; raises DRF's ``ValidationError`` for half an answer."""
        answer = ("challenge_token", "credential")
        missing = [name for name in answer if name not in attrs]
        if len(missing) == 1:
            raise serializers.ValidationError({missing[0]: ErrorDetail("This field is required.", "required")})
        return attrs
