"""Each kind of old system: what it is asked, and what its answers mean."""

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from accounts.lazy_migration import asking
from accounts.lazy_migration.asking import NotAskedError
from accounts.lazy_migration.kinds.registry import KINDS
from accounts.lazy_migration.tests.old_system import EMAIL, PASSWORD, Asked, OldSystem, Said, person
from accounts.transfer.records import Person
from accounts.transfer.sources.registry import SOURCES
from ironauth.config.lazy_migration import KINDS as CONFIGURED
from ironauth.infrastructure.threads.circuit_breaker import Breaker

CLAIMS = {"sub": "auth0|42", "email": EMAIL, "email_verified": True, "given_name": "Ann", "family_name": "Lee"}
TOKEN = {"access_token": "the token", "token_type": "Bearer", "expires_in": 300}
ATTRIBUTES = {"sub": "42", "email": EMAIL, "email_verified": "true", "name": "Ann Lee"}
RIGHT: dict[str, Any] = {
    "InitiateAuth": {"AuthenticationResult": {"AccessToken": "the token"}},
    "GetUser": {"Username": "x", "UserAttributes": [{"Name": n, "Value": v} for n, v in ATTRIBUTES.items()]},
}

Configure = Callable[..., None]


@pytest.fixture
def configure(settings: Settings, old_system: OldSystem) -> Configure:
    """Return what sets a kind, its path and its client."""

    def configured(kind: str, path: str = "", secret: str = "a secret", realm: str = "") -> None:
        settings.IRONAUTH_LAZY_MIGRATION = kind
        settings.IRONAUTH_LAZY_MIGRATION_URL = old_system.url + path
        settings.IRONAUTH_LAZY_MIGRATION_CLIENT_ID = "ironauth"
        settings.IRONAUTH_LAZY_MIGRATION_SECRET = secret
        settings.IRONAUTH_LAZY_MIGRATION_REALM = realm

    return configured


async def ask(email: str = EMAIL, password: str = PASSWORD) -> Person | None:
    """Ask for somebody, within 10 s."""
    return await asking.ask(email=email, password=password, until=time.monotonic() + 10)


def test_each_kind_can_be_configured() -> None:
    """The settings know the kinds that there are, and each names a source of ``import_users``."""
    assert set(CONFIGURED) == {"off", *KINDS}
    assert {kind.source for kind in KINDS.values()} <= set(SOURCES)


# ---------------------------------------------------------------- an endpoint
async def test_an_endpoint_gets_address_and_password(old_system: OldSystem, configure: Configure) -> None:
    """As JSON, with the secret as bearer token; without a secret, without one."""
    configure("endpoint", "/check")
    found = await ask()
    assert found is not None
    assert (found.external_id, found.email, found.name, found.email_verified) == ("42", EMAIL, "Ann Lee", True)
    configure("endpoint", "/check", secret="")
    await ask()
    first, second = old_system.requests
    assert (first.method, first.path, first.json()) == ("POST", "/check", {"email": EMAIL, "password": PASSWORD})
    assert first.headers["Authorization"] == "Bearer a secret"
    assert "Authorization" not in second.headers


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_an_endpoint_refuses(status: int, old_system: OldSystem, configure: Configure) -> None:
    """By its status alone, whatever the body is."""
    configure("endpoint", "/check")
    old_system.answers = lambda _: Said(status, b"<p>no")
    assert await ask() is None


@pytest.mark.parametrize(
    "said",
    [
        Said(200, b"no JSON"),
        Said(200, []),
        Said(200, {}),
        Said(200, person(email="no address")),
        Said(200, person(external_id="")),
        Said(200, person(created_at="yesterday")),
        Said(200, person(totp_secret="1")),
        Said(200, b'{"external_id": "1", "external_id": "2"}'),
        Said(400, {}),
        Said(429, {}),
    ],
)
async def test_what_an_endpoint_may_not_say(
    said: Said, old_system: OldSystem, configure: Configure, breaker: Breaker
) -> None:
    """It is no answer, and counts as unusable: the system itself works, and is asked for the next person."""
    configure("endpoint", "/check")
    old_system.answers = lambda _: said
    with pytest.raises(NotAskedError):
        await ask()
    assert (breaker.unusable_answers, breaker.failures) == (1, 0)


# ---------------------------------------------------------------- Keycloak
def keycloak(asked: Asked) -> Said:
    """Answer as a realm of Keycloak 26."""
    if asked.path.endswith("/userinfo"):
        right = asked.headers["Authorization"] == "Bearer the token"
        return Said(200, {**CLAIMS, "sub": "5c8a"}) if right else Said(401, {"error": "invalid_token"})
    form = asked.form()
    if form["client_secret"] != "a secret":
        return Said(401, {"error": "unauthorized_client"})
    if form["password"] != PASSWORD:
        return Said(401, {"error": "invalid_grant", "error_description": "Invalid user credentials"})
    return Said(200, TOKEN)


async def test_keycloak(old_system: OldSystem, configure: Configure) -> None:
    """The password grant, then the claims of the token; a wrong password is a refusal."""
    configure("keycloak", "/realms/shop")
    old_system.answers = keycloak
    found = await ask()
    assert found is not None
    assert (found.external_id, found.email, found.name, found.email_verified) == ("5c8a", EMAIL, "Ann Lee", True)
    granted, told = old_system.requests
    assert granted.path == "/realms/shop/protocol/openid-connect/token"
    assert granted.form() == {
        "grant_type": "password",
        "username": EMAIL,
        "password": PASSWORD,
        "client_id": "ironauth",
        "client_secret": "a secret",
        "scope": "openid profile email",
    }
    assert (told.method, told.path) == ("GET", "/realms/shop/protocol/openid-connect/userinfo")
    assert await ask(password="wrong") is None


async def test_a_public_client_sends_no_secret(old_system: OldSystem, configure: Configure) -> None:
    """Not an empty one either."""
    configure("keycloak", "/realms/shop", secret="")
    old_system.answers = lambda _: Said(401, {"error": "invalid_grant"})
    assert await ask() is None
    assert "client_secret" not in old_system.requests[0].form()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, {"error": "invalid_client"}),
        (400, {"error": "unauthorized_client"}),
        (400, {"error": "unsupported_grant_type"}),
        (401, {}),
        (401, b"<p>no"),
        (200, {}),
        (200, {"access_token": 7}),
        (429, {"error": "too_many"}),
    ],
)
async def test_a_refused_client_is_no_wrong_password(
    status: int, said: Any, old_system: OldSystem, configure: Configure, breaker: Breaker
) -> None:
    """A mistake of the operator's says nothing about the person, and is logged as unusable."""
    configure("keycloak", "/realms/shop")
    old_system.answers = lambda _: Said(status, said)
    with pytest.raises(NotAskedError):
        await ask()
    assert breaker.unusable_answers == 1


# ---------------------------------------------------------------- Auth0
def auth0(asked: Asked) -> Said:
    """Answer as a tenant of Auth0."""
    if asked.path == "/userinfo":
        return Said(200, CLAIMS)
    if asked.form()["password"] != PASSWORD:
        return Said(403, {"error": "invalid_grant", "error_description": "Wrong email or password."})
    return Said(200, TOKEN)


@pytest.mark.parametrize(
    ("realm", "grant"),
    [
        ("", {"grant_type": "password"}),
        ("People", {"grant_type": "http://auth0.com/oauth/grant-type/password-realm", "realm": "People"}),
    ],
)
async def test_auth0(realm: str, grant: dict[str, str], old_system: OldSystem, configure: Configure) -> None:
    """The tenant's default directory, or the connection that is named; then the claims of the token."""
    configure("auth0", realm=realm)
    old_system.answers = auth0
    found = await ask()
    assert found is not None
    assert (found.external_id, found.email, found.name) == ("auth0|42", EMAIL, "Ann Lee")
    granted, told = old_system.requests
    assert (granted.path, told.path) == ("/oauth/token", "/userinfo")
    assert granted.form().items() >= {**grant, "username": EMAIL, "password": PASSWORD}.items()
    assert await ask(password="wrong") is None


@pytest.mark.parametrize(
    ("status", "error"),
    [(403, "mfa_required"), (401, "unauthorized"), (403, "access_denied"), (401, "password_leaked")],
)
async def test_auth0_wants_more(status: int, error: str, old_system: OldSystem, configure: Configure) -> None:
    """A second factor there, a blocked person, an action's refusal: nobody moves by the password alone."""
    configure("auth0")
    old_system.answers = lambda _: Said(status, {"error": error, "mfa_token": "x"})
    assert await ask() is None
    assert len(old_system.requests) == 1


# ---------------------------------------------------------------- Cognito
def cognito(asked: Asked) -> Said:
    """Answer as a user pool of Cognito."""
    name = asked.headers["X-Amz-Target"].rpartition(".")[2]
    if name == "InitiateAuth" and asked.json()["AuthParameters"]["PASSWORD"] != PASSWORD:
        return Said(400, {"__type": "NotAuthorizedException", "message": "Incorrect username or password."})
    return Said(200, RIGHT[name])


async def test_cognito(old_system: OldSystem, configure: Configure) -> None:
    """``InitiateAuth`` with the MAC of the client's secret, then ``GetUser``; a wrong password is a refusal."""
    configure("cognito")
    old_system.answers = cognito
    found = await ask()
    assert found is not None
    assert (found.external_id, found.email, found.name, found.email_verified) == ("42", EMAIL, "Ann Lee", True)
    first, second = old_system.requests
    digest = base64.b64encode(hmac.digest(b"a secret", f"{EMAIL}ironauth".encode(), hashlib.sha256)).decode()
    assert first.json() == {
        "AuthFlow": "USER_PASSWORD_AUTH",
        "ClientId": "ironauth",
        "AuthParameters": {"USERNAME": EMAIL, "PASSWORD": PASSWORD, "SECRET_HASH": digest},
    }
    assert first.headers["X-Amz-Target"] == "AWSCognitoIdentityProviderService.InitiateAuth"
    assert first.headers["Content-Type"] == "application/x-amz-json-1.1"
    assert second.headers["X-Amz-Target"] == "AWSCognitoIdentityProviderService.GetUser"
    assert second.json() == {"AccessToken": "the token"}
    assert await ask(password="wrong") is None
    configure("cognito", secret="")
    await ask()
    assert "SECRET_HASH" not in old_system.requests[-2].json()["AuthParameters"]


@pytest.mark.parametrize(
    "said",
    [
        Said(200, {"ChallengeName": "SOFTWARE_TOKEN_MFA", "Session": "x"}),
        Said(200, {"ChallengeName": "NEW_PASSWORD_REQUIRED", "Session": "x"}),
        Said(400, {"__type": "UserNotFoundException", "message": "User does not exist."}),
        Said(400, {"__type": "com.amazonaws#PasswordResetRequiredException", "message": "Password reset required"}),
        Said(400, {"__type": "UserNotConfirmedException", "message": "User is not confirmed."}),
    ],
)
async def test_cognito_wants_more(said: Said, old_system: OldSystem, configure: Configure) -> None:
    """A challenge, or a person without a password that counts: nobody moves by it."""
    configure("cognito")
    old_system.answers = lambda _: said
    assert await ask() is None


@pytest.mark.parametrize(
    "said",
    [
        Said(400, {"__type": "NotAuthorizedException", "message": "Unable to verify secret hash for client ironauth"}),
        Said(400, {"__type": "InvalidParameterException", "message": "USER_PASSWORD_AUTH flow not enabled"}),
        Said(400, {"__type": "ResourceNotFoundException", "message": "User pool client does not exist."}),
        Said(400, {"__type": "TooManyRequestsException"}),
        Said(400, {}),
        Said(200, {}),
    ],
)
async def test_cognito_refuses_the_client(
    said: Said, old_system: OldSystem, configure: Configure, breaker: Breaker
) -> None:
    """A mistake of the operator's, or too many requests, says nothing about the person."""
    configure("cognito")
    old_system.answers = lambda _: said
    with pytest.raises(NotAskedError):
        await ask()
    assert breaker.unusable_answers == 1
