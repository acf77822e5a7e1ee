"""A person's own sessions over HTTP."""

import uuid
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from tokens.oauth.tests.flow import signed_on
from tokens.sessions import queries as session_queries
from tokens.sessions.models import FIRST_PARTY_CLIENT, Session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

SESSIONS = "/api/v1/access/sessions"
ME = "/api/v1/access/me"
Pair = dict[str, Any]


async def sign_in(api: httpx.AsyncClient, member: dict[str, Any], **headers: str) -> Pair:
    """Return the TokenPair of another sign-in of the same person."""
    credentials = {"email": member["email"], "password": PASSWORD}
    return dict((await api.post("/api/v1/access/signin", json=credentials, headers=headers)).json())


async def stranger(api: httpx.AsyncClient, email: str) -> Pair:
    """Return the TokenPair of somebody else."""
    await api.post("/api/v1/access/signup", json={"email": email, "password": PASSWORD})
    return await sign_in(api, {"email": email})


async def test_list(api: httpx.AsyncClient, member: dict[str, Any], pair: Pair) -> None:
    """Each live session is listed with the contract's fields, and exactly the caller's own is current."""
    with clock.shifted(30):
        other = await sign_in(api, member, **{"User-Agent": "Browser\x7f/1.0 " + "x" * 300})
    answer = await api.get(SESSIONS, headers=bearer(pair))
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    listed = answer.json()
    assert [entry["id"] for entry in listed] == [other["session_id"], pair["session_id"]]
    for entry in listed:
        assert list(entry) == [
            "id", "created_at", "last_used_at", "expires_at", "ip", "user_agent", "current", "application", "actor",
            "began_in",
        ]  # fmt: skip
        assert (entry["application"], entry["actor"]) == (None, None)
        assert entry["created_at"].endswith("Z")
        assert entry["ip"] == "127.0.0.1"
    assert [entry["current"] for entry in listed] == [False, True]
    assert listed[0]["user_agent"].startswith("Browser/1.0 xxx")
    assert len(listed[0]["user_agent"]) < 256


async def test_what_began_where(api: httpx.AsyncClient, pair: Pair) -> None:
    """A session names the one of the list that it began in or goes on from; none that has ended."""
    own = await Session.objects.aget(pk=pair["session_id"])
    make = sync_to_async(signed_on)
    kept = await make(own.user_id, goes_on_from=own.pk)
    began = await make(own.user_id, client_id=str(uuid.uuid4()), parent_id=kept.pk)
    over = await make(own.user_id, revoked_at=clock.now())
    alone = await make(own.user_id, client_id=FIRST_PARTY_CLIENT, parent_id=over.pk)
    listed = (await api.get(SESSIONS, headers=bearer(pair))).json()
    assert {one["id"]: one["began_in"] for one in listed} == {
        str(own.pk): None,
        str(kept.pk): str(own.pk),
        str(began.pk): str(kept.pk),
        str(alone.pk): None,
    }


async def test_a_list_has_an_end(
    api: httpx.AsyncClient, member: dict[str, Any], pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more sessions than a list takes, those used last are in it."""
    with clock.shifted(60):
        other = await sign_in(api, member)
    for most, expected in ((2, [other["session_id"], pair["session_id"]]), (1, [other["session_id"]])):
        monkeypatch.setattr(session_queries, "MOST_LISTED", most)
        monkeypatch.setattr(session_queries._LISTED, "_compiled", {})  # the number is a part of the statement
        answer = await api.get(SESSIONS, headers=bearer(pair))
        assert [entry["id"] for entry in answer.json()] == expected


async def test_end_one(api: httpx.AsyncClient, member: dict[str, Any], pair: Pair) -> None:
    """Another session of one's own can be ended, at once; a second time it is 404."""
    other = await sign_in(api, member)
    assert (await api.get(ME, headers=bearer(other))).status_code == 200
    answer = await api.delete(f"{SESSIONS}/{other['session_id']}", headers=bearer(pair))
    assert (answer.status_code, "set-cookie" in answer.headers) == (204, False)
    assert (await api.get(ME, headers=bearer(other))).status_code == 401
    assert (await api.get(ME, headers=bearer(pair))).status_code == 200
    assert len((await api.get(SESSIONS, headers=bearer(pair))).json()) == 1
    assert (await api.delete(f"{SESSIONS}/{other['session_id']}", headers=bearer(pair))).status_code == 404


async def test_end_the_current_one(api: httpx.AsyncClient, pair: Pair) -> None:
    """Ending the current session signs out, cookies included."""
    answer = await api.delete(f"{SESSIONS}/{pair['session_id']}", headers=bearer(pair))
    assert answer.status_code == 204
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert (await api.get(ME, headers=bearer(pair))).status_code == 401


async def test_somebody_elses(api: httpx.AsyncClient, pair: Pair, new_email: Any) -> None:
    """Another person's session is 404, like one that does not exist, and stays alive (security-bar 21)."""
    other = await stranger(api, new_email())
    bodies = []
    for session_id in (other["session_id"], uuid.uuid4()):
        answer = await api.delete(f"{SESSIONS}/{session_id}", headers=bearer(pair))
        assert answer.status_code == 404
        bodies.append({k: v for k, v in answer.json().items() if k != "request_id"})
    assert bodies[0] == bodies[1]
    assert (await api.get(ME, headers=bearer(other))).status_code == 200
    assert other["session_id"] not in (await api.get(SESSIONS, headers=bearer(pair))).text


async def test_malformed_id(api: httpx.AsyncClient, pair: Pair) -> None:
    """An id that is no UUID is 404."""
    for session_id in ("1", "me", "%00", "' OR 1=1"):
        assert (await api.delete(f"{SESSIONS}/{session_id}", headers=bearer(pair))).status_code == 404


async def test_needs_a_credential(api: httpx.AsyncClient, pair: Pair) -> None:
    """Without credential both are 401; by cookie from another site a deletion is 403."""
    assert (await api.get(SESSIONS)).status_code == 401
    assert (await api.delete(f"{SESSIONS}/{pair['session_id']}")).status_code == 401
    cookie = {"Cookie": f"access_token={pair['access_token']}", "Origin": "https://evil.example"}
    assert (await api.delete(f"{SESSIONS}/{pair['session_id']}", headers=cookie)).status_code == 403


async def test_everywhere_else(api: httpx.AsyncClient, member: dict[str, Any], pair: Pair) -> None:
    """All other sessions of the person end at once, nobody else's does, and the one that asked goes on."""
    others = [await sign_in(api, member) for _ in range(2)]
    other_person = await stranger(api, "other@example.com")
    assert (await api.delete(SESSIONS, headers=bearer(pair))).status_code == 204
    assert [entry["id"] for entry in (await api.get(SESSIONS, headers=bearer(pair))).json()] == [pair["session_id"]]
    for ended in others:
        assert (await api.get(ME, headers=bearer(ended))).status_code == 401
        refreshed = await api.post("/api/v1/access/refresh", json={"refresh_token": ended["refresh_token"]})
        assert refreshed.status_code == 401
    assert (await api.get(ME, headers=bearer(other_person))).status_code == 200
    assert (await api.post("/api/v1/access/refresh", json={"refresh_token": pair["refresh_token"]})).status_code == 200
    assert (await api.delete(SESSIONS, headers=bearer(pair))).status_code == 204  # there are none left
    assert (await api.delete(SESSIONS, headers=bearer(others[0]))).status_code == 401
