"""A yes that gives a client nothing stores nothing of what its document says."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from ironauth.infrastructure.core import clock
from tokens.clients import units as client_units
from tokens.clients.documents import addresses
from tokens.clients.documents.tests.test_documents import (
    CALLBACK,
    URL,
    Web,
    consent_page,
    request,
    web,  # noqa: F401 - a fixture
)
from tokens.clients.models import OAuthClient
from tokens.oauth.models import Consent
from tokens.oauth.tests.walk import AUTHORIZE, answered, is_page, say
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("rs256_key", "web")]


async def two_tabs(api: httpx.AsyncClient) -> tuple[httpx.Response, httpx.Response]:
    """Return the two pages that ask about one pushed request."""
    pushed = await api.post("/oauth/par", data=request(prompt="consent"))
    assert pushed.status_code == 201, pushed.text
    sent = {"client_id": URL, "request_uri": pushed.json()["request_uri"]}
    first = await api.get(AUTHORIZE, params=sent)
    with clock.shifted(1):
        return first, await api.get(AUTHORIZE, params=sent)


async def events() -> list[str]:
    return [one async for one in AuditEvent.objects.filter(event__startswith="client_").values_list("event", flat=True)]


@pytest.mark.parametrize("first_said", ["deny", "allow"])
async def test_a_yes_to_a_request_that_is_finished(
    api: httpx.AsyncClient,
    web: Web,  # noqa: F811
    member: Member,
    first_said: str,
) -> None:
    """A client that staff have verified stays that, whatever its document says meanwhile."""
    web.keep_s = 60
    answered(await say(api, await consent_page(api, member), "allow"), CALLBACK)
    await sync_to_async(client_units.verify)(addresses.id_of(URL))
    before = await events()
    first, second = await two_tabs(api)
    answered(await say(api, first, first_said), CALLBACK)
    web.documents[URL]["client_name"] = "Agent Smith, Your Bank"
    with clock.shifted(61):
        assert is_page(await say(api, second, "allow"), 400, "was used before")
    row = await OAuthClient.objects.aget()
    assert (row.name, row.verified_at is None) == ("Agent Smith", False)
    assert await events() == before


async def test_a_yes_after_the_client_has_gone(
    api: httpx.AsyncClient,
    web: Web,  # noqa: F811
    member: Member,
    settings: Settings,
) -> None:
    """Where there is no place for it either, the person hears that the request was used, and nothing is registered."""
    answered(await say(api, await consent_page(api, member), "allow"), CALLBACK)
    first, second = await two_tabs(api)
    answered(await say(api, first, "deny"), CALLBACK)
    await sync_to_async(client_units.delete)(await OAuthClient.objects.aget())
    settings.IRONAUTH_REGISTRATION_MOST = 0
    assert is_page(await say(api, second, "allow"), 400, "was used before")
    settings.IRONAUTH_REGISTRATION_MOST = 1
    assert is_page(await say(api, second, "allow"), 400, "was used before")
    assert not await OAuthClient.objects.aexists()
    assert (await events()).count("client_registered") == 1


async def test_a_yes_for_an_organization_of_others(api: httpx.AsyncClient, member: Member, settings: Settings) -> None:
    """Who does not belong there lets nobody in, and a client that nobody has let in has no row."""
    settings.IRONAUTH_ORGANIZATIONS = "people"
    asked: dict[str, Any] = {"scope": "openid organization", "organization": "acme"}
    page = await consent_page(api, member, **asked)
    assert answered(await say(api, page, "allow"), CALLBACK)["error"] == "access_denied"
    assert (await OAuthClient.objects.acount(), await Consent.objects.acount(), await events()) == (0, 0, [])
