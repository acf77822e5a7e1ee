"""Requests that a client keeps at an address: only where it is switched on, registered, and good."""

import json
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from ironauth.infrastructure.core import clock
from tokens.clients.fetched.tests.web import Web, web
from tokens.clients.models import OAuthClient
from tokens.oauth.endpoint import MAX_BYTES
from tokens.oauth.signed.tests import material
from tokens.oauth.signed.tests.material import PAR, STRANGER, signed
from tokens.oauth.tests.flow import basic
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.oauth.tests.walk import AUTHORIZE, answered, by_password, is_page, request_of
from tokens.tests.browser import Member
from tokens.tests.material import b64

__all__ = ["web"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

URL = "https://app.example.com/request.jwt"
HASHED = f"{URL}#{'x' * 43}"
NONE: dict[str, Any] = {"alg": "none"}


@pytest.fixture(autouse=True)
def _on(settings: Settings) -> None:
    settings.IRONAUTH_REQUEST_URIS = True


async def made(**fields: Any) -> OAuthClient:
    return (await sync_to_async(make_client)(trusted=True, request_uris=[URL, HASHED], **fields))[0]


@pytest.fixture
async def plain(signing_key: str) -> OAuthClient:
    """A client whose requests are unsigned."""
    return await made(request_object_signing_alg="none")


@pytest.fixture
async def signer(signing_key: str) -> OAuthClient:
    """A client that signs them."""
    return await made(request_object_signing_alg="ES256", jwks=material.public_keys())


def unsigned(claims: Any, header: Any = NONE, signature: str = "") -> bytes:
    parts = [b64(one if isinstance(one, bytes) else json.dumps(one).encode()) for one in (header, claims)]
    return ".".join([*parts, signature]).encode()


async def link(api: httpx.AsyncClient, client: OAuthClient, uri: str = URL, **beside: str) -> httpx.Response:
    return await api.get(AUTHORIZE, params={"client_id": str(client.pk), "request_uri": uri, **beside})


async def refused(answer: httpx.Response, error: str) -> bool:
    assert answered(answer)["error"] == error
    return True


@pytest.mark.parametrize("uri", [URL, HASHED])
async def test_unsigned(api: httpx.AsyncClient, member: Member, web: Web, plain: OAuthClient, uri: str) -> None:
    """What is there counts, and nothing beside it; it is fetched each time."""
    for state in ("first", "second"):
        web.has(uri, unsigned({**request_of(plain), "state": state}), "text/plain")
        page = await link(api, plain, uri, state="outside", redirect_uri="https://evil.example/", scope="openid email")
        told = answered(await by_password(api, page, member["email"]) if state == "first" else page)
        assert (told["state"], "code" in told) == (state, True)
    assert web.asked == [uri] * 2


async def test_signed(api: httpx.AsyncClient, member: Member, web: Web, signer: OAuthClient) -> None:
    """By the client's key; the claims of a JWT need not be there."""
    web.has(URL, signed(request_of(signer)).encode())
    assert answered(await by_password(api, await link(api, signer), member["email"]))["code"]


async def test_switched_off(api: httpx.AsyncClient, settings: Settings, web: Web, plain: OAuthClient) -> None:
    """As it begins: the client hears it, and nothing is fetched."""
    settings.IRONAUTH_REQUEST_URIS = False
    said = (await api.get("/.well-known/openid-configuration")).json()
    assert said["request_uri_parameter_supported"] is False
    assert "none" not in said["request_object_signing_alg_values_supported"]
    web.has(URL, unsigned(request_of(plain)))
    assert await refused(await link(api, plain, redirect_uri=REDIRECT_URI), "request_uri_not_supported")
    assert is_page(await link(api, plain), 400, "signed request")
    assert not web.asked


@pytest.mark.parametrize(
    "uri", ["", "x", f"{URL}?", f"{URL}/", URL.upper(), f"{URL}#y", "https://127.0.0.1/", "file:///etc/passwd", "urn:x"]
)
async def test_not_registered(api: httpx.AsyncClient, web: Web, plain: OAuthClient, uri: str) -> None:
    """Compared character by character; nothing else is ever fetched, and nobody is led anywhere unregistered."""
    assert await refused(await link(api, plain, uri, redirect_uri=REDIRECT_URI), "invalid_request_uri")
    assert is_page(await link(api, plain, uri, redirect_uri="https://evil.example/"), 400, "")
    assert is_page(await link(api, plain, uri), 400, "signed request")
    assert not web.asked


async def test_of_others(api: httpx.AsyncClient, web: Web, plain: OAuthClient, signing_key: str) -> None:
    """An address is good for the client that has registered it."""
    other = (await sync_to_async(make_client)())[0]
    answer = await link(api, other, redirect_uri=REDIRECT_URI, response_type="code", scope="openid")
    assert await refused(answer, "request_uri_not_supported")
    assert not web.asked


async def test_twice(api: httpx.AsyncClient, web: Web, plain: OAuthClient) -> None:
    """Two addresses, or an object beside one: refused unread."""
    pairs = [("client_id", str(plain.pk)), ("redirect_uri", REDIRECT_URI), ("request_uri", URL)]
    for more in (("request_uri", URL), ("request", "x")):
        assert await refused(await api.get(AUTHORIZE, params=[*pairs, more]), "invalid_request")
    assert not web.asked


@pytest.mark.parametrize(
    "body",
    [
        b"", b"x", b"a.b", b"a.b.c.d", b"\xff\xfe", b"<html>", b"." * 3, "ä".encode(),
        unsigned({}, {"alg": "none"}, "AA"), unsigned({}, {"alg": "ES256"}), unsigned({}, {"alg": "None"}),
        unsigned({}, {}), unsigned([]), unsigned(b"{"), unsigned(b'{"state":"a","state":"b"}'), unsigned({}, []),
        unsigned({"redirect_uri": REDIRECT_URI, "request_uri": URL}), unsigned({"request": "x"}),
        unsigned({"state": True}), unsigned({"state": None}), unsigned({"state": 1.5}), unsigned({"exp": "x"}),
        unsigned({"client_id": "other"}), unsigned({"iss": "other"}), unsigned({"aud": "https://evil.example"}),
        unsigned({"exp": 1}), unsigned({"nbf": 9e12}), unsigned({"iat": 9e12}),
        unsigned({}, {"alg": "none", "typ": "at+jwt"}), unsigned({"state": "x" * MAX_BYTES}),
    ],
)  # fmt: skip
async def test_bad_objects(api: httpx.AsyncClient, web: Web, plain: OAuthClient, body: bytes) -> None:
    """The client hears of it at its address that stands beside; without one, the person does."""
    web.has(URL, body)
    answer = await link(api, plain, redirect_uri=REDIRECT_URI, state="s")
    told = answered(answer)
    assert (told["error"] in ("invalid_request_object", "invalid_request_uri"), told["state"]) == (True, "s")
    assert is_page(await link(api, plain), 400, "signed request")


@pytest.mark.parametrize(
    "address", ["https://evil.example/", f"{REDIRECT_URI}/x", "", "javascript:alert(1)", "//evil.example"]
)
async def test_an_address_inside(api: httpx.AsyncClient, web: Web, plain: OAuthClient, address: str) -> None:
    """Where the answer goes has to be registered, wherever it is named."""
    web.has(URL, unsigned({**request_of(plain), "redirect_uri": address}))
    answer = await link(api, plain, redirect_uri=REDIRECT_URI)
    assert (answer.status_code, "location" in answer.headers) == (400, False)


async def test_signatures_that_are_not_the_clients(api: httpx.AsyncClient, web: Web, signer: OAuthClient) -> None:
    """No signature, another's, and one of before: none is good for a client that signs."""
    claims = request_of(signer)
    now = int(clock.unix())
    for text in (
        unsigned(claims).decode(),
        signed(claims, key=STRANGER),
        signed({**claims, "exp": now - 1}),
        signed({**claims, "aud": "https://other.example"}),
        signed({**claims, "nbf": now - 4_000}),
    ):
        web.has(URL, text.encode())
        answer = await link(api, signer, redirect_uri=REDIRECT_URI)
        assert await refused(answer, "invalid_request_object")


async def test_unsigned_by_value(api: httpx.AsyncClient, web: Web, plain: OAuthClient) -> None:
    """It is taken from the address alone: in a link anybody could have written it."""
    text = unsigned(request_of(plain)).decode()
    answer = await api.get(AUTHORIZE, params={**request_of(plain), "request": text})
    assert await refused(answer, "request_not_supported")


async def test_no_answer(api: httpx.AsyncClient, web: Web, plain: OAuthClient) -> None:
    """Nothing there, and more than an object may have."""
    assert await refused(await link(api, plain, redirect_uri=REDIRECT_URI), "invalid_request_uri")
    web.has(URL, unsigned({"state": "x" * MAX_BYTES}))
    assert await refused(await link(api, plain, redirect_uri=REDIRECT_URI), "invalid_request_uri")


async def test_who_has_to_push(api: httpx.AsyncClient, web: Web, signing_key: str) -> None:
    """A client that pushes its requests has none fetched."""
    client = await made(request_object_signing_alg="none", require_par=True)
    web.has(URL, unsigned(request_of(client)))
    assert await refused(await link(api, client, redirect_uri=REDIRECT_URI), "request_uri_not_supported")
    assert not web.asked


async def test_not_pushed(api: httpx.AsyncClient, web: Web, signing_key: str) -> None:
    """A pushed request names no other one (RFC 9126 §2.1)."""
    client, secret = await sync_to_async(make_client)(request_uris=[URL], request_object_signing_alg="none")
    headers = basic(str(client.pk), secret)
    answer = await api.post(PAR, data={**request_of(client), "request_uri": URL}, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert not web.asked


async def test_counted(
    api: httpx.AsyncClient, web: Web, plain: OAuthClient, settings: Settings, throttled: None
) -> None:
    """One network has this server ask no more often than the limit."""
    settings.IRONAUTH_THROTTLE_PASSKEYS = 2
    web.has(URL, unsigned(request_of(plain)))
    assert [(await link(api, plain)).status_code for _ in range(3)] == [200, 200, 429]
    assert len(web.asked) == 2
