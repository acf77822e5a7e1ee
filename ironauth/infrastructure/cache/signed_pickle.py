"""Plain cache values as Redis holds them: pickles that carry our MAC. Apart: django-redis loads all of redis."""

import pickle
from typing import Any

from django_redis.serializers.base import BaseSerializer

from ironauth.infrastructure.crypto.signed_values import seal, unseal


class SignedPickle(BaseSerializer):  # type: ignore[misc]  # django-redis ships no types
    """Django caches hold any picklable value; nothing is unpickled that this server did not sign."""

    def dumps(self, value: Any) -> bytes:
        """Return the signed pickle of ``value``."""
        return seal(b"pickle", pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    def loads(self, value: bytes) -> Any:
        """Return the value; raise NotOurs when the MAC does not fit."""
        return pickle.loads(unseal(b"pickle", value))  # noqa: S301 - only what carries our MAC
