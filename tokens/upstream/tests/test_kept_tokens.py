"""A provider's tokens: kept where the operator asks for it alone, sealed, with the identity, and gone with it."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.federation import kept_tokens
from accounts.federation.kept_tokens import Tokens
from accounts.federation.models import Identity, KeptTokens, UpstreamProvider, UpstreamSignIn
from accounts.privacy import export
from accounts.users.models import User
from ironauth.infrastructure.db.unit_of_work import database
from tokens.oauth.tests.walk import by_password, is_page, send
from tokens.tests.browser import Member, Pair
from tokens.tests.second_factor import enrol
from tokens.tests.stage import Stage
from tokens.upstream import providers
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.test_identities import begun, listed
from tokens.upstream.tests.walk import back, is_in, sent, stored, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]
ACCESS, REFRESH = "access-token-of-the-provider", "refresh-token-of-the-provider"
GIVEN = {"access_token": ACCESS, "refresh_token": REFRESH, "expires_in": 3_600, "scope": "openid calendar"}


@pytest.fixture
def keeping(provider: FakeProvider) -> FakeProvider:
    """The provider, whose tokens are kept."""
    set_provider(keep_tokens=True, more_scopes=["calendar", "email"])
    provider.gives = dict(GIVEN)
    return provider


def set_provider(**fields: Any) -> None:
    """Change the provider, as everybody sees from now on."""
    UpstreamProvider.objects.filter(slug="acme").update(**fields)
    providers.outdated()


def kept() -> Tokens | None:
    """Return the tokens that are kept of the one identity, in clear; None for none."""
    row = KeptTokens.objects.select_related("identity").first()
    return None if row is None else kept_tokens.opened(row)


async def are_kept() -> bool:
    """Tell whether the tokens of ``GIVEN`` are kept."""
    found = await sync_to_async(kept)()
    return found is not None and (found.access_token, found.refresh_token) == (ACCESS, REFRESH)


async def wait() -> bool:
    """Tell whether tokens wait with a sign-in, sealed."""
    rows = [row.tokens or b"" async for row in UpstreamSignIn.objects.exclude(tokens=None)]
    assert not any(token.encode() in bytes(row) for row in rows for token in (ACCESS, REFRESH))
    return bool(rows)


# ---------------------------------------------------------------- when they are kept
async def test_nobodys_are_kept_unless_asked(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """Nor are further scopes asked for; a known identity still signs in without a write before its session."""
    provider.gives = dict(GIVEN)
    asked = await sent(api, provider)
    assert asked["scope"] == "openid email profile"
    assert is_in(await back(api, provider, asked))
    assert is_in(await through(api, provider))
    assert not await KeptTokens.objects.aexists()
    assert not await wait()


async def test_with_a_new_account_and_a_known_identity(api: httpx.AsyncClient, keeping: FakeProvider) -> None:
    """What was kept becomes what the next sign-in brings; the scopes are asked for once each."""
    asked = await sent(api, keeping)
    assert asked["scope"] == "openid email profile calendar"
    assert is_in(await back(api, keeping, asked))
    assert await are_kept()
    row = await KeptTokens.objects.aget()
    assert (row.scope, row.can_refresh, row.expires_at is not None) == ("openid calendar", True, True)
    assert ACCESS.encode() not in bytes(row.sealed)
    keeping.gives["access_token"] = "another"
    assert is_in(await through(api, keeping))
    found = await sync_to_async(kept)()
    assert found is not None
    assert found.access_token == "another"
    assert not await UpstreamSignIn.objects.aexists()


async def test_after_a_sign_in_here(api: httpx.AsyncClient, member: Member, keeping: FakeProvider) -> None:
    """They wait, sealed, and are kept with the identity once its person has signed in."""
    keeping.claims = {"email": member["email"]}
    page = await through(api, keeping)
    assert await wait()
    assert not await KeptTokens.objects.aexists()
    assert is_in(await by_password(api, page, member["email"]))
    assert await are_kept()
    assert not await wait()


async def test_after_the_terms(api: httpx.AsyncClient, keeping: FakeProvider, settings: Settings) -> None:
    """The same where an account is made once they are accepted."""
    settings.IRONAUTH_TERMS_VERSION, settings.IRONAUTH_TERMS_URL = "1", "https://example.com/terms"
    page = await through(api, keeping)
    assert await wait()
    assert not await Identity.objects.aexists()
    assert is_in(await send(api, page, "/oauth/terms"))
    assert await are_kept()
    assert not await wait()


async def test_after_a_second_factor(api: httpx.AsyncClient, keeping: FakeProvider) -> None:
    """Whose proof is half done leaves nothing: what is kept stays as it was."""
    assert is_in(await through(api, keeping))
    pair = {"access_token": api.cookies["access_token"]}
    api.cookies.clear()
    app, _ = await enrol(api, pair)
    keeping.gives["access_token"] = "another"
    page = await through(api, keeping)
    assert is_page(page, 200)
    assert await wait()
    assert await are_kept()
    assert is_in(await send(api, page, "/oauth/signin/code", code=app.code(1)))
    found = await sync_to_async(kept)()
    assert found is not None
    assert found.access_token == "another"


async def test_when_an_identity_is_connected(api: httpx.AsyncClient, pair: Pair, keeping: FakeProvider) -> None:
    """Connecting it again brings them anew."""
    assert (await back(api, keeping, await begun(api, keeping, pair))).status_code == 303
    assert await are_kept()
    await KeptTokens.objects.all().adelete()
    assert (await back(api, keeping, await begun(api, keeping, pair))).status_code == 303
    assert await are_kept()


async def test_another_account_gets_none(
    api: httpx.AsyncClient, member: Member, pair: Pair, keeping: FakeProvider
) -> None:
    """Who connects an identity of somebody else is refused, and the other's tokens are what they were."""
    assert is_in(await through(api, keeping))
    api.cookies.clear()
    keeping.gives["access_token"] = "another"
    assert (await back(api, keeping, await begun(api, keeping, pair))).status_code == 409
    assert await are_kept()


@pytest.mark.parametrize(
    "gives",
    [
        {"token_type": "DPoP"},
        {"token_type": None},
        {"access_token": "x" * (kept_tokens.LONGEST + 1)},
        {"access_token": "two words"},
        {"access_token": "line\nbreak"},
        {"access_token": "ключ"},
        {"access_token": ""},
        {"access_token": 7},
    ],
)
async def test_what_is_no_bearer_token(api: httpx.AsyncClient, keeping: FakeProvider, gives: dict[str, Any]) -> None:
    """It is not kept, and signs in as ever."""
    keeping.gives |= gives
    assert is_in(await through(api, keeping))
    assert not await KeptTokens.objects.aexists()


@pytest.mark.parametrize(
    ("gives", "end", "scope"),
    [
        ({"expires_in": None}, False, "openid calendar"),
        ({"expires_in": -1}, True, "openid calendar"),
        ({"expires_in": True}, True, "openid calendar"),
        ({"expires_in": 1e300}, True, "openid calendar"),
        ({"expires_in": "3600"}, True, "openid calendar"),
        ({"expires_in": 0}, True, "openid calendar"),
        ({"scope": None}, True, "openid email profile calendar"),
        ({"scope": "a\x00b"}, True, "openid email profile calendar"),
        ({"scope": "x" * 2_001}, True, "openid email profile calendar"),
        ({"scope": "x" * 2_000}, True, "x" * 2_000),
        ({"access_token": "x" * kept_tokens.LONGEST}, True, "openid calendar"),
        ({"token_type": "bearer", "refresh_token": 7}, True, "openid calendar"),
    ],
)
async def test_what_a_provider_says_of_them(
    api: httpx.AsyncClient, keeping: FakeProvider, gives: dict[str, Any], end: bool, scope: str
) -> None:
    """A scope that cannot be one counts as not said; an access token has an end, unless none is said."""
    keeping.gives |= gives
    assert is_in(await through(api, keeping))
    row = await KeptTokens.objects.aget()
    assert (row.expires_at is not None, row.scope) == (end, scope)


async def test_a_provider_that_gives_a_refresh_token_once(api: httpx.AsyncClient, keeping: FakeProvider) -> None:
    """It stays, with the newer access token."""
    assert is_in(await through(api, keeping))
    keeping.gives = {"access_token": "another"}
    assert is_in(await through(api, keeping))
    found = await sync_to_async(kept)()
    assert found is not None
    assert (found.access_token, found.refresh_token) == ("another", REFRESH)


# ---------------------------------------------------------------- what is turned off between
@pytest.mark.parametrize("off", [{"keep_tokens": False}, {"enabled": False}])
async def test_turned_off_while_they_wait(
    api: httpx.AsyncClient, member: Member, keeping: FakeProvider, off: dict[str, Any]
) -> None:
    """Then nothing is kept, though the tokens wait already."""
    keeping.claims = {"email": member["email"]}
    page = await through(api, keeping)
    assert await wait()
    await sync_to_async(set_provider)(**off)
    await by_password(api, page, member["email"])
    assert not await KeptTokens.objects.aexists()


async def test_turned_off_while_somebody_is_there(api: httpx.AsyncClient, keeping: FakeProvider) -> None:
    """Who comes back afterwards signs in, and nothing waits or is kept."""
    asked = await sent(api, keeping)
    await sync_to_async(set_provider)(keep_tokens=False)
    assert is_in(await back(api, keeping, asked))
    assert not await KeptTokens.objects.aexists()
    assert not await wait()


@pytest.mark.parametrize(
    ("change", "stay"),
    [
        ({"keep_tokens": False}, False),
        ({"client_id": "another"}, False),
        ({"issuer": "https://other.example", "secret": "new", "leave_without_way_in": True}, False),
        ({"kind": "keycloak", "secret": "new", "leave_without_way_in": True}, False),
        ({"name": "Acme & Co"}, True),
        ({"more_scopes": []}, True),
        ({"enabled": False, "leave_without_way_in": True}, True),
    ],
)
async def test_what_deletes_them(stage: Stage, keeping: FakeProvider, change: dict[str, Any], stay: bool) -> None:
    """No more keeping, and another issuer or client; those that wait go too, those of other providers stay."""
    assert is_in(await through(stage.api, keeping))
    stage.api.cookies.clear()
    waits = {"digest": "d", "browser": "b", "page": "", "issuer": keeping.issuer, "subject": "s", "tokens": b"sealed"}
    row = await UpstreamProvider.objects.aget()
    await UpstreamSignIn.objects.acreate(**waits, provider=row, expires_at=row.created_at)
    other = await sync_to_async(stored)("other", "https://o.example", keep_tokens=True)
    identity = await Identity.objects.acreate(
        user_id=stage.member, provider=other, issuer="https://o.example", subject="s"
    )
    tokens = Tokens("at", "", "", 0, 0)
    columns = kept_tokens.columns(identity, other.pk, tokens)
    await KeptTokens.objects.acreate(identity=identity, **columns)
    await stage.send("PATCH", "/api/v1/providers/acme", 200, change, stage.root_pair)
    assert await KeptTokens.objects.filter(provider=row).aexists() is stay
    assert await wait() is stay
    assert await KeptTokens.objects.filter(provider=other).aexists()


@pytest.mark.parametrize("change", [{"client_id": "another"}, {"issuer": "https://other.example"}, {"name": "Acme"}])
async def test_asked_as_another_client_meanwhile(
    api: httpx.AsyncClient, member: Member, keeping: FakeProvider, change: dict[str, str]
) -> None:
    """What was given to the client of before is not kept, though its person signs in; another name changes nothing."""
    keeping.claims = {"email": member["email"]}
    page = await through(api, keeping)
    assert await wait()
    await sync_to_async(set_provider)(**change)
    await by_password(api, page, member["email"])
    assert await KeptTokens.objects.aexists() is ("name" in change)


@pytest.mark.parametrize("scope", ["two words", 'quo"te', "back\\slash", "é", "x" * 129])
async def test_what_is_no_scope(stage: Stage, keeping: FakeProvider, scope: str) -> None:
    """400 naming the field; and the longest one is taken."""
    path = "/api/v1/providers/acme"
    refused = await stage.send("PATCH", path, 400, {"more_scopes": ["x" * 128, scope]}, stage.root_pair)
    assert {error["field"].partition(".")[0] for error in refused["errors"]} == {"more_scopes"}
    shown = await stage.send("PATCH", path, 200, {"more_scopes": ["x" * 128]}, stage.root_pair)
    assert (shown["more_scopes"], shown["keep_tokens"]) == (["x" * 128], True)


# ---------------------------------------------------------------- who sees that they are kept
async def test_what_the_person_sees(api: httpx.AsyncClient, pair: Pair, keeping: FakeProvider) -> None:
    """That access is kept, for what and since when, in the list, on the page and in the export; never the tokens."""
    await back(api, keeping, await begun(api, keeping, pair))
    (shown,) = (await listed(api, pair))["identities"]
    assert (shown["kept"]["scope"], shown["kept"]["renews"]) == ("openid calendar", True)
    user = await User.objects.aget()
    (section,) = (await database().read(export.collect, user.pk)).sections["kept_tokens"]
    assert section["scope"] == "openid calendar"
    cookie = {"Cookie": f"access_token={pair['access_token']}"}
    page = await api.get("/account/security/identities", headers=cookie)
    assert "openid calendar" in page.text
    assert "keeps access to your account there" in page.text
    for text in (page.text, str(shown), str(section)):
        assert ACCESS not in text
        assert REFRESH not in text
    await KeptTokens.objects.all().adelete()
    assert (await listed(api, pair))["identities"][0]["kept"] is None
    assert "keeps access" not in (await api.get("/account/security/identities", headers=cookie)).text
