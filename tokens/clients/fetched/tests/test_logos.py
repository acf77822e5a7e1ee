"""The logo of a client: fetched once, served from here, changed by another address alone."""

import asyncio
from hashlib import sha256
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from tokens.clients import units as client_units
from tokens.clients.fetched import units as logo_units
from tokens.clients.fetched.models import ClientLogo
from tokens.clients.fetched.tests.test_pictures import png
from tokens.clients.fetched.tests.web import Web, web
from tokens.clients.models import OAuthClient, client_tag
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import AUTHORIZE, request_of

__all__ = ["web"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

URL = "https://app.example.com/logo.png"
PICTURE = png(48, 48)


@pytest.fixture
async def client(signing_key: str) -> OAuthClient:
    """A client with a logo."""
    return (await sync_to_async(make_client)(logo_uri=URL))[0]


async def shown(api: httpx.AsyncClient, client: OAuthClient) -> httpx.Response:
    return await api.get(f"/oauth/logo/{client.pk}")


async def test_a_copy(api: httpx.AsyncClient, client: OAuthClient, web: Web) -> None:
    """Of the type that it is, whatever its server says, with no way to be anything but a picture."""
    web.has(URL, PICTURE, "text/html")
    for _ in range(2):
        answer = await shown(api, client)
        assert (answer.status_code, answer.headers["content-type"], answer.content) == (200, "image/png", PICTURE)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert web.asked == [URL]


async def test_it_stays(api: httpx.AsyncClient, client: OAuthClient, web: Web) -> None:
    """Another picture at the same address is not shown; another address is."""
    web.has(URL, PICTURE)
    assert (await shown(api, client)).status_code == 200
    web.has(URL, png(16, 16))
    assert (await shown(api, client)).content == PICTURE
    client.logo_uri = f"{URL}?2"
    web.has(client.logo_uri, png(16, 16))
    await sync_to_async(client.save)()
    assert (await shown(api, client)).content == png(16, 16)
    assert await ClientLogo.objects.acount() == 1
    client.logo_uri = ""
    await sync_to_async(client.save)()
    assert (await shown(api, client)).status_code == 404


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("origin", ["registered", "document"])
async def test_what_staff_verified_is_what_is_shown(
    api: httpx.AsyncClient, client: OAuthClient, web: Web, origin: str, there: bool
) -> None:
    """A stranger cannot choose a picture afterwards, also where there was none; another address is asked."""
    await OAuthClient.objects.filter(pk=client.pk).aupdate(origin=origin)
    if there:
        web.has(URL, PICTURE)
    before = await shown(api, client)
    assert before.status_code == (200 if there else 404)
    assert await sync_to_async(client_units.verify)(client.pk)
    web.has(URL, png(16, 16))
    with clock.shifted(601):
        after = await shown(api, client)
    assert (after.status_code, after.content) == (before.status_code, before.content)
    assert len(web.asked) == 1
    await OAuthClient.objects.filter(pk=client.pk).aupdate(logo_uri=f"{URL}?2")
    await sync_to_async(invalidate)(client_tag(str(client.pk)))
    web.has(f"{URL}?2", png(16, 16))
    assert (await shown(api, client)).content == png(16, 16)


async def test_verified_while_it_is_fetched(api: httpx.AsyncClient, client: OAuthClient, web: Web) -> None:
    """What was on its way when staff pressed the button is kept before it, or not at all."""
    await OAuthClient.objects.filter(pk=client.pk).aupdate(origin="registered")
    write = database().write
    picture = logo_units.Picture("image/png", PICTURE)
    await asyncio.gather(
        write(client_units.verify, client.pk), *(write(logo_units.keep, client.pk, URL, picture) for _ in range(4))
    )
    first = await ClientLogo.objects.aget()
    await write(logo_units.keep, client.pk, URL, logo_units.Picture("image/png", b"another"))
    kept = await ClientLogo.objects.aget()
    assert (kept.media, bytes(kept.content)) == (first.media, bytes(first.content))
    assert (kept.media, bytes(kept.content)) in [("", b""), ("image/png", PICTURE)]


async def test_the_picture_of_another_address(api: httpx.AsyncClient, client: OAuthClient, web: Web) -> None:
    """A page that names a new logo is not answered with the old picture."""
    web.has(URL, PICTURE)
    mark = sha256(URL.encode()).hexdigest()[:16]
    for of, status in ((mark, 200), (mark[::-1], 404), ("", 404)):
        assert (await api.get(f"/oauth/logo/{client.pk}", params={"of": of})).status_code == status


@pytest.mark.parametrize("content", [None, b"<svg/>", b"", png(1_025, 1), PICTURE + b"x" * 65_536])
async def test_none(api: httpx.AsyncClient, client: OAuthClient, web: Web, content: bytes | None) -> None:
    """Nothing that could be shown: 404, and not asked for again for a while."""
    if content is not None:
        web.has(URL, content)
    assert [(await shown(api, client)).status_code for _ in range(3)] == [404] * 3
    assert len(web.asked) == 1
    assert await ClientLogo.objects.acount() == 0


async def test_as_large_as_may_be(api: httpx.AsyncClient, client: OAuthClient, web: Web) -> None:
    """64 KiB, and not a byte more."""
    web.has(URL, PICTURE + bytes(65_536 - len(PICTURE)))
    assert (await shown(api, client)).status_code == 200


async def test_of_nobody(api: httpx.AsyncClient, client: OAuthClient, web: Web) -> None:
    """Of no client, one without a logo, and one that is disabled there is none."""
    other, _ = await sync_to_async(make_client)()
    await OAuthClient.objects.filter(pk=client.pk).aupdate(disabled_at="2026-01-01T00:00Z")
    for pk in (other.pk, client.pk, "00000000-0000-0000-0000-000000000000"):
        assert (await api.get(f"/oauth/logo/{pk}")).status_code == 404
    assert not web.asked


async def test_fetches_are_counted(
    api: httpx.AsyncClient, web: Web, signing_key: str, settings: Settings, throttled: None
) -> None:
    """One network has no more fetched than the limit; what is here already is not counted."""
    settings.IRONAUTH_THROTTLE_REGISTRATIONS = 1
    web.has(URL, PICTURE)
    first, second = [(await sync_to_async(make_client)(logo_uri=URL))[0] for _ in range(2)]
    assert [(await shown(api, one)).status_code for one in (first, second, first)] == [200, 429, 200]


@pytest.mark.parametrize("origin", ["staff", "registered"])
async def test_what_people_are_shown(api: httpx.AsyncClient, signing_key: str, origin: str) -> None:
    """Our copy, beside the host in large letters for a stranger's; links with their host, and no address of its own."""
    shown = {"logo_uri": URL, "policy_uri": "https://a.example/p?x=1&y=2", "tos_uri": "https://b.example:8443/t"}
    client, _ = await sync_to_async(make_client)(origin=origin, **shown)
    page = await api.get(AUTHORIZE, params=request_of(client))
    assert URL not in page.text
    picture = f'<p class="client-logo"><img src="/oauth/logo/{client.pk}?of='
    assert picture in page.text
    host = client.redirect_uris[0].split("/")[2].partition(":")[0]
    after = page.text.partition(picture)[2].partition("</p>")[0]
    assert (f"<strong>{host}</strong>" in after) is (origin == "registered")
    assert 'href="https://a.example/p?x=1&amp;y=2" rel="noopener noreferrer nofollow"' in page.text
    assert "Privacy policy at a.example</a>" in page.text
    assert "Terms at b.example:8443</a>" in page.text
    assert ("nobody here has checked" in page.text) is (origin == "registered")
    policy = page.headers["content-security-policy"]
    assert "a.example" not in policy
    assert "app.example.com/logo" not in policy


async def test_a_client_without_any(api: httpx.AsyncClient, signing_key: str) -> None:
    """The page is as it was."""
    client, _ = await sync_to_async(make_client)()
    text: Any = (await api.get(AUTHORIZE, params=request_of(client))).text
    assert "client-logo" not in text
    assert "nofollow" not in text
