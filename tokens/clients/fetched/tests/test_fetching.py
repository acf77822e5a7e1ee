"""Strangers and known clients have threads of their own; what is fetched at all: ``tokens/clients/documents/tests``."""

import socket
from typing import Any

import pytest

from ironauth.infrastructure.core.errors import Overloaded
from tokens.clients.fetched import fetching
from tokens.clients.fetched.errors import FetchRefused

URL = "https://app.example.com/jwks.json"


class Busy:
    """Threads that are all waiting for somebody's server."""

    async def offload(self, *_: Any, **__: Any) -> bytes:
        """Refuse."""
        raise Overloaded


@pytest.mark.parametrize(("busy", "other"), [("_executor", True), ("_known_executor", False)])
async def test_strangers_have_threads_of_their_own(monkeypatch: pytest.MonkeyPatch, busy: str, other: bool) -> None:
    """Servers of strangers' clients that hang keep no known client from having its keys fetched, nor the reverse."""
    here = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: here)
    monkeypatch.setattr(fetching, busy, Busy())
    with pytest.raises(FetchRefused, match="Overloaded"):
        await fetching.fetch(URL, accept="*/*", longest=10, known=not other)
    with pytest.raises(FetchRefused, match="NotPublicError"):
        await fetching.fetch(URL, accept="*/*", longest=10, known=other)
