"""What staff do about clients of strangers: tokens that let them register, and verifying a client."""

import re
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from tokens.clients import registry
from tokens.clients.dynamic.models import RegistrationToken
from tokens.clients.dynamic.queries import IDENTITY
from tokens.clients.fetched import units as logos
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client, make_public_client
from tokens.tests.staff import staff

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("rs256_key")]

TOKENS, CLIENTS = "/api/v1/clients/registration-tokens", "/api/v1/clients"
AGENT = {"redirect_uris": ["http://127.0.0.1/cb"], "token_endpoint_auth_method": "none"}


def stranger(**fields: Any) -> OAuthClient:
    return make_public_client(profile="agent", origin="registered", **fields)


async def test_a_token_from_making_to_ending(api: httpx.AsyncClient, settings: Settings, signing_key: str) -> None:
    """It is shown once, lets so many register, is listed with what is left, and ends; each act leaves an event."""
    settings.IRONAUTH_REGISTRATION = "token"
    mia = bearer(await staff(api, "view_oauthclient", "add_oauthclient", "change_oauthclient"))
    made = await api.post(TOKENS, json={"name": "Team", "uses": 2, "expires_in_days": 1}, headers=mia)
    assert made.status_code == 201, made.text
    token = made.json()["token"]
    assert (await api.post("/oauth/register", json=AGENT, headers=bearer({"access_token": token}))).status_code == 201
    listed = (await api.get(TOKENS, headers=mia)).json()
    assert [(one["name"], one["left"]) for one in listed] == [("Team", 1)]
    assert token not in str(listed)
    assert (await api.delete(f"{TOKENS}/{listed[0]['id']}", headers=mia)).status_code == 204
    assert (await api.delete(f"{TOKENS}/{listed[0]['id']}", headers=mia)).status_code == 404
    assert (await api.post("/oauth/register", json=AGENT, headers=bearer({"access_token": token}))).status_code == 401
    acts = ("registration_token_made", "client_registered", "registration_token_ended")
    assert [await AuditEvent.objects.filter(event=act).acount() for act in acts] == [1, 1, 1]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "Team"}, 201),
        ({"name": "a" * 80, "uses": 1_000, "expires_in_days": 365}, 201),
        ({"name": "a" * 81}, 400),
        ({"name": ""}, 400),
        ({"name": "a\n"}, 400),
        ({"name": "Team", "uses": 0}, 400),
        ({"name": "Team", "uses": 1_001}, 400),
        ({"name": "Team", "expires_in_days": 0}, 400),
        ({"name": "Team", "expires_in_days": 366}, 400),
        ({}, 400),
    ],
)
async def test_bounds(api: httpx.AsyncClient, signing_key: str, body: dict[str, Any], status: int) -> None:
    """Each number within its bounds, both sides."""
    mia = bearer(await staff(api, "add_oauthclient"))
    assert (await api.post(TOKENS, json=body, headers=mia)).status_code == status


async def test_without_the_right(api: httpx.AsyncClient, signing_key: str) -> None:
    """Each act needs its right over clients, and no other."""
    client = await sync_to_async(stranger)()
    row = await RegistrationToken.objects.acreate(label="x", digest="0" * 64, left=1, expires_at=clock.now())
    acts = {
        "view_oauthclient": ("GET", TOKENS),
        "add_oauthclient": ("POST", TOKENS),
        "change_oauthclient": ("DELETE", f"{TOKENS}/{row.pk}"),
    }
    for right, (method, path) in acts.items():
        other = bearer(await staff(api, *(set(acts) - {right})))
        body = {"name": "x"} if method == "POST" else None
        assert (await api.request(method, path, json=body, headers=other)).status_code == 403
    nobody = bearer(await staff(api, "view_oauthclient", "add_oauthclient", "delete_oauthclient"))
    assert (await api.post(f"{CLIENTS}/{client.pk}/verify", headers=nobody)).status_code == 403


async def test_verify(api: httpx.AsyncClient, signing_key: str) -> None:
    """Once, with one event; a second time, and of a client of staff, nothing happens."""
    client = await sync_to_async(stranger)()
    mine, _ = await sync_to_async(make_client)()
    mia = bearer(await staff(api, "view_oauthclient", "change_oauthclient"))
    for _ in range(2):
        told = (await api.post(f"{CLIENTS}/{client.pk}/verify", headers=mia)).json()
        assert (told["origin"], told["verified_at"] is None) == ("registered", False)
    told = (await api.post(f"{CLIENTS}/{mine.pk}/verify", headers=mia)).json()
    assert (told["origin"], told["verified_at"]) == ("staff", None)
    assert await AuditEvent.objects.filter(event="client_verified").acount() == 1


CHANGED: dict[str, Any] = {
    "redirect_uris": ["https://evil.example/x"],
    "post_logout_redirect_uris": ["https://evil.example/x"],
    "jwks": {"keys": []},
    "auth_method": "secret",
}


@pytest.mark.parametrize("name", IDENTITY)
async def test_a_program_verifies_what_it_has_read(api: httpx.AsyncClient, signing_key: str, name: str) -> None:
    """With ``If-Match`` each part of who a client is makes it another one, 412; what was read again is verified."""
    client = await sync_to_async(stranger)()
    mia = bearer(await staff(api, "view_oauthclient", "change_oauthclient"))
    path = f"{CLIENTS}/{client.pk}"
    seen = (await api.get(path, headers=mia)).headers["ETag"]
    before = getattr(client, name)
    setattr(client, name, CHANGED.get(name, "bank"))
    await client.asave()
    for condition in (seen, f"W/{seen}", "", '"x"'):
        refused = await api.post(f"{path}/verify", headers={**mia, "If-Match": condition})
        assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
    assert (await OAuthClient.objects.aget(pk=client.pk)).is_unverified
    setattr(client, name, before)
    await client.asave()
    done = await api.post(f"{path}/verify", headers={**mia, "If-Match": seen})
    assert (done.status_code, done.json()["verified_at"] is None) == (200, False)
    assert "ETag" not in done.headers
    assert await AuditEvent.objects.filter(event="client_verified").acount() == 1


async def test_a_program_verifies_the_picture_that_it_has_seen(api: httpx.AsyncClient, signing_key: str) -> None:
    """``logo_kept_at`` is that of the copy people are shown: another picture at the same address is another state."""
    client = await sync_to_async(stranger)()
    first, second = "https://app.example.com/1.png", "https://app.example.com/2.png"
    mia = bearer(await staff(api, "view_oauthclient", "change_oauthclient"))
    path, seen = f"{CLIENTS}/{client.pk}", []
    for uri, content in ((first, b""), (first, b"harmless"), (second, b"between"), (first, b"that of a bank")):
        await OAuthClient.objects.filter(pk=client.pk).aupdate(logo_uri=uri)
        if content:
            await sync_to_async(logos.keep)(client.pk, uri, logos.Picture("image/png", content))
        shown = await api.get(path, headers=mia)
        assert (shown.json()["logo_kept_at"] is None) is not bool(content)
        seen.append(shown.headers["ETag"])
    for condition in seen[:-1]:
        assert (await api.post(f"{path}/verify", headers={**mia, "If-Match": condition})).status_code == 412
    assert (await OAuthClient.objects.aget(pk=client.pk)).is_unverified
    assert (await api.post(f"{path}/verify", headers={**mia, "If-Match": seen[-1]})).status_code == 200


@pytest.fixture
def root() -> Client:
    """A superuser's browser in the admin."""
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.com", PASSWORD))
    return browser


@pytest.mark.parametrize("origin", ["registered", "document"])
def test_in_the_admin(root: Client, origin: str) -> None:
    """Its page says where it came from and verifies it; a client of staff has no such button."""
    client = stranger()
    OAuthClient.objects.filter(pk=client.pk).update(
        origin=origin, document_url="https://a.example.com/c" * (origin == "document")
    )
    page = reverse("admin:tokens_oauthclient_change", args=[client.pk])
    shown = root.get(page).content.decode()
    assert "unverified" in shown
    assert 'value="Verify"' in shown
    verify = reverse("admin:tokens_oauthclient_verify", args=[client.pk])
    done = root.post(verify, {"seen": seen_in(shown)}, follow=True).content.decode()
    assert "is verified" in done
    assert 'value="Verify"' not in done
    mine, _ = make_client()
    assert 'value="Verify"' not in root.get(reverse("admin:tokens_oauthclient_change", args=[mine.pk])).content.decode()


def test_staff_see_the_logo_that_they_verify(root: Client) -> None:
    """Beside the button is the picture that people are shown; another one than the page had is not verified with it."""
    client = stranger()
    uri = "https://app.example.com/logo.png"
    OAuthClient.objects.filter(pk=client.pk).update(logo_uri=uri)
    page = reverse("admin:tokens_oauthclient_change", args=[client.pk])
    verify = reverse("admin:tokens_oauthclient_verify", args=[client.pk])
    assert "stays without one" in root.get(page).content.decode()
    without = seen_in(root.get(page).content.decode())
    logos.keep(client.pk, uri, logos.Picture("image/png", b"x"))
    for seen in (without, "", "x"):
        assert "has changed since" in root.post(verify, {"seen": seen}, follow=True).content.decode()
    assert OAuthClient.objects.get(pk=client.pk).is_unverified
    shown = root.get(page).content.decode()
    assert re.search(rf'<img src="/oauth/logo/{client.pk}\?copy=\w{{32}}"', shown)
    assert "is verified" in root.post(verify, {"seen": seen_in(shown)}, follow=True).content.decode()
    assert not OAuthClient.objects.get(pk=client.pk).is_unverified


@pytest.mark.parametrize("verified", [True, False])
def test_trust_ends_with_what_staff_have_looked_at(verified: bool) -> None:
    """A stranger's client that is trusted is so while it is verified: else it would get codes without anybody asked."""
    client = stranger(trusted=True, verified_at=clock.now() if verified else None)
    assert registry.snapshot(client).trusted is verified
    assert registry.snapshot(make_client(trusted=True)[0]).trusted


def seen_in(page: str) -> str:
    """Return what the button of a client's page says that the page has shown."""
    (mark,) = re.findall(r'name="seen" value="(\w{32})"', page)
    return str(mark)


def test_another_picture_at_the_same_address_is_another_one(root: Client) -> None:
    """A client that has another address in between has its picture fetched anew: staff's page, and its cache, tell."""
    client = stranger()
    first, second = "https://app.example.com/1.png", "https://app.example.com/2.png"
    OAuthClient.objects.filter(pk=client.pk).update(logo_uri=first)
    logos.keep(client.pk, first, logos.Picture("image/png", b"a harmless one"))
    page = reverse("admin:tokens_oauthclient_change", args=[client.pk])
    shown = root.get(page).content.decode()
    for uri, content in ((second, b"between"), (first, b"that of a bank")):
        OAuthClient.objects.filter(pk=client.pk).update(logo_uri=uri)
        logos.keep(client.pk, uri, logos.Picture("image/png", content))
    verify = reverse("admin:tokens_oauthclient_verify", args=[client.pk])
    assert "has changed since" in root.post(verify, {"seen": seen_in(shown)}, follow=True).content.decode()
    assert OAuthClient.objects.get(pk=client.pk).is_unverified
    again = root.get(page).content.decode()
    pictures = [re.findall(r"\?copy=(\w{32})", text) for text in (shown, again)]
    assert pictures[0] != pictures[1]


@pytest.mark.parametrize("name", IDENTITY)
def test_what_changes_while_staff_look_is_not_verified(root: Client, name: str) -> None:
    """The button is for the client that its page showed: each part of who it is makes it another one."""
    client = stranger()
    shown = root.get(reverse("admin:tokens_oauthclient_change", args=[client.pk])).content.decode()
    verify = reverse("admin:tokens_oauthclient_verify", args=[client.pk])
    before = getattr(client, name)
    setattr(client, name, CHANGED.get(name, "bank"))
    client.save()
    assert "has changed since" in root.post(verify, {"seen": seen_in(shown)}, follow=True).content.decode()
    assert OAuthClient.objects.get(pk=client.pk).is_unverified
    setattr(client, name, before)
    client.save()
    assert "is verified" in root.post(verify, {"seen": seen_in(shown)}, follow=True).content.decode()
