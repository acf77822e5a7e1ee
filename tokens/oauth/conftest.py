"""Fixtures of the provider's tests."""

import uuid
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from tokens.clients.models import OAuthClient
from tokens.conftest import new_account, stage, statements
from tokens.oauth.tests.flow import Party, approve
from tokens.oauth.tests.material import make_client

__all__ = ["new_account", "stage", "statements"]


@pytest.fixture
async def wiki(api: httpx.AsyncClient, signing_key: str) -> Party:
    """A confidential client with the usual grants."""
    return Party(api, *await sync_to_async(make_client)())


@pytest.fixture
async def app(api: httpx.AsyncClient, signing_key: str) -> Party:
    """A public client with the usual grants."""
    client, _ = await sync_to_async(make_client)(name="App", auth_method=OAuthClient.AuthMethod.NONE)
    return Party(api, client)


@pytest.fixture
async def robot(api: httpx.AsyncClient, signing_key: str) -> Party:
    """A client that acts for itself."""
    given = {"name": "Robot", "grants": ["client_credentials"], "scopes": ["openid", "profile", "reports", "account"]}
    return Party(api, *await sync_to_async(make_client)(**given))


@pytest.fixture
async def gateway(api: httpx.AsyncClient, signing_key: str) -> Party:
    """An API that asks about other clients' tokens."""
    return Party(api, *await sync_to_async(make_client)(name="Gateway", resource_server=True))


@pytest.fixture
async def tokens(wiki: Party, member: dict[str, Any]) -> dict[str, Any]:
    """What the wiki got for the member."""
    code = await sync_to_async(approve)(wiki.client, uuid.UUID(member["id"]))
    answer = await wiki.redeem(code)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())
