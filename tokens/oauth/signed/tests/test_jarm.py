"""Authorization responses as JWTs (JARM): for one client, for ten minutes, errors too, and nothing beside the JWT."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from ironauth.infrastructure.core import clock
from tokens.access import codec
from tokens.clients import assertion
from tokens.clients.models import OAuthClient
from tokens.clients.registry import find
from tokens.errors import InvalidToken
from tokens.keys.key_set import Family
from tokens.keys.store import key_store
from tokens.keys.units import create_first_keys
from tokens.oauth.signed import request_objects
from tokens.oauth.signed.responses import RESPONSE_TYPE
from tokens.oauth.signed.tests.material import read
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.oauth.tests.walk import (
    ISSUER,
    answered,
    authorize,
    by_password,
    form_to,
    is_page,
    request_of,
    say,
)
from tokens.protocol import TOKEN_PATH
from tokens.tests.browser import Member

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning"),
]
MODES = ["jwt", "query.jwt", "form_post.jwt"]


@pytest.fixture
async def client(signing_key: str) -> OAuthClient:
    """A client whose people are asked."""
    return (await sync_to_async(make_client)())[0]


async def told(api: httpx.AsyncClient, answer: httpx.Response, mode: str) -> dict[str, Any]:
    """Return the claims of the one parameter that the client gets."""
    if mode == "form_post.jwt":
        assert is_page(answer, 200, "form_post.js")
        fields = form_to(answer, REDIRECT_URI).fields
    else:
        fields = answered(answer)
    assert fields.keys() == {"response"}
    return await read(api, fields["response"], typ=RESPONSE_TYPE)


@pytest.mark.parametrize("mode", MODES)
async def test_codes_and_refusals(
    api: httpx.AsyncClient, client: OAuthClient, member: Member, mode: str, still_clock: float
) -> None:
    """A code, a no, and an error before anybody is asked: in one signed parameter, with the state."""
    page = await by_password(api, await authorize(api, client, response_mode=mode), member["email"])
    claims = await told(api, await say(api, page, "allow"), mode)
    assert claims.keys() == {"iss", "aud", "exp", "code", "state"}
    assert (claims["iss"], claims["aud"], claims["state"]) == (ISSUER, str(client.pk), "st&te=1 é")
    assert claims["exp"] == int(clock.unix()) + 600
    page = await authorize(api, client, response_mode=mode, prompt="consent")
    denied = await told(api, await say(api, page, "deny"), mode)
    assert (denied["error"], denied["state"], denied["aud"]) == ("access_denied", "st&te=1 é", str(client.pk))
    for changes, error in (
        ({"scope": "unknown"}, "invalid_scope"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"request": "eyJ"}, "request_not_supported"),
        ({"code_challenge": None}, "invalid_request"),
    ):
        early = await told(api, await authorize(api, client, response_mode=mode, **changes), mode)
        assert (early["error"], early["state"]) == (error, "st&te=1 é")
        assert early["error_description"]


@pytest.mark.parametrize("mode", MODES)
async def test_cookies_of_a_sign_in_stay(api: httpx.AsyncClient, signing_key: str, member: Member, mode: str) -> None:
    """The answer that is signed last has the cookies of the sign-in before it: the next request asks nobody."""
    ours = (await sync_to_async(make_client)(trusted=True))[0]
    first = await by_password(api, await authorize(api, ours, response_mode=mode), member["email"])
    assert (await told(api, first, mode))["code"]
    assert first.headers["cache-control"] == "no-store"
    silent = await told(api, await authorize(api, ours, response_mode=mode, prompt="none"), mode)
    assert silent["code"]


@pytest.mark.parametrize(("family", "alg"), [("ed25519", "EdDSA"), ("ES256", "ES256"), ("RS256", "RS256")])
async def test_the_clients_algorithm(api: httpx.AsyncClient, signing_key: str, family: str, alg: str) -> None:
    """By the client's setting, as ID tokens."""
    if family != "ed25519":
        await sync_to_async(create_first_keys)(Family(family))
        key_store().forget()
    client = (await sync_to_async(make_client)(authorization_signed_response_alg=family))[0]
    answer = answered(await authorize(api, client, response_mode="jwt", prompt="none"))
    assert codec.header_of(answer["response"])["alg"] == alg
    assert (await read(api, answer["response"], typ=RESPONSE_TYPE))["error"] == "login_required"


async def test_a_key_that_is_missing(api: httpx.AsyncClient, signing_key: str) -> None:
    """Nothing goes to the client unsigned: a page says that it does not work now."""
    client = (await sync_to_async(make_client)(authorization_signed_response_alg="ES256"))[0]
    assert is_page(await authorize(api, client, response_mode="jwt", prompt="none"), 503)


@pytest.mark.parametrize("mode", ["fragment", "fragment.jwt", "JWT", "jwt ", "web_message"])
async def test_modes_that_there_are_not(api: httpx.AsyncClient, client: OAuthClient, mode: str) -> None:
    """The error comes by the default mode."""
    assert answered(await authorize(api, client, response_mode=mode))["error"] == "invalid_request"


async def test_a_response_is_no_other_token(api: httpx.AsyncClient, client: OAuthClient, member: Member) -> None:
    """It opens no API, and is no hint of a person (RFC 8725 §3.11)."""
    answer = answered(await authorize(api, client, response_mode="jwt", prompt="none"))
    text = answer["response"]
    opened = await api.get("/api/v1/access/me", headers={"Authorization": f"Bearer {text}"})
    assert opened.status_code == 401
    hinted = answered(await authorize(api, client, id_token_hint=text))
    assert hinted["error"] == "invalid_request"


@pytest.mark.parametrize("prompt", ["none", "consent"])
async def test_a_response_is_nothing_that_its_client_signs(
    api: httpx.AsyncClient, signing_key: str, member: Member, prompt: str
) -> None:
    """A client that has this server's keys as its own cannot be spoken for by what the server tells it."""
    jwks = (await api.get("/.well-known/jwks.json")).json()
    fields = {"auth_method": "private_key_jwt", "jwks": jwks, "request_object_signing_alg": "EdDSA"}
    ours = (await sync_to_async(make_client)(**fields))[0]
    page = await authorize(api, ours, response_mode="jwt", prompt=prompt)
    if prompt == "consent":
        page = await say(api, await by_password(api, page, member["email"]), "allow")
    text = answered(page)["response"]
    assert assertion.is_signed_by(jwks, assertion.read_header(text, types=assertion.TYPES), text)
    found = await find(str(ours.pk))
    assert found is not None
    with pytest.raises(assertion.AssertionRefused, match=r"^claims$"):
        assertion.verified(text, client_id=found.public_id, jwks=jwks, profile=found.rules)
    for by_address, cause in ((False, "claims"), (True, "client")):
        with pytest.raises(InvalidToken) as refused:
            request_objects.parameters_of(text, found, jwks, by_address=by_address)
        assert refused.value.reason == cause
    named = {"client_id": str(ours.pk), "client_assertion_type": assertion.TYPE, "client_assertion": text}
    for path, form in ((TOKEN_PATH, {"grant_type": "client_credentials"}), ("/oauth/par", request_of(ours))):
        answer = await api.post(path, data={**form, **named})
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert answered(await authorize(api, ours, request=text))["error"] == "invalid_request_object"
