"""Logout that a provider starts (OpenID Connect Back-Channel Logout 1.0): what ends, and which tokens end nothing."""

import asyncio
import json
import time
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from joserfc import jws
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.federation.models import Identity, UpstreamProvider
from accounts.users.models import User
from conftest import PASSWORD
from tokens.oauth.tests.walk import by_password, is_page, send
from tokens.sessions.models import Session
from tokens.tests.browser import Member, Pair
from tokens.tests.second_factor import enrol
from tokens.upstream import discovery
from tokens.upstream.id_token import LOGOUT_EVENT
from tokens.upstream.models import UpstreamSession
from tokens.upstream.tests.provider import CLIENT_ID, KEY, STRANGERS_KEY, FakeProvider
from tokens.upstream.tests.walk import back, is_in, sent, stored, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

LOGOUT = "/oauth/upstream/acme/logout"


@pytest.fixture
def telling(provider: FakeProvider) -> FakeProvider:
    """The provider says that it tells applications about logouts, and names its sessions."""
    provider.document = {"backchannel_logout_supported": True}
    provider.claims = {"sid": "there-1"}
    discovery.forget()
    return provider


def logout_token(provider: FakeProvider, key: Any = KEY, header: dict[str, Any] | None = None, **changes: Any) -> str:
    """Return a logout token; a claim of None is left out."""
    now = int(time.time())
    exp = now + changes.pop("exp_in", 120)
    told = {
        "iss": provider.issuer, "aud": CLIENT_ID, "sub": "subject-1", "sid": "there-1", "iat": now, "exp": exp,
        "jti": "1", "events": {LOGOUT_EVENT: {}}, **changes,
    }  # fmt: skip
    body = json.dumps({name: value for name, value in told.items() if value is not None}).encode()
    given = {"alg": "RS256", "kid": KEY.kid or "k1", "typ": "logout+jwt", **(header or {})}
    return jws.serialize_compact(given, body, key, algorithms=["RS256"])


async def live() -> list[str]:
    """Return the sessions at the provider whose sessions here live."""
    rows = UpstreamSession.objects.filter(session__revoked_at=None).order_by("sid")
    return [sid async for sid in rows.values_list("sid", flat=True)]


@pytest.mark.parametrize(
    ("named", "left"),
    [
        ({}, ["there-2"]),
        ({"sub": None}, ["there-2"]),
        ({"sid": None}, []),
        ({"sid": "there-2"}, ["there-1"]),
        ({"sid": "there-3"}, ["there-1", "there-2"]),
        ({"sub": "subject-2"}, ["there-1", "there-2"]),
    ],
)
async def test_what_it_began_ends(
    api: httpx.AsyncClient, telling: FakeProvider, named: dict[str, Any], left: list[str]
) -> None:
    """One session by its name there, all of a subject without one; nobody else's. The trail has each."""
    assert is_in(await through(api, telling))
    api.cookies.clear()
    telling.claims = {"sid": "there-2"}
    assert is_in(await through(api, telling))
    assert await live() == ["there-1", "there-2"]
    answer = await api.post(LOGOUT, data={"logout_token": logout_token(telling, **named)})
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert await live() == left
    assert await AuditEvent.objects.filter(event="session_ended").acount() == 2 - len(left)
    cookies = (await api.get("/api/v1/access/me")).status_code
    assert cookies == (200 if "there-2" in left else 401)


@pytest.mark.parametrize(
    "lie",
    [
        {"iss": "https://evil.example"},
        {"aud": "another"},
        {"aud": [CLIENT_ID, "another"]},
        {"iat": 1},
        {"exp": 1},
        {"exp_in": 90_000},
        {"jti": None},
        {"jti": 7},
        {"events": None},
        {"events": {}},
        {"events": {LOGOUT_EVENT: True}},
        {"events": {"http://schemas.openid.net/event/other": {}}},
        {"nonce": "n"},
        {"sub": None, "sid": None},
        {"sub": 7},
        {"header": {"typ": "at+jwt"}},
        {"header": {"crit": ["kid"]}},
        {"key": STRANGERS_KEY},
    ],
    ids=str,
)
async def test_lies_end_nothing(api: httpx.AsyncClient, telling: FakeProvider, lie: dict[str, Any]) -> None:
    """Each claim is judged; the answer is the same for all."""
    assert is_in(await through(api, telling))
    answer = await api.post(LOGOUT, data={"logout_token": logout_token(telling, **lie)})
    assert (answer.status_code, answer.json()) == (400, {"error": "invalid_request"})
    assert await live() == ["there-1"]


async def test_an_id_token_ends_nothing(api: httpx.AsyncClient, telling: FakeProvider) -> None:
    """Nor do texts that are no token, other short names, and a form without one."""
    assert is_in(await through(api, telling))
    for path, form in (
        (LOGOUT, {"logout_token": telling.id_token()}),
        (LOGOUT, {"logout_token": "a.b.c"}),
        (LOGOUT, {}),
        ("/oauth/upstream/other/logout", {"logout_token": logout_token(telling)}),
    ):
        assert (await api.post(path, data=form)).status_code == 400
    assert (await api.get(LOGOUT)).status_code == 405
    assert await live() == ["there-1"]


async def test_another_providers_token_ends_nothing(api: httpx.AsyncClient, telling: FakeProvider) -> None:
    """A subject of the same name at another provider, which has the same keys and issuer, is somebody else."""
    await sync_to_async(stored)("other", telling.issuer)
    assert is_in(await through(api, telling))
    path = "/oauth/upstream/other/logout"
    assert (await api.post(path, data={"logout_token": logout_token(telling)})).status_code == 200
    assert await live() == ["there-1"]


@pytest.mark.parametrize("up", [True, False])
async def test_many_tokens_of_unknown_keys(
    api: httpx.AsyncClient, telling: FakeProvider, monkeypatch: pytest.MonkeyPatch, *, up: bool
) -> None:
    """Anybody may send them: what comes at the same time has the keys fetched once, also when nothing comes back."""
    assert is_in(await through(api, telling))
    uri = f"{telling.issuer}/jwks"
    long_ago = time.monotonic() - discovery.KEYS_GAP_S
    discovery._keys[uri] = discovery._keys[uri]._replace(fetched_at=long_ago)
    telling.asked.clear()
    telling.delay_s = 0.5
    if not up:
        monkeypatch.setattr(telling, "documents", dict)
    forged = {"logout_token": logout_token(telling, key=STRANGERS_KEY, header={"kid": "none"})}
    for fetched in (1, 1 if up else 2):
        answers = await asyncio.gather(*(api.post(LOGOUT, data=forged) for _ in range(10)))
        assert {answer.status_code for answer in answers} == {400 if up else 503}
        assert telling.asked == ["/jwks"] * fetched
    assert await live() == ["there-1"]


async def test_a_token_is_good_once(api: httpx.AsyncClient, telling: FakeProvider) -> None:
    """A copy of it does not end the next session of the same name."""
    token = logout_token(telling)
    for sessions_left in ([], ["there-1"]):
        assert is_in(await through(api, telling))
        api.cookies.clear()
        assert (await api.post(LOGOUT, data={"logout_token": token})).status_code == 200
        assert await live() == sessions_left


async def test_tokens_that_are_refused_are_counted(
    api: httpx.AsyncClient, telling: FakeProvider, throttled: None, settings: Settings
) -> None:
    """A client that sends nothing but wrong ones is told to wait."""
    settings.IRONAUTH_THROTTLE_BAD_EMAIL_TOKENS = 3
    told = [(await api.post(LOGOUT, data={"logout_token": "x"})).status_code for _ in range(4)]
    assert told == [400, 400, 400, 429]


async def test_after_a_second_factor_too(
    api: httpx.AsyncClient, member: Member, pair: Pair, telling: FakeProvider
) -> None:
    """The session that a second factor has finished ends as well; one signed out meanwhile is never opened."""
    app, _ = await enrol(api, pair)
    telling.claims |= {"email": member["email"]}
    page = await through(api, telling)
    assert is_page(page, 200, "Sign in")
    page = await by_password(api, page, member["email"], member["password"])
    assert is_in(await send(api, page, "/oauth/signin/code", code=app.code()))
    assert await live() == ["there-1"]
    api.cookies.clear()
    page = await through(api, telling)
    assert (await api.post(LOGOUT, data={"logout_token": logout_token(telling)})).status_code == 200
    assert await live() == []
    await send(api, page, "/oauth/signin/code", code=app.code(1))
    assert (await api.get("/api/v1/access/me")).status_code == 401
    assert await live() == []


async def test_a_password_after_a_refusal_signs_in(
    api: httpx.AsyncClient, member: Member, telling: FakeProvider
) -> None:
    """A sign-in with the provider that came to nothing does not end the session that a password opens instead."""
    telling.claims |= {"nonce": "another"}
    page = await through(api, telling)
    assert is_page(page, 401, "Sign in")
    assert is_in(await by_password(api, page, member["email"], member["password"]))
    assert (await api.get("/api/v1/access/me")).status_code == 200
    assert not await Identity.objects.aexists()
    assert await live() == []


async def test_an_identity_given_up_is_not_linked_to_another_account(
    api: httpx.AsyncClient, member: Member, pair: Pair, telling: FakeProvider
) -> None:
    """Asked for a second factor, somebody goes back and signs in to another account by its password."""
    await enrol(api, pair)
    row = await UpstreamProvider.objects.aget()
    owner = await User.objects.aget(email=member["email"])
    await Identity.objects.acreate(user=owner, provider=row, issuer=telling.issuer, subject="subject-1")
    other = {"email": "other@example.com", "password": PASSWORD}
    assert (await api.post("/api/v1/access/signup", json=other)).status_code in (201, 202)
    api.cookies.clear()
    page = await through(api, telling)
    assert is_page(page, 200, "code")
    page = await send(api, page, "/oauth/signin")
    assert is_in(await by_password(api, page, other["email"]))
    assert (await api.get("/api/v1/access/me")).json()["email"] == other["email"]
    assert await live() == []
    assert [one.user_id async for one in Identity.objects.all()] == [owner.pk]


async def test_providers_that_tell_nothing_leave_no_row(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """Without back-channel logout nothing is kept of the session there."""
    provider.claims = {"sid": "there-1"}
    assert is_in(await through(api, provider))
    assert not await UpstreamSession.objects.aexists()


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ({"amr": ["pwd", "mfa"]}, False),
        ({"acr": "phr"}, False),
        ({"amr": ["pwd"]}, True),
        ({"amr": "mfa"}, True),
        ({}, True),
    ],
)
async def test_the_operator_says_what_a_second_factor_is(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider, said: dict[str, Any], asked: bool
) -> None:
    """Values of ``amr`` and ``acr`` that are listed stand for the person's own factor, others do not."""
    await enrol(api, pair)
    row = await sync_to_async(stored)("strict", provider.issuer, second_factors=["mfa", "phr"])
    user = await User.objects.aget(email=member["email"])
    await Identity.objects.acreate(user=user, provider=row, issuer=provider.issuer, subject="subject-1")
    provider.claims = said
    answer = await back(api, provider, await sent(api, provider, slug="strict"), slug="strict")
    if asked:
        assert is_page(answer, 200, "code")
    else:
        assert is_in(answer)
        session = await Session.objects.alatest("created_at")
        assert session.amr == "fed mfa"


@pytest.mark.parametrize("updates", [True, False])
@pytest.mark.parametrize(("name", "good"), [("Anna", True), ("", False), ("x" * 300, False), (7, False)])
async def test_names_are_kept_up_to_date_where_the_operator_says_so(
    api: httpx.AsyncClient, provider: FakeProvider, updates: bool, name: Any, good: bool
) -> None:
    """A name that an account may have replaces the old one, and the trail says from where."""
    await UpstreamProvider.objects.aupdate(updates_name=updates)
    assert is_in(await through(api, provider))
    provider.claims = {"name": name}
    assert is_in(await through(api, provider))
    changed = updates and good
    assert (await User.objects.aget()).name == ("Anna" if changed else "Ann")
    events = AuditEvent.objects.filter(event="profile_changed", details__provider="acme")
    assert await events.acount() == int(changed)


async def test_the_profile_is_kept_up_to_date_with_the_name(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """A new account begins with what the provider says; later sign-ins change what is said anew, and nothing else."""
    provider.claims = {"given_name": "Ann", "zoneinfo": "Europe/Berlin", "locale": "de", "family_name": ["Lee"]}
    assert is_in(await through(api, provider))
    first = await User.objects.aget()
    assert (first.given_name, first.family_name, first.zoneinfo, first.language) == ("Ann", "", "Europe/Berlin", "")
    provider.claims = {"given_name": "Anna", "family_name": "Lee", "zoneinfo": "Mars/Base"}
    assert is_in(await through(api, provider))
    assert (await User.objects.aget()).given_name == "Ann"
    await UpstreamProvider.objects.aupdate(updates_name=True)
    assert is_in(await through(api, provider))
    now = await User.objects.aget()
    assert (now.name, now.given_name, now.family_name, now.zoneinfo) == ("Ann", "Anna", "Lee", "Europe/Berlin")
    event = await AuditEvent.objects.aget(event="profile_changed", details__provider="acme")
    assert event.details["fields"] == ["family_name", "given_name"]
