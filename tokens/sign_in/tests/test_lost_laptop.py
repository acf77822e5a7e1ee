"""A session that is thrown out takes the kept device of its browser along; signing out leaves it."""

import uuid
from functools import partial
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import transaction
from django.test import Client
from django.urls import reverse

from accounts.mfa.kept_devices import queries, units
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.tests.at_once import at_once
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, send
from tokens.sessions.ends import of_everybody
from tokens.sessions.ends import queries as session_ends
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.sign_in import units as sign_in_units
from tokens.sign_in.tests.test_kept_devices import CODE, SIGN_IN, app, is_in, keep, keeps, with_password
from tokens.tests.browser import LOGOUT, SAME_ORIGIN, Member, Pair
from tokens.tests.second_factor import App, sign_in_fully

__all__ = ["app", "keeps"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

SESSIONS = "/api/v1/access/sessions"


async def newest() -> Session:
    return await Session.objects.order_by("-created_at", "-pk").afirst()  # type: ignore[return-value] # there is one


async def phone(api: httpx.AsyncClient, member: Member, app: App) -> Pair:
    """Sign in elsewhere, without cookies."""
    bare = httpx.AsyncClient(transport=api._transport, base_url="http://testserver")
    return await sign_in_fully(bare, member, app.code(1))


async def throw_out(api: httpx.AsyncClient, pair: Pair, session_id: uuid.UUID) -> None:
    answer = await api.delete(f"{SESSIONS}/{session_id}", headers={**bearer(pair), "Cookie": ""})
    assert answer.status_code == 204, answer.text


@pytest.mark.parametrize("which", ["kept", "later", "other"])
async def test_thrown_out_in_the_list(api: httpx.AsyncClient, member: Member, pair: Pair, app: App, which: str) -> None:
    """The session in which it was kept, and a later one in that browser; one of another browser leaves it."""
    await keep(api, member, app.code())
    laptop = await newest()
    if which == "later":
        assert is_in(await with_password(api, member))
        laptop = await newest()
    chosen = laptop.pk if which != "other" else uuid.UUID(str((await phone(api, member, app))["session_id"]))
    await throw_out(api, pair, chosen)
    assert await KeptDevice.objects.aexists() is (which == "other")
    assert is_in(await with_password(api, member)) is (which == "other")


async def test_the_device_of_another_stays(api: httpx.AsyncClient, member: Member, pair: Pair, app: App) -> None:
    """Of two kept devices the one of the thrown-out session goes."""
    await keep(api, member, app.code())
    laptop = await newest()
    other = await KeptDevice.objects.acreate(
        user_id=member["id"], digest="d" * 64, epoch=0, expires_at="2100-01-01T00:00:00Z"
    )
    await throw_out(api, pair, laptop.pk)
    assert await KeptDevice.objects.aget() == other


async def test_kept_again_it_is_the_same_device(api: httpx.AsyncClient, member: Member, pair: Pair, app: App) -> None:
    """An earlier session of the browser ends the device that was kept there anew."""
    await keep(api, member, app.code())
    first, row = await newest(), await KeptDevice.objects.aget()
    made = await sync_to_async(transaction.atomic(units.keep))(
        user_id=uuid.UUID(member["id"]), epoch=0, user_agent="x", before=api.cookies["kept_device"]
    )
    assert made is not None
    assert made.id == row.pk
    assert (await KeptDevice.objects.aget()).digest == queries.digest_of(made.secret)
    await throw_out(api, pair, first.pk)
    assert not await KeptDevice.objects.aexists()


async def test_signing_out_leaves_it(api: httpx.AsyncClient, member: Member, app: App) -> None:
    """It outlives a sign-out, and one's own session ended in one's own list is one."""
    await keep(api, member, app.code())
    assert (await api.post(LOGOUT, headers=SAME_ORIGIN)).status_code == 204
    assert is_in(await with_password(api, member))
    own = await newest()
    assert (await api.delete(f"{SESSIONS}/{own.pk}", headers=SAME_ORIGIN)).status_code == 204
    assert is_in(await with_password(api, member))


async def test_everywhere_else(api: httpx.AsyncClient, member: Member, pair: Pair, app: App) -> None:
    """Signing out everywhere else ends each."""
    await keep(api, member, app.code())
    answer = await api.delete(SESSIONS, headers={**bearer(pair), "Cookie": ""})
    assert answer.status_code == 204
    assert not is_in(await with_password(api, member))


async def test_a_session_of_an_application(api: httpx.AsyncClient, member: Member, pair: Pair, app: App) -> None:
    """Kept on the way to an application: its session, and the one of single sign-on that it began in, end it."""
    client, _ = await sync_to_async(make_client)(trusted=True)
    asked = await send(api, await authorize(api, client), SIGN_IN, email=member["email"], password=PASSWORD)
    assert answered(await send(api, asked, CODE, code=app.code(), keep_device="1"))["code"]
    sso = await Session.objects.aget(client_id=SSO_CLIENT)
    device = await KeptDevice.objects.aget()
    assert sso.kept_device_id == device.pk
    child = await Session.objects.acreate(
        user_id=member["id"], epoch=0, parent_id=sso.pk, client_id=str(client.pk), master_key_id="1",
        idle_expires_at="2100-01-01T00:00:00Z", absolute_expires_at="2100-01-01T00:00:00Z",
    )  # fmt: skip
    await throw_out(api, pair, child.pk)
    assert not await KeptDevice.objects.aexists()


@pytest.mark.parametrize("act", ["end_sessions", "end_all_sessions"])
async def test_by_staff(api: httpx.AsyncClient, member: Member, app: App, act: str) -> None:
    """One of the list of sessions, and all of a person."""
    await keep(api, member, app.code())
    session = await newest()

    def ended() -> None:
        client = Client()
        client.force_login(User.objects.create_superuser("root@example.com"))
        sent: dict[str, Any] = {"action": act, "confirmed": "yes"}
        of_sessions = act == "end_sessions"
        page = reverse("admin:tokens_session_changelist" if of_sessions else "admin:accounts_user_changelist")
        chosen = str(session.pk) if of_sessions else member["id"]
        assert client.post(page, {**sent, "_selected_action": [chosen]}).status_code == 302

    await sync_to_async(ended)()
    assert not await KeptDevice.objects.aexists()
    assert not is_in(await with_password(api, member))


def test_kept_while_it_is_thrown_out(member: Member, pair: Pair, keeps: None) -> None:
    """A device that is kept at the moment in which its session is thrown out does not stay: real threads, real rows."""
    for _ in range(8):
        session = Session.objects.create(
            user_id=member["id"], epoch=0, master_key_id="1",
            idle_expires_at="2100-01-01T00:00:00Z", absolute_expires_at="2100-01-01T00:00:00Z",
        )  # fmt: skip
        device = KeptDevice.objects.create(
            user_id=member["id"], digest=uuid.uuid4().hex, epoch=0, expires_at="2100-01-01T00:00:00Z"
        )
        end = partial(
            session_ends.end_own_session, session_id=session.pk, user_id=uuid.UUID(member["id"]), epoch=0,
            from_session_id=uuid.UUID(str(pair["session_id"])),
        )  # fmt: skip
        keep = partial(sign_in_units.keep_device, session_id=session.pk, device_id=device.pk)
        ended, kept = at_once(end, keep)
        assert (bool(ended), kept) == (True, None)
        assert not KeptDevice.objects.filter(pk=device.pk).exists()


@pytest.mark.parametrize("with_all", [False, True])
def test_kept_after_everybodys_end(member: Member, keeps: None, with_all: bool) -> None:
    """A device that is kept in a session that has ended with those of everybody does not stay until its batch."""
    owns: dict[str, Any] = {"user_id": member["id"], "epoch": 0}
    until = "2100-01-01T00:00:00Z"
    session = Session.objects.create(**owns, master_key_id="1", idle_expires_at=until, absolute_expires_at=until)
    if with_all:
        of_everybody.begin(actor_id=None)
    device = KeptDevice.objects.create(**owns, digest=uuid.uuid4().hex, expires_at=until)
    sign_in_units.keep_device(session_id=session.pk, device_id=device.pk)
    assert KeptDevice.objects.exists() is not with_all
