"""One HTTP request spoken in ASGI messages, for what an HTTP client cannot do: leave, stall, lie."""

import asyncio
import json
from typing import Any

from ironauth.infrastructure.core.asgi_types import Application, Message, Scope


class Conversation:
    """Records what an application sends, and plays the client message by message."""

    def __init__(
        self, path: str = "/api/", method: str = "GET", headers: dict[str, str] | None = None, **scope: Any
    ) -> None:
        given = {"host": "testserver", **(headers or {})}
        self.scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin1")) for name, value in given.items()],
            "client": ("203.0.113.9", 50_000),
            "server": ("127.0.0.1", 8000),
            **scope,
        }
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []
        self.received = 0

    def body(self, *parts: bytes, finished: bool = True) -> "Conversation":
        """Queue body parts; the last one ends the body if ``finished``."""
        for index, part in enumerate(parts or (b"",)):
            last = index == max(len(parts), 1) - 1
            self.incoming.put_nowait({"type": "http.request", "body": part, "more_body": not (last and finished)})
        return self

    def leave(self) -> "Conversation":
        """Queue the client's departure."""
        self.incoming.put_nowait({"type": "http.disconnect"})
        return self

    async def receive(self) -> Message:
        """Give the application the next message, whenever it comes."""
        self.received += 1
        return await self.incoming.get()

    async def send(self, message: Message) -> None:
        """Take what the application sends."""
        self.sent.append(message)

    async def run(self, application: Application) -> "Conversation":
        """Let ``application`` answer."""
        await application(self.scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        """The status answered."""
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        """The header fields answered, names in lower case."""
        return {name.decode().lower(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def content(self) -> bytes:
        """The body answered."""
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def json(self) -> dict[str, Any]:
        """The body answered, as JSON."""
        return dict(json.loads(self.content))
