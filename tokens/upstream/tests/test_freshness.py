"""How recent a sign-in with a provider is: what the provider is asked, and what its answer is worth."""

import time
from typing import Any, Final

import httpx
import pytest
from asgiref.sync import sync_to_async
from joserfc import jws
from pytest_django import Settings

from accounts.federation.kinds.kind import ProviderKind
from accounts.federation.kinds.registry import KINDS
from accounts.users.step_up import RECENT_S
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.oauth.tests.walk import VERIFIER, answered, authorize, is_page, send
from tokens.sessions.models import LONG_AGO, Session
from tokens.upstream.id_token import LEEWAY_S
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.walk import back, is_in, sent, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

LONG_S: Final = 86_400
#: Far from any boundary, on a machine that is busy.
SLACK_S: Final = 30


@pytest.fixture
async def client(transactional_db: None) -> tuple[OAuthClient, str]:
    """One of our own clients, which asks for no consent, and its secret."""
    return await sync_to_async(make_client)(trusted=True)


def ago(seconds: float) -> int:
    """Return a unix second of the past."""
    return int(time.time() - seconds)


async def exported(api: httpx.AsyncClient) -> int:
    """Return the status of the export of one's own data, which needs a recent proof."""
    return (await api.get("/api/v1/access/me/export")).status_code


# ---------------------------------------------------------------- what is asked
@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        ({}, {}),
        ({"prompt": "login"}, {"prompt": "login", "max_age": "0"}),
        ({"max_age": "0"}, {"prompt": "login", "max_age": "0"}),
        ({"max_age": "1"}, {"max_age": "1"}),
        ({"max_age": "900", "prompt": "consent"}, {"max_age": "900"}),
        ({"max_age": "900", "prompt": "login"}, {"prompt": "login", "max_age": "0"}),
    ],
)
async def test_what_the_client_wants_is_passed_on(
    api: httpx.AsyncClient,
    provider: FakeProvider,
    client: tuple[OAuthClient, str],
    wanted: dict[str, str],
    there: dict[str, str],
) -> None:
    """``prompt=login`` as ``max_age=0``, which has the provider say when it was; nothing where nothing is wanted."""
    asked = await sent(api, provider, await authorize(api, client[0], **wanted))
    assert {name: asked[name] for name in ("prompt", "max_age") if name in asked} == there


def test_who_cannot_be_asked() -> None:
    """Google, Apple and GitHub know neither parameter; any other OpenID provider has to."""
    assert {name for name, kind in KINDS.items() if not kind.asks_anew} == {"google", "apple", "github"}


async def test_who_cannot_be_asked_is_not(
    api: httpx.AsyncClient,
    provider: FakeProvider,
    client: tuple[OAuthClient, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a provider is sent nothing it may refuse, and an answer that does not say when signs nobody in."""
    monkeypatch.setattr(ProviderKind, "asks_anew", False)
    asked = await sent(api, provider, await authorize(api, client[0], prompt="login"))
    assert not {"prompt", "max_age"} & set(asked)
    provider.claims = {"auth_time": None}
    assert is_page(await back(api, provider, asked), 401, "did not confirm")
    assert not await Session.objects.aexists()


# ---------------------------------------------------------------- what the answer is held against
@pytest.mark.parametrize(
    ("wanted", "age_s", "right"),
    [
        ({"prompt": "login"}, 0, True),
        ({"prompt": "login"}, LEEWAY_S + SLACK_S, False),
        ({"max_age": "0"}, LEEWAY_S + SLACK_S, False),
        ({"max_age": "900"}, 900, True),
        ({"max_age": "900"}, 900 + LEEWAY_S + SLACK_S, False),
        ({"max_age": "900"}, None, False),
        ({"prompt": "login"}, None, False),
        ({"max_age": "999999999"}, None, False),
        ({"max_age": "999999999"}, LONG_S, True),
        ({}, LONG_S, True),
        ({}, None, True),
    ],
)
async def test_the_answer_is_held_against_it(
    api: httpx.AsyncClient,
    provider: FakeProvider,
    client: tuple[OAuthClient, str],
    wanted: dict[str, str],
    age_s: int | None,
    right: bool,
) -> None:
    """Too old, or not said, though the browser brings an answer: no account, no session, no code."""
    asked = await sent(api, provider, await authorize(api, client[0], **wanted))
    provider.claims = {"auth_time": None if age_s is None else ago(age_s)}
    answer = await back(api, provider, asked)
    if right:
        assert answered(answer)["code"]
    else:
        assert is_page(answer, 401, "did not confirm who you are")
        assert not await Session.objects.aexists()


@pytest.mark.parametrize("value", ["yesterday", True, -1, 0, 10**30, [1]])
async def test_no_time_is_no_recent_one(api: httpx.AsyncClient, provider: FakeProvider, value: Any) -> None:
    """What is no time of the past counts as none, or is refused; never as now."""
    provider.claims = {"auth_time": value}
    answer = await through(api, provider)
    if is_in(answer):
        assert (await Session.objects.aget()).authenticated_at == LONG_AGO
    else:
        assert is_page(answer, 401)
        assert value == 10**30


@pytest.mark.parametrize(("ahead_s", "right"), [(LEEWAY_S - SLACK_S, True), (LEEWAY_S + SLACK_S, False)])
async def test_a_time_to_come(api: httpx.AsyncClient, provider: FakeProvider, ahead_s: int, right: bool) -> None:
    """The provider's clock may be ahead by a minute, which makes nothing newer than now; more is refused."""
    provider.claims = {"auth_time": ago(-ahead_s)}
    assert is_in(await through(api, provider)) is right
    if right:
        assert (await Session.objects.aget()).authenticated_at.timestamp() <= time.time()


# ---------------------------------------------------------------- what it opens
@pytest.mark.parametrize(
    ("age_s", "status"), [(0, 200), (RECENT_S - SLACK_S, 200), (RECENT_S + SLACK_S, 401), (LONG_S, 401), (None, 401)]
)
async def test_a_recent_proof(api: httpx.AsyncClient, provider: FakeProvider, age_s: int | None, status: int) -> None:
    """The export needs one: the time the provider signs decides, and not the moment somebody comes back."""
    provider.claims = {"auth_time": None if age_s is None else ago(age_s)}
    assert is_in(await through(api, provider))
    assert (await api.get("/api/v1/access/me")).status_code == 200
    assert await exported(api) == status


async def test_a_silent_way_there_and_back_proves_nothing(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """Who has an old session and goes to the provider, which asks nothing, is where they were."""
    provider.claims = {"auth_time": ago(LONG_S)}
    assert is_in(await through(api, provider))
    assert await exported(api) == 401
    assert is_in(await through(api, provider, await api.get("/account/signin?next=/account/security")))
    assert await exported(api) == 401
    provider.claims = {}
    assert is_in(await through(api, provider))
    assert await exported(api) == 200


@pytest.mark.parametrize("age_s", [100, LONG_S, None])
async def test_what_clients_are_told(
    api: httpx.AsyncClient, provider: FakeProvider, client: tuple[OAuthClient, str], age_s: int | None
) -> None:
    """``auth_time`` is the provider's, and missing where nobody knows it; so in introspection."""
    row, secret = client
    told = None if age_s is None else ago(age_s)
    provider.claims = {"auth_time": told}
    answer = answered(await through(api, provider, await authorize(api, row, scope="openid")))
    asked = {"grant_type": "authorization_code", "code": answer["code"], "redirect_uri": REDIRECT_URI,
             "code_verifier": VERIFIER}  # fmt: skip
    auth = (str(row.pk), secret)
    pair = (await api.post("/oauth/token", data=asked, auth=auth)).json()
    claims = jws.extract_compact(pair["id_token"].encode()).payload
    assert (f'"auth_time":{told}'.encode() in claims) if told else (b"auth_time" not in claims)
    seen = (await api.post("/oauth/introspect", data={"token": pair["access_token"]}, auth=auth)).json()
    assert seen["active"]
    assert seen.get("auth_time") == told


@pytest.mark.parametrize(("age_s", "status"), [(0, 200), (LONG_S, 401), (None, 401)])
async def test_across_the_terms(
    api: httpx.AsyncClient, provider: FakeProvider, settings: Settings, age_s: int | None, status: int
) -> None:
    """An account that is made after consent is as recent as the sign-in before it."""
    settings.IRONAUTH_TERMS_VERSION = "2026-11"
    settings.IRONAUTH_TERMS_URL = "https://example.com/terms"
    provider.claims = {"auth_time": None if age_s is None else ago(age_s)}
    page = await through(api, provider)
    assert is_page(page, 200, "One step is left")
    assert is_in(await send(api, page, "/oauth/terms", terms_version="2026-11"))
    assert await exported(api) == status
