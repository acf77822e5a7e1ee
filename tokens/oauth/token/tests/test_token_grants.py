"""The token endpoint's other grants, and what it says to those it does not know."""

import base64
import json
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.audit.models import AuditEvent
from conftest import bearer
from ironauth.infrastructure.core import clock
from tokens.oauth.tests.flow import REVOKE, SCOPE, TOKEN, Party
from tokens.oauth.tests.material import make_client
from tokens.oauth.token.tests.test_token_code import refused, said
from tokens.sessions.models import Session
from tokens.tests.browser import ME, VERIFY

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

Tokens = dict[str, Any]


# ------------------------------------------------------------------ refresh
async def test_refresh_rotates_and_shrinks_one_access_token(wiki: Party, tokens: Tokens) -> None:
    """A smaller scope is the access token's alone; a wider one is refused and changes nothing."""
    less = (await wiki.refresh(tokens["refresh_token"], scope="profile")).json()
    assert list(less) == ["access_token", "token_type", "expires_in", "scope", "refresh_token"]
    assert (less["scope"], said(less["access_token"])["scope"]) == ("profile", "profile")
    for wider in ("profile account", "profile unheard-of", 'pro"file'):
        await refused(await wiki.refresh(less["refresh_token"], scope=wider), "invalid_scope")
    again = (await wiki.refresh(less["refresh_token"])).json()
    assert (again["scope"], again["refresh_token"] != less["refresh_token"]) == (SCOPE, True)
    assert said(again["id_token"])["auth_time"] == said(tokens["id_token"])["auth_time"]


async def test_scope_beyond_the_session_is_refused_by_the_session(wiki: Party, tokens: Tokens) -> None:
    """A scope the client may have, but was not granted here, is invalid_scope; the token stays good."""
    wiki.client.scopes = [*wiki.client.scopes, "roles"]
    await sync_to_async(wiki.client.save)()
    await refused(await wiki.refresh(tokens["refresh_token"], scope="roles"), "invalid_scope")
    assert (await Session.objects.aget(client_id=str(wiki.client.pk))).generation == 0


async def test_scopes_taken_from_the_client_are_gone_with_the_next_refresh(wiki: Party, tokens: Tokens) -> None:
    """Staff take a scope from a client: its sessions have it no longer."""
    wiki.client.scopes = ["openid"]
    await sync_to_async(wiki.client.save)()
    fresh = (await wiki.refresh(tokens["refresh_token"])).json()
    assert fresh["scope"] == "openid"
    await refused(await wiki.refresh(fresh["refresh_token"], scope="email"), "invalid_scope")


async def test_refresh_tokens_are_their_clients(wiki: Party, app: Party, tokens: Tokens) -> None:
    """Another client is told invalid_grant, and the owner's token is none the worse (security-bar 23)."""
    await refused(await app.refresh(tokens["refresh_token"]))
    fresh = (await wiki.refresh(tokens["refresh_token"])).json()
    await refused(await app.refresh(tokens["refresh_token"]))
    assert (await wiki.refresh(fresh["refresh_token"])).status_code == 200


async def test_grace_and_reuse_as_for_everybody(wiki: Party, tokens: Tokens) -> None:
    """Within ten seconds the same successor; an older one ends the session, also with a scope that is too wide."""
    first = (await wiki.refresh(tokens["refresh_token"])).json()
    assert (await wiki.refresh(tokens["refresh_token"])).json()["refresh_token"] == first["refresh_token"]
    second = (await wiki.refresh(first["refresh_token"])).json()
    await refused(await wiki.refresh(tokens["refresh_token"], scope="openid"))
    await refused(await wiki.refresh(second["refresh_token"]))
    assert await wiki.introspect(second["access_token"]) == {"active": False}
    assert await AuditEvent.objects.filter(event="refresh_reuse").acount() == 1


@pytest.mark.parametrize("token", ["x", "A" * 70, "a.b.c", "x" * 5_000])
async def test_texts_that_are_no_refresh_token(wiki: Party, token: str) -> None:
    """Whatever it is, it is invalid_grant."""
    await refused(await wiki.refresh(token))


async def test_bad_grants_are_counted_for_public_clients(
    throttled: None, wiki: Party, app: Party, settings: Any
) -> None:
    """A public client's address is throttled; a server behind which many people's tokens die is not."""
    settings.IRONAUTH_THROTTLE_BAD_REFRESHES = 5
    assert [(await wiki.refresh("x")).status_code for _ in range(7)] == [400] * 7
    assert [(await app.refresh("x")).status_code for _ in range(6)] == [400] * 5 + [429]


async def test_a_refresh_of_a_known_client_takes_two_statements(
    wiki: Party, tokens: Tokens, statements: list[str]
) -> None:
    """Session and update, as everybody's; frozen."""
    statements.clear()
    assert (await wiki.refresh(tokens["refresh_token"])).status_code == 200
    assert len(statements) == 2, statements


# ------------------------------------------------------------------ client credentials
async def test_a_client_has_a_token_for_itself(robot: Party, statements: list[str]) -> None:
    """Its sub is the client; no refresh token, no ID token, no query, nobody at /me."""
    await robot.post(TOKEN, grant_type="client_credentials")
    statements.clear()
    answer = await robot.post(TOKEN, grant_type="client_credentials", scope="reports")
    tokens = answer.json()
    assert list(tokens) == ["access_token", "token_type", "expires_in", "scope"]
    claims = said(tokens["access_token"])
    assert (claims["sub"], claims["client_id"], claims["scope"]) == (*[str(robot.client.pk)] * 2, "reports")
    assert "sid" not in claims
    assert statements == []
    for path in (ME, VERIFY):
        assert (await robot.api.get(path, headers=bearer(tokens))).status_code == 401


async def test_a_client_cannot_give_itself_what_people_give(robot: Party) -> None:
    """No openid, no account, nothing that is not its own; without a scope, all that is left."""
    for scope in ("openid", "account", "openid account", "email", "elsewhere", 'reports "'):
        await refused(await robot.post(TOKEN, grant_type="client_credentials", scope=scope), "invalid_scope")
    assert (await robot.post(TOKEN, grant_type="client_credentials")).json()["scope"] == "profile reports"
    less = (await robot.post(TOKEN, grant_type="client_credentials", scope="openid reports elsewhere")).json()
    assert (less["scope"], said(less["access_token"])["scope"]) == ("reports", "reports")


async def test_public_clients_have_no_token_for_themselves(api: httpx.AsyncClient, signing_key: str) -> None:
    """Not even when the grant got into its settings."""
    client, _ = await sync_to_async(make_client)(auth_method="none", grants=["client_credentials"])
    answer = await Party(api, client).post(TOKEN, grant_type="client_credentials")
    await refused(answer, "unauthorized_client")


# ------------------------------------------------------------------ the endpoint
async def test_grants_that_are_not_there(wiki: Party) -> None:
    """Unknown ones are unsupported, known ones that are not the client's unauthorized, none invalid."""
    for grant in ("password", "implicit", "urn:example:x", "AUTHORIZATION_CODE"):
        await refused(await wiki.post(TOKEN, grant_type=grant), "unsupported_grant_type")
        await refused(await wiki.api.post(TOKEN, data={"grant_type": grant}), "unsupported_grant_type")
    await refused(await wiki.post(TOKEN, grant_type="client_credentials"), "unauthorized_client")
    await refused(await wiki.post(TOKEN), "invalid_request")
    await refused(await wiki.post(TOKEN, grant_type=""), "invalid_request")


async def test_what_is_sent_twice_is_refused_and_what_is_unknown_ignored(robot: Party) -> None:
    """A repeated parameter is invalid_request, even with the same value; an unknown one does not matter."""
    own = {"grant_type": "client_credentials", **robot.credentials()}
    for repeated in own.items():
        twice = [*own.items(), repeated]
        body = "&".join(f"{key}={value}" for key, value in twice)
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        await refused(await robot.api.post(TOKEN, content=body, headers=headers), "invalid_request")
    assert (await robot.post(TOKEN, grant_type="client_credentials", colour="green")).status_code == 200


async def test_only_forms_in_the_body_by_post(robot: Party) -> None:
    """JSON, too many fields, the query string and other methods are refused, as RFC 6749 §5.2 has it."""
    own = {"grant_type": "client_credentials", **robot.credentials()}
    await refused(await robot.api.post(TOKEN, json=own), "invalid_request")
    await refused(await robot.api.post(TOKEN, params=own), "invalid_request")
    await refused(await robot.api.post(TOKEN, data={f"f{n}": "x" for n in range(101)}), "invalid_request")
    await refused(await robot.api.post(TOKEN, data={f"f{n}": "x" for n in range(1_001)}), "invalid_request")
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        answer = await robot.api.request(method, TOKEN, params=own)
        assert (answer.status_code, answer.json()["error"]) == (405, "invalid_request")
        assert answer.headers["allow"] == "POST, OPTIONS"


@pytest.mark.parametrize(("path", "open_to_all"), [(TOKEN, True), (REVOKE, True), ("/oauth/introspect", False)])
async def test_other_origins(robot: Party, path: str, open_to_all: bool) -> None:
    """Pages of any origin may post to token and revoke; introspection is for servers."""
    asked = {"Origin": "https://app.example.com", "Access-Control-Request-Method": "POST"}
    preflight = await robot.api.options(path, headers=asked)
    assert preflight.status_code == 204
    answer = await robot.post(path)
    found = [response.headers.get("access-control-allow-origin") for response in (preflight, answer)]
    assert found == (["*", "*"] if open_to_all else [None, None])
    assert preflight.headers.get("access-control-allow-headers") == (
        "Authorization, Content-Type, DPoP" if open_to_all else None
    )
    exposed = answer.headers.get("access-control-expose-headers")
    assert exposed == ("Retry-After, WWW-Authenticate" if open_to_all else None)
    assert "access-control-allow-credentials" not in answer.headers


async def test_access_tokens_say_their_own_lifetime(api: httpx.AsyncClient, signing_key: str) -> None:
    """The client's own seconds, to the second."""
    given = {"grants": ["client_credentials"], "scopes": [], "access_token_s": 30}
    party = Party(api, *await sync_to_async(make_client)(**given))
    tokens = (await party.post(TOKEN, grant_type="client_credentials")).json()
    assert list(tokens) == ["access_token", "token_type", "expires_in", "scope"]
    for after_s, active in ((28, True), (31, False)):
        with clock.shifted(after_s):
            assert (await party.introspect(tokens["access_token"]))["active"] is active
    header = json.loads(base64.urlsafe_b64decode(tokens["access_token"].split(".")[0] + "=="))
    assert header["typ"] == "at+jwt"
