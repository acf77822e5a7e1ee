"""What the API accepts about second factors: plain serializers, no database."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.fields import PasswordField, TextField
from accounts.users.inputs import BY_EMAIL_CODE


@extend_schema_field({"type": "string", "example": "123456"})
class CodeField(TextField):
    """A code from an app (six digits) or a recovery code, as people type it."""


class CodeInput(serializers.Serializer[Any]):
    """Body of ``POST /mfa/totp/confirm``."""

    code = CodeField()


class PasswordInput(serializers.Serializer[Any]):
    """Body of ``POST /mfa/recovery-codes`` and ``DELETE /mfa/totp``."""

    password = PasswordField(required=False)
    email_code = TextField(required=False, help_text=BY_EMAIL_CODE)
