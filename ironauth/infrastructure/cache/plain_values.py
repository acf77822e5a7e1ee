"""Django's caches in Redis, through django-redis: the default one, and django-cachalot's. Loaded only with a Redis."""

import pickle
from typing import Any

from django_redis.cache import RedisCache
from django_redis.serializers.base import BaseSerializer
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from ironauth.infrastructure.cache import redis_client
from ironauth.infrastructure.crypto.signed_values import NotOurs, seal, unseal
from ironauth.infrastructure.telemetry.logs import get_logger


class SignedPickle(BaseSerializer):  # type: ignore[misc]  # django-redis ships no types
    """Pickles that carry our MAC: a Django cache holds any value, and a query cache rows with values of any type."""

    def dumps(self, value: Any) -> bytes:
        """Return the signed pickle of ``value``."""
        return seal(b"pickle", pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    def loads(self, value: bytes) -> Any:
        """Return the value; None, which is a miss, for one that this server did not sign, or of an older class."""
        try:
            return pickle.loads(unseal(b"pickle", value))  # noqa: S301 - only what carries our MAC
        except NotOurs:
            get_logger().warning("cache_value_refused")
        except Exception as error:  # noqa: BLE001 - unpickling may raise anything
            get_logger().warning("cache_value_unreadable", error=type(error).__name__)
        return None


class PlainRedisCache(RedisCache):  # type: ignore[misc]  # as above
    """django-redis with bounds in time; a Redis that cannot be reached is a miss, never an exception."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        options = {
            "IGNORE_EXCEPTIONS": True,
            "SERIALIZER": f"{__name__}.SignedPickle",
            "SOCKET_CONNECT_TIMEOUT": redis_client.LIMIT_S,
            "SOCKET_TIMEOUT": redis_client.LIMIT_S,
            # One retry: a connection that Redis closed while idle is no outage. The library's default sleeps.
            "CONNECTION_POOL_KWARGS": {"retry": Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,))},
        }
        super().__init__(server, {**params, "OPTIONS": {**options, **params.get("OPTIONS", {})}})

    def clear(self) -> None:
        """Remove every value of this cache and no one else's: django-redis would empty the whole database."""
        self.delete_pattern("*")
