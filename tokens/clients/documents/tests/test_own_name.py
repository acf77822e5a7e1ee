"""What is signed for a client that its document describes names it by its address, as it names itself."""

import uuid

import httpx
import pytest

from tokens.access import codec
from tokens.clients import registry
from tokens.clients.documents.tests.test_documents import (
    CALLBACK,
    URL,
    consent_page,
    redeemed,
    request,
    web,  # noqa: F401 - a fixture
)
from tokens.clients.models import OAuthClient
from tokens.oauth.logout import delivery
from tokens.oauth.signed import responses as signed
from tokens.oauth.tests.walk import AUTHORIZE, ISSUER, answered, say
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rs256_key", "web")]


@pytest.mark.parametrize("mode", ["query", "jwt"])
async def test_errors_reach_it_by_each_mode(api: httpx.AsyncClient, signing_key: str, mode: str) -> None:
    """An error before anybody is asked is told in a signed answer too."""
    told = answered(await api.get(AUTHORIZE, params=request(response_mode=mode, scope="nothing")), CALLBACK)
    said = codec.payload_of(told["response"]) if mode == "jwt" else told
    assert (said["error"], said["state"], said["iss"]) == ("invalid_scope", "s", ISSUER)
    assert said.get("aud", URL) == URL


async def test_logout_tokens_and_introspection(api: httpx.AsyncClient, member: Member) -> None:
    """Both have its address as ``aud``, as its ID tokens have, and not the id of its row."""
    await redeemed(api, await say(api, await consent_page(api, member), "allow"))
    client = await registry.find(str((await OAuthClient.objects.aget()).pk))
    assert client is not None
    logout = await delivery.mint(client=client, user_id=uuid.UUID(member["id"]), session_id=uuid.uuid4())
    found = await signed.introspection(client, b"{}")
    assert [codec.payload_of(text)["aud"] for text in (logout, found)] == [URL, URL]
