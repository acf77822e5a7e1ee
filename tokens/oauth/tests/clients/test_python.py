"""Libraries of Python: Authlib as its Django integration has it, and requests-oauthlib with PyJWT's key client."""

from typing import Any

import jwt
import pytest
from authlib.integrations.base_client import MismatchingStateError, OAuthError
from authlib.integrations.django_client import OAuth
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from django.http import HttpRequest
from django.test import RequestFactory
from joserfc.errors import JoseError
from oauthlib.oauth2 import InvalidGrantError
from requests_oauthlib import OAuth2Session

from tokens.clients.models import OAuthClient
from tokens.oauth.tests.clients.provider import GONE, Person, Provider
from tokens.oauth.tests.material import REDIRECT_URI

pytestmark = pytest.mark.django_db(transaction=True)

SCOPE = "openid profile email offline_access"


@pytest.fixture(autouse=True)
def _plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the libraries talk to this machine without TLS, which they refuse otherwise."""
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")


async def test_python_libraries(provider: Provider) -> None:
    """Authlib and requests-oauthlib sign in with keys of every kind; one test, as a server's start takes seconds."""
    for alg in OAuthClient.IdTokenAlg:
        await _authlib(provider, await provider.client(id_token_alg=alg))
    await _authlib_is_refused(provider, await provider.client())
    await _requests_oauthlib(provider, await provider.default_client())
    await _requests_oauthlib(provider, await provider.public_client())


async def _authlib(provider: Provider, client: dict[str, str]) -> None:
    """Authlib in a Django application: discovery, PKCE, nonce and ID token, userinfo, refresh, revocation, sign-out."""
    app = _registered(provider, client)
    session: dict[str, Any] = {}
    token = await _signed_in(provider.person, app, session)
    who = app.userinfo(token=token)
    assert (who["sub"], who["email"]) == (token["userinfo"]["sub"], provider.person.email)
    metadata = app.load_server_metadata()
    with AuthlibSession(**client) as http:
        renewed = http.refresh_token(metadata["token_endpoint"], refresh_token=token["refresh_token"])
        assert renewed["refresh_token"] != token["refresh_token"]
        known = http.introspect_token(metadata["introspection_endpoint"], token=renewed["access_token"])
        assert known.json()["active"] is True
        assert http.revoke_token(metadata["revocation_endpoint"], token=renewed["refresh_token"]).status_code == 200
        with pytest.raises(OAuthError, match="invalid_grant"):
            http.refresh_token(metadata["token_endpoint"], refresh_token=renewed["refresh_token"])
    leaving = _in(session)
    url = app.logout_redirect(leaving, post_logout_redirect_uri=GONE, id_token_hint=token["id_token"]).url
    returned = _in(session, await provider.person.visit(url))
    assert app.validate_logout_response(returned)["post_logout_redirect_uri"] == GONE


async def _authlib_is_refused(provider: Provider, client: dict[str, str]) -> None:
    """A person who says no, another session's state, and an ID token that answers another request."""
    app = _registered(provider, client)
    session: dict[str, Any] = {}
    no = app.authorize_redirect(_in(session), REDIRECT_URI, prompt="consent").url
    with pytest.raises(OAuthError, match="access_denied"):
        app.authorize_access_token(_in(session, await provider.person.visit(no, "deny")))
    yes = app.authorize_redirect(_in(session), REDIRECT_URI).url
    callback = await provider.person.visit(yes)
    with pytest.raises(MismatchingStateError):
        app.authorize_access_token(_in({}, callback))
    (kept,) = [value for value in session.values() if value["data"].get("nonce") and value["data"]["url"] == yes]
    kept["data"]["nonce"] = "another"
    with pytest.raises(JoseError, match="nonce"):
        app.authorize_access_token(_in(session, callback))


def _registered(provider: Provider, client: dict[str, str]) -> Any:
    """Register the provider as Authlib's documentation says, knowing nothing but the address of its metadata."""
    return OAuth().register(
        "ironauth",
        **client,
        server_metadata_url=f"{provider.issuer}/.well-known/openid-configuration",
        client_kwargs={"scope": SCOPE, "code_challenge_method": "S256"},
        overwrite=True,
    )


async def _signed_in(person: Person, app: Any, session: dict[str, Any]) -> Any:
    url = app.authorize_redirect(_in(session), REDIRECT_URI).url
    return app.authorize_access_token(_in(session, await person.visit(url)))


def _in(session: dict[str, Any], address: str = "/") -> HttpRequest:
    """Return a request to the application, in one of its own sessions."""
    request = RequestFactory().get(address)
    request.session = session  # type: ignore[assignment]
    return request


async def _requests_oauthlib(provider: Provider, client: dict[str, str]) -> None:
    """requests-oauthlib, which knows no discovery, by the metadata; PyJWT verifies what comes, by the key set."""
    metadata = (await provider.person.browser.get("/.well-known/openid-configuration")).json()
    secret = client.get("client_secret")
    proof = {"client_secret": secret} if secret else {"include_client_id": True}
    http = OAuth2Session(client["client_id"], redirect_uri=REDIRECT_URI, scope=SCOPE.split(), pkce="S256")
    url, _ = http.authorization_url(metadata["authorization_endpoint"], nonce="n-1")
    callback = await provider.person.visit(url)
    token = http.fetch_token(metadata["token_endpoint"], authorization_response=callback, **proof)
    _verified_by_pyjwt(metadata, client["client_id"], token)
    assert http.get(metadata["userinfo_endpoint"]).json()["email"] == provider.person.email
    body = {"client_id": client["client_id"], **({"client_secret": secret} if secret else {})}
    renewed = http.refresh_token(metadata["token_endpoint"], **body)
    assert renewed["refresh_token"] != token["refresh_token"]
    asked = {**body, "token": renewed["refresh_token"]}
    ended = await provider.person.browser.post(metadata["revocation_endpoint"], data=asked)
    assert ended.status_code == 200
    with pytest.raises(InvalidGrantError):
        http.refresh_token(metadata["token_endpoint"], refresh_token=renewed["refresh_token"], **body)


def _verified_by_pyjwt(metadata: dict[str, Any], client_id: str, token: dict[str, Any]) -> None:
    """The ID token is for the client and answers its request, the access token is for the API, and neither is both."""
    keys = jwt.PyJWKClient(metadata["jwks_uri"])
    algorithms = metadata["id_token_signing_alg_values_supported"]

    def read(text: str, audience: str) -> Any:
        key = keys.get_signing_key_from_jwt(text)
        return jwt.decode(text, key, algorithms=algorithms, audience=audience, issuer=metadata["issuer"])

    who = read(token["id_token"], client_id)
    assert who["nonce"] == "n-1"
    assert read(token["access_token"], metadata["issuer"])["sub"] == who["sub"]
    assert jwt.get_unverified_header(token["access_token"])["typ"] == "at+jwt"
    with pytest.raises(jwt.InvalidAudienceError):
        read(token["id_token"], metadata["issuer"])
    with pytest.raises(jwt.InvalidAudienceError):
        read(token["access_token"], client_id)
