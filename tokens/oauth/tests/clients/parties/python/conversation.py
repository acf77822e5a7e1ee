"""The program's side of the conversation that clients/__init__.py describes, beside an event loop."""

import asyncio
import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit


def hear() -> Any:
    """Return what the other side says next."""
    return json.loads(sys.stdin.readline())


def passed(step: str) -> None:
    """Tell of a step."""
    print(json.dumps({"passed": step}), flush=True)


class Browser:
    """The person's browser: the two things that an agent does with it."""

    def __init__(self) -> None:
        self._there = ""

    async def redirect(self, url: str) -> None:
        """Send it to an address."""
        print(json.dumps({"visit": url}), flush=True)
        self._there = str(await asyncio.to_thread(hear))

    async def callback(self) -> Any:
        """Return what it came back with."""
        from mcp.shared.auth import AuthorizationCodeResult

        answer = parse_qs(urlsplit(self._there).query)
        return AuthorizationCodeResult(code=answer["code"][0], state=answer["state"][0], iss=answer["iss"][0])


async def refused(address: str, token: str) -> None:
    """Assert that a server refuses the token of another one, and says where its own come from."""
    import httpx2

    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with httpx2.AsyncClient(timeout=30) as client:
        answer = await client.post(address, headers=headers, json=asked)
    assert answer.status_code == 401, answer.text
    assert "resource_metadata=" in answer.headers["WWW-Authenticate"]
    passed("refused at the other server")
