"""What people do by e-mail, through HTTP and with the real queue: reset, verification, change of address."""

import asyncio
import base64
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.core import mail
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings
from structlog.testing import capture_logs

from accounts.conftest import PASSWORD, MakeUser, SignIn
from accounts.email import units as email_units
from accounts.outbox.delivery import MailDelivery
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.own_account import units as sign_up_units
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.http.second_clicks import WITHIN_S

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

ACCESS = "/api/v1/access"
NEW_PASSWORD = "another otter rides 7 trams"
TOKEN = re.compile(r"\?token=([A-Za-z0-9_-]{64})$", re.MULTILINE)


@pytest.fixture
def user(make_user: MakeUser) -> User:
    """Make one person."""
    return make_user(email="Mia@Example.com", name="Mia")


async def delivered() -> list[tuple[str, str, str | None]]:
    """Deliver the queue; return recipient, subject and token of what was sent."""
    mail.outbox.clear()
    await MailDelivery().deliver_due()
    found = []
    for message in mail.outbox:
        token = TOKEN.search(str(message.body))
        found.append((message.to[0], str(message.subject), token[1] if token else None))
    return sorted(found)


async def token_for(api: httpx.AsyncClient, path: str, email: str) -> str:
    """Ask for a message and return the token in it."""
    answer = await api.post(f"{ACCESS}/{path}", json={"email": email})
    assert answer.status_code == 202, answer.text
    ((_, _, token),) = await delivered()
    assert token is not None
    return token


async def present(user: User) -> User:
    """Return the user as stored."""
    return await User.objects.aget(pk=user.pk)


async def confirm(api: httpx.AsyncClient, token: str, password: str = NEW_PASSWORD) -> httpx.Response:
    """Choose a new password."""
    return await api.post(f"{ACCESS}/password/reset/confirm", json={"token": token, "new_password": password})


async def sign_in_status(api: httpx.AsyncClient, email: str, password: str) -> int:
    """Sign in and return the status."""
    return (await api.post(f"{ACCESS}/signin", json={"email": email, "password": password})).status_code


# ---------------------------------------------------------------- password reset


async def test_a_forgotten_password_is_replaced(api: httpx.AsyncClient, user: User, sign_in: SignIn) -> None:
    """The message's token sets a password once, ends every session and proves the address; the owner is told."""
    headers = await sign_in(user)
    token = await token_for(api, "password/reset", "mia@example.COM")
    assert (await api.get(f"{ACCESS}/me", headers=headers)).status_code == 200
    answer = await confirm(api, token)
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await api.get(f"{ACCESS}/me", headers=headers)).status_code == 401
    assert await sign_in_status(api, user.email, PASSWORD) == 401
    assert await sign_in_status(api, user.email, NEW_PASSWORD) == 200
    assert (await present(user)).email_verified_at is not None
    again = await confirm(api, token)
    assert (again.status_code, again.json()["code"]) == (400, "invalid_token")
    assert await delivered() == [("Mia@Example.com", "Your password was changed", None)]


@pytest.mark.parametrize("path", ["password/reset", "email/verify/resend"])
async def test_known_and_unknown_addresses_get_the_same_answer(
    path: str, api: httpx.AsyncClient, user: User, make_user: MakeUser
) -> None:
    """Known, unknown, inactive and verified: the same bytes and headers; only who can use it gets a message."""
    await sync_to_async(make_user)(email="inactive@example.com", is_active=False)
    await sync_to_async(make_user)(email="verified@example.com", email_verified_at=clock.now())
    seen = set()
    for name in ("mia", "nobody", "inactive", "verified"):
        answer = await api.post(f"{ACCESS}/{path}", json={"email": f"{name}@example.com"})
        answer.headers.pop("x-request-id")
        seen.add((answer.status_code, answer.content, tuple(sorted(answer.headers.items()))))
    assert len(seen) == 1
    assert next(iter(seen))[:2] == (202, b"")
    wanted = ["Mia@Example.com"] + (["verified@example.com"] if path == "password/reset" else [])
    assert [recipient for recipient, _, _ in await delivered()] == sorted(wanted)
    assert not await OutgoingMail.objects.aexists()
    assert await EmailToken.objects.acount() == len(wanted)


@pytest.mark.parametrize(
    "unit", [email_units.request_reset, email_units.request_verification, email_units.request_sign_in_code]
)
def test_known_and_unknown_addresses_cost_the_same(unit: Callable[[str], Any], user: User) -> None:
    """The same statements in the same order, and no hash."""
    jobs = hash_pool().stats().completed
    statements = []
    for _ in range(2):  # the second time there is an older token to replace
        for key in ("mia@example.com", "nobody@example.com"):
            with CaptureQueriesContext(connection) as queries, transaction.atomic():
                unit(key)
            statements.append([query["sql"].split()[:3] for query in queries])
    assert statements[0] == statements[1] == statements[2] == statements[3]
    assert hash_pool().stats().completed == jobs


@pytest.mark.parametrize("why", ["nonsense", "expired", "verify token", "newer", "password changed", "inactive"])
async def test_a_token_that_is_not_good_costs_no_hash(
    why: str, api: httpx.AsyncClient, user: User, settings: Settings
) -> None:
    """One answer for every reason, before the hash pool is asked for anything."""
    token = await token_for(api, "password/reset", user.email)
    shift = 0
    match why:
        case "nonsense":
            token = "no token at all"
        case "expired":
            shift = 1_801
        case "verify token":
            token = await token_for(api, "email/verify/resend", user.email)
        case "newer":
            await token_for(api, "password/reset", user.email)
        case "password changed":
            await User.objects.filter(pk=user.pk).aupdate(password=user.password + "x")
        case "inactive":
            await User.objects.filter(pk=user.pk).aupdate(is_active=False)
    jobs = hash_pool().stats().completed
    with clock.shifted(shift):
        answer = await confirm(api, token)
    problem = answer.json()
    assert (answer.status_code, problem["code"], "errors" in problem) == (400, "invalid_token", False)
    assert hash_pool().stats().completed == jobs


@pytest.mark.parametrize("password", ["short", "Mia@Example.com2026", "aaaaaaaaaaaaaaaaaaaa"])
async def test_a_refused_password_names_the_field_and_leaves_the_token(
    password: str, api: httpx.AsyncClient, user: User
) -> None:
    """The policy knows whose password it is, and the person may try again with the same link."""
    token = await token_for(api, "password/reset", user.email)
    jobs = hash_pool().stats().completed
    answer = await confirm(api, token, password)
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == ["new_password"]
    assert hash_pool().stats().completed == jobs
    assert (await confirm(api, token)).status_code == 204


async def test_a_token_is_written_nowhere(api: httpx.AsyncClient, user: User) -> None:
    """Neither a table nor a log line has it or its code, waiting, sent or used."""
    with capture_logs() as logged:
        token = await token_for(api, "password/reset", user.email)
        await api.get("/password/reset", params={"token": token})
        rows = [str(row) async for row in EmailToken.objects.values()]
        await api.post(f"{ACCESS}/password/reset", json={"email": user.email})
        rows += [str(row) async for row in OutgoingMail.objects.values()]
        await confirm(api, token)
    assert len(rows) == 2
    assert logged
    mac = base64.urlsafe_b64decode(token)[16:]
    for secret in (token, token[22:], mac.hex(), repr(mac), NEW_PASSWORD, user.email):
        assert secret not in str(logged)
    for secret in (token, token[22:], mac.hex(), repr(mac)):
        assert secret not in str(rows)


async def test_every_missing_field_is_named(api: httpx.AsyncClient) -> None:
    """All at once, as everywhere."""
    for path, fields in {
        "password/reset": ["email"],
        "password/reset/confirm": ["new_password", "token"],
        "email/verify": ["token"],
        "email/verify/resend": ["email"],
    }.items():
        answer = await api.post(f"{ACCESS}/{path}", json={})
        assert answer.status_code == 400
        assert sorted(error["field"] for error in answer.json()["errors"]) == fields


async def test_of_parallel_resets_one_succeeds(api: httpx.AsyncClient, user: User) -> None:
    """Six requests with one token and six passwords: one is set."""
    token = await token_for(api, "password/reset", user.email)
    passwords = [f"another otter rides {number} trams" for number in range(6)]
    answers = await asyncio.gather(*(confirm(api, token, password) for password in passwords))
    statuses = [answer.status_code for answer in answers]
    assert sorted(statuses) == [204] + [400] * 5
    winner = passwords[statuses.index(204)]
    assert await sync_to_async((await present(user)).check_password)(winner)


async def test_parallel_requests_leave_one_token(api: httpx.AsyncClient, user: User) -> None:
    """However many ask at once, one token is left, and one message with it."""
    await asyncio.gather(*(api.post(f"{ACCESS}/password/reset", json={"email": user.email}) for _ in range(8)))
    assert await EmailToken.objects.acount() == 1
    ((_, _, token),) = await delivered()
    assert token is not None
    assert (await confirm(api, token)).status_code == 204


# ---------------------------------------------------------------- verification


async def test_an_address_is_verified_once(api: httpx.AsyncClient, user: User) -> None:
    """Token and password verify, and a second use is refused; asking again then sends nothing."""
    token = await token_for(api, "email/verify/resend", user.email)
    answer = await api.post(f"{ACCESS}/email/verify", json={"token": token, "password": PASSWORD})
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await present(user)).email_verified_at is not None
    again = await api.post(f"{ACCESS}/email/verify", json={"token": token})
    assert (again.status_code, again.json()["code"]) == (400, "invalid_token")
    assert (await api.post(f"{ACCESS}/email/verify/resend", json={"email": user.email})).status_code == 202
    assert await delivered() == []


@override_settings(IRONAUTH_EMAIL_VERIFICATION="off")
async def test_without_verification_a_sign_up_sends_nothing(api: httpx.AsyncClient) -> None:
    """The default: 201, and an empty queue."""
    answer = await api.post(f"{ACCESS}/signup", json={"email": "new@example.com", "password": PASSWORD})
    assert answer.status_code == 201
    assert await delivered() == []


@override_settings(IRONAUTH_EMAIL_VERIFICATION="optional")
async def test_optional_verification_asks_and_lets_in(api: httpx.AsyncClient, signing_key: str) -> None:
    """A new person is asked to verify the address, and may sign in before; a taken address is 409 and sends nothing."""
    body = {"email": "new@example.com", "password": PASSWORD}
    answer = await api.post(f"{ACCESS}/signup", json=body)
    assert (answer.status_code, answer.json()["email_verified"]) == (201, False)
    assert await sign_in_status(api, "new@example.com", PASSWORD) == 200
    ((recipient, subject, token),) = await delivered()
    assert (recipient, subject) == ("new@example.com", "Confirm your e-mail address")
    assert (await api.post(f"{ACCESS}/signup", json=body)).status_code == 409
    assert await delivered() == []
    assert (await api.post(f"{ACCESS}/email/verify", json={"token": token})).status_code == 204
    assert (await User.objects.aget()).email_verified_at is not None


@override_settings(IRONAUTH_EMAIL_VERIFICATION="required")
async def test_required_verification_lets_nobody_in_before(api: httpx.AsyncClient, signing_key: str) -> None:
    """A right password is a wrong one until the address is verified with it; then the person is in."""
    body = {"email": "new@example.com", "password": PASSWORD}
    assert (await api.post(f"{ACCESS}/signup", json=body)).status_code == 202
    refused = await api.post(f"{ACCESS}/signin", json=body)
    assert (refused.status_code, refused.json()["code"]) == (401, "invalid_credentials")
    assert "open the link in the message first" in refused.json()["detail"]
    ((_, _, token),) = await delivered()
    shown = {"token": token, "password": PASSWORD}
    assert (await api.post(f"{ACCESS}/email/verify", json=shown)).status_code == 204
    assert await sign_in_status(api, "new@example.com", PASSWORD) == 200


@override_settings(IRONAUTH_EMAIL_VERIFICATION="required")
async def test_a_sign_up_tells_nobody_whether_the_address_is_known(api: httpx.AsyncClient, user: User) -> None:
    """New and known: the same bytes, one hash each; the owner of a known one is told, and nothing of theirs changes."""
    jobs = hash_pool().stats().completed
    seen = set()
    for email in ("new@example.com", "MIA@example.com"):
        answer = await api.post(f"{ACCESS}/signup", json={"email": email, "password": NEW_PASSWORD})
        answer.headers.pop("x-request-id")
        seen.add((answer.status_code, answer.content, tuple(sorted(answer.headers.items()))))
    assert len(seen) == 1
    assert next(iter(seen))[:2] == (202, b"")
    assert hash_pool().stats().completed == jobs + 2
    assert [(recipient, subject) for recipient, subject, _ in await delivered()] == [
        ("Mia@Example.com", "You have an account already"),
        ("new@example.com", "Confirm your e-mail address"),
    ]
    stored = await present(user)
    assert (stored.password, stored.session_epoch) == (user.password, user.session_epoch)


def test_a_known_address_signs_up_by_the_same_statements(user: User) -> None:
    """Insert, look-up, token and message, whether the person is new or not."""
    seen = []
    for email in ("first@example.com", "mia@example.com", "second@example.com"):
        with CaptureQueriesContext(connection) as queries, transaction.atomic():
            sign_up_units.create_quietly(email=email, encoded="x", name="")
        seen.append([query["sql"].split()[:3] for query in queries])
    assert seen[0] == seen[1] == seen[2]


# ---------------------------------------------------------------- change of address


async def test_an_address_is_changed_from_the_new_mailbox(api: httpx.AsyncClient, user: User, sign_in: SignIn) -> None:
    """Nothing changes before the new address confirms; the old one hears of both steps; in a session all stays."""
    headers = await sign_in(user)
    body = {"new_email": "new@example.com", "password": PASSWORD}
    answer = await api.post(f"{ACCESS}/email", json=body, headers=headers)
    assert (answer.status_code, answer.content) == (202, b"")
    old, (recipient, subject, token) = await delivered()
    assert old == ("Mia@Example.com", "Your e-mail address is about to change", None)
    assert (recipient, subject) == ("new@example.com", "Confirm your new e-mail address")
    assert (await present(user)).email == "Mia@Example.com"
    assert (await api.post(f"{ACCESS}/email/verify", json={"token": token}, headers=headers)).status_code == 204
    changed = await present(user)
    assert (changed.email, changed.email_key) == ("new@example.com", "new@example.com")
    assert changed.email_verified_at is not None
    assert await delivered() == [("Mia@Example.com", "Your e-mail address was changed", None)]
    me = await api.get(f"{ACCESS}/me", headers=headers)
    assert (me.json()["email"], me.json()["email_verified"]) == ("new@example.com", True)


async def test_a_change_of_address_needs_the_password(api: httpx.AsyncClient, user: User, sign_in: SignIn) -> None:
    """Neither a stolen session alone, nor a stranger, moves an account."""
    body = {"new_email": "new@example.com", "password": "wrong horse battery 7"}
    answer = await api.post(f"{ACCESS}/email", json=body, headers=await sign_in(user))
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_credentials")
    assert (await api.post(f"{ACCESS}/email", json=body)).status_code == 401
    assert await delivered() == []


async def test_somebody_elses_address_is_not_told_apart(
    api: httpx.AsyncClient, user: User, make_user: MakeUser, sign_in: SignIn
) -> None:
    """The answer is the same, its owner is told, and an older request of the same person is void."""
    await sync_to_async(make_user)(email="taken@example.com")
    headers = await sign_in(user)
    await api.post(f"{ACCESS}/email", json={"new_email": "new@example.com", "password": PASSWORD}, headers=headers)
    token = next(token for _, _, token in await delivered() if token)
    body = {"new_email": "TAKEN@example.com", "password": PASSWORD}
    answer = await api.post(f"{ACCESS}/email", json=body, headers=headers)
    assert (answer.status_code, answer.content) == (202, b"")
    assert await delivered() == [
        ("Mia@Example.com", "Your e-mail address is about to change", None),
        ("taken@example.com", "You have an account already", None),
    ]
    assert (await api.post(f"{ACCESS}/email/verify", json={"token": token})).status_code == 400


async def test_people_who_ask_for_each_others_addresses_do_not_wait_in_a_circle(make_user: MakeUser) -> None:
    """However often they do so at once, none is the victim of a deadlock, whose unit of work would run again."""
    people = [await sync_to_async(make_user)(email=f"{name}@example.com") for name in ("mia", "pia")]
    runs: list[User] = []

    def ask(one: User, other: User) -> None:
        runs.append(one)
        email_units.request_change(user_id=one.pk, old=one.password, new_email=other.email, session_id=None)

    for _ in range(20):
        await asyncio.gather(*(database().write(ask, *pair) for pair in (people, people[::-1])))
    assert len(runs) == 40


async def test_an_address_taken_meanwhile_stays_with_who_has_it(
    api: httpx.AsyncClient, user: User, make_user: MakeUser, sign_in: SignIn
) -> None:
    """The unique index decides: 409, and the account keeps its address."""
    headers = await sign_in(user)
    await api.post(f"{ACCESS}/email", json={"new_email": "new@example.com", "password": PASSWORD}, headers=headers)
    token = next(token for _, _, token in await delivered() if token)
    await sync_to_async(make_user)(email="NEW@example.com")
    answer = await api.post(f"{ACCESS}/email/verify", json={"token": token})
    assert (answer.status_code, answer.json()["code"]) == (409, "email_taken")
    assert (await present(user)).email == "Mia@Example.com"


async def test_a_reset_sent_to_the_old_address_dies_with_it(
    api: httpx.AsyncClient, user: User, sign_in: SignIn
) -> None:
    """Who has lost the mailbox does not get the account back through it."""
    reset = await token_for(api, "password/reset", user.email)
    headers = await sign_in(user)
    await api.post(f"{ACCESS}/email", json={"new_email": "new@example.com", "password": PASSWORD}, headers=headers)
    token = next(token for _, _, token in await delivered() if token)
    assert (await api.post(f"{ACCESS}/email/verify", json={"token": token})).status_code == 204
    assert (await confirm(api, reset)).status_code == 400


async def test_a_changed_password_stops_a_change_of_address(
    api: httpx.AsyncClient, user: User, sign_in: SignIn
) -> None:
    """As the message to the old address promises."""
    headers = await sign_in(user)
    await api.post(f"{ACCESS}/email", json={"new_email": "new@example.com", "password": PASSWORD}, headers=headers)
    token = next(token for _, _, token in await delivered() if token)
    body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    assert (await api.post(f"{ACCESS}/password", json=body, headers=headers)).status_code == 200
    assert (await api.post(f"{ACCESS}/email/verify", json={"token": token})).status_code == 400


# ---------------------------------------------------------------- pages


@pytest.mark.parametrize(
    ("path", "page"), [("password/reset", "/password/reset"), ("email/verify/resend", "/email/verify")]
)
async def test_a_link_changes_nothing_before_the_click(
    path: str, page: str, api: httpx.AsyncClient, user: User
) -> None:
    """GET and HEAD, however often a scanner sends them, show a strict page; the click does it, once."""
    token = await token_for(api, path, user.email)
    before = await present(user)
    for method in ("GET", "HEAD", "GET"):
        shown = await api.request(method, page, params={"token": token})
        assert shown.status_code == 200
    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    assert shown.headers["referrer-policy"] == "no-referrer"
    assert shown.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    assert f'value="{token}"' in shown.text
    assert "<script>" not in shown.text
    assert ("<script" in shown.text) == ("script-src 'self'" in shown.headers["content-security-policy"])
    assert (await present(user)).password == before.password
    assert (await present(user)).email_verified_at is None
    form = {"token": token, "new_password": NEW_PASSWORD}
    done = await api.post(page, data=form)
    assert done.status_code == 200, done.text
    assert 'role="status"' in done.text
    assert '<a class="button" href="/account/signin">Sign in</a>' in done.text
    assert token not in done.text
    assert NEW_PASSWORD not in done.text
    assert (await present(user)).email_verified_at is not None
    assert (await api.post(page, data=form)).text == done.text  # a second click
    for later in (WITHIN_S - 1, WITHIN_S):
        with clock.shifted(later):
            again = await api.post(page, data={**form, "more": "1"} if later < WITHIN_S else form)
        assert again.status_code == 400
        assert "ask for a new one" in again.text


async def test_a_page_says_why_a_password_is_refused(api: httpx.AsyncClient, user: User) -> None:
    """The reasons stand in the form, which can be sent again; the password itself does not."""
    token = await token_for(api, "password/reset", user.email)
    for password, reason in (("short one", "at least 15"), ("", "may not be blank")):
        refused = await api.post("/password/reset", data={"token": token, "new_password": password})
        assert refused.status_code == 400
        assert reason in refused.text
        assert f'value="{token}"' in refused.text
        assert "short one" not in refused.text
    assert (await api.post("/password/reset", data={"token": token, "new_password": NEW_PASSWORD})).status_code == 200


@pytest.mark.parametrize(
    ("page", "advice"),
    [
        ("/password/reset", "ask for a new one"),
        ("/email/verify", "ask for a new one"),
        ("/account/restore", "ask the people who run this service"),  # nobody can ask for another such message
    ],
)
async def test_a_page_without_a_token_shows_no_form(page: str, advice: str, api: httpx.AsyncClient) -> None:
    """Nobody fills in a form that cannot succeed, and what to do is said."""
    for address in (page, f"{page}?token="):
        shown = await api.get(address)
        assert shown.status_code == 400
        assert advice in shown.text
        assert "<form" not in shown.text


@pytest.mark.parametrize(
    ("page", "remedy"), [("/password/reset", "/account/forgot"), ("/email/verify", "/account/verify-again")]
)
async def test_a_stale_link_leads_to_where_a_new_one_is_asked_for(
    page: str, remedy: str, api: httpx.AsyncClient
) -> None:
    """Without a token, with a wrong one, and with none in the form; the page to restore an account has none to give."""
    form = {"token": "x", "new_password": NEW_PASSWORD}
    stale = await api.get(page, params={"token": "x"})  # judged when it is opened, not after a password was typed
    assert "<form" not in stale.text
    for shown in (stale, await api.get(page), await api.post(page, data=form), await api.post(page, data={})):
        assert shown.status_code == 400
        assert f'<a href="{remedy}">' in shown.text
        # Who opens the link of a confirmation once more needs no other message.
        assert ('<a href="/account/signin">' in shown.text) == (page == "/email/verify")
    assert "<a " not in (await api.get("/account/restore")).text


async def test_a_page_escapes_what_a_link_brings(api: httpx.AsyncClient) -> None:
    """A token made of markup is text, and a form without one is told so."""
    shown = await api.get("/email/verify", params={"token": '"><script>alert(1)</script>'})
    assert "<script>" not in shown.text
    for data in ({}, {"token": ""}, {"token": "\x00"}):
        assert (await api.post("/email/verify", data=data)).status_code == 400
