"""Authenticating by access token: what a warm request costs, and that being warm excuses nothing."""

import asyncio
import base64
import json
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from redis import Redis

from accounts.users import services as accounts
from accounts.users.models import User
from accounts.users.services import Authenticated
from conftest import bearer
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from tokens.access import codec
from tokens.errors import InvalidToken
from tokens.keys import units as key_rotation
from tokens.keys.key_set import build_key_set
from tokens.keys.store import key_store
from tokens.principal import Principal
from tokens.sessions import authentication
from tokens.sessions import units as sessions
from tokens.sessions.models import Session
from tokens.sessions.refresh import units as refresh_units
from tokens.tests.material import Issuer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("still_clock")]

ME = "/api/v1/access/me"
Pair = dict[str, Any]


async def me(api: httpx.AsyncClient, pair: Pair) -> int:
    """Return the status of /me with the pair's access token."""
    return (await api.get(ME, headers=bearer(pair))).status_code


def redis_commands() -> int:
    """Return how many commands the test's Redis has run; 0 without one."""
    remote = token_cache().remote
    if remote is None:
        return 0
    with Redis.from_url(remote.url) as client:
        stats = client.info("commandstats")
    own = {"cmdstat_info", "cmdstat_hello", "cmdstat_select", "cmdstat_client|setinfo"}  # of this very connection
    return sum(stat["calls"] for name, stat in stats.items() if name not in own)


async def test_warm_request_uses_no_thread_no_sql_no_redis(api: httpx.AsyncClient, pair: Pair) -> None:
    """With the database pool closed and no thread started, a warm /me still answers: it needs neither."""
    for _ in range(2):
        assert await me(api, pair) == 200
    await asyncio.sleep(0.3)  # what the first request shares through Redis goes out in the background
    await asyncio.to_thread(database().close)
    threads = {thread.name for thread in threading.enumerate()}
    assert not any(name.startswith("database") for name in threads)
    commands = redis_commands()
    for _ in range(20):
        assert await me(api, pair) == 200
    assert {thread.name for thread in threading.enumerate()} == threads
    assert redis_commands() == commands


async def test_peek_is_what_verify_remembered(pair: Pair) -> None:
    """A token is unknown before it was verified, and found by its whole text afterwards."""
    token = pair["access_token"]
    assert authentication.peek(token) is None
    principal = await authentication.verify(token)
    assert authentication.peek(token) is principal
    assert isinstance(principal, Principal)
    assert (str(principal.session_id), principal.is_authenticated, principal.is_anonymous) == (
        pair["session_id"], True, False,
    )  # fmt: skip
    assert (principal.id, principal.pk, principal.is_active, principal.is_staff) == (
        principal.user.id, principal.user.id, True, False,
    )  # fmt: skip


async def test_an_issued_token_is_known_at_once(api: httpx.AsyncClient, member: dict[str, str]) -> None:
    """What signing in and refreshing return needs no verification here, and says what verifying would find."""
    credentials = {"email": member["email"], "password": member["password"]}
    first = (await api.post("/api/v1/access/signin", json=credentials)).json()
    second = (await api.post("/api/v1/access/refresh", json={"refresh_token": first["refresh_token"]})).json()
    await asyncio.to_thread(database().close)
    for issued in (first, second):
        assert await me(api, issued) == 200
        assert not any(thread.name.startswith("database") for thread in threading.enumerate())
    known = [authentication.peek(issued["access_token"]) for issued in (first, second)]
    token_cache().clear()
    assert [await authentication.verify(issued["access_token"]) for issued in (first, second)] == known


@pytest.mark.parametrize("end", ["session", "user"])
async def test_an_issued_token_is_not_kept_when_it_ended_meanwhile(
    api: httpx.AsyncClient, pair: Pair, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session ended, or a person deactivated, while the token was being made: it is refused from the start."""
    rotate = refresh_units.rotate

    def rotate_and_end(**given: Any) -> refresh_units.Rotation:
        rotation = rotate(**given)
        if end == "session":
            sessions.end_session(session_id=uuid.UUID(pair["session_id"]), reason=Session.RevokeReason.ENDED_BY_USER)
        else:
            User.objects.update(is_active=False)
        return rotation

    monkeypatch.setattr(refresh_units, "rotate", rotate_and_end)
    answer = await api.post("/api/v1/access/refresh", json={"refresh_token": pair["refresh_token"]})
    assert answer.status_code == 200
    assert authentication.peek(answer.json()["access_token"]) is None
    assert await me(api, answer.json()) == 401


async def test_an_issued_token_of_a_key_dropped_meanwhile_is_not_kept(
    api: httpx.AsyncClient, member: dict[str, str], signing_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key dropped, and the key set read again, while the password was hashed: the token is refused from the start."""
    authenticate = accounts.authenticate

    async def authenticate_and_drop(**given: Any) -> Authenticated:
        who = await authenticate(**given)
        await sync_to_async(key_rotation.drop)(signing_key)
        key_store().outdated()
        await key_store().for_verifying()
        assert not key_store().holds(signing_key)
        return who

    monkeypatch.setattr(accounts, "authenticate", authenticate_and_drop)
    answer = await api.post("/api/v1/access/signin", json={"email": member["email"], "password": member["password"]})
    assert answer.status_code == 200
    assert await me(api, answer.json()) == 401


async def test_forged_token_with_a_cached_jti(api: httpx.AsyncClient, pair: Pair) -> None:
    """A jti is no secret: a token that carries a cached one but is not the verified text is refused."""
    assert await me(api, pair) == 200
    header, payload, signature = pair["access_token"].split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    thief = Issuer()
    forged = [
        f"{header}.{payload}.{'A' * len(signature)}",
        f"{header}.{payload}.",
        f"{header}.{payload}.{signature}A",
        f"e30.{payload}.{signature}",
        thief.sign(thief.header, claims),
        thief.sign(json.loads(base64.urlsafe_b64decode(header + "==")), claims | {"roles": ["admin"]}),
    ]
    for token in forged:
        assert await me(api, {"access_token": token}) == 401, token
    assert await me(api, pair) == 200


async def test_another_genuine_token_of_a_cached_jti(api: httpx.AsyncClient, pair: Pair) -> None:
    """Two texts with one jti, which this server never makes, are two tokens: each says what is in it."""
    assert await me(api, pair) == 200
    claims = codec.claims_of(pair["access_token"])
    twin = codec.encode(msgspec.structs.replace(claims, scope="openid"), await key_store().signing())
    assert (await authentication.verify(twin)).scope == "openid"
    assert (await authentication.verify(pair["access_token"])).scope == claims.scope


async def test_a_key_that_is_dropped_while_the_session_is_looked_up(
    api: httpx.AsyncClient, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token whose signature was good a moment ago is refused, and not kept, when its key has gone meanwhile."""
    look_up = authentication.confirmed

    async def look_up_and_drop(*given: Any) -> Any:
        found = await look_up(*given)
        key_store()._keys = build_key_set([], now=clock.unix())
        return found

    monkeypatch.setattr(authentication, "confirmed", look_up_and_drop)
    with pytest.raises(InvalidToken) as caught:
        await authentication.verify(pair["access_token"])
    assert caught.value.reason == "kid"
    assert authentication.known(pair["access_token"]) is None


async def test_expiry_is_checked_while_warm(api: httpx.AsyncClient, pair: Pair) -> None:
    """A cached token is refused in the second it expires."""
    assert await me(api, pair) == 200
    exp = json.loads(base64.urlsafe_b64decode(pair["access_token"].split(".")[1] + "=="))["exp"]
    principal = authentication.peek(pair["access_token"])
    assert principal is not None
    assert principal.exp == exp
    with clock.shifted(exp - clock.unix() - 1):
        assert await me(api, pair) == 200
    with clock.shifted(exp - clock.unix()):
        assert authentication.peek(pair["access_token"]) is None
        assert await me(api, pair) == 401


async def deactivate(pair: Pair) -> None:
    """Switch the user off, as the admin does."""
    user = await User.objects.aget(sessions=pair["session_id"])
    user.is_active = False
    await user.asave()


async def delete_user(pair: Pair) -> None:
    """Delete the user, and with the user the session."""
    await (await User.objects.aget(sessions=pair["session_id"])).adelete()


async def raise_epoch(pair: Pair) -> None:
    """End all sessions of the user, as a password change does."""
    user = await User.objects.aget(sessions=pair["session_id"])
    user.session_epoch += 1
    await user.asave()


async def end_session(pair: Pair) -> None:
    """End this session, as staff does."""
    reason = Session.RevokeReason.ENDED_BY_STAFF
    await database().write(sessions.end_sessions, session_ids=[pair["session_id"]], reason=reason)


async def delete_session(pair: Pair) -> None:
    """Delete the session's row by hand."""
    await (await Session.objects.aget(pk=pair["session_id"])).adelete()


async def drop_key(pair: Pair) -> None:
    """Drop the key that signed the token."""
    header = json.loads(base64.urlsafe_b64decode(pair["access_token"].split(".")[0] + "=="))
    await database().write(key_rotation.drop, header["kid"])


@pytest.mark.parametrize("change", [deactivate, delete_user, raise_epoch, end_session, delete_session, drop_key])
async def test_revocation_is_immediate_here(api: httpx.AsyncClient, pair: Pair, change: Callable[[Pair], Any]) -> None:
    """Whatever ends a session, a warm token is refused by this process with the next request."""
    assert await me(api, pair) == 200
    await change(pair)
    assert await me(api, pair) == 401
    assert await me(api, pair) == 401


async def test_a_changed_role_shows_at_once(api: httpx.AsyncClient, pair: Pair) -> None:
    """Roles come from the database, not from the token: a new one is there with the next request."""
    assert (await api.get(ME, headers=bearer(pair))).json()["roles"] == []
    user = await User.objects.aget(sessions=pair["session_id"])
    await user.groups.aadd(await Group.objects.acreate(name="editors"))
    assert (await api.get(ME, headers=bearer(pair))).json()["roles"] == ["editors"]


async def test_refusals_are_not_remembered(api: httpx.AsyncClient, pair: Pair) -> None:
    """A refused token leaves nothing in the cache."""
    await end_session(pair)
    with pytest.raises(InvalidToken):
        await authentication.verify(pair["access_token"])
    assert authentication.peek(pair["access_token"]) is None


async def test_many_first_requests_read_once(api: httpx.AsyncClient, pair: Pair) -> None:
    """Twenty simultaneous first requests of one token all succeed."""
    assert set(await asyncio.gather(*(me(api, pair) for _ in range(20)))) == {200}


async def test_database_lost(api: httpx.AsyncClient, pair: Pair, settings: Any) -> None:
    """A token whose session cannot be confirmed is 503, never 200; a forged one stays 401."""
    await authentication.verify(pair["access_token"])
    token_cache().clear()
    await asyncio.to_thread(database().close)
    settings.IRONAUTH_DATABASE_TIMEOUT_S = 0.0
    answer = await api.get(ME, headers=bearer(pair))
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert await me(api, {"access_token": pair["access_token"][:-4] + "AAAA"}) == 401


@pytest.mark.parametrize("token", ["", "a", "a.b", "a.b.c", "a.e30.c", "a.bm90IGpzb24.c", "a.ÿÿ.c", "a.eyJqdGkiOjF9.c"])
def test_peek_takes_anything(token: str) -> None:
    """Looking for a token in the cache never raises, whatever the text."""
    assert authentication.peek(token) is None


async def test_warm_path_is_cheap(pair: Pair) -> None:
    """A warm look-up costs microseconds: well below 100 µs even on a busy machine (measured: see the README)."""
    token = pair["access_token"]
    await authentication.verify(token)
    best = min(_seconds(token) for _ in range(20))
    assert best < 100e-6


def _seconds(token: str) -> float:
    """Return seconds per look-up over a few hundred of them."""
    started = time.perf_counter()
    for _ in range(200):
        authentication.peek(token)
    return (time.perf_counter() - started) / 200
