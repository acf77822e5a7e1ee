"""Signing in by the API with a code that is mailed: once, by who asked for it, and as strong as a password at most."""

import asyncio
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.mfa import factors
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.outbox.tokens import CODE_TRIES, SIGN_IN_MIN
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from tokens.sessions.models import Session
from tokens.sign_in import email_services
from tokens.tests.browser import CROSS_SITE, ME, SIGNIN, Member, Pair, cookie_lines
from tokens.tests.second_factor import enrol, said, with_code

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

ASK, CONFIRM = f"{SIGNIN}/email", f"{SIGNIN}/email/confirm"
WRONG = (401, "invalid_email_code")


@pytest.fixture(autouse=True)
def _by_email(settings: Settings) -> None:
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True


@pytest.fixture
async def proved(member: Member) -> Member:
    """Somebody whose address is proved."""
    await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=clock.now())
    return member


async def ask(api: httpx.AsyncClient, email: str, **more: Any) -> str:
    """Ask for a code; return what stands for it."""
    answer = await api.post(ASK, json={"email": email}, **more)
    assert answer.status_code == 200, answer.text
    assert answer.json()["minutes"] == SIGN_IN_MIN
    return str(answer.json()["code_token"])


async def mailed(email: str) -> str:
    """Return the code that was mailed to this person."""
    return email_tokens.code(await EmailToken.objects.aget(user__email=email, purpose="sign_in"))


def other(code: str) -> str:
    """Return six digits that are not this code."""
    return f"{(int(code) + 1) % 10**6:06}"


async def confirm(api: httpx.AsyncClient, email: str, code: str, token: str, **more: Any) -> httpx.Response:
    """Send the code."""
    return await api.post(CONFIRM, json={"email": email, "code": code, "code_token": token, **more})


async def test_a_code_opens_a_session(api: httpx.AsyncClient, proved: Member) -> None:
    """Its tokens are those of any session; session and trail say how it was opened."""
    email = proved["email"]
    token = await ask(api, email.upper())
    opened = await confirm(api, email, await mailed(email), token)
    assert opened.status_code == 200
    assert opened.headers["cache-control"] == "no-store"
    assert (await api.get(ME, headers=bearer(opened.json()))).json()["email"] == email
    session = await Session.objects.aget(pk=opened.json()["session_id"])
    assert session.amr == "email"
    event = await AuditEvent.objects.aget(event="sign_in", session_id=session.pk)
    assert event.details == {"by": "email"}
    assert await User.objects.filter(pk=proved["id"], password="").acount() == 0
    assert (await api.post(SIGNIN, json={"email": email, "password": PASSWORD})).status_code == 200


async def test_by_cookie(api: httpx.AsyncClient, proved: Member) -> None:
    """With the cookie transport the tokens travel in cookies, and another site's page gets none."""
    email = proved["email"]
    token = await ask(api, email)
    body = {"email": email, "code": await mailed(email), "code_token": token, "transport": "cookie"}
    assert said(await api.post(CONFIRM, json=body, headers=CROSS_SITE)) == (403, "cross_origin")
    answer = await api.post(CONFIRM, json=body)
    assert answer.status_code == 204
    assert set(cookie_lines(answer)) == {"access_token", "refresh_token", "device"}


async def test_off_by_default(api: httpx.AsyncClient, proved: Member, settings: Settings) -> None:
    """Neither a code is sent, nor one taken that was sent before."""
    email = proved["email"]
    token = await ask(api, email)
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = False
    assert (await api.post(ASK, json={"email": email})).status_code == 404
    assert (await confirm(api, email, await mailed(email), token)).status_code == 404


async def test_once_of_many_at_once(api: httpx.AsyncClient, proved: Member) -> None:
    """Of requests with the right code at the same moment one opens a session; the code is used up then."""
    email = proved["email"]
    token, code = await ask(api, email), await mailed(email)
    answers = await asyncio.gather(*(confirm(api, email, code, token) for _ in range(CODE_TRIES)))
    assert sorted(answer.status_code for answer in answers) == [200, *[401] * (CODE_TRIES - 1)]
    assert await Session.objects.filter(user_id=proved["id"], amr="email").acount() == 1
    assert said(await confirm(api, email, code, token)) == WRONG


async def test_who_has_not_asked_gets_nothing(api: httpx.AsyncClient, proved: Member) -> None:
    """The right code is worth nothing without what asking gave: not made up, not of another asking, not of another."""
    email = proved["email"]
    theirs = await ask(api, "stranger@example.com")
    older = await ask(api, email)
    token, code = await ask(api, email), await mailed(email)
    for wrong in (theirs, older, token[:-1] + ("A" if token[-1] != "A" else "B"), "A" * len(token), ""):
        assert (await confirm(api, email, code, wrong)).status_code in (400, 401)
    assert said(await confirm(api, "stranger@example.com", code, token)) == WRONG
    assert (await confirm(api, email, code, token)).status_code == 200


async def test_a_code_of_ones_own_opens_no_other_account(api: httpx.AsyncClient, proved: Member) -> None:
    """Who has a right code of their own gets nothing with somebody else's address, and in with theirs all the same."""
    own, theirs = "mallory@example.com", proved["email"]
    mallory = await sync_to_async(User.objects.create_user)(own, email_verified_at=clock.now())
    token, code = await ask(api, own), await mailed(own)
    assert said(await confirm(api, theirs, code, token)) == WRONG
    assert not await Session.objects.filter(user_id=proved["id"], amr="email").aexists()
    opened = await confirm(api, own, code, token)
    assert (await Session.objects.aget(pk=opened.json()["session_id"])).user_id == mallory.pk


async def test_five_tries(api: httpx.AsyncClient, proved: Member) -> None:
    """The fifth may be right, the sixth is refused with the right code too."""
    email = proved["email"]
    for wrong, status in ((CODE_TRIES - 1, 200), (CODE_TRIES, 401)):
        token, code = await ask(api, email), await mailed(email)
        for _ in range(wrong):
            assert said(await confirm(api, email, other(code), token)) == WRONG
        assert (await confirm(api, email, code, token)).status_code == status


async def test_ten_minutes(api: httpx.AsyncClient, proved: Member, still_clock: float, settings: Settings) -> None:
    """From the sending of the message, whatever the setting says of links: it works a second before, and not then."""
    settings.IRONAUTH_EMAIL_TOKEN_MIN = 60
    email = proved["email"]
    for after, status in ((60 * SIGN_IN_MIN - 1, 200), (60 * SIGN_IN_MIN, 401)):
        token, code = await ask(api, email), await mailed(email)
        with clock.shifted(after):
            assert (await confirm(api, email, code, token)).status_code == status


def test_a_token_ends(still_clock: float) -> None:
    """It lives as long as a message may be on its way and its code good, and not a second longer."""
    token = email_services.mint(code_id := new_id())
    life_s = email_services.DELIVERY_S + 60 * SIGN_IN_MIN
    with clock.shifted(life_s - 1):
        assert email_services.parse(token) == code_id
    with clock.shifted(life_s):
        assert email_services.parse(token) is None


async def test_wrong_codes_lock_as_wrong_passwords_do(api: httpx.AsyncClient, proved: Member, throttled: None) -> None:
    """New messages give no new tries; ten failures are free, as they are of passwords."""
    email, statuses = proved["email"], []
    for _ in range(3):
        token, code = await ask(api, email), await mailed(email)
        statuses += [(await confirm(api, email, other(code), token)).status_code for _ in range(4)]
    assert statuses == [401] * 10 + [429] * 2
    assert (await api.post(SIGNIN, json={"email": email, "password": PASSWORD})).status_code == 429


async def test_messages_are_bounded(
    api: httpx.AsyncClient, proved: Member, throttled: None, settings: Settings
) -> None:
    """For one mailbox, whether or not anybody has the address, and for one network; the limit itself is allowed."""
    for email in (proved["email"], "nobody@example.com"):
        for _ in range(settings.IRONAUTH_THROTTLE_MAILS_TO_ONE):
            await ask(api, email)
        assert (await api.post(ASK, json={"email": email})).status_code == 429
    settings.IRONAUTH_THROTTLE_MAILS = 2 * settings.IRONAUTH_THROTTLE_MAILS_TO_ONE + 4  # two were refused, and counted
    for number, status in enumerate((200, 200, 429)):
        assert (await api.post(ASK, json={"email": f"another-{number}@example.com"})).status_code == status


async def test_a_second_factor_is_asked_for(api: httpx.AsyncClient, proved: Member, pair: Pair) -> None:
    """As after a password; the code is used up then, and the session says both."""
    app, _ = await enrol(api, pair)
    email = proved["email"]
    token, code = await ask(api, email), await mailed(email)
    asked = await confirm(api, email, code, token)
    assert said(asked) == (401, "mfa_required")
    assert said(await confirm(api, email, code, token)) == WRONG
    opened = await with_code(api, asked.json()["mfa_token"], app.code())
    session = await Session.objects.aget(pk=opened.json()["session_id"])
    assert session.amr == "email otp mfa"


async def test_staff_may_ask_for_another_password_first(api: httpx.AsyncClient, proved: Member) -> None:
    """The code does not go past what a password does not go past."""
    await User.objects.filter(pk=proved["id"]).aupdate(must_change_password=True)
    token = await ask(api, proved["email"])
    answer = await confirm(api, proved["email"], await mailed(proved["email"]), token)
    assert said(answer) == (403, "password_change_required")


# ---------------------------------------------------------------- the first proof of an address
@pytest.mark.parametrize("mode", ["off", "required"])
async def test_a_stranger_who_made_the_account_is_out(
    mode: str, api: httpx.AsyncClient, member: Member, pair: Pair, settings: Settings
) -> None:
    """Who reads the mail starts clean: no password, second factor or session of before is left; a message follows."""
    await enrol(api, pair)
    settings.IRONAUTH_EMAIL_VERIFICATION = mode
    email = member["email"]
    token = await ask(api, email)
    opened = await confirm(api, email, await mailed(email), token)
    assert opened.status_code == 200, opened.text
    user = await User.objects.aget(pk=member["id"])
    assert user.email_verified_at is not None
    assert not user.has_usable_password()
    assert await sync_to_async(factors.methods_of)(user.pk) == ()
    assert (await api.get(ME, headers=bearer(opened.json()))).status_code == 200
    assert (await api.get(ME, headers=bearer(pair))).status_code == 401
    assert (await api.post(SIGNIN, json={"email": email, "password": PASSWORD})).status_code == 401
    assert await OutgoingMail.objects.filter(kind="choose_password", recipient=email).aexists()
    assert await sync_to_async(audit.wait_until_written)()
    proof = await AuditEvent.objects.aget(event="email_verified", user_id=user.pk)
    assert proof.details["first_proof"] is True
    assert proof.details["factors_removed"]


async def test_of_two_first_proofs_one_counts(api: httpx.AsyncClient, member: Member) -> None:
    """At the same moment: one starts clean and is in, the other is refused."""
    email = member["email"]
    token, code = await ask(api, email), await mailed(email)
    answers = await asyncio.gather(*(confirm(api, email, code, token) for _ in range(2)))
    assert sorted(answer.status_code for answer in answers) == [200, 401]
    assert await AuditEvent.objects.filter(event="email_verified").acount() == 1


# ---------------------------------------------------------------- what others learn
async def test_nobody_learns_who_has_an_account(
    api: httpx.AsyncClient, member: Member, still_clock: float, throttled: None
) -> None:
    """Unknown, inactive, unproved and proved addresses are answered alike, and so are wrong codes for them."""
    seen = []
    for kind, change in (
        ("unknown", {}),
        ("inactive", {"is_active": False}),
        ("unproved", {"is_active": True}),
        ("proved", {"email_verified_at": clock.now()}),
        ("must change", {"must_change_password": True}),
    ):
        await User.objects.filter(pk=member["id"]).aupdate(**(change or {"is_active": True}))
        email = "nobody@example.com" if kind == "unknown" else member["email"]
        asked = await api.post(ASK, json={"email": email})
        token = asked.json()["code_token"]
        refused = await confirm(api, email, "no code", token)
        headers = [sorted({**one.headers, "x-request-id": ""}.items()) for one in (asked, refused)]
        problem = {**refused.json(), "request_id": ""}
        seen.append((asked.status_code, len(token), asked.json()["minutes"], refused.status_code, headers, problem))
    assert seen[0][0] == 200
    assert all(one == seen[0] for one in seen)
