"""A browser's way to the tests' provider and back."""

import html
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from accounts.federation.models import UpstreamProvider
from accounts.federation.secrets import seal_into
from tokens.oauth.tests.walk import send
from tokens.upstream import providers
from tokens.upstream.tests.provider import CLIENT_ID, SECRET, FakeProvider

UPSTREAM = "/oauth/upstream"


def stored(slug: str, issuer: str, **fields: Any) -> UpstreamProvider:
    """Store a provider; its addresses count unless the test says otherwise."""
    given = {"name": slug.title(), "kind": "oidc", "client_id": CLIENT_ID, "trusts_email": True, **fields}
    row = UpstreamProvider(slug=slug, issuer=issuer, **given)
    seal_into(row, SECRET)
    row.save()
    providers.outdated()
    return row


async def sent(
    api: httpx.AsyncClient, provider: FakeProvider, page: httpx.Response | None = None, slug: str = "acme"
) -> dict[str, str]:
    """Press the provider's button; return what the provider is asked, which the provider takes note of."""
    page = page or await api.get("/account/signin")
    return noted(provider, await send(api, page, UPSTREAM, provider=slug))


def noted(provider: FakeProvider, leads: httpx.Response) -> dict[str, str]:
    """Return what a page that goes on to the provider asks it, which the provider takes note of."""
    assert leads.status_code == 200, leads.text
    found = re.search(r'<a href="([^"]+)">Continue', leads.text)
    assert found is not None, leads.text
    asked = {name: values[0] for name, values in parse_qs(urlsplit(html.unescape(found[1])).query).items()}
    provider.nonce, provider.challenge = asked["nonce"], asked["code_challenge"]
    return asked


async def back(
    api: httpx.AsyncClient, provider: FakeProvider, asked: dict[str, str], slug: str = "acme", **changes: str | None
) -> httpx.Response:
    """Come back from the provider."""
    brought = {"code": "c0de", "state": asked["state"], "iss": provider.issuer, **changes}
    params = {name: value for name, value in brought.items() if value}
    # As a browser says of a way that another site has begun.
    return await api.get(f"{UPSTREAM}/{slug}", params=params, headers={"Sec-Fetch-Site": "cross-site"})


async def through(api: httpx.AsyncClient, provider: FakeProvider, page: httpx.Response | None = None) -> httpx.Response:
    """Go to the provider and come back."""
    return await back(api, provider, await sent(api, provider, page))


def is_in(answer: httpx.Response) -> bool:
    """Tell whether a sign-in led to the account's page, with a session."""
    return answer.status_code == 303 and "access_token" in answer.cookies
