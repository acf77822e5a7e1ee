"""The people of a scene whose events in the audit trail are looked at, and what such an event is to be."""

import uuid
from dataclasses import dataclass
from typing import Any

import httpx

from conftest import bearer
from tokens.tests.browser import Pair

AGENT = "Test Browser/1.0"


@dataclass
class Stage:
    """The people of a scene: a member with a session, a superuser with one, and what they send requests by."""

    api: httpx.AsyncClient
    member: uuid.UUID
    email: str
    pair: Pair
    root: uuid.UUID
    root_pair: Pair

    async def send(self, method: str, path: str, expected: int, json: Any = None, pair: Pair | None = None) -> Any:
        """Send a request, as who ``pair`` belongs to if given, and return the answer's JSON."""
        headers = {"User-Agent": AGENT, "X-Request-ID": "rid-of-the-act", **(bearer(pair) if pair else {})}
        answer = await self.api.request(method, path, json=json, headers=headers)
        assert answer.status_code == expected, answer.text
        return answer.json() if answer.content else None


Expected = dict[str, Any]


def by_member(stage: Stage, **more: Any) -> Expected:
    """Return the event of what the member does to the own account."""
    return {"actor_id": stage.member, "user_id": stage.member, "session_id": session_of(stage.pair), **more}


def by_root(stage: Stage, **more: Any) -> Expected:
    """Return the event of what the superuser does to the member."""
    return {"actor_id": stage.root, "user_id": stage.member, "session_id": None, **more}


def session_of(pair: Pair) -> uuid.UUID:
    """Return the id of the session the pair belongs to."""
    return uuid.UUID(str(pair["session_id"]))
