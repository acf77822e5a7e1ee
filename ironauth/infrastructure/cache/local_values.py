"""Untagged Django cache values in this process, where there is no Redis; both faces, sync and async."""

from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.locmem import LocMemCache


class LocalCache(LocMemCache):
    """Django's in-process cache, whose async face answers at once: nothing there is worth a thread."""

    async def aget(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        """See get()."""
        return self.get(key, default, version)

    async def aset(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        """See set()."""
        self.set(key, value, timeout, version)

    async def aadd(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """See add()."""
        return self.add(key, value, timeout, version)

    async def adelete(self, key: Any, version: int | None = None) -> bool:
        """See delete()."""
        return self.delete(key, version)

    async def atouch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """See touch()."""
        return self.touch(key, timeout, version)

    async def aincr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        """See incr()."""
        return self.incr(key, delta, version)

    async def aclear(self) -> None:
        """See clear()."""
        self.clear()
