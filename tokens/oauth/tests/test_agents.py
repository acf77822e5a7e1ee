"""An agent that knows only an API's address: what the Model Context Protocol has it do, step by step."""

from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from pytest_django import Settings

from ironauth.infrastructure.core import clock
from tokens.access import codec
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.walk import CHALLENGE, VERIFIER, answered, by_password, is_page, say, send
from tokens.resources.models import ApiResource
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("rs256_key")]

NOTES, OTHER = "https://notes.example.com/mcp", "https://other.example.com/mcp"
CALLBACK = "http://127.0.0.1:41234/callback"


@pytest.fixture
def notes(settings: Settings) -> ApiResource:
    """An API whose scope agents may ask for, beside another one."""
    settings.IRONAUTH_REGISTRATION = "open"
    settings.IRONAUTH_REGISTRATION_SCOPES = ["openid", "offline_access", "notes:read"]
    ApiResource.objects.create(identifier=OTHER, name="Other", scopes=["other:read"])
    return ApiResource.objects.create(identifier=NOTES, name="Notes", scopes=["notes:read"])


async def registered(api: httpx.AsyncClient) -> dict[str, Any]:
    """Find the endpoint in the metadata of the authorization server, and register there."""
    found = (await api.get("/.well-known/oauth-authorization-server")).json()
    said = {"client_name": "Agent", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"]}  # fmt: skip
    answer = await api.post(urlsplit(found["registration_endpoint"]).path, json=said)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def request(client: dict[str, Any], **changes: str) -> dict[str, str]:
    return {"client_id": client["client_id"], "redirect_uri": CALLBACK, "response_type": "code", "state": "s",
            "code_challenge": CHALLENGE, "code_challenge_method": "S256", "resource": NOTES, **changes}  # fmt: skip


async def test_to_a_token_for_one_api(api: httpx.AsyncClient, notes: ApiResource, member: Member) -> None:
    """Without naming a scope it asks for what it registered with; the token is for the API that it named."""
    client = await registered(api)
    before = await api.get("/oauth/authorize", params=request(client))
    assert is_page(before, 200, "Unverified application</strong>: <strong>A program on this device</strong>")
    page = await by_password(api, before, member["email"])
    assert is_page(page, 200, "unverified application", "A program on this device", "permission “notes:read” of Notes")
    assert "<title>Allow an unverified application?" in page.text
    code = answered(await say(api, page, "allow"), CALLBACK)["code"]
    given = {"grant_type": "authorization_code", "client_id": client["client_id"], "code": code,
             "redirect_uri": CALLBACK, "code_verifier": VERIFIER, "resource": NOTES}  # fmt: skip
    tokens = (await api.post("/oauth/token", data=given)).json()
    said = codec.payload_of(tokens["access_token"])
    assert (said["aud"], said["client_id"]) == (NOTES, client["client_id"])
    assert "notes:read" in said["scope"].split()
    elsewhere = {"grant_type": "refresh_token", "client_id": client["client_id"], "resource": OTHER,
                 "refresh_token": tokens["refresh_token"]}  # fmt: skip
    refused = await api.post("/oauth/token", data=elsewhere)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_target")


async def test_no_scope_of_its_own_choice(api: httpx.AsyncClient, notes: ApiResource, member: Member) -> None:
    """What strangers may not ask for is left out, however it is named."""
    client = await registered(api)
    asked = request(client, scope="notes:read other:read account roles users:write")
    page = await by_password(api, await api.get("/oauth/authorize", params=asked), member["email"])
    assert is_page(page, 200, "notes:read")
    assert not any(scope in page.text for scope in ("other:read", "users:write", "See your roles"))


async def test_only_agents_may_leave_the_scope_out(api: httpx.AsyncClient, app: Any, signing_key: str) -> None:
    """Any other client says what it wants."""
    asked = {"client_id": str(app.client.pk), "redirect_uri": app.client.redirect_uris[0], "response_type": "code",
             "code_challenge": CHALLENGE, "code_challenge_method": "S256"}  # fmt: skip
    answer = await api.get("/oauth/authorize", params=asked)
    assert answered(answer, app.client.redirect_uris[0])["error"] == "invalid_scope"


@pytest.mark.parametrize("verified", [False, True])
async def test_the_sign_in_says_where_an_application_comes_from(
    api: httpx.AsyncClient, notes: ApiResource, member: Member, verified: bool
) -> None:
    """Before a password is typed: the host, which it cannot choose, and that nobody has checked it, until somebody has.

    Also where a password was wrong, and on the page that makes an account.
    """
    there = "https://notes.example.org/callback"
    said = {"client_name": "Book club", "redirect_uris": [there], "token_endpoint_auth_method": "none"}
    client = (await api.post("/oauth/register", json=said)).json()
    if verified:
        await OAuthClient.objects.filter(pk=client["client_id"]).aupdate(verified_at=clock.now())
    asked = request(client, redirect_uri=there, scope="openid notes:read")
    first = await api.get("/oauth/authorize", params=asked)
    wrong = await by_password(api, first, member["email"], "wrong")
    sign_up = await send(api, first, "/oauth/signup")
    for page in (first, wrong, sign_up):
        assert "to continue to <strong>Book club</strong>" in page.text
        assert ("Unverified application</strong>: <strong>notes.example.org</strong>" in page.text) is not verified
        assert ("has checked who made it" in page.text) is not verified
