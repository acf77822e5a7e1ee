"""Where the forms of the OAuth pages may lead: to this server and the client, to nobody else."""

import re

import httpx
import pytest
from asgiref.sync import sync_to_async

from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import authorize, by_password, is_page, say
from tokens.tests.browser import Member

pytestmark = pytest.mark.django_db(transaction=True)

LOGOUT = "/oauth/logout"


def targets(page: httpx.Response) -> list[str]:
    """Return the sources of form-action."""
    found = re.search(r"form-action ([^;]*);", page.headers["content-security-policy"])
    assert found is not None
    return found[1].split(" ")


async def of(uri: str, **fields: object) -> OAuthClient:
    """Return a client with this address."""
    own = {"auth_method": OAuthClient.AuthMethod.NONE} if ":/" in uri and not uri.startswith("https") else {}
    client, _ = await sync_to_async(make_client)(**{"redirect_uris": [uri], **own, **fields})
    return client


@pytest.mark.parametrize(
    ("uri", "asked", "source"),
    [
        ("https://app.example.com/callback?x=1", "", "https://app.example.com"),
        ("https://app.example.com:8443/callback", "", "https://app.example.com:8443"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:51234/callback", "http://127.0.0.1:51234"),
        ("com.example.app:/callback", "", "com.example.app:"),
    ],
)
async def test_the_clients_own_origin(
    api: httpx.AsyncClient, member: Member, signing_key: str, uri: str, asked: str, source: str
) -> None:
    """Every page on the way names the origin the answer goes to, or the scheme that is the application's own."""
    client = await of(uri)
    page = await authorize(api, client, redirect_uri=asked or uri)
    wrong = await by_password(api, page, member["email"], "not the password at all")
    consent = await by_password(api, page, member["email"])
    for shown in (page, wrong, consent):
        assert targets(shown)[:2] == ["'self'", source]
        assert not {"*", "https:", "http:"} & set(targets(shown))
    answer = await say(api, consent, "allow")
    assert (answer.status_code, "code=" in answer.headers["location"]) == (303, True)


async def test_the_clients_other_addresses(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """A callback may send people on to another origin that staff registered; no other client's address is named."""
    await of("https://other.example.com/callback")
    client = await of("https://api.example.com/cb", post_logout_redirect_uris=["https://www.example.com/gone"])
    page = await authorize(api, client, redirect_uri="https://api.example.com/cb")
    assert targets(page) == ["'self'", "https://api.example.com", "https://www.example.com"]
    await by_password(api, page, member["email"])
    asked = {"client_id": str(client.pk), "post_logout_redirect_uri": "https://www.example.com/gone"}
    page = await api.get(LOGOUT, params=asked)
    assert is_page(page, 200, "Sign out?")
    assert targets(page) == ["'self'", "https://www.example.com", "https://api.example.com"]
    assert targets(await api.get(LOGOUT)) == ["'self'"]


async def test_an_address_no_policy_can_name(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """A policy knows no IPv6 addresses: the way to one is a page of its own, behind which no form leads anywhere."""
    client = await of("http://[::1]/callback", trusted=True)
    page = await authorize(api, client, redirect_uri="http://[::1]:51234/callback", state="\"><b>&'")
    assert targets(page) == ["'self'"]
    answer = await by_password(api, page, member["email"])
    assert is_page(answer, 200, 'content="0; url=http://[::1]:51234/callback?code=')
    assert targets(answer) == ["'none'"]
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "<b>" not in answer.text


@pytest.mark.parametrize(
    ("uri", "sources"),
    [
        ("https://app.example.com/cb", ["'self'", "https://app.example.com"]),
        ("http://[::1]:51234/callback", ["'self'", "http:"]),
    ],
)
async def test_an_answer_that_is_a_form(
    api: httpx.AsyncClient, member: Member, signing_key: str, uri: str, sources: list[str]
) -> None:
    """With response_mode=form_post the form leads to the client's origin; to its scheme where that has no name."""
    client = await of(uri, trusted=True)
    page = await authorize(api, client, redirect_uri=uri, response_mode="form_post")
    answer = await by_password(api, page, member["email"])
    assert is_page(answer, 200, "form_post.js")
    assert targets(answer) == sources
