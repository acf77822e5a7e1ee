"""*Send another message* on the page that asks for a code: it tells nobody who has an account, and always helps."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.hashers import make_password
from django.core import mail
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts.email import codes
from accounts.email import units as email_units
from accounts.outbox.delivery import MailDelivery
from accounts.outbox.models import EmailToken
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import base64url, clock, constant_time
from ironauth.infrastructure.core.ids import new_id
from tokens.oauth.tests.walk import form_to, is_page, send

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

SIGNUP, BY_EMAIL, CODE = "/oauth/signup", "/oauth/signin/email", "/oauth/code"
EMAIL = "mia@example.com"
NEW = {"email": EMAIL, "name": "New", "password": PASSWORD}
UUID_TEXT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SIX_DIGITS = re.compile(r"^\s*(\d{6})\s*$", re.MULTILINE)

#: Who may have the address that somebody types.
KINDS: dict[str, dict[str, Any] | None] = {
    "nobody": None,
    "proved": {"email_verified_at": True},
    "unproved": {},
    "inactive": {"is_active": False, "email_verified_at": True},
    "without password": {"password": None, "email_verified_at": True},
}


@pytest.fixture(autouse=True)
def _proof_required(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    monkeypatch.setattr(constant_time, "STEP_S", 0.001)  # times are the business of other tests


def settle(kind: str) -> None:
    """Let the address be of somebody of this kind."""
    fields = KINDS[kind]
    if fields is not None:
        proved = {"email_verified_at": clock.now()} if fields.get("email_verified_at") else {}
        User.objects.create_user(**{"email": EMAIL, "password": PASSWORD, **fields, **proved})


async def begin_sign_up(api: httpx.AsyncClient) -> httpx.Response:
    """Sign up; return the page that asks for the code."""
    return await send(api, await api.get("/account/signup"), SIGNUP, **NEW)


async def begin_sign_in(api: httpx.AsyncClient) -> httpx.Response:
    """Ask for a code to sign in with; return the page that asks for it."""
    return await send(api, await send(api, await api.get("/account/signin"), BY_EMAIL), BY_EMAIL, email=EMAIL)


BEGIN = {"sign-up": begin_sign_up, "sign-in": begin_sign_in}


async def again(api: httpx.AsyncClient, page: httpx.Response) -> httpx.Response:
    """Press *Send another message* on this page, which may be an old one."""
    return await send(api, page, CODE, again="1")


async def delivered() -> list[str]:
    """Let the queue run; return the codes of the messages that were sent to the address."""
    mail.outbox.clear()
    while await MailDelivery().deliver_due():
        pass
    found = [SIX_DIGITS.search(str(message.body)) for message in mail.outbox if message.to == [EMAIL]]
    return [code[1] for code in found if code]


def state_of(page: httpx.Response) -> list[Any]:
    """Return what anybody can read in the value that the page's form brings back."""
    body = form_to(page, CODE).fields["request"].partition(".")[0]
    raw = base64url.decode(body, len(body))
    assert raw is not None
    found: list[Any] = msgspec.json.decode(raw)
    return found


def code_id_of(page: httpx.Response) -> str:
    """Return the one id that is readable in the page's state."""
    (found,) = (part for part in state_of(page) if isinstance(part, str) and UUID_TEXT.fullmatch(part))
    return found


def seen(pages: list[httpx.Response]) -> list[tuple[Any, ...]]:
    """Return all that somebody sees of these answers, whole states too: ids and sealed values by when they came."""
    numbers: dict[str, int] = {}
    transcript = []
    for page in pages:
        state = [
            (len(part), numbers.setdefault(part, len(numbers))) if isinstance(part, str) and len(part) > 30 else part
            for part in state_of(page)
        ]
        headers = {name: value for name, value in page.headers.items() if name != "x-request-id"}
        text = re.sub(r'(?:name="request" value|data-autofill)="[^"]+"', "", page.text)
        transcript.append((page.status_code, tuple(sorted(headers.items())), text, state))
    return transcript


async def walk(api: httpx.AsyncClient, begin: str, *, with_pauses: bool) -> list[httpx.Response]:
    """Press it on new pages and on old ones, type what cannot be right, and go on until it is throttled."""

    async def pause() -> None:
        if with_pauses:
            await delivered()

    pages = [await BEGIN[begin](api)]
    for number in (0, 1, 0, 0):  # the first page, the second, and the first once more, twice
        await pause()
        pages.append(await again(api, pages[number]))
    await pause()
    pages += [await send(api, pages[number], CODE, code="no code") for number in (0, 2, 4)]
    pages += [await again(api, pages[number]) for number in (4, 0, 5, 1, 0, 4)]
    await pause()
    return [*pages, await again(api, pages[0])]


@pytest.mark.live
@pytest.mark.parametrize("with_pauses", [True, False])
@pytest.mark.parametrize("begin", BEGIN)
async def test_no_page_tells_who_has_an_account(
    begin: str,
    with_pauses: bool,
    api: httpx.AsyncClient,
    settings: Settings,
    throttled: None,
    still_clock: float,
) -> None:
    """Status, headers, page and state of every answer are the same, no matter who has the address."""
    transcripts = {}
    for number, kind in enumerate(KINDS):
        await User.objects.all().adelete()
        settings.SECRET_KEY = f"{number}{settings.SECRET_KEY}"  # nothing that was counted before counts
        api.cookies.clear()
        await sync_to_async(settle)(kind)
        pages = await walk(api, begin, with_pauses=with_pauses)
        assert [page.status_code for page in pages[:5]] == [200] * 5
        assert len({code_id_of(page) for page in pages[:5]}) == 5  # a new one with every message
        transcripts[kind] = seen(pages)
    statuses = [answer[0] for answer in transcripts["nobody"]]
    assert statuses[5:8] == [401] * 3
    assert statuses[-1] == 429
    for kind, transcript in transcripts.items():
        assert transcript == transcripts["nobody"], kind


@pytest.mark.parametrize("begin", BEGIN)
async def test_the_newest_code_works(begin: str, api: httpx.AsyncClient) -> None:
    """Back, another message, back, another message: one comes every time, and the newest code is the good one."""
    if begin == "sign-in":
        await sync_to_async(settle)("proved")
    first = await BEGIN[begin](api)
    old = await delivered()
    assert len(old) == 1
    for before in (first, first, first):
        newest = await again(api, before)
        assert is_page(newest, 200, "Another message is on its way")
        sent = await delivered()
        assert len(sent) == 1
    assert is_page(await send(api, first, CODE, code=old[0]), 401, "The code is wrong")
    assert is_page(await send(api, first, CODE, code=sent[0]), 401, "The code is wrong")  # of another page
    answer = await send(api, newest, CODE, code=sent[0])
    assert (answer.status_code, answer.headers.get("location")) == (303, "/account/security")
    assert "access_token" in answer.cookies
    assert (await User.objects.aget(email=EMAIL)).email_verified_at is not None


async def test_two_at_once_leave_one_code(api: httpx.AsyncClient) -> None:
    """A double click: both answers name a new token, one of them is left, and its code works on its page."""
    first = await begin_sign_up(api)
    pages = await asyncio.gather(*(again(api, first) for _ in range(4)))
    assert len({code_id_of(page) for page in (first, *pages)}) == 5
    left = await EmailToken.objects.aget(user__email=EMAIL)
    (page,) = (page for page in pages if code_id_of(page) == str(left.pk))
    sent = await delivered()
    assert len(sent) == 1
    assert (await send(api, page, CODE, code=sent[0])).status_code == 303


async def _proved(user: User) -> None:
    await User.objects.filter(pk=user.pk).aupdate(email_verified_at=clock.now())


async def _with_another_password(user: User) -> None:
    await User.objects.filter(pk=user.pk).aupdate(password=await sync_to_async(make_password)("another one of 7"))


async def _switched_off(user: User) -> None:
    await User.objects.filter(pk=user.pk).aupdate(is_active=False)


async def _switched_off_and_on(user: User) -> None:
    await _switched_off(user)
    await User.objects.filter(pk=user.pk).aupdate(is_active=True)


async def _moved(user: User) -> None:
    await User.objects.filter(pk=user.pk).aupdate(email="moved@example.com")


async def _gone(user: User) -> None:
    await User.objects.filter(pk=user.pk).adelete()


CHANGES = (_proved, _with_another_password, _switched_off, _switched_off_and_on, _moved, _gone)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
async def test_a_changed_account_gets_no_code(change: Callable[[User], Any], api: httpx.AsyncClient) -> None:
    """A code keeps the password that was typed at the sign-up: once that is not certain, the page has a dummy."""
    first = await begin_sign_up(api)
    assert len(await delivered()) == 1
    await again(api, first)
    assert len(await delivered()) == 1  # nothing has changed yet
    await change(await User.objects.aget(email=EMAIL))
    assert is_page(await again(api, first), 200, "Another message is on its way")
    token = await EmailToken.objects.filter(purpose="verify_email").order_by("-created_at").afirst()
    assert token is not None
    assert token.user_id is None
    assert await delivered() == []
    assert mail.outbox == []


async def test_a_stranger_who_was_first_gains_nothing(api: httpx.AsyncClient) -> None:
    """Who signs up an address second gets dummies alone: a code would keep the password of who was first."""
    await begin_sign_up(api)
    assert len(await delivered()) == 1
    api.cookies.clear()  # the owner of the mailbox, in another browser
    page = await send(api, await api.get("/account/signup"), SIGNUP, **{**NEW, "password": "green comet sings 7 hymns"})
    assert await delivered() == []
    assert [str(message.subject) for message in mail.outbox] == ["You have an account already"]
    assert is_page(await again(api, page), 200, "Another message is on its way")
    assert await delivered() == []


@pytest.mark.parametrize("kind", ["right", "another address", "another key", "cut", ""])
async def test_what_a_page_brings_back_is_sealed(kind: str) -> None:
    """It opens for its own address and under our key alone; else the token is a dummy."""
    user = await sync_to_async(User.objects.create_user)(EMAIL, PASSWORD)
    address = "other@example.com" if kind == "another address" else EMAIL.upper()
    sealed = codes.sealed_sign_up(email=address, user_id=user.pk, epoch=user.session_epoch)
    dummy = codes.sealed_sign_up(email=address, user_id=new_id(), epoch=user.session_epoch)
    assert len(sealed) == len(dummy)
    raw = base64url.decode(sealed.partition(".")[0], len(sealed.partition(".")[0]))
    assert raw is not None
    assert user.pk.bytes not in raw
    brought = {"cut": sealed[1:], "": ""}.get(kind, sealed)
    with override_settings(**({"IRONAUTH_MASTER_KEYS": {"k9": b"9" * 32}} if kind == "another key" else {})):
        token_id = await codes.repeat_sign_up_code(sign_up=brought, email=EMAIL, address="")
    token = await EmailToken.objects.aget(pk=token_id)
    assert token.user_id == (user.pk if kind == "right" else None)


def test_another_message_costs_the_same() -> None:
    """The same statements in the same order for an account that waits, one that does not, and nobody."""
    waits = User.objects.create_user(EMAIL, PASSWORD)
    proved = User.objects.create_user("proved@example.com", PASSWORD, email_verified_at=clock.now())
    statements = []
    for _ in range(2):  # the second time there is an older token to replace
        for user_id, key in ((waits.pk, EMAIL), (proved.pk, proved.email_key), (new_id(), "nobody@example.com")):
            with CaptureQueriesContext(connection) as queries, transaction.atomic():
                email_units.repeat_sign_up_code(key, user_id=user_id, epoch=waits.session_epoch)
            statements.append([query["sql"].split()[:3] for query in queries])
    assert all(one == statements[0] for one in statements)
    assert EmailToken.objects.filter(user_id=waits.pk).count() == 1
