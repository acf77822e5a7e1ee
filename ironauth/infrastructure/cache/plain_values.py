"""Django's caches in Redis, through django-redis: the default one, and django-cachalot's. Loaded only with a Redis."""

import functools
import pickle
from typing import Any

import redis
from django_redis.cache import RedisCache
from django_redis.client import DefaultClient
from django_redis.serializers.base import BaseSerializer

from ironauth.infrastructure.cache import redis_client, redis_connections
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


class Client(DefaultClient):  # type: ignore[misc]  # as above
    """django-redis' client, with the connections that the product makes everywhere."""

    def connect(self, index: int = 0) -> redis.Redis:
        """Return the client of an address; connections are shared by all threads, as django-redis' own are."""
        return _connections(self._server[index])


@functools.cache
def _connections(url: str) -> redis.Redis:
    return redis_connections.for_threads(url, limit_s=redis_client.LIMIT_S)


class PlainRedisCache(RedisCache):  # type: ignore[misc]  # as above
    """django-redis with bounds in time; a Redis that cannot be reached is a miss, never an exception."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        options = {
            "IGNORE_EXCEPTIONS": True,
            "SERIALIZER": f"{__name__}.SignedPickle",
            "CLIENT_CLASS": f"{__name__}.Client",
        }
        super().__init__([server], {**params, "OPTIONS": {**options, **params.get("OPTIONS", {})}})

    def clear(self) -> None:
        """Remove every value of this cache and no one else's: django-redis would empty the whole database."""
        self.delete_pattern("*")
