"""A kept device stands in for the second factor at a sign-in, and for nothing else."""

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.db.models import QuerySet
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.mfa.kept_devices import queries, units
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.config.cookies import KEPT_DEVICE
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http import cookies
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, form_to, send
from tokens.sessions.ends import batches, of_everybody
from tokens.sessions.models import Session
from tokens.tests.browser import PASSWORD_URL, SAME_ORIGIN, SIGNIN, Member, Pair
from tokens.tests.second_factor import CODES, MFA, STEP_UP, TOTP, App, enrol

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

DAYS = 30
DAY_S = 86_400
SIGN_IN, CODE = "/oauth/signin", "/oauth/signin/code"
DEVICES = "/api/v1/access/kept-devices"
NEW_PASSWORD = "seven amber kites over Lyon"


@pytest.fixture
def keeps(settings: Settings) -> None:
    """Devices are kept for 30 days."""
    settings.IRONAUTH_KEEP_DEVICE_DAYS = DAYS


@pytest.fixture
async def app(api: httpx.AsyncClient, pair: Pair, keeps: None) -> App:
    """The app of ``member``."""
    return (await enrol(api, pair))[0]


async def with_password(api: httpx.AsyncClient, member: Member, password: str = PASSWORD) -> httpx.Response:
    """Open the sign-in page and give the password."""
    page = await api.get("/account/signin", headers=SAME_ORIGIN)
    return await send(api, page, SIGN_IN, email=member["email"], password=password)


async def keep(api: httpx.AsyncClient, member: Member, code: str, **more: str) -> httpx.Response:
    """Sign in with both factors, and keep the device."""
    asked = await with_password(api, member)
    assert "One more step" in asked.text
    assert 'name="keep_device"' in asked.text
    done = await send(api, asked, CODE, code=code, **({"keep_device": "1"} | more))
    assert done.status_code == 303, done.text
    return done


def is_in(answer: httpx.Response) -> bool:
    """Tell whether a sign-in needed no second factor."""
    if answer.status_code == 303:
        return True
    assert "One more step" in answer.text
    return False


async def test_off_by_default(api: httpx.AsyncClient, member: Member, pair: Pair, settings: Settings) -> None:
    """Without the setting there is no checkbox, and a form that has one all the same keeps nothing."""
    assert settings.IRONAUTH_KEEP_DEVICE_DAYS == 0
    app = (await enrol(api, pair))[0]
    asked = await with_password(api, member)
    assert "keep_device" not in asked.text
    await send(api, asked, CODE, code=app.code(), keep_device="1")
    assert not await KeptDevice.objects.aexists()
    assert cookies.name_of(KEPT_DEVICE) not in api.cookies


async def test_a_kept_device_spares_the_factor(api: httpx.AsyncClient, member: Member, app: App) -> None:
    """In this browser, for this person, with the right password; the session says that it was no factor."""
    await keep(api, member, app.code())
    row = await KeptDevice.objects.aget()
    secret = api.cookies[cookies.name_of(KEPT_DEVICE)]
    assert row.digest == queries.digest_of(secret)
    assert secret not in row.digest
    assert is_in(await with_password(api, member))
    session = await Session.objects.order_by("-created_at").afirst()
    assert session is not None
    assert session.amr == "pwd kept_device"
    assert session.authenticated_at == row.created_at
    await row.arefresh_from_db()
    assert row.last_used_at is not None
    wrong = await with_password(api, member, "not the password at all")
    assert wrong.status_code == 401
    assert [one.event async for one in AuditEvent.objects.filter(event="device_kept")] == ["device_kept"]
    api.cookies.clear()
    assert not is_in(await with_password(api, member))


async def test_without_the_checkbox_nothing_is_kept(api: httpx.AsyncClient, member: Member, app: App) -> None:
    """Who does not tick it is asked the next time."""
    fields = form_to(await with_password(api, member), CODE).fields
    assert fields.pop("keep_device") == "1"
    assert (await api.post(CODE, data={**fields, "code": app.code()})).status_code == 303
    assert not await KeptDevice.objects.aexists()
    assert not is_in(await with_password(api, member))


async def test_another_persons_device_spares_nobody(
    api: httpx.AsyncClient, member: Member, app: App, new_email: Callable[[], str]
) -> None:
    """The cookie of one person, in a sign-in of another one who has a factor as well."""
    await keep(api, member, app.code())
    other = {"email": new_email(), "password": PASSWORD}
    await api.post("/api/v1/access/signup", json=other)
    theirs = (await api.post(SIGNIN, json=other, headers={"Cookie": ""})).json()
    bare = httpx.AsyncClient(transport=api._transport, base_url="http://testserver")
    await enrol(bare, theirs)
    assert not is_in(await with_password(api, other))


@pytest.mark.parametrize(("seconds", "spared"), [(DAYS * DAY_S - 60, True), (DAYS * DAY_S + 1, False)])
async def test_it_ends_with_its_days(
    api: httpx.AsyncClient, member: Member, app: App, seconds: int, spared: bool
) -> None:
    """A minute before its end it counts, a second after it does not, and the row is purged then."""
    await keep(api, member, app.code())
    with clock.shifted(seconds):
        assert is_in(await with_password(api, member)) == spared
        assert await sync_to_async(queries.purge)(batch=10) == (0 if spared else 1)


@pytest.mark.parametrize(("days", "spared"), [(2, True), (1, False), (0, False)])
async def test_a_shorter_setting_counts_at_once(
    api: httpx.AsyncClient, member: Member, app: App, settings: Settings, days: int, spared: bool
) -> None:
    """Also for devices that were kept under the longer one."""
    await keep(api, member, app.code())
    settings.IRONAUTH_KEEP_DEVICE_DAYS = days
    with clock.shifted(DAY_S + 60):
        assert is_in(await with_password(api, member)) == spared


async def _password(api: httpx.AsyncClient, pair: Pair, app: App) -> None:
    body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    assert (await api.post(PASSWORD_URL, json=body, headers=bearer(pair))).status_code == 200


async def _totp_removed(api: httpx.AsyncClient, pair: Pair, app: App) -> None:
    answer = await api.request("DELETE", TOTP, json={"password": PASSWORD}, headers=bearer(pair))
    assert answer.status_code == 204


async def _new_codes(api: httpx.AsyncClient, pair: Pair, app: App) -> None:
    assert (await api.post(CODES, json={"password": PASSWORD}, headers=bearer(pair))).status_code == 200


async def _everywhere(api: httpx.AsyncClient, pair: Pair, app: App) -> None:
    assert (await api.post("/api/v1/access/logout-all", headers=bearer(pair))).status_code == 204


async def _everywhere_else(api: httpx.AsyncClient, pair: Pair, app: App) -> None:
    assert (await api.delete("/api/v1/access/sessions", headers=bearer(pair))).status_code == 204


async def _deactivated(api: httpx.AsyncClient, pair: Pair, app: App) -> None:
    await User.objects.all().aupdate(is_active=False)


async def _reset(api: httpx.AsyncClient, pair: Pair, app: App) -> None:
    user_id = (await User.objects.aget()).pk

    @transaction.atomic
    def asked() -> str:
        row = EmailToken.objects.get(
            pk=email_tokens.issue(purpose=email_tokens.Purpose.RESET_PASSWORD, user_id=user_id)
        )
        return email_tokens.text(row)

    body = {"token": await sync_to_async(asked)(), "new_password": NEW_PASSWORD}
    assert (await api.post("/api/v1/access/password/reset/confirm", json=body)).status_code == 204


async def _set_by_staff(api: httpx.AsyncClient, pair: Pair, app: App) -> None:
    def set_it() -> None:
        mia, client = User.objects.get(), Client()
        client.force_login(User.objects.create_superuser("root@example.com"))
        sent = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}
        page = reverse("admin:auth_user_password_change", args=[mia.pk])
        assert client.post(page, sent).status_code == 302

    await sync_to_async(set_it)()


ENDS = [_password, _reset, _set_by_staff, _totp_removed, _new_codes, _everywhere, _everywhere_else, _deactivated]


@pytest.mark.parametrize("act", ENDS)
async def test_what_ends_devices(api: httpx.AsyncClient, member: Member, pair: Pair, app: App, act: Any) -> None:
    """Every change of password, factors or sessions deletes the rows, in its own transaction."""
    await keep(api, member, app.code())
    bare = httpx.AsyncClient(transport=api._transport, base_url="http://testserver")
    await bare.post(STEP_UP, json={"code": app.code(1)}, headers=bearer(pair))
    assert await KeptDevice.objects.acount() == 1
    await act(bare, pair, app)
    assert not await KeptDevice.objects.aexists()


async def test_the_end_of_everybodys_sessions_ends_it_at_once(api: httpx.AsyncClient, member: Member, app: App) -> None:
    """Before any row is written: somebody with the browser and the password is asked for the factor.

    Who keeps the device again at that time has kept it, also after the rows of the sessions before are written.
    """
    await keep(api, member, app.code())
    await sync_to_async(of_everybody.begin)(actor_id=None)
    assert await KeptDevice.objects.acount() == 1
    assert not is_in(await with_password(api, member))
    await keep(api, member, app.code(1))
    assert is_in(await with_password(api, member))
    await sync_to_async(batches.end_all)()
    assert is_in(await with_password(api, member))


async def test_another_epoch_ends_it_whatever_was_deleted(api: httpx.AsyncClient, member: Member, app: App) -> None:
    """A row that a bulk change has left behind is worth nothing."""
    await keep(api, member, app.code())
    await QuerySet(User).filter(pk=member["id"]).aupdate(session_epoch=7)
    assert await KeptDevice.objects.acount() == 1
    assert not is_in(await with_password(api, member))


async def test_it_never_steps_up(api: httpx.AsyncClient, member: Member, app: App) -> None:
    """A session that it opened later than ten minutes after the factor has to prove one before what asks for it."""
    await keep(api, member, app.code())
    with clock.shifted(601):
        assert is_in(await with_password(api, member))
        refused = await api.post(f"{MFA}/passkeys/options", headers=SAME_ORIGIN)
        assert refused.json()["code"] == "step_up_required"
        asked = await api.post(STEP_UP, json={"password": PASSWORD}, headers=SAME_ORIGIN)
        assert asked.status_code == 400


@pytest.mark.parametrize(
    ("more", "spared"),
    [
        ({}, True),
        ({"acr_values": "aal1"}, True),
        ({"acr_values": "aal1 aal2"}, False),
        ({"prompt": "login"}, False),
        ({"max_age": "3600"}, False),
    ],
)
async def test_a_client_may_demand_the_factor(
    api: httpx.AsyncClient, member: Member, app: App, more: dict[str, str], spared: bool
) -> None:
    """By acr_values, a new sign-in or max_age: then the factor is asked for, also in a session that it opened."""
    client = (await sync_to_async(make_client)(trusted=True))[0]
    await keep(api, member, app.code())
    page = await authorize(api, client)
    assert "code" in answered(await send(api, page, SIGN_IN, email=member["email"], password=PASSWORD))
    again = await authorize(api, client, **more)
    assert (again.status_code == 303) == spared
    if spared:
        return
    asked = await send(api, again, SIGN_IN, email=member["email"], password=PASSWORD)
    assert "One more step" in asked.text
    done = await send(api, asked, CODE, code=app.code(1))
    assert "code" in answered(done)
    if "prompt" not in more:
        assert (await authorize(api, client, **more)).status_code == 303


async def test_the_list_and_its_end(api: httpx.AsyncClient, member: Member, pair: Pair, app: App) -> None:
    """By the API and on the page of the account; another person's device is not theirs to end."""
    await keep(api, member, app.code())
    listed = (await api.get(DEVICES, headers=SAME_ORIGIN)).json()
    assert [one["current"] for one in listed] == [True]
    assert set(listed[0]) == {"id", "created_at", "last_used_at", "expires_at", "user_agent", "current"}
    foreign = await api.delete(f"{DEVICES}/{member['id']}", headers=SAME_ORIGIN)
    assert foreign.status_code == 404
    assert 'action="/account/security/devices/' in (await api.get("/account/security/devices")).text
    assert (await api.delete(f"{DEVICES}/{listed[0]['id']}", headers=SAME_ORIGIN)).status_code == 204
    assert (await api.get(DEVICES, headers=SAME_ORIGIN)).json() == []
    assert not is_in(await with_password(api, member))


async def test_the_oldest_of_many_goes(member: Member, pair: Pair, app: App, api: httpx.AsyncClient) -> None:
    """Twenty are kept for a person; the secret that the browser had before is replaced."""
    mine: Any = {"user_id": UUID(member["id"]), "epoch": 0, "user_agent": "x"}

    @transaction.atomic
    def kept(before: str = "") -> str:
        made = units.keep(**mine, before=before)
        assert made is not None
        return made.secret

    secrets = [await sync_to_async(kept)() for _ in range(units.MOST + 1)]
    assert await KeptDevice.objects.acount() == units.MOST
    assert not await KeptDevice.objects.filter(digest=queries.digest_of(secrets[0])).aexists()
    await sync_to_async(kept)(secrets[-1])
    assert not await KeptDevice.objects.filter(digest=queries.digest_of(secrets[-1])).aexists()


def test_staff_end_devices(client: Client, transactional_db: None, keeps: None) -> None:
    """In the admin, with one event for each; no page shows what is stored of the secret."""
    root = User.objects.create_user("root@example.com", is_superuser=True, is_staff=True)
    mia = User.objects.create_user("mia@example.com", PASSWORD)
    expires_at = clock.now().replace(year=clock.now().year + 1)
    row = KeptDevice.objects.create(user=mia, digest="d" * 64, epoch=0, user_agent="curl/8.9", expires_at=expires_at)
    client.force_login(root)
    listed = reverse("admin:accounts_keptdevice_changelist")
    pages = [client.get(listed), client.get(reverse("admin:accounts_keptdevice_change", args=[row.pk]))]
    assert [page.status_code for page in pages] == [200, 200]
    assert all(b"curl/8.9" in page.content and b"dddd" not in page.content for page in pages)
    body = {"action": "end_devices", "_selected_action": [row.pk], "confirmed": "yes"}
    assert client.post(listed, body).status_code == 302
    assert not KeptDevice.objects.exists()
    event = AuditEvent.objects.get(event="device_forgotten")
    assert (event.actor_id, event.user_id) == (root.pk, mia.pk)


def test_a_device_that_ends_meanwhile_opens_nothing(transactional_db: None, settings: Settings) -> None:
    """Of many sign-ins at once with one that ends it, none uses it after the end; real threads, real rows."""
    settings.IRONAUTH_KEEP_DEVICE_DAYS = DAYS
    user = User.objects.create_user("mia@example.com", PASSWORD)
    now = clock.now()
    row = KeptDevice.objects.create(
        user=user, digest=queries.digest_of("s"), epoch=0, created_at=now, expires_at=now.replace(year=now.year + 1)
    )
    kept = queries.find(user_id=user.pk, epoch=0, secret="s")
    assert kept is not None
    ended = threading.Event()
    after: list[bool] = []

    def sign_in() -> None:
        ended.wait()
        after.append(queries.use(kept))
        connection.close()

    threads = [threading.Thread(target=sign_in) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert queries.use(kept)
    queries.end_all_of(user.pk)
    ended.set()
    for thread in threads:
        thread.join()
    assert after == [False] * 4
    assert not KeptDevice.objects.filter(pk=row.pk).exists()
