"""What a client that registers itself says about signing out: where people go, and where it hears of it."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from tokens.clients import rules
from tokens.clients.documents import queries as documents
from tokens.clients.dynamic.tests.test_registration import (
    AGENT,
    NO_ADDRESSES,
    REGISTER,
    bearer,
    opened,
    refused,
    registered,
)
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client

__all__ = ["opened"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("rs256_key")]

TOLD = "https://app.example.com/signed-out?app=wiki"
SESSION = "backchannel_logout_session_required"


@pytest.mark.parametrize("wanted", [{}, {SESSION: False}, {SESSION: True}, {SESSION: None}])
async def test_where_it_hears_of_sign_outs(api: httpx.AsyncClient, opened: Settings, wanted: dict[str, Any]) -> None:
    """It is registered as it is named; each logout token says which session, and the answer tells so."""
    told = await registered(api, backchannel_logout_uri=TOLD, **wanted)
    assert (told["backchannel_logout_uri"], told[SESSION]) == (TOLD, True)
    read = await api.get(told["registration_client_uri"], headers=bearer(told["registration_access_token"]))
    assert (read.json()["backchannel_logout_uri"], read.json()[SESSION]) == (TOLD, True)
    assert (await OAuthClient.objects.aget(pk=told["client_id"])).backchannel_logout_uri == TOLD


@pytest.mark.parametrize(
    "said", [{}, {"backchannel_logout_uri": None}, {"backchannel_logout_uri": ""}, {SESSION: True}]
)
async def test_one_that_does_not(api: httpx.AsyncClient, opened: Settings, said: dict[str, Any]) -> None:
    """Without an address nothing is said of it."""
    told = (await api.post(REGISTER, json={**AGENT, **said})).json()
    assert not {"backchannel_logout_uri", SESSION} & told.keys()
    assert (await OAuthClient.objects.aget(pk=told["client_id"])).backchannel_logout_uri == ""


@pytest.mark.parametrize("uri", [*NO_ADDRESSES, "com.example.app:/signed-out", "https://192.168.1.1./x"])
async def test_an_address_that_is_not_called(api: httpx.AsyncClient, opened: Settings, uri: Any) -> None:
    """Nothing inside, no plain http, no other scheme: refused, and nothing is stored."""
    answer = await api.post(REGISTER, json={**AGENT, "backchannel_logout_uri": uri})
    assert refused(answer, 400, "invalid_client_metadata")
    assert "backchannel_logout_uri" in answer.json()["error_description"]
    assert not await OAuthClient.objects.aexists()


@pytest.mark.parametrize("wanted", ["true", 1, [], {}])
async def test_a_flag_that_is_none(api: httpx.AsyncClient, opened: Settings, wanted: Any) -> None:
    """It is true or false."""
    answer = await api.post(REGISTER, json={**AGENT, "backchannel_logout_uri": TOLD, SESSION: wanted})
    assert refused(answer, 400, "invalid_client_metadata")


async def test_networks_of_the_house(api: httpx.AsyncClient, opened: Settings, settings: Settings) -> None:
    """What the operator's own applications may have there, strangers may not, until the setting for them names it."""
    said = {**AGENT, "backchannel_logout_uri": "https://10.0.0.1/signed-out"}
    settings.IRONAUTH_LOGOUT_NETWORKS = ["10.0.0.0/8"]
    assert refused(await api.post(REGISTER, json=said), 400, "invalid_client_metadata")
    settings.IRONAUTH_LOGOUT_NETWORKS, settings.IRONAUTH_CLIENT_DOCUMENT_NETWORKS = [], ["10.0.0.0/8"]
    assert (await api.post(REGISTER, json=said)).status_code == 201


async def test_the_rules_of_staff_are_the_same(settings: Settings) -> None:
    """A stranger's client that staff change keeps to the networks of strangers, also when they have verified it."""
    settings.IRONAUTH_LOGOUT_NETWORKS, settings.IRONAUTH_CLIENT_DOCUMENT_NETWORKS = ["10.0.0.0/8"], []
    client, _ = await sync_to_async(make_client)()
    client.backchannel_logout_uri = "https://10.0.0.1/signed-out"
    judge = sync_to_async(rules.problems_of)
    assert not await judge(client)
    client.origin = OAuthClient.Origin.REGISTERED
    for verified_at in (None, clock.now()):
        client.verified_at = verified_at
        (problem,) = await judge(client)
        assert (problem.field, "IRONAUTH_CLIENT_DOCUMENT_NETWORKS" in problem.message) == (
            "backchannel_logout_uri", True,
        )  # fmt: skip
    settings.IRONAUTH_LOGOUT_NETWORKS, settings.IRONAUTH_CLIENT_DOCUMENT_NETWORKS = [], ["10.0.0.0/8"]
    assert not await judge(client)
    client.origin = OAuthClient.Origin.STAFF
    assert [problem.field for problem in await judge(client)] == ["backchannel_logout_uri"]


async def test_replaced(api: httpx.AsyncClient, opened: Settings, settings: Settings) -> None:
    """Another address, or none, makes a client that staff have verified unverified; the same one does not."""
    told = await registered(api, backchannel_logout_uri=TOLD)
    where, headers = told["registration_client_uri"], bearer(told["registration_access_token"])
    rows = OAuthClient.objects.filter(pk=told["client_id"])
    for uri, verified in ((TOLD, True), ("https://app.example.com/other", False), (None, False)):
        await rows.aupdate(verified_at=clock.now())
        said = {**AGENT, "client_id": told["client_id"], "backchannel_logout_uri": uri}
        answer = await api.put(where, json=said, headers=headers)
        assert answer.status_code == 200, answer.text
        row = await rows.aget()
        assert (row.backchannel_logout_uri, row.verified_at is not None) == (uri or "", verified)


async def test_an_address_that_staff_have_given(api: httpx.AsyncClient, opened: Settings, settings: Settings) -> None:
    """In a network of strangers the client keeps it, and stays verified; in one of the house alone nobody does."""
    settings.IRONAUTH_CLIENT_DOCUMENT_NETWORKS = ["10.0.0.0/8"]
    told = await registered(api)
    inside = "https://10.0.0.1/signed-out"
    rows = OAuthClient.objects.filter(pk=told["client_id"])
    await rows.aupdate(verified_at=clock.now(), backchannel_logout_uri=inside)
    where, headers = told["registration_client_uri"], bearer(told["registration_access_token"])
    said = {**AGENT, "client_id": told["client_id"], "backchannel_logout_uri": inside}
    assert (await api.put(where, json=said, headers=headers)).status_code == 200
    settings.IRONAUTH_LOGOUT_NETWORKS, settings.IRONAUTH_CLIENT_DOCUMENT_NETWORKS = ["10.0.0.0/8"], []
    for uri in (inside, "https://10.0.0.2/signed-out"):
        said["backchannel_logout_uri"] = uri
        assert refused(await api.put(where, json=said, headers=headers), 400, "invalid_client_metadata")
    row = await rows.aget()
    assert (row.backchannel_logout_uri, row.verified_at is not None) == (inside, True)


async def test_front_channel(api: httpx.AsyncClient, opened: Settings) -> None:
    """Frames of other sites are not loaded here: discovery does not offer it, and the members are left out."""
    asked = {"frontchannel_logout_uri": "https://app.example.com/f", "frontchannel_logout_session_required": True}
    told = await registered(api, **asked)
    assert not asked.keys() & told.keys()
    discovery = (await api.get("/.well-known/openid-configuration")).json()
    assert not [name for name in discovery if name.startswith("frontchannel")]
    assert discovery["backchannel_logout_supported"] is discovery["backchannel_logout_session_supported"] is True


async def test_a_document_says_so_too(settings: Settings) -> None:
    """A client ID metadata document names the address; one inside makes it no client at all."""
    url = "https://agent.example.com/client.json"
    said = {**AGENT, "client_id": url, "backchannel_logout_uri": TOLD}
    described = sync_to_async(documents.described)
    client = await described(url, said)
    assert client is not None
    assert (client.backchannel_logout_uri, client.unverified) == (TOLD, True)
    await database().write(documents.keep, client)
    row = await OAuthClient.objects.aget(document_url=url)
    assert row.backchannel_logout_uri == TOLD
    await OAuthClient.objects.filter(pk=row.pk).aupdate(verified_at=clock.now())
    for uri, unverified in ((TOLD, False), ("https://agent.example.com/other", True)):
        now = await described(url, {**said, "backchannel_logout_uri": uri})
        assert now is not None
        assert (now.backchannel_logout_uri, now.unverified) == (uri, unverified)
    assert await described(url, {**said, "backchannel_logout_uri": "https://10.0.0.1/x"}) is None
