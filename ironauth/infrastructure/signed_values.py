"""What this server puts into Redis carries a MAC: whoever can write there can make it forget, not believe.

Without it, a writer could revive a revoked session, and pickled values would let them run code here.
"""

import hmac
import pickle
from typing import Any

from django.conf import settings
from django_redis.serializers.base import BaseSerializer

#: HMAC-SHA-256, whole; bytes.
MAC_LENGTH = 32


class NotOurs(ValueError):
    """The value was not written by a server with this SECRET_KEY, or was changed since."""


def seal(purpose: bytes, payload: bytes) -> bytes:
    """Return ``payload`` behind its MAC; ``purpose`` must be the same when it is opened."""
    return _mac(purpose, payload) + payload


def unseal(purpose: bytes, sealed: bytes) -> bytes:
    """Return the payload of ``seal``; raise NotOurs when the MAC does not fit."""
    payload = sealed[MAC_LENGTH:]
    if not hmac.compare_digest(sealed[:MAC_LENGTH], _mac(purpose, payload)):
        raise NotOurs("A value in Redis carries no valid MAC")
    return payload


def _mac(purpose: bytes, payload: bytes) -> bytes:
    # A key of its own for each purpose, so that a value cannot be passed off for one of another kind or name.
    key = hmac.digest(settings.SECRET_KEY.encode(), b"ironauth redis " + purpose, "sha256")
    return hmac.digest(key, payload, "sha256")


class SignedPickle(BaseSerializer):  # type: ignore[misc]  # django-redis ships no types
    """Django caches hold any picklable value; nothing is unpickled that this server did not sign."""

    def dumps(self, value: Any) -> bytes:
        """Return the signed pickle of ``value``."""
        return seal(b"pickle", pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    def loads(self, value: bytes) -> Any:
        """Return the value; raise NotOurs when the MAC does not fit."""
        return pickle.loads(unseal(b"pickle", value))  # noqa: S301 - only what carries our MAC
