"""What requests about identities send: plain serializers, no database."""

from typing import Any

from rest_framework import serializers


class ConnectInput(serializers.Serializer[Any]):
    """Body of ``POST /api/v1/access/identities``."""

    provider = serializers.SlugField(max_length=32, help_text="The provider's short name.")
