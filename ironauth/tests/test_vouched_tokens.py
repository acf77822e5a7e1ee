"""A token that another worker has verified: neither its signature nor its session is asked again, until it ends."""

import asyncio
import base64
import json
import uuid
from typing import Any

import httpx
import pytest
from pytest_django import Settings

from conftest import bearer
from ironauth.infrastructure.cache.invalidation import InvalidationFeed
from ironauth.infrastructure.cache.memory import freshness
from ironauth.infrastructure.cache.two_level import TwoLevelCache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.tests.services import PrivateRedis
from tokens.access import codec
from tokens.keys import units as key_units
from tokens.keys.store import key_store
from tokens.sessions import authentication
from tokens.sessions import units as session_units
from tokens.sessions.models import Session

pytestmark = [pytest.mark.django_db(transaction=True)]
ME = "/api/v1/access/me"
Pair = dict[str, Any]


@pytest.fixture
async def shared(redis_cache: TwoLevelCache, feed: InvalidationFeed, member: Pair, api: httpx.AsyncClient) -> Pair:
    """A pair of tokens that another worker has issued, and shared: this one knows nothing of them."""
    freshness._reaches_at -= 60  # as if the feed had run for a minute
    answer = await api.post("/api/v1/access/signin", json={"email": member["email"], "password": member["password"]})
    assert redis_cache._l2 is not None
    await redis_cache._l2.sent()
    forget(redis_cache)
    freshness._recent.clear()  # signing up and in has just changed the account
    return dict(answer.json())


def forget(cache: TwoLevelCache) -> None:
    """Empty the memory of this process, as in a worker that has not seen the token."""
    with freshness.lock:
        cache._l1.remove_all()


def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every check of a signature and every question to the database fail."""

    def checked(*_: object) -> None:
        raise AssertionError("the signature was checked")

    monkeypatch.setattr(codec, "_verify_signature", checked)
    monkeypatch.setattr(authentication, "database", None)


def altered(token: str, **claims: object) -> str:
    """Return the token with other claims under its old signature."""
    head, payload, signature = token.split(".")
    said = json.loads(base64.urlsafe_b64decode(payload + "=="))
    text = base64.urlsafe_b64encode(json.dumps({**said, **claims}).encode()).rstrip(b"=").decode()
    return f"{head}.{text}.{signature}"


async def status(api: httpx.AsyncClient, pair: Pair) -> int:
    """Return what /me answers."""
    return (await api.get(ME, headers=bearer(pair))).status_code


async def test_neither_signature_nor_session_is_asked(
    api: httpx.AsyncClient, shared: Pair, redis_cache: TwoLevelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One question to Redis is enough, and the next request needs none."""
    unasked(monkeypatch)
    assert await status(api, shared) == 200
    monkeypatch.setattr(redis_cache._l2, "get", None)
    assert await status(api, shared) == 200


async def test_what_this_worker_verifies_it_shares(
    api: httpx.AsyncClient, shared: Pair, redis_cache: TwoLevelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis was emptied: the token is verified once, and others are spared that again."""
    assert redis_cache._l2 is not None
    redis_cache._l2.clear()
    assert await status(api, shared) == 200
    await redis_cache._l2.sent()
    forget(redis_cache)
    unasked(monkeypatch)
    assert await status(api, shared) == 200


@pytest.mark.parametrize("claims", [{"scope": "account openid"}, {"exp": 2**40}, {"sub": str(uuid.UUID(int=1))}])
async def test_a_forged_token_of_a_shared_jti_is_refused(
    api: httpx.AsyncClient, shared: Pair, claims: dict[str, Any]
) -> None:
    """The record is of one text: a token with its jti and other claims is verified as any other, and fails."""
    forged = {**shared, "access_token": altered(shared["access_token"], **claims)}
    assert await status(api, forged) == 401
    assert await status(api, shared) == 200


async def test_a_signature_that_was_changed_is_refused(api: httpx.AsyncClient, shared: Pair) -> None:
    """Of the text every part counts, though the signature is not computed again."""
    token = shared["access_token"]
    changed = token[:-8] + ("AAAAAAAA" if not token.endswith("AAAAAAAA") else "BBBBBBBB")
    assert await status(api, {**shared, "access_token": changed}) == 401


async def test_a_revoked_session_is_refused_whatever_redis_holds(
    api: httpx.AsyncClient, shared: Pair, redis_cache: TwoLevelCache
) -> None:
    """The record stays in Redis; the revocation is known here, and the session is asked."""
    claims = codec.claims_of(shared["access_token"])
    assert await status(api, shared) == 200
    assert claims.sid is not None
    reason = Session.RevokeReason.ENDED_BY_USER
    await database().write(session_units.end_session, session_id=claims.sid, reason=reason)
    assert redis_cache.remote is not None
    assert await redis_cache.remote.aget(f"ironauth:e:at:{claims.jti}") is not None
    forget(redis_cache)
    assert await status(api, shared) == 401


@pytest.mark.parametrize(("seconds", "good"), [(-1, True), (0, False)])
async def test_it_ends_with_the_token(
    api: httpx.AsyncClient, shared: Pair, seconds: int, good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the second that ``exp`` names nothing vouches for it any more."""
    expires_at = codec.claims_of(shared["access_token"]).exp
    monkeypatch.setattr(clock, "_source", lambda: float(expires_at + seconds))
    assert (await status(api, shared) == 200) is good


async def test_a_key_that_is_dropped_takes_its_records_along(
    api: httpx.AsyncClient, shared: Pair, signing_key: str, redis_cache: TwoLevelCache
) -> None:
    """Its private part may be in strangers' hands: what it signed is good for nobody."""
    assert await status(api, shared) == 200
    await database().write(key_units.drop, signing_key)
    key_store().outdated()
    await key_store().for_verifying()
    forget(redis_cache)
    assert await status(api, shared) == 401


async def test_every_claim_is_judged_by_who_is_asked(api: httpx.AsyncClient, shared: Pair, settings: Settings) -> None:
    """A worker with another audience does not take the word of the one that has shared."""
    own = settings.IRONAUTH_AUDIENCE
    settings.IRONAUTH_AUDIENCE = "https://other.example"
    assert await status(api, shared) == 401
    settings.IRONAUTH_AUDIENCE = own
    assert await status(api, shared) == 200


async def test_without_a_current_feed_everything_is_verified(
    api: httpx.AsyncClient, shared: Pair, feed: InvalidationFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that does not hear of revocations believes no record."""
    await feed.stop()
    asked: list[object] = []
    real = codec._verify_signature

    def verify(*given: Any) -> None:
        asked.append(given)
        real(*given)

    monkeypatch.setattr(codec, "_verify_signature", verify)
    assert await status(api, shared) == 200
    assert len(asked) == 1


async def test_redis_that_is_gone_costs_a_verification(
    api: httpx.AsyncClient, shared: Pair, private_redis: PrivateRedis
) -> None:
    """Killed, it vouches for nothing, and nobody notices."""
    await asyncio.to_thread(private_redis.stop)
    assert await status(api, shared) == 200
