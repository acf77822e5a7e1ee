"""Signing in here with providers that others wrote: oidc-provider and oauth2-mock-server."""

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.federation.models import Identity, UpstreamProvider
from accounts.federation.secrets import seal_into
from accounts.users.models import User
from tokens.oauth.tests.clients.elsewhere import Page, walked
from tokens.oauth.tests.clients.program import JAVASCRIPT, node, start
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, form_to
from tokens.upstream import discovery, providers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]

CLIENT_ID, SECRET = "ironauth", "a secret: of two parts"
SLUGS = {"oidc-provider": "panva", "oauth2-mock-server": "mock"}


@pytest.fixture
async def there(transactional_db: None, settings: Settings) -> AsyncIterator[dict[str, str]]:
    """Both providers, known here; their issuers by name."""
    settings.DEBUG = True  # http on this machine
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    redirects = [f"{settings.IRONAUTH_ISSUER}/oauth/upstream/{slug}" for slug in SLUGS.values()]
    process = await start(node(), JAVASCRIPT / "upstream.mjs", CLIENT_ID, SECRET, *redirects)
    assert process.stdout is not None
    assert process.stdin is not None
    issuers: dict[str, str] = json.loads(await process.stdout.readline())
    for name, issuer in issuers.items():
        row = UpstreamProvider(slug=SLUGS[name], name=name, kind="oidc", issuer=issuer, client_id=CLIENT_ID)
        row.trusts_email = True
        seal_into(row, SECRET)
        await row.asave()
    providers.outdated()
    discovery.forget()
    yield issuers
    process.stdin.close()
    await process.wait()
    providers.outdated()


@pytest.mark.parametrize("name", SLUGS)
async def test_people_come_from_there(
    api: httpx.AsyncClient, there: dict[str, str], settings: Settings, name: str
) -> None:
    """From a client's link over our page to the provider and back to the client, twice with one account."""
    client, _ = await sync_to_async(make_client)(trusted=True)
    for _ in range(2):
        page = await authorize(api, client)
        form = form_to(page, "/oauth/upstream")
        leads = await api.post("/oauth/upstream", data={**form.fields, "provider": SLUGS[name]})
        assert leads.status_code == 200, leads.text
        back = await walked(Page(leads.text).link, f"{settings.IRONAUTH_ISSUER}/oauth/upstream/")
        parts: Any = urlsplit(back)
        assert answered(await api.get(f"{parts.path}?{parts.query}"))["code"]
        api.cookies.clear()
    identity = await Identity.objects.aget()
    user = await User.objects.aget()
    assert (identity.issuer, identity.user_id) == (there[name], user.pk)
    assert (user.email, user.name) == ("ann@example.com", "Ann")
