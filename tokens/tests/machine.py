"""Callers of acts of staff: machines, and applications that somebody of staff has signed in with."""

from typing import Any

import httpx
from asgiref.sync import sync_to_async

from tokens.clients.models import OAuthClient
from tokens.oauth.tests.flow import basic
from tokens.oauth.tests.material import make_client
from tokens.protocol import GrantType

TOKEN = "/oauth/token"
Headers = dict[str, str]


async def make_machine(api: httpx.AsyncClient, *scopes: str, **fields: Any) -> tuple[OAuthClient, Headers]:
    """Make a client that administers with these scopes unless ``fields`` say otherwise; return the header it sends."""
    given = {"grants": [GrantType.CLIENT_CREDENTIALS.value], "redirect_uris": [], "administers": True, **fields}
    client, secret = await sync_to_async(make_client)(name="Robot", scopes=list(scopes), **given)
    return client, await token_of(api, client, secret)


async def token_of(api: httpx.AsyncClient, client: OAuthClient, secret: str, scope: str = "") -> Headers:
    """Return the header of a token that a client gets for itself."""
    asked = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    answer = await api.post(TOKEN, data=asked, headers=basic(str(client.pk), secret))
    assert answer.status_code == 200, answer.text
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}
