"""FAPI 2.0 Message Signing, by the names of the foundation's modules (``fapi2-message-signing-…``)."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from ironauth.infrastructure.core import clock
from tokens.clients.models import OAuthClient
from tokens.oauth.signed.responses import INTROSPECTION_MEDIA, INTROSPECTION_TYPE, RESPONSE_TYPE
from tokens.oauth.signed.tests.material import (
    PAR,
    STRANGER,
    asserted,
    claims_of,
    make_bank,
    opened,
    push,
    read,
    redeemed,
    request_object,
    signed,
)
from tokens.oauth.tests.material import REDIRECT_URI
from tokens.oauth.tests.proofs import ISSUER
from tokens.oauth.tests.walk import AUTHORIZE, VERIFIER, answered, by_password, form_to, request_of, send
from tokens.tests.browser import Member

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning"),
]
Make = Callable[[OAuthClient], str]


@pytest.fixture
async def bank(signing_key: str) -> OAuthClient:
    """The client that the plan registers, with the claims in its ID token that the plan reads there."""
    return await sync_to_async(make_bank)()


def now(seconds: float = 0) -> int:
    """Return a moment in unix seconds."""
    return int(clock.unix() + seconds)


def unsigned(client: OAuthClient) -> str:
    """Return an object by ``none``, with a signature's letters behind it."""
    return f"eyJhbGciOiJub25lIn0.{request_object(client).split('.')[1]}."


def with_claims(**changes: Any) -> Make:
    """Return what makes an object with these claims changed."""
    return lambda client: request_object(client, **changes)


#: By module, an object that has to be refused as ``invalid_request_object``.
REFUSED: dict[str, Make] = {
    "ensure-request-object-signature-algorithm-is-not-none": unsigned,
    "ensure-request-object-with-invalid-signature-fails": lambda client: signed(claims_of(client), key=STRANGER),
    "ensure-signed-request-object-with-RS256-fails": lambda client: signed(claims_of(client), alg="RS256"),
    "ensure-request-object-without-exp-fails": with_claims(exp=None),
    "ensure-request-object-without-nbf-fails": with_claims(nbf=None),
    "ensure-request-object-with-bad-aud-fails": with_claims(aud="https://invalid.example/"),
    "par-endpoint-as-audience-of-request-object-fails": with_claims(aud=f"{ISSUER}{PAR}"),
    "ensure-request-object-with-expired-exp-fails": lambda client: request_object(client, nbf=now(-60), exp=now(-5)),
    "ensure-request-object-with-exp-over-60-fails": lambda client: request_object(client, exp=now(4_200)),
    "ensure-request-object-with-nbf-over-60-fails": lambda client: request_object(client, nbf=now(-4_200)),
    "ensure-request-object-with-nbf-in-the-future-fails": lambda client: request_object(client, nbf=now(120)),
    "ensure-matching-client-id-in-request-object": with_claims(client_id="invalid"),
    "request-object-with-request-uri-inside-fails": with_claims(request_uri="https://app.example.com/r"),
}
#: By module, an object that has to be taken.
TAKEN: dict[str, Make] = {
    "ensure-request-object-with-multiple-aud-succeeds": with_claims(aud=[ISSUER, "https://other.example/"]),
    "ensure-request-object-with-nbf-8-seconds-in-the-future-is-accepted": lambda client: request_object(
        client, nbf=now(8)
    ),
    "ensure-request-object-with-long-nonce": with_claims(nonce="n" * 384),
    "ensure-request-object-with-long-state": with_claims(state="s" * 1_000),
    "ensure-authorization-request-without-state-success": with_claims(state=None),
    "ensure-authorization-request-without-nonce-success": with_claims(nonce=None),
}


@pytest.mark.parametrize("module", REFUSED)
async def test_refused(api: httpx.AsyncClient, bank: OAuthClient, module: str) -> None:
    """The object is refused where it is pushed."""
    answer = await push(api, bank, REFUSED[module](bank))
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request_object"), answer.text


@pytest.mark.parametrize("module", TAKEN)
async def test_taken(api: httpx.AsyncClient, bank: OAuthClient, member: Member, module: str) -> None:
    """The object is taken, and leads to a code."""
    page = await opened(api, bank, await push(api, bank, TAKEN[module](bank)))
    assert answered(await by_password(api, page, member["email"]))["code"]


@pytest.mark.parametrize("mode", ["", "jwt", "query.jwt", "form_post.jwt"])
async def test_happy_flow(api: httpx.AsyncClient, bank: OAuthClient, member: Member, mode: str) -> None:
    """From the signed request by the answer, signed or not, to bound tokens and what a signed introspection says."""
    text = request_object(bank, scope="openid profile offline_access", response_mode=mode or None)
    page = await opened(api, bank, await push(api, bank, text))
    answer = await by_password(api, page, member["email"])
    told: dict[str, Any] = form_to(answer, REDIRECT_URI).fields if mode == "form_post.jwt" else answered(answer)
    if mode:
        told = await read(api, told["response"], typ=RESPONSE_TYPE)
        assert told["aud"] == str(bank.pk)
    assert (told["iss"], told["state"]) == (ISSUER, "st&te=1 é")
    tokens = (await redeemed(api, bank, told["code"], VERIFIER)).json()
    assert tokens["token_type"] == "DPoP"
    assert tokens["id_token"]
    asked = {**asserted(bank), "token": tokens["access_token"]}
    found = await api.post("/oauth/introspect", data=asked, headers={"Accept": INTROSPECTION_MEDIA})
    inside = (await read(api, found.text, typ=INTROSPECTION_TYPE))["token_introspection"]
    assert (inside["active"], inside["client_id"], bool(inside["cnf"]["jkt"])) == (True, str(bank.pk), True)


async def test_user_rejects_authentication(api: httpx.AsyncClient, signing_key: str, member: Member) -> None:
    """The no of the person is told in a signed answer."""
    bank = await sync_to_async(make_bank)(trusted=False)
    page = await opened(api, bank, await push(api, bank, request_object(bank, response_mode="jwt")))
    page = await by_password(api, page, member["email"])
    told = answered(await send(api, page, "/oauth/consent", decision="deny"))
    claims = await read(api, told["response"], typ=RESPONSE_TYPE)
    assert (claims["error"], claims["state"]) == ("access_denied", "st&te=1 é")


@pytest.mark.parametrize("name", ["state", "nonce"])
async def test_different_inside_and_outside(
    api: httpx.AsyncClient, bank: OAuthClient, member: Member, name: str
) -> None:
    """``ensure-different-state-inside-and-outside-request-object``, and the same for nonce: what is inside counts."""
    pushed = await push(api, bank, request_object(bank), **{name: "outside"})
    told = answered(await by_password(api, await opened(api, bank, pushed, **{name: "outside"}), member["email"]))
    assert told["state"] == "st&te=1 é"


async def test_state_only_outside_request_object_not_used(
    api: httpx.AsyncClient, bank: OAuthClient, member: Member
) -> None:
    """A state that nobody has signed is not given back."""
    pushed = await push(api, bank, request_object(bank, state=None), state="outside")
    told = answered(await by_password(api, await opened(api, bank, pushed, state="outside"), member["email"]))
    assert "state" not in told


async def test_ensure_unsigned_request_at_par_endpoint_fails(api: httpx.AsyncClient, bank: OAuthClient) -> None:
    """Parameters that nobody has signed are refused."""
    answer = await api.post(PAR, data={**asserted(bank), **request_of(bank)})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_ensure_signed_request_without_par_fails(api: httpx.AsyncClient, bank: OAuthClient) -> None:
    """A signed request in the address does not stand in for a pushed one."""
    told = answered(await api.get(AUTHORIZE, params={"client_id": str(bank.pk), "request": request_object(bank)}))
    assert told["error"] == "invalid_request"


async def test_ensure_request_object_with_duplicate_parameters(api: httpx.AsyncClient, bank: OAuthClient) -> None:
    """``par-without-duplicate-parameters``: what an object says need not stand outside as well."""
    assert (await push(api, bank, request_object(bank))).status_code == 201


async def test_discovery_endpoint_verification(api: httpx.AsyncClient, signing_key: str) -> None:
    """The metadata name what is supported, and never ``none``."""
    found = (await api.get("/.well-known/openid-configuration")).json()
    assert found["request_parameter_supported"] is True
    assert found["request_uri_parameter_supported"] is False
    assert found["require_signed_request_object"] is False
    assert found["request_object_signing_alg_values_supported"] == ["PS256", "ES256", "EdDSA", "RS256"]
    assert {"jwt", "query.jwt", "form_post.jwt"} <= set(found["response_modes_supported"])
    for which in ("authorization", "introspection"):
        assert found[f"{which}_signing_alg_values_supported"] == found["id_token_signing_alg_values_supported"]
        assert "none" not in found[f"{which}_signing_alg_values_supported"]
