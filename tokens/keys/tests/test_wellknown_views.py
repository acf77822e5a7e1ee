"""The JWKS endpoint."""

import asyncio
from typing import Any

import httpx
import pytest

from ironauth.infrastructure.db.unit_of_work import database
from tokens.keys.units import rotate

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

JWKS = "/.well-known/jwks.json"


async def test_jwks(api: httpx.AsyncClient, signing_key: str) -> None:
    """The set is public JSON that clients may keep for its max-age, with nothing private in it."""
    answer = await api.get(JWKS)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert answer.headers["access-control-allow-origin"] == "*"
    keys = answer.json()["keys"]
    assert signing_key in {key["kid"] for key in keys}
    for key in keys:
        assert set(key) == {"kty", "crv", "x", "kid", "use", "alg"}
    assert '"d"' not in answer.text


async def test_next_active_and_retiring(api: httpx.AsyncClient, signing_key: str) -> None:
    """Before a rotation the next key is there already, after it the old one still is."""
    before = {key["kid"] for key in (await api.get(JWKS)).json()["keys"]}
    kid = await database().write(rotate, at_once=True)
    after = {key["kid"] for key in (await api.get(JWKS)).json()["keys"]}
    assert kid in before
    assert before < after
    assert len(after) == 3


async def test_tokens_survive_a_rotation(api: httpx.AsyncClient, pair: dict[str, Any], signing_key: str) -> None:
    """A token signed before the rotation is accepted after it, and new ones name the new key."""
    await database().write(rotate, at_once=True)
    headers = {"Authorization": f"Bearer {pair['access_token']}"}
    assert (await api.get("/api/v1/access/me", headers=headers)).status_code == 200
    fresh = await api.post("/api/v1/access/refresh", json={"refresh_token": pair["refresh_token"]})
    headers = {"Authorization": f"Bearer {fresh.json()['access_token']}"}
    assert (await api.get("/api/v1/access/me", headers=headers)).status_code == 200


async def test_etag(api: httpx.AsyncClient, signing_key: str) -> None:
    """A client that has the set gets 304 without body; after a rotation it gets the new one."""
    etag = (await api.get(JWKS)).headers["etag"]
    for value in (etag, f'"other", {etag}', f"W/{etag}"):
        unchanged = await api.get(JWKS, headers={"If-None-Match": value})
        assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", etag)
    await database().write(rotate, at_once=True)
    assert (await api.get(JWKS, headers={"If-None-Match": etag})).status_code == 200


async def test_without_database(api: httpx.AsyncClient, signing_key: str, settings: Any) -> None:
    """Once loaded, the set is served without database."""
    assert (await api.get(JWKS)).status_code == 200
    await asyncio.to_thread(database().close)
    settings.IRONAUTH_DATABASE_TIMEOUT_S = 0.0
    assert (await api.get(JWKS)).status_code == 200


async def test_methods(api: httpx.AsyncClient, signing_key: str) -> None:
    """HEAD follows GET; anything that writes is 405; a credential does not matter."""
    assert (await api.head(JWKS)).status_code == 200
    assert (await api.post(JWKS)).status_code == 405
    assert (await api.get(JWKS, headers={"Authorization": "Bearer nonsense"})).status_code == 200
