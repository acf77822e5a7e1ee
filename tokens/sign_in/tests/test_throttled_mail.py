"""Throttles of what goes by e-mail, and what the audit trail hears of all throttles."""

from collections.abc import AsyncIterator
from io import StringIO
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.email.tests.test_email_flows import delivered
from accounts.lockout import rate_limits
from accounts.outbox.models import OutgoingMail
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.models import ThrottleFailures
from ironauth.infrastructure.ratelimit.lockout import FREE_FAILURES
from tokens.sign_in.tests.test_throttled import (  # noqa: F401 - a fixture
    DAY,
    SIGNUP,
    WRONG,
    _throttled,
    client_at,
    fail,
    refused,
    sign_in,
)
from tokens.tests.browser import ME, PASSWORD_URL, Member, Pair

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("still_clock")]

ACCESS = "/api/v1/access"
NEW_PASSWORD = "seven quiet lanterns over Bern"
ASKING = ("password/reset", "email/verify/resend")


async def ask(path: str, email: str, address: str = "203.0.113.7") -> httpx.Response:
    """Ask for a message from ``address``."""
    async with client_at(address) as client:
        return await client.post(f"{ACCESS}/{path}", json={"email": email})


async def throttled() -> list[tuple[Any, ...]]:
    """Return the trail's events of throttles: whose account, from where, and the details."""
    assert await sync_to_async(audit.wait_until_written)()
    rows = AuditEvent.objects.filter(event="throttled", outcome="refused")
    return [(row.user_id, row.address, row.details) async for row in rows]


@pytest.fixture
async def elsewhere() -> AsyncIterator[httpx.AsyncClient]:
    """A client at an address nothing has been counted for."""
    async with client_at("192.0.2.77") as client:
        yield client


# ------------------------------------------------------------------ asking for messages
async def test_one_client_asks_for_so_many_messages(settings: Settings, member: Member) -> None:
    """Two in an hour here, no matter who gets them: the third is refused, for a known address as for an unknown one."""
    settings.IRONAUTH_THROTTLE_MAILS = 2
    for path, email in zip(ASKING, (member["email"], "nobody@example.com"), strict=True):
        assert (await ask(path, email)).status_code == 202
    before = await OutgoingMail.objects.acount()
    answers = [await ask(path, email) for path in ASKING for email in (member["email"], "other@example.com")]
    assert all(refused(answer) for answer in answers)
    assert len({answer.headers["retry-after"] for answer in answers}) == 1
    assert await OutgoingMail.objects.acount() == before
    assert (await ask(ASKING[0], member["email"], "203.0.113.8")).status_code == 202
    with clock.shifted(2 * 3_600):
        assert (await ask(ASKING[0], member["email"])).status_code == 202


@pytest.mark.parametrize("path", ASKING)
async def test_one_mailbox_gets_so_many_messages(path: str, settings: Settings, member: Member) -> None:
    """From however many clients, in whatever case it is typed, known or not: the same answers at the same try."""
    settings.IRONAUTH_THROTTLE_MAILS_TO_ONE = 2
    seen = []
    for email in (member["email"], "nobody@example.com"):
        answers = [await ask(path, (email, email.upper())[n % 2], f"198.51.100.{n}") for n in range(4)]
        for answer in answers:
            answer.headers.pop("x-request-id")
        assert all(refused(answer) for answer in answers[2:])
        bodies = [{**answer.json(), "request_id": ""} if answer.content else None for answer in answers]
        headers = [sorted(answer.headers.items()) for answer in answers]
        seen.append(([answer.status_code for answer in answers], headers, bodies))
    assert seen[0] == seen[1]
    assert seen[0][0] == [202, 202, 429, 429]
    assert (await ask(path, "other@example.com", "198.51.100.1")).status_code == 202
    with clock.shifted(2 * 900):
        assert (await ask(path, member["email"], "198.51.100.1")).status_code == 202


async def test_strangers_who_ask_leave_a_link_that_works(member: Member) -> None:
    """Anybody who is refused a message has one in the mailbox, good until the next may be asked for."""
    while (answer := await ask(ASKING[0], member["email"])).status_code == 202:
        pass
    assert int(answer.headers["retry-after"]) <= 1_200
    ((_, _, token),) = await delivered()
    with clock.shifted(int(answer.headers["retry-after"])):
        async with client_at("203.0.113.9") as client:
            body = {"token": token, "new_password": NEW_PASSWORD}
            assert (await client.post(f"{ACCESS}/password/reset/confirm", json=body)).status_code == 204


async def test_messages_of_another_kind_leave_room_for_a_reset(settings: Settings, api: httpx.AsyncClient) -> None:
    """Strangers who have other messages sent there, or only ask for them, do not keep the owner from a reset."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    settings.IRONAUTH_THROTTLE_MAILS_TO_ONE = 2
    body = {"email": "mia@example.com", "password": PASSWORD}
    async with client_at("198.51.100.1") as stranger:
        answers = [await stranger.post(SIGNUP, json=body) for _ in range(3)]
        answers += [await ask(ASKING[1], "mia@example.com", "198.51.100.1") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [202, 202, 429] * 2
    assert [(await ask(ASKING[0], "mia@example.com")).status_code for _ in range(3)] == [202, 202, 429]


async def test_a_sign_up_that_tells_nothing_is_a_message_too(settings: Settings) -> None:
    """Where addresses must be verified, nobody fills a mailbox by signing up, and nothing is hashed for trying."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    settings.IRONAUTH_THROTTLE_MAILS_TO_ONE = 2
    body = {"email": "mia@example.com", "password": PASSWORD}
    for n in range(2):
        async with client_at(f"198.51.100.{n}") as client:
            assert (await client.post(SIGNUP, json=body)).status_code == 202
    jobs = hash_pool().stats().completed
    async with client_at("198.51.100.9") as client:
        assert refused(await client.post(SIGNUP, json=body))
        assert hash_pool().stats().completed == jobs
        assert (await client.post(SIGNUP, json={**body, "email": "pia@example.com"})).status_code == 202


async def test_one_account_moves_so_often(settings: Settings, pair: Pair) -> None:
    """Whatever the new addresses and the clients; the answer comes before the password is looked at."""
    settings.IRONAUTH_THROTTLE_MAILS_TO_ONE = 2
    for n in range(3):
        body = {"new_email": f"new{n}@example.com", "password": PASSWORD}
        jobs = hash_pool().stats().completed
        async with client_at(f"198.51.100.{n}") as client:
            answer = await client.post(f"{ACCESS}/email", json=body, headers=bearer(pair))
        assert (answer.status_code, hash_pool().stats().completed - jobs) == ((202, 1) if n < 2 else (429, 0))
    assert refused(answer)
    assert [details for _, _, details in await throttled()] == [{"rule": "mail", "by": "account"}]


async def test_a_change_of_address_is_no_way_to_guess_a_password(
    settings: Settings, api: httpx.AsyncClient, pair: Pair
) -> None:
    """Its password has the same ten tries as a change of password."""
    settings.IRONAUTH_THROTTLE_MAILS_TO_ONE = 100
    for n in range(FREE_FAILURES):
        body = {"new_email": f"new{n}@example.com", "password": WRONG}
        assert (await api.post(f"{ACCESS}/email", json=body, headers=bearer(pair))).status_code == 401
    right = {"new_email": "new@example.com", "password": PASSWORD}
    assert refused(await api.post(f"{ACCESS}/email", json=right, headers=bearer(pair)), 1)
    change = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    assert refused(await api.post(PASSWORD_URL, json=change, headers=bearer(pair)), 1)
    with clock.shifted(1):
        assert (await api.post(f"{ACCESS}/email", json=right, headers=bearer(pair))).status_code == 202


# ------------------------------------------------------------------ tokens of messages
async def test_invalid_tokens_of_a_client(settings: Settings, member: Member, elsewhere: httpx.AsyncClient) -> None:
    """They are refused after so many, at the API and the pages together; a valid one still works."""
    settings.IRONAUTH_THROTTLE_BAD_EMAIL_TOKENS = 5
    assert (await elsewhere.post(f"{ACCESS}/password/reset", json={"email": member["email"]})).status_code == 202
    ((_, _, token),) = await delivered()
    bad = {"token": "A" * 64, "new_password": NEW_PASSWORD}
    places = (f"{ACCESS}/password/reset/confirm", f"{ACCESS}/email/verify")
    for n in range(4):
        assert (await elsewhere.post(places[n % 2], json=bad)).status_code == 400
    assert (await elsewhere.post("/email/verify", data=bad)).status_code == 400
    for place in places:
        assert refused(await elsewhere.post(place, json=bad))
    page = await elsewhere.post("/password/reset", data=bad)
    assert (page.status_code, int(page.headers["retry-after"]) >= 1) == (429, True)
    assert "too many attempts" in page.text
    done = await elsewhere.post("/password/reset", data={"token": token, "new_password": NEW_PASSWORD})
    assert done.status_code == 200
    async with client_at("203.0.113.8") as other:
        assert (await other.post(places[1], json=bad)).status_code == 400


async def test_a_reset_forgives(member: Member, elsewhere: httpx.AsyncClient) -> None:
    """People kept out by strangers, or who guessed at the old password, is let in with the new one at once."""
    signed_in = await elsewhere.post(f"{ACCESS}/signin", json={"email": member["email"], "password": PASSWORD})
    body = {"password": WRONG}
    for n in range(FREE_FAILURES):
        await fail(f"198.51.100.{n}", member["email"], 1)
        answer = await elsewhere.request("DELETE", ME, json=body, headers=bearer(signed_in.json()))
        assert answer.status_code == 401
    assert refused(await sign_in("198.51.100.1", member["email"], PASSWORD))
    assert (await ask(ASKING[0], member["email"])).status_code == 202
    ((_, _, token),) = await delivered()
    chosen = {"token": token, "new_password": NEW_PASSWORD}
    assert (await elsewhere.post(f"{ACCESS}/password/reset/confirm", json=chosen)).status_code == 204
    assert not await ThrottleFailures.objects.filter(failures__gt=0).aexists()
    again = await sign_in("198.51.100.1", member["email"], NEW_PASSWORD)
    assert again.status_code == 200
    right = {"current_password": NEW_PASSWORD, "new_password": PASSWORD}
    assert (await elsewhere.post(PASSWORD_URL, json=right, headers=bearer(again.json()))).status_code == 200


@pytest.mark.parametrize("way", ["reset", "operator"])
async def test_known_devices_are_forgiven_too(way: str, member: Member) -> None:
    """Who forgot the password on a device of theirs gets in there at once, and is as well known there as before."""
    await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=clock.now())  # else no device stays known
    assert (await sign_in("203.0.113.7", member["email"], PASSWORD)).status_code == 200
    await fail("203.0.113.7", member["email"], FREE_FAILURES)
    assert refused(await sign_in("203.0.113.7", member["email"], PASSWORD), 1)
    assert await ThrottleFailures.objects.filter(failures__gt=0).aupdate(retry_at=clock.unix() + DAY) == 1
    with clock.shifted(60):
        password = PASSWORD
        if way == "operator":
            await sync_to_async(call_command)("forgive_failures", member["email"], stdout=StringIO())
        else:
            password = NEW_PASSWORD
            assert (await ask(ASKING[0], member["email"])).status_code == 202
            ((_, _, token),) = await delivered()
            async with client_at("203.0.113.9") as client:
                body = {"token": token, "new_password": password}
                assert (await client.post(f"{ACCESS}/password/reset/confirm", json=body)).status_code == 204
    with clock.shifted(120):
        await fail("198.51.100.1", member["email"], FREE_FAILURES)
        assert refused(await sign_in("198.51.100.2", member["email"], password), 1)
        await fail("203.0.113.7", member["email"], FREE_FAILURES - 1)
        assert (await sign_in("203.0.113.7", member["email"], password)).status_code == 200
        await fail("203.0.113.7", member["email"], FREE_FAILURES)
        assert refused(await sign_in("203.0.113.7", member["email"], password), 1)


# ------------------------------------------------------------------ the trail
async def test_the_trail_hears_of_a_throttled_account_once_an_hour(member: Member) -> None:
    """However many tries are refused; the event says whose account it is, if it is anybody's."""
    for email, user_id in ((member["email"], member["id"]), ("nobody@example.com", "")):
        before = await throttled()
        await fail("198.51.100.1", email, FREE_FAILURES)
        for n in range(15):
            assert refused(await sign_in(f"198.51.100.{n}", email))
        (told,) = [event for event in await throttled() if event not in before]
        assert (str(told[0] or ""), *told[1:]) == (user_id, "198.51.100.0", {"rule": "sign_in", "by": "account"})
    await ThrottleFailures.objects.aupdate(retry_at=clock.unix() + DAY)
    for later, events in ((3_599, 2), (3_601, 4)):
        with clock.shifted(later):
            for email in (member["email"], "nobody@example.com"):
                assert refused(await sign_in("198.51.100.1", email))
                assert refused(await sign_in("198.51.100.1", email))
        assert len(await throttled()) == events


async def test_the_trail_hears_of_a_throttled_client(settings: Settings, signing_key: str) -> None:
    """One event, which names no account: it is not about one."""
    settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = 5
    for n in range(12):
        await sign_in("203.0.113.7", f"nobody{n}@example.com")
    assert await throttled() == [(None, "203.0.113.7", {"rule": "sign_in", "by": "address"})]


def test_what_is_told_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more counts than are remembered, the oldest may be told again, the others not."""
    monkeypatch.setattr(rate_limits._Told, "MOST", 3)
    told = rate_limits._Told()
    assert [told.is_news(key) for key in "aabcda"] == [True, False, True, True, True, True]
    assert [told.is_news(key) for key in "cda"] == [False, False, False]


async def test_the_admin_tells_the_trail(member: Member) -> None:
    """Its sign-in stands under the same throttles, and under the same bound."""
    await fail("198.51.100.1", member["email"], FREE_FAILURES)

    def by_form() -> None:
        browser = Client(REMOTE_ADDR="198.51.100.2")
        for _ in range(3):
            body = {"username": member["email"], "password": PASSWORD}
            assert browser.post(reverse("admin:login"), body).status_code == 200

    await sync_to_async(by_form)()
    ((user_id, address, details),) = await throttled()
    assert (str(user_id), address, details) == (
        member["id"],
        "198.51.100.2",
        {"rule": "sign_in", "by": "account"},
    )


async def test_an_operator_who_forgives_leaves_an_event(member: Member) -> None:
    """For somebody's address with its owner, for an unknown one without."""
    for email in (member["email"].upper(), "nobody@example.com"):
        await sync_to_async(call_command)("forgive_failures", email, stdout=StringIO())
    rows = AuditEvent.objects.filter(event="failures_forgiven")
    found = [(str(row.user_id or ""), row.actor_id, row.outcome, row.details) async for row in rows]
    assert sorted(found, key=str) == [("", None, "success", {}), (member["id"], None, "success", {})]
