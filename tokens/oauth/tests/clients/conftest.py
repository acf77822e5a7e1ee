"""Fixtures of the tests with client libraries."""

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.users.models import User
from conftest import PASSWORD
from ironauth import settings_test
from ironauth.tests.browser.conftest import chromium, chromium_path, open_page, open_site
from tokens.keys.key_set import Family
from tokens.keys.units import create_first_keys
from tokens.oauth.tests.clients.provider import Person, Provider

#: For the walks of a browser to other providers (by_chromium.py).
BROWSER = (chromium, chromium_path, open_page, open_site)


@pytest.fixture
def server_settings() -> dict[str, str]:
    """What the server is told apart from its address; a module may have a fixture of this name of its own."""
    return {}


@pytest.fixture
async def provider(
    serve_process: Callable[..., str],
    signing_key: str,
    new_email: Callable[[], str],
    server_settings: dict[str, str],
) -> AsyncIterator[Provider]:
    """Two workers, keys of every family, and a person with an account."""
    port = settings_test._free_port()
    issuer = f"http://127.0.0.1:{port}"
    for family in (Family.ES256, Family.RS256):
        await sync_to_async(create_first_keys)(family)
    email = new_email()
    await sync_to_async(User.objects.create_user)(email=email, password=PASSWORD, name="Mia")
    environment = {"IRONAUTH_ISSUER": issuer, **server_settings}
    assert await asyncio.to_thread(serve_process, "--workers", "2", port=port, **environment) == issuer
    async with httpx.AsyncClient(base_url=issuer, timeout=30) as browser:
        yield Provider(issuer, Person(browser, email))
