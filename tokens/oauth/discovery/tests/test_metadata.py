"""What clients configure themselves by: it tells the truth, all of it."""

import re

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.test import override_settings
from django.urls import URLPattern, URLResolver, include, path
from pytest_django import Settings

from tokens.keys.key_set import Family
from tokens.keys.store import key_store
from tokens.keys.units import create_first_keys
from tokens.oauth import urls as oauth_urls
from tokens.oauth.discovery import metadata
from tokens.oauth.tests.flow import TOKEN, Party
from tokens.oauth.token.tests.test_token_code import said

pytestmark = [pytest.mark.django_db(transaction=True)]

OPENID = "/.well-known/openid-configuration"
OAUTH = "/.well-known/oauth-authorization-server"
#: Endpoints that people's browsers visit, and pages under them: no client calls them by an address of its own.
PAGES = frozenset(
    {
        "account",
        "account-session",
        "code",
        "consent",
        "device",
        "logo",
        "signin",
        "signin-code",
        "signin-email",
        "signin-passkey",
        "signup",
    }
)
PAGES |= {
    "continue",
    "forgot",
    "verify",
    "verify-again",
    "reset",
    "signin-link",
    "terms",
    "upstream",
    "upstream-callback",
    "upstream-logout",
}


async def test_two_names(api: httpx.AsyncClient, signing_key: str) -> None:
    """Both documents are the same public JSON, which pages of any origin may read and everybody keep for a while."""
    first, second = await api.get(OPENID), await api.get(OAUTH)
    assert first.content == second.content
    for answer in (first, second):
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "public, max-age=300"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "pragma" not in answer.headers


async def test_required_members(api: httpx.AsyncClient, signing_key: str) -> None:
    """What Discovery §3 and RFC 8414 §2 require, with the issuer byte for byte as tokens name it."""
    found = (await api.get(OPENID)).json()
    assert found["issuer"] == settings.IRONAUTH_ISSUER
    assert found["response_types_supported"] == ["code"]
    assert found["subject_types_supported"] == ["public", "pairwise"]
    assert found["id_token_signing_alg_values_supported"] == ["EdDSA"]
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["request_uri_parameter_supported"] is False
    assert found["authorization_response_iss_parameter_supported"] is True
    assert {"openid", "profile", "email", "roles", "offline_access"} <= set(found["scopes_supported"])
    assert {"authorization_code", "refresh_token", "client_credentials"} <= set(found["grant_types_supported"])
    assert not {"implicit", "password"} & set(found["grant_types_supported"])
    assert {"sub", "email", "auth_time"} < set(found["claims_supported"])


async def test_every_endpoint_that_is_named_is_there(api: httpx.AsyncClient, signing_key: str) -> None:
    """No advertised address is a 404, and each begins with the issuer."""
    found = (await api.get(OPENID)).json()
    addresses = {name: value for name, value in found.items() if name in metadata.ENDPOINTS}
    assert {"token_endpoint", "userinfo_endpoint", "jwks_uri"} <= addresses.keys()
    for address in addresses.values():
        assert address.startswith(f"{settings.IRONAUTH_ISSUER}/")
        answer = await api.get(address.removeprefix(settings.IRONAUTH_ISSUER))
        assert answer.status_code not in {404, 500}


def test_every_endpoint_that_is_there_is_named() -> None:
    """Anybody who adds an endpoint for clients has to name it, or to say here that it is a page."""
    named = {*metadata.ENDPOINTS.values(), metadata.REGISTRATION_PATH, f"{metadata.REGISTRATION_PATH}/<uuid:client_id>"}
    for pattern in oauth_urls.urlpatterns:
        assert pattern.name in PAGES or f"/oauth/{pattern.pattern}" in named


async def test_what_is_not_there_is_not_named(api: httpx.AsyncClient, signing_key: str) -> None:
    """An endpoint appears with its route."""
    token = [pattern for pattern in oauth_urls.urlpatterns if pattern.name == "token"]
    routes: list[URLPattern | URLResolver] = [path("oauth/", include((token, "oauth")))]
    with override_settings(ROOT_URLCONF=tuple(routes)):
        found = metadata.metadata(("EdDSA",))
    assert set(metadata.ENDPOINTS) & set(found) == {"token_endpoint"}


async def test_algorithms(api: httpx.AsyncClient, signing_key: str) -> None:
    """Algorithms are those there are keys for, so that RS256 is named from the moment it can be used."""
    await sync_to_async(create_first_keys)(Family.RS256)
    key_store().forget()
    found = (await api.get(OPENID)).json()
    assert found["id_token_signing_alg_values_supported"] == ["EdDSA", "RS256"]
    published = (await api.get("/.well-known/jwks.json")).json()["keys"]
    assert {key["alg"] for key in published} == {"EdDSA", "RS256"}


@pytest.mark.parametrize("alg", ["EdDSA", "Ed25519"])
async def test_the_name_of_the_algorithm(api: httpx.AsyncClient, transactional_db: None, alg: str) -> None:
    """Discovery and keys call Ed25519 by the one name that the setting says (security-bar 34)."""
    with override_settings(IRONAUTH_JWT_ALG=alg):
        await sync_to_async(create_first_keys)()
        assert (await api.get(OPENID)).json()["id_token_signing_alg_values_supported"] == [alg]
        assert {key["alg"] for key in (await api.get("/.well-known/jwks.json")).json()["keys"]} == {alg}


async def test_only_get(api: httpx.AsyncClient, signing_key: str) -> None:
    """The metadata are read, and nothing else."""
    assert (await api.post(OPENID)).status_code == 405
    assert (await api.options(OPENID)).headers["allow"] == "GET, HEAD, OPTIONS"


async def test_the_api_says_who_gives_tokens_for_it(api: httpx.AsyncClient, signing_key: str) -> None:
    """Its 401 names a document (RFC 9728), whose resource is that of the address, and which names this server."""
    for headers in ({}, {"Authorization": "Bearer a.b.c"}):
        refused = await api.get("/api/v1/access/me", headers=headers)
        assert refused.status_code == 401
        (named,) = re.findall(r'resource_metadata="([^"]*)"', refused.headers["www-authenticate"])
        assert named == f"{settings.IRONAUTH_ISSUER}/.well-known/oauth-protected-resource"
    answer = await api.get("/.well-known/oauth-protected-resource")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["access-control-allow-origin"] == "*"
    found = answer.json()
    assert found["resource"] == settings.IRONAUTH_ISSUER
    assert found["authorization_servers"] == [settings.IRONAUTH_ISSUER]
    assert {"openid", "account", "users:read"} <= set(found["scopes_supported"])
    assert found["bearer_methods_supported"] == ["header"]
    assert (await api.get(OAUTH)).json()["protected_resources"] == [found["resource"]]


async def test_the_resource_of_the_api_is_its_audience(
    api: httpx.AsyncClient, robot: Party, settings: Settings
) -> None:
    """Whatever that is called: a token for the named resource has IRONAUTH_AUDIENCE."""
    settings.IRONAUTH_AUDIENCE = "our-api"
    found = (await api.get("/.well-known/oauth-protected-resource")).json()
    for resource in (found["resource"], f"{found['resource']}/"):
        answer = await robot.post(TOKEN, grant_type="client_credentials", resource=resource)
        assert said(answer.json()["access_token"])["aud"] == "our-api"
