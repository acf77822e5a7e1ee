"""Registrations, and ends of clients, that come at the same time; on SQLite and PostgreSQL."""

import asyncio
from datetime import timedelta

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from tokens.clients import units as client_units
from tokens.clients.dynamic import units
from tokens.clients.fetched import units as logos
from tokens.clients.fetched.models import ClientLogo
from tokens.clients.fetched.units import Picture
from tokens.clients.models import OAuthClient
from tokens.oauth import unused_clients
from tokens.oauth.tests.material import make_public_client

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("rs256_key")]

AGENT = {"redirect_uris": ["http://127.0.0.1/cb"], "token_endpoint_auth_method": "none"}
AT_ONCE = 8


async def at_once(api: httpx.AsyncClient, **headers: str) -> list[int]:
    """Register so many at the same time; return the statuses, sorted."""
    answers = await asyncio.gather(*(api.post("/oauth/register", json=AGENT, headers=headers) for _ in range(AT_ONCE)))
    return sorted(answer.status_code for answer in answers)


async def test_the_last_places(api: httpx.AsyncClient, settings: Settings, signing_key: str) -> None:
    """Of many at once so many are registered as there is room for."""
    settings.IRONAUTH_REGISTRATION, settings.IRONAUTH_REGISTRATION_MOST = "open", 3
    assert await at_once(api) == [201] * 3 + [503] * 5
    assert await OAuthClient.objects.acount() == 3


async def test_the_last_uses_of_a_token(api: httpx.AsyncClient, settings: Settings, signing_key: str) -> None:
    """A token lets so many register as it says, in whatever order they come."""
    settings.IRONAUTH_REGISTRATION = "token"
    ends = clock.now() + timedelta(minutes=1)
    make = sync_to_async(units.make_token)
    _, token = await make(label="Team", uses=2, expires_at=ends, actor_id=None)
    assert await at_once(api, Authorization=f"Bearer {token}") == [201] * 2 + [401] * 6
    assert await OAuthClient.objects.acount() == 2


async def test_logos_at_once() -> None:
    """Workers that have fetched a logo at the same time keep one copy; of an address that has changed, none."""
    client = await sync_to_async(make_public_client)(logo_uri="https://app.example.com/l.png")
    pictures = [Picture("image/png", bytes([at])) for at in range(AT_ONCE)]
    uris = (client.logo_uri, "https://app.example.com/before.png")
    keep = database().write
    await asyncio.gather(*(keep(logos.keep, client.pk, uri, one) for one in pictures for uri in uris))
    kept = await ClientLogo.objects.aget()
    assert (kept.uri, bytes(kept.content) in [one.content for one in pictures]) == (client.logo_uri, True)


async def test_verified_while_it_expires() -> None:
    """It stays and is verified, or is gone before anybody could: never both."""
    client = await sync_to_async(make_public_client)(
        profile="agent", origin="registered", created_at=clock.now() - timedelta(days=40)
    )

    async def verify() -> bool:
        try:
            return await database().write(client_units.verify, client.pk)
        except OAuthClient.DoesNotExist:
            return False

    purge = database().write_autocommit(unused_clients.purge, batch=10)
    verified, gone = await asyncio.gather(verify(), purge)
    assert verified != bool(gone)
    assert await OAuthClient.objects.filter(pk=client.pk).aexists() is verified
    assert await AuditEvent.objects.filter(event="client_expired").acount() == gone
