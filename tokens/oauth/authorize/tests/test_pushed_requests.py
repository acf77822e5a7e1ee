"""Pushed authorization requests (RFC 9126): parameters from the client itself, good once, for it alone."""

import asyncio
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.second_clicks import WITHIN_S
from tokens.clients.models import OAuthClient
from tokens.oauth.authorize import pushed_requests
from tokens.oauth.models import AuthorizationCode, Consent, PushedRequest
from tokens.oauth.tests.material import make_client, make_public_client
from tokens.oauth.tests.walk import AUTHORIZE, ISSUER, answered, by_password, is_page, request_of, say
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

PAR = "/oauth/par"
Party = tuple[OAuthClient, str]


@pytest.fixture
async def party(transactional_db: None) -> Party:
    """One of our own clients, which has to push its requests; with its secret."""
    return await sync_to_async(make_client)(trusted=True, require_par=True)


async def push(api: httpx.AsyncClient, party: Party, **changes: str | None) -> httpx.Response:
    """Push a request with the client's secret in the body."""
    return await api.post(PAR, data=request_of(party[0], client_secret=party[1], **changes))


async def pushed(api: httpx.AsyncClient, party: Party, **changes: str | None) -> dict[str, str]:
    """Push a good request; return the parameters the browser is sent with."""
    answer = await push(api, party, **changes)
    assert answer.status_code == 201, answer.text
    return {"client_id": str(party[0].pk), "request_uri": answer.json()["request_uri"]}


async def test_push(api: httpx.AsyncClient, member: Member, party: Party) -> None:
    """201 with a handle for 90 seconds; with it alone the browser gets to the end. What was pushed counts, no other."""
    answer = await push(api, party, scope="openid")
    assert answer.status_code == 201
    assert list(answer.json()) == ["request_uri", "expires_in"]
    assert answer.json()["expires_in"] == 90
    assert answer.headers["cache-control"] == "no-store"
    handle = answer.json()["request_uri"]
    assert handle.startswith("urn:ietf:params:oauth:request_uri:")
    beside = {"scope": "openid email", "redirect_uri": "https://evil.example/", "state": "other"}
    page = await api.get(AUTHORIZE, params={"client_id": str(party[0].pk), "request_uri": handle, **beside})
    told = answered(await by_password(api, page, member["email"]))
    assert (told["state"], told["iss"]) == ("st&te=1 é", ISSUER)
    assert told["code"]


async def test_nothing_secret_is_stored(api: httpx.AsyncClient, party: Party) -> None:
    """Of the handle there is a digest; what proved the client is not kept."""
    sent = await pushed(api, party)
    row = await PushedRequest.objects.aget()
    assert "client_secret" not in row.parameters
    assert party[1] not in str(row.parameters)
    assert row.digest not in sent["request_uri"]
    assert row.client_id == party[0].pk


async def test_opened_until_somebody_has_finished(api: httpx.AsyncClient, party: Party, member: Member) -> None:
    """It may be opened again (FAPI 2.0 §5.3.2.2); of two pages one gets a code; then it is none."""
    sent = await pushed(api, party)
    with clock.shifted(-1):
        first = await api.get(AUTHORIZE, params=sent)
    second = await api.get(AUTHORIZE, params=sent)
    assert is_page(first, 200, "Password")
    assert answered(await by_password(api, second, member["email"]))["code"]
    assert is_page(await by_password(api, first, member["email"]), 400, "was used before")
    assert is_page(await api.get(AUTHORIZE, params=sent), 400, "was used before")
    assert await AuthorizationCode.objects.acount() == 1
    assert not await PushedRequest.objects.aexists()


async def test_who_takes_longer_than_the_handle_lives(
    api: httpx.AsyncClient, party: Party, member: Member, still_clock: float
) -> None:
    """The page that was opened in time is good for its half hour, once."""
    page = await api.get(AUTHORIZE, params=await pushed(api, party))
    with clock.shifted(600):
        assert answered(await by_password(api, page, member["email"]))["code"]
    with clock.shifted(600 + WITHIN_S):
        assert is_page(await by_password(api, page, member["email"]), 400, "was used before")


async def test_a_no_finishes_too(api: httpx.AsyncClient, member: Member) -> None:
    """Who has refused is not asked again by the same request, nor does a page that was opened before allow it."""
    party = await sync_to_async(make_client)(require_par=True)
    sent = await pushed(api, party)
    asks = await by_password(api, await api.get(AUTHORIZE, params=sent), member["email"])
    with clock.shifted(1):
        again = await api.get(AUTHORIZE, params=sent)
    assert answered(await say(api, asks, "deny"))["error"] == "access_denied"
    assert is_page(await api.get(AUTHORIZE, params=sent), 400, "was used before")
    assert is_page(await say(api, again, "allow"), 400, "was used before")
    assert is_page(await say(api, again, "deny"), 400, "was used before")
    consents = Consent.objects.filter(client=party[0])
    assert not await consents.aexists()  # the yes in the other tab gave nothing, and is no consent
    page = await api.get(AUTHORIZE, params=await pushed(api, party))
    assert answered(await say(api, page, "allow"))["code"]
    assert await consents.acount() == 1


async def test_two_browsers_finish_at_the_same_moment(api: httpx.AsyncClient, party: Party, member: Member) -> None:
    """However many pages answer at once, one code is made."""
    sent = await pushed(api, party)
    pages = []
    for opened_after_s in range(4):
        with clock.shifted(opened_after_s):
            pages.append(await api.get(AUTHORIZE, params=sent))
    answers = await asyncio.gather(*(by_password(api, page, member["email"]) for page in pages))
    assert sorted(answer.status_code for answer in answers) == [303, 400, 400, 400]
    assert await AuthorizationCode.objects.acount() == 1


async def test_bound_to_its_client(api: httpx.AsyncClient, party: Party) -> None:
    """Another client's name makes it no use, and does not use it up."""
    sent = await pushed(api, party)
    other, _ = await sync_to_async(make_client)()
    assert is_page(await api.get(AUTHORIZE, params={**sent, "client_id": str(other.pk)}), 400)
    assert is_page(await api.get(AUTHORIZE, params=sent), 200, "Password")


@pytest.mark.parametrize(("after", "status"), [(89, 200), (90, 400)])
async def test_ninety_seconds(
    api: httpx.AsyncClient, party: Party, still_clock: float, after: int, status: int
) -> None:
    """It is good for 90 seconds."""
    sent = await pushed(api, party)
    with clock.shifted(after):
        assert is_page(await api.get(AUTHORIZE, params=sent), status)


async def test_handles_nobody_was_given(api: httpx.AsyncClient, party: Party) -> None:
    """An unknown handle is a page, twice the same parameter too; one that is a URL is refused at the client."""
    name = str(party[0].pk)
    assert is_page(await api.get(AUTHORIZE, params={"client_id": name, "request_uri": pushed_requests.PREFIX}), 400)
    sent = await pushed(api, party)
    twice = httpx.QueryParams([*sent.items(), ("request_uri", sent["request_uri"])])
    assert is_page(await api.get(f"{AUTHORIZE}?{twice}"), 400)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"redirect_uri": "https://evil.example/"}, "invalid_request"),
        ({"redirect_uri": None}, "invalid_request"),
        ({"request_uri": "urn:ietf:params:oauth:request_uri:x"}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"scope": "root"}, "invalid_scope"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"request": "eyJ"}, "request_not_supported"),
        ({"id_token_hint": "x.y.z"}, "invalid_request"),
        ({"nonce": "\x00"}, "invalid_request"),
        ({"state": "x" * 8_001}, "invalid_request"),
    ],
)
async def test_errors(api: httpx.AsyncClient, party: Party, changes: dict[str, str | None], error: str) -> None:
    """What /oauth/authorize would refuse is refused at once, as JSON, and nothing is stored."""
    answer = await push(api, party, **changes)
    assert (answer.status_code, answer.json()["error"]) == (400, error)
    assert not await PushedRequest.objects.aexists()


async def test_scopes_a_client_may_not_have_are_ignored(api: httpx.AsyncClient, party: Party, member: Member) -> None:
    """A pushed request gets what is left of its scope, as one by the browser does."""
    sent = await pushed(api, party, scope="openid root account")
    answered(await by_password(api, await api.get(AUTHORIZE, params=sent), member["email"]))
    assert (await AuthorizationCode.objects.aget()).scope == "openid"


async def test_who_may_push(api: httpx.AsyncClient, party: Party) -> None:
    """The client itself: with its secret, a public one by name; nobody with a wrong one, nor for another client."""
    assert (await push(api, (party[0], "wrong"))).status_code == 401
    assert (await api.post(PAR, data=request_of(party[0]))).status_code == 401
    public = await sync_to_async(make_public_client)(redirect_uris=["https://app.example.com/callback"])
    assert (await api.post(PAR, data=request_of(public))).status_code == 201
    as_other: Any = httpx.BasicAuth(str(party[0].pk), party[1])
    answer = await api.post(PAR, data=request_of(public), auth=as_other)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert (await api.get(PAR)).status_code == 405


async def test_what_cannot_be_stored_or_answered(api: httpx.AsyncClient, party: Party) -> None:
    """Control characters in a name; and more than 8,000 bytes as a browser sends them: the answer repeats the state."""
    answer = await api.post(PAR, data={**request_of(party[0], client_secret=party[1]), "x\0": "1"})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert (await push(api, party, state="é" * 1_000)).status_code == 201
    assert (await push(api, party, state="é" * 1_300)).status_code == 400


async def test_public_clients_are_counted_by_address(api: httpx.AsyncClient, throttled: None, settings: Any) -> None:
    """Anybody can name a public client: after so many, 429 and nothing stored. Who has a secret is not counted."""
    settings.IRONAUTH_THROTTLE_BAD_REFRESHES = 5
    public, party = await sync_to_async(make_public_client)(), await sync_to_async(make_client)()
    answers = [await api.post(PAR, data=request_of(public)) for _ in range(7)]
    assert [answer.status_code for answer in answers] == [201] * 5 + [429] * 2
    assert answers[-1].json()["error"] == "temporarily_unavailable"
    assert int(answers[-1].headers["retry-after"]) > 0
    assert await PushedRequest.objects.acount() == 5
    for _ in range(6):
        assert (await push(api, party)).status_code == 201
    elsewhere = await sync_to_async(make_public_client)(name="Paint")
    assert (await api.post(PAR, data=request_of(elsewhere))).status_code == 429
