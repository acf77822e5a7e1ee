"""What the paths of SimpleJWT accept, under its field names."""

from typing import Any

from rest_framework import serializers

from accounts.fields import PasswordField, TextField


class ObtainInput(serializers.Serializer[Any]):
    """Body of ``POST token/``: the address under either name that SimpleJWT gives it, by the user model in use."""

    username = TextField()
    email = TextField(required=False)
    password = PasswordField()

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Ask for one of the two names."""
        self.fields["username"].required = "email" not in data
        found: dict[str, Any] = super().to_internal_value(data)
        return found


class RefreshInput(serializers.Serializer[Any]):
    """Body of ``POST token/refresh/`` and ``token/blacklist/``."""

    refresh = TextField()


class VerifyInput(serializers.Serializer[Any]):
    """Body of ``POST token/verify/``: an access token or a refresh token."""

    token = TextField()
