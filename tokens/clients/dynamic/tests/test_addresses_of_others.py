"""What a client registers by address: its keys, its sector's list, its requests, and what people are shown."""

import json
from typing import Any

import httpx
import pytest
from pytest_django import Settings

from tokens.clients.dynamic import units
from tokens.clients.dynamic.tests.test_registration import BY_ADDRESS, REGISTER, bearer, opened, refused, registered
from tokens.clients.fetched.tests.web import Web, web
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import ED25519_JWK

__all__ = ["opened", "web"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("rs256_key")]

LIST = "https://sector.example.com/list.json"
CALLBACK = "https://app.example.com/cb"
PAIRWISE: dict[str, Any] = {
    "subject_type": "pairwise",
    "sector_identifier_uri": LIST,
    "redirect_uris": [CALLBACK, "https://app.example.org/cb"],
}


async def test_keys_at_an_address(api: httpx.AsyncClient, opened: Settings, web: Web) -> None:
    """They are registered as they are named, and not fetched before they are needed."""
    told = await registered(api, **BY_ADDRESS)
    row = await OAuthClient.objects.aget(pk=told["client_id"])
    assert (told["jwks_uri"], row.jwks_uri, row.jwks) == (BY_ADDRESS["jwks_uri"], BY_ADDRESS["jwks_uri"], None)
    assert not web.asked


async def test_an_address_of_keys_without_use(api: httpx.AsyncClient, opened: Settings) -> None:
    """Libraries name it always: what would be used for nothing is left out, and not repeated."""
    told = await registered(api, jwks_uri=BY_ADDRESS["jwks_uri"])
    assert "jwks_uri" not in told


async def test_replaced(api: httpx.AsyncClient, opened: Settings, web: Web) -> None:
    """A replacement changes each of them, and leaves out what it does not name; a verified client is looked at anew."""
    shown = {"logo_uri": "https://app.example.com/l.png", "policy_uri": "https://app.example.com/p",
             "tos_uri": "https://app.example.com/t", "userinfo_signed_response_alg": "RS256"}  # fmt: skip
    told = await registered(api, **BY_ADDRESS, **shown)
    await OAuthClient.objects.filter(pk=told["client_id"]).aupdate(verified_at="2026-01-01T00:00Z")
    said = {**BY_ADDRESS, "client_id": told["client_id"], "client_name": told["client_name"], **shown,
            "post_logout_redirect_uris": ["https://app.example.com/bye"],
            "grant_types": told["grant_types"]}  # fmt: skip
    headers = bearer(told["registration_access_token"])
    answer = await api.put(told["registration_client_uri"], json=said, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["post_logout_redirect_uris"] == said["post_logout_redirect_uris"]
    assert (await OAuthClient.objects.aget(pk=told["client_id"])).verified_at is None
    for name in ("logo_uri", "policy_uri", "tos_uri", "jwks_uri"):
        await OAuthClient.objects.filter(pk=told["client_id"]).aupdate(verified_at="2026-01-01T00:00Z")
        said[name] += "2"
        answer = await api.put(told["registration_client_uri"], json=said, headers=headers)
        assert answer.json()[name] == said[name]
        assert (await OAuthClient.objects.aget(pk=told["client_id"])).verified_at is None
    bare = {name: said[name] for name in ("client_id", "redirect_uris")}
    answer = await api.put(told["registration_client_uri"], json=bare, headers=headers)
    assert not {*shown, "jwks_uri"} & answer.json().keys()


@pytest.mark.parametrize("more", [[], ["https://other.example.com/cb", 7]])
async def test_a_sector(api: httpx.AsyncClient, opened: Settings, web: Web, more: list[Any]) -> None:
    """The list names every redirect URI: the sector is its host."""
    web.has(LIST, [*PAIRWISE["redirect_uris"], *more])
    told = await registered(api, **PAIRWISE)
    assert told["sector_identifier_uri"] == LIST
    row = await OAuthClient.objects.aget(pk=told["client_id"])
    assert (row.sector, web.asked) == ("sector.example.com", [LIST])


@pytest.mark.parametrize(
    "listed",
    [[], [CALLBACK], [CALLBACK, "https://app.example.org/cb/"], {"uris": PAIRWISE["redirect_uris"]}, None, "x"],
)
async def test_a_list_without_the_client(api: httpx.AsyncClient, opened: Settings, web: Web, listed: Any) -> None:
    """One address that is missing, something else than a list, or no answer: nothing is registered."""
    if listed is not None:
        web.has(LIST, listed)
    answer = await api.post(REGISTER, json={"client_name": "Agent", **PAIRWISE})
    assert refused(answer, 400, "invalid_client_metadata")
    assert await OAuthClient.objects.acount() == 0


async def test_a_list_of_a_public_client(api: httpx.AsyncClient, opened: Settings, web: Web) -> None:
    """It has to name its addresses all the same (Registration §5); its subjects stay public."""
    said = {**PAIRWISE, "subject_type": "public"}
    assert refused(await api.post(REGISTER, json=said), 400, "invalid_client_metadata")
    web.has(LIST, PAIRWISE["redirect_uris"])
    row = await OAuthClient.objects.aget(pk=(await registered(api, **said))["client_id"])
    assert (row.sector, row.subject_type) == ("", "public")


async def test_nothing_is_fetched_for_what_is_refused(api: httpx.AsyncClient, opened: Settings, web: Web) -> None:
    """Neither for other metadata that is bad, nor for a stranger without the token that is needed."""
    web.has(LIST, PAIRWISE["redirect_uris"])
    assert refused(await api.post(REGISTER, json={**PAIRWISE, "client_name": 3}), 400, "invalid_client_metadata")
    opened.IRONAUTH_REGISTRATION = "token"
    answer = await api.post(REGISTER, json=PAIRWISE, headers=bearer("x"))
    assert refused(answer, 401, "invalid_token")
    assert not web.asked


async def test_a_replaced_sector(api: httpx.AsyncClient, opened: Settings, web: Web) -> None:
    """The list is asked again, for the client alone; one that lacks an address leaves everything as it was."""
    web.has(LIST, PAIRWISE["redirect_uris"])
    told = await registered(api, **PAIRWISE)
    web.asked.clear()
    said = {**PAIRWISE, "client_id": told["client_id"], "redirect_uris": ["https://app.example.net/cb"]}
    where, headers = told["registration_client_uri"], bearer(told["registration_access_token"])
    assert refused(await api.put(where, json=said, headers=bearer("x")), 401, "invalid_token")
    assert not web.asked
    assert refused(await api.put(where, json=said, headers=headers), 400, "invalid_client_metadata")
    row = await OAuthClient.objects.aget(pk=told["client_id"])
    assert row.redirect_uris == PAIRWISE["redirect_uris"]
    web.has(LIST, said["redirect_uris"])
    assert (await api.put(where, json=said, headers=headers)).status_code == 200
    public = {**said, "subject_type": "public", "sector_identifier_uri": None}
    answer = await api.put(where, json=public, headers=headers)
    assert (answer.status_code, answer.json()["subject_type"]) == (200, "public")


async def test_lists_are_counted(
    api: httpx.AsyncClient, opened: Settings, web: Web, throttled: None, settings: Settings
) -> None:
    """A client that replaces its registration has no more fetched than others."""
    settings.IRONAUTH_THROTTLE_REGISTRATIONS = 2
    web.has(LIST, PAIRWISE["redirect_uris"])
    told = await registered(api, **PAIRWISE)
    said = {**PAIRWISE, "client_id": told["client_id"]}
    where, headers = told["registration_client_uri"], bearer(told["registration_access_token"])
    assert [(await api.put(where, json=said, headers=headers)).status_code for _ in range(2)] == [200, 429]


async def test_signed_requests_of_a_client_with_a_secret(
    api: httpx.AsyncClient, opened: Settings, settings: Settings
) -> None:
    """Its keys are for its requests then; by address where that is switched on."""
    settings.IRONAUTH_REQUEST_URIS = True
    said = {"token_endpoint_auth_method": "client_secret_basic", "redirect_uris": [CALLBACK],
            "request_object_signing_alg": "EdDSA", "request_uris": [f"{CALLBACK}#{"x" * 43}"]}  # fmt: skip
    told = await registered(api, **said, jwks={"keys": [ED25519_JWK]})
    assert {name: told[name] for name in said} == said
    row = await OAuthClient.objects.aget(pk=told["client_id"])
    assert row.jwks == {"keys": [json.loads(json.dumps(ED25519_JWK))]}


@pytest.mark.parametrize(
    "uri", ["http://app.example.com/x", "javascript:alert(1)", "data:text/html,x", "https://", "x"]
)
async def test_what_cannot_be_shown(api: httpx.AsyncClient, opened: Settings, uri: str) -> None:
    """A logo or a text at such an address is left out, and not repeated; the client goes on without."""
    names = ("logo_uri", "policy_uri", "tos_uri")
    told = await registered(api, **dict.fromkeys(names, uri))
    assert not told.keys() & {*names}
    row = await OAuthClient.objects.aget(pk=told["client_id"])
    assert [getattr(row, name) for name in names] == [""] * 3


async def test_a_logo_of_this_network(api: httpx.AsyncClient, opened: Settings) -> None:
    """It would be fetched from here; a link is opened by people alone."""
    told = await registered(api, logo_uri="https://10.0.0.1/l.png", tos_uri="https://10.0.0.1/t")
    assert ("logo_uri" in told, "tos_uri" in told) == (False, True)


@pytest.mark.parametrize(
    ("on", "said", "status"),
    [
        (False, {"request_uris": [CALLBACK], "request_object_signing_alg": "none"}, 201),
        (True, {"request_uris": [CALLBACK], "request_object_signing_alg": "none"}, 201),
        (True, {"request_object_signing_alg": "none"}, 400),
        (True, {"request_uris": [CALLBACK]}, 201),
        (True, {"request_uris": [CALLBACK] * 2, "request_object_signing_alg": "none"}, 400),
        (True, {"request_uris": [f"{CALLBACK}?{at}" for at in range(50)], "request_object_signing_alg": "none"}, 201),
        (True, {"request_uris": [f"{CALLBACK}?{at}" for at in range(51)], "request_object_signing_alg": "none"}, 400),
        *(
            (True, {"request_uris": [uri], "request_object_signing_alg": "none"}, 400)
            for uri in ("http://a.example/r", "https://10.0.0.1/r", f"{CALLBACK}#a#b", f"{CALLBACK}#", "urn:x", "")
        ),
    ],
)
async def test_addresses_of_requests(
    api: httpx.AsyncClient, opened: Settings, settings: Settings, on: bool, said: dict[str, Any], status: int
) -> None:
    """Each is one that may be fetched; while none is, they are left out."""
    settings.IRONAUTH_REQUEST_URIS = on
    answer = await api.post(REGISTER, json={"redirect_uris": [CALLBACK], **said})
    assert answer.status_code == status, answer.text
    if status == 201:
        assert ("request_uris" in answer.json(), "request_object_signing_alg" in answer.json()) == (on, on)


async def test_a_sector_that_was_left(api: httpx.AsyncClient, opened: Settings, web: Web) -> None:
    """Without the list, or at other addresses, a client is in the sector of its addresses, not of those before."""
    web.has(LIST, PAIRWISE["redirect_uris"])
    told = await registered(api, **PAIRWISE)
    where, headers = told["registration_client_uri"], bearer(told["registration_access_token"])
    said = {"client_id": told["client_id"], "subject_type": "pairwise"}
    for uri, sector in (
        ("https://app.example.org/cb", "app.example.org"),
        ("https://app.example.net/cb", "app.example.net"),
    ):
        answer = await api.put(where, json={**said, "redirect_uris": [uri]}, headers=headers)
        assert answer.status_code == 200, answer.text
        assert (await OAuthClient.objects.aget(pk=told["client_id"])).sector == sector


def test_a_field_of_every_member() -> None:
    """What a replacement may change is compared, each field once: else a change would be lost."""
    assert len(set(units._FIELDS)) == len(units._FIELDS)
    names = {"jwks_uri", "logo_uri", "policy_uri", "tos_uri", "request_uris", "request_object_signing_alg",
             "userinfo_signed_response_alg", "sector_identifier_uri", "sector", "backchannel_logout_uri"}  # fmt: skip
    assert names <= set(units._FIELDS)
