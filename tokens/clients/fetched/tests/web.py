"""Clients' servers as tests have them: what is at which address, and what was asked for."""

import asyncio
import json
from typing import Any

import pytest

from tokens.clients.fetched import fetching
from tokens.clients.fetched.fetching import Answer


class Web:
    """What the servers answer. ``asked``: the addresses, in order; ``keep_s``: what their headers say."""

    def __init__(self) -> None:
        self.keep_s = 3_600.0
        self.asked: list[str] = []
        self._pages: dict[str, tuple[bytes, str]] = {}

    def has(self, url: str, said: Any, media: str = "application/json") -> None:
        """Have this at an address from now on: JSON, or bytes."""
        self._pages[url] = said if isinstance(said, bytes) else json.dumps(said).encode(), media

    def lost(self, url: str) -> None:
        """Have nothing there any more."""
        self._pages.pop(url, None)

    async def fetch(self, url: str, *, accept: str, longest: int, known: bool = False) -> Answer:
        """Answer as ``fetching.fetch`` does."""
        self.asked.append(url)
        await asyncio.sleep(0)
        if url not in self._pages:
            raise fetching.refused(url, "status 404")
        body, media = self._pages[url]
        if len(body) > longest:
            raise fetching.refused(url, "bytes")
        return Answer(body, media, self.keep_s)


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Web:
    """Nothing is anywhere, yet."""
    found = Web()
    monkeypatch.setattr(fetching, "fetch", found.fetch)
    return found
