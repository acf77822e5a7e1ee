"""Signing in here with providers that others wrote: oidc-provider, oauth2-mock-server and mock-oauth2-server."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.federation.models import Identity
from accounts.users.models import User
from ironauth import settings_test
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.docs.blocks import Guide
from ironauth.tests.docs.shell import running
from tokens.oauth.tests.clients import by_chromium
from tokens.oauth.tests.clients.by_chromium import store
from tokens.oauth.tests.clients.elsewhere import ANN, Page, walked
from tokens.oauth.tests.clients.mock_oauth2 import mock_oauth2_server
from tokens.oauth.tests.clients.program import JAVASCRIPT, node, start
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import ISSUER as OURS
from tokens.oauth.tests.walk import answered, authorize, form_to
from tokens.upstream import discovery, providers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]

CLIENT_ID, SECRET = "ironauth", "a secret: of two parts"
SLUGS = {"oidc-provider": "panva", "oauth2-mock-server": "mock"}
#: What a person types at mock-oauth2-server, which believes all of it.
CLAIMS = {"email": "ann@example.com", "email_verified": True, "name": "Ann"}
TYPED_AT_NAV = {"username": "ann", "claims": json.dumps(CLAIMS)}


@pytest.fixture
def port() -> int:
    """The port of the server that a browser is sent to."""
    return settings_test._free_port()


@pytest.fixture
def ours(transactional_db: None, settings: Settings) -> Iterator[None]:
    """Providers on this machine may be asked, and nothing is known of them yet."""
    settings.DEBUG = True  # http
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    discovery.forget()
    yield
    providers.outdated()


@pytest.fixture
async def there(ours: None, port: int) -> AsyncIterator[dict[str, str]]:
    """Both providers of JavaScript, known here; their issuers by name."""
    here = (OURS, f"http://localhost:{port}")
    redirects = [f"{issuer}/oauth/upstream/{slug}" for issuer in here for slug in SLUGS.values()]
    process = await start(node(), JAVASCRIPT / "upstream.mjs", CLIENT_ID, SECRET, *redirects)
    assert process.stdout is not None
    assert process.stdin is not None
    issuers: dict[str, str] = json.loads(await process.stdout.readline())
    for name, issuer in issuers.items():
        await store(SLUGS[name], name, issuer, (CLIENT_ID, SECRET))
    providers.outdated()
    yield issuers
    process.stdin.close()
    await process.wait()


@pytest.fixture(scope="module")
def nav(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """mock-oauth2-server; its issuer."""
    with mock_oauth2_server(tmp_path_factory.mktemp("mock-oauth2")) as issuer:
        yield issuer


@pytest.mark.parametrize("name", SLUGS)
async def test_people_come_from_there(api: httpx.AsyncClient, there: dict[str, str], name: str) -> None:
    """From a client's link over our page to the provider and back to the client, twice with one account."""
    await come_twice(api, SLUGS[name], there[name], ANN)


async def test_people_come_from_mock_oauth2_server(api: httpx.AsyncClient, ours: None, nav: str) -> None:
    """The same with a program of Java, whose page lets a person type who they are and what is said of them."""
    await store("nav", "NAV", nav, (CLIENT_ID, SECRET))
    providers.outdated()
    await come_twice(api, "nav", nav, TYPED_AT_NAV)


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("name", SLUGS)
async def test_people_come_by_chromium(
    there: dict[str, str], name: str, port: int, open_site: OpenSite, open_page: OpenPage
) -> None:
    """From an application over our page to a provider of JavaScript and back, twice, with one account."""
    user = await by_chromium.come_twice(open_site(port, **by_chromium.HERE), open_page, SLUGS[name], ANN)
    assert (user.email, user.name) == ("ann@example.com", "Ann")


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_people_come_from_mock_oauth2_server_by_chromium(
    transactional_db: None, nav: str, open_site: OpenSite, open_page: OpenPage
) -> None:
    """The same with the program of Java, on whose page a person says who they are."""
    await store("nav", "NAV", nav, (CLIENT_ID, SECRET))
    user = await by_chromium.come_twice(open_site(**by_chromium.HERE), open_page, "nav", TYPED_AT_NAV)
    assert (user.email, user.name) == ("ann@example.com", "Ann")


async def test_the_provider_of_the_guide(api: httpx.AsyncClient, ours: None, tmp_path: Path) -> None:
    """The program that the page prints signs Ann in, with the libraries of this folder."""
    there = settings_test._free_port()
    issuer = f"http://localhost:{there}"
    (tmp_path / "node_modules").symlink_to(JAVASCRIPT / "node_modules")
    Guide("docs/guides/upstream-providers.md", ("8081", str(there))).write(tmp_path, "provider.mjs")
    with running(f"exec {node()} provider.mjs", tmp_path, there):
        await store("guide", "Guide", issuer, (CLIENT_ID, SECRET))
        providers.outdated()
        await come_twice(api, "guide", issuer, ANN)


async def come_twice(api: httpx.AsyncClient, slug: str, issuer: str, typed: Mapping[str, str]) -> None:
    """Walk from a client's link to the provider and back to the client, twice; there is one account afterwards."""
    client, _ = await sync_to_async(make_client)(trusted=True)
    for _ in range(2):
        page = await authorize(api, client)
        form = form_to(page, "/oauth/upstream")
        leads = await api.post("/oauth/upstream", data={**form.fields, "provider": slug})
        assert leads.status_code == 200, leads.text
        back = await walked(Page(leads.text).link, f"{OURS}/oauth/upstream/", typed)
        parts: Any = urlsplit(back)
        assert answered(await api.get(f"{parts.path}?{parts.query}"))["code"]
        api.cookies.clear()
    identity = await Identity.objects.aget()
    user = await User.objects.aget()
    assert (identity.issuer, identity.user_id) == (issuer, user.pk)
    assert (user.email, user.name) == ("ann@example.com", "Ann")
