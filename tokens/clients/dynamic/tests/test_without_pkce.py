"""Clients that register themselves and cannot send PKCE: by a setting, and with a secret or a key alone."""

from typing import Any

import httpx
import pytest
from pytest_django import Settings

from ironauth.infrastructure.core import clock
from tokens.clients.dynamic.tests.test_registration import CALLBACK, REGISTER, bearer, registered
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import ED25519_JWK

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("rs256_key")]

AUTHORIZE = "/oauth/authorize"
KEY = {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [ED25519_JWK]}}
SECRET = {"token_endpoint_auth_method": "client_secret_basic"}
POST = {"token_endpoint_auth_method": "client_secret_post"}
PUBLIC = {"token_endpoint_auth_method": "none"}
OIDC, AGENT = ("oidc", False), ("agent", True)


@pytest.fixture(autouse=True)
def opened(settings: Settings) -> None:
    """Registration open to anybody, and PKCE left to those who keep a secret or a key."""
    settings.IRONAUTH_REGISTRATION = "open"
    settings.IRONAUTH_REGISTRATION_WITHOUT_PKCE = True


async def rules_of(told: dict[str, Any]) -> tuple[str, bool]:
    """Return the profile of a client, and whether it has to send PKCE."""
    row = await OAuthClient.objects.aget(pk=told["client_id"])
    return row.profile, row.require_pkce


async def changed(api: httpx.AsyncClient, told: dict[str, Any], **said: Any) -> httpx.Response:
    """Have a client describe itself anew."""
    put = {"client_id": told["client_id"], "client_name": "Agent", "redirect_uris": [CALLBACK], **said}
    return await api.put(told["registration_client_uri"], json=put, headers=bearer(told["registration_access_token"]))


async def asks_without(api: httpx.AsyncClient, told: dict[str, Any]) -> bool:
    """Return whether a request without PKCE gets people to a page, and is not sent back."""
    asked = {"client_id": told["client_id"], "redirect_uri": CALLBACK, "response_type": "code", "scope": "openid"}
    answer = await api.get(AUTHORIZE, params=asked)
    if answer.status_code == 200:
        return True
    assert "error=invalid_request" in answer.headers["location"]
    return False


@pytest.mark.parametrize("said", [SECRET, POST, KEY])
async def test_who_keeps_a_secret_or_a_key(api: httpx.AsyncClient, settings: Settings, said: dict[str, Any]) -> None:
    """With the setting it may do without; without it, it may not."""
    told = await registered(api, **said)
    assert await rules_of(told) == OIDC
    assert await asks_without(api, told)
    settings.IRONAUTH_REGISTRATION_WITHOUT_PKCE = False
    other = await registered(api, **said)
    assert await rules_of(other) == AGENT
    assert not await asks_without(api, other)


async def test_who_keeps_none(api: httpx.AsyncClient) -> None:
    """A public client has nothing but PKCE."""
    told = await registered(api, **PUBLIC)
    assert await rules_of(told) == AGENT
    assert not await asks_without(api, told)


async def test_it_gets_nothing_else(api: httpx.AsyncClient) -> None:
    """It is a stranger's as before: unverified, not trusted, without a grant that needs no person."""
    told = await registered(api, **SECRET, grant_types=["authorization_code", "client_credentials"])
    row = await OAuthClient.objects.aget(pk=told["client_id"])
    assert (row.is_unverified, row.trusted, row.administers, row.resource_server) == (True, False, False, False)
    assert row.grants == ["authorization_code"]


async def test_it_changes_with_how_it_proves_who_it_is(api: httpx.AsyncClient, settings: Settings) -> None:
    """A client that gives up its secret needs PKCE from then on, and one that gets a secret does not."""
    told = await registered(api, **SECRET)
    for said, rules in ((PUBLIC, AGENT), (SECRET, OIDC), (KEY, OIDC)):
        assert (await changed(api, told, **said)).status_code == 200
        assert await rules_of(told) == rules
    settings.IRONAUTH_REGISTRATION_WITHOUT_PKCE = False
    assert (await changed(api, told, **KEY)).status_code == 200
    assert await rules_of(told) == AGENT


@pytest.mark.parametrize("profile", ["oauth2.1", "agent"])
async def test_what_staff_have_said_stays(api: httpx.AsyncClient, profile: str) -> None:
    """A client that staff have looked at keeps the profile that they left it."""
    told = await registered(api, **SECRET)
    rows = OAuthClient.objects.filter(pk=told["client_id"])
    await rows.aupdate(profile=profile, require_pkce=True, verified_at=clock.now())
    assert (await changed(api, told, **SECRET, scope="openid")).status_code == 200
    assert await rules_of(told) == (profile, True)


async def test_a_profile_of_staff_stays(api: httpx.AsyncClient) -> None:
    """Also where they have not verified it."""
    told = await registered(api, **SECRET)
    await OAuthClient.objects.filter(pk=told["client_id"]).aupdate(profile="oauth2.1", require_pkce=True)
    assert (await changed(api, told, **SECRET)).status_code == 200
    assert await rules_of(told) == ("oauth2.1", True)


async def test_a_public_client_is_refused_the_profile(api: httpx.AsyncClient) -> None:
    """One of the profile oidc that staff have verified cannot give up its secret, and keep doing without PKCE."""
    told = await registered(api, **SECRET)
    await OAuthClient.objects.filter(pk=told["client_id"]).aupdate(verified_at=clock.now())
    answer = await changed(api, told, **PUBLIC)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client_metadata")
    assert await rules_of(told) == OIDC


async def test_registering_names_no_profile(api: httpx.AsyncClient, settings: Settings) -> None:
    """What a client says of its own rules counts for nothing."""
    settings.IRONAUTH_REGISTRATION_WITHOUT_PKCE = False
    said = {"redirect_uris": [CALLBACK], **SECRET, "profile": "oidc", "require_pkce": False}
    answer = await api.post(REGISTER, json=said)
    assert answer.status_code == 201
    assert await rules_of(answer.json()) == AGENT
