"""Proving again who one is by a mailed code: without a password, or beside it; in the session that asked, once."""

import asyncio
import re
from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.hashers import make_password
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.outbox.tokens import CODE_TRIES, SIGN_IN_MIN
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from tokens.access.credentials import access_name
from tokens.sessions.models import Session
from tokens.sign_in.tests import test_email_code as by_email
from tokens.sign_in.tests.test_step_up import age
from tokens.tests.browser import ME, SAME_ORIGIN, Member, Pair
from tokens.tests.second_factor import enrol, said

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

STEP_UP, ASK = "/api/v1/access/step-up", "/api/v1/access/step-up/email"
EMAIL, PASSKEYS = "/api/v1/access/email", "/api/v1/access/mfa/passkeys/options"
WRONG = (401, "invalid_email_code")
ROW = "/account/security/email"
LATER_S = 601  # seconds: a proof is recent for 600


@pytest.fixture
async def person(api: httpx.AsyncClient, member: Member, settings: Settings) -> Pair:
    """Somebody without a password, whose address is proved, in a session of theirs."""
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    fields = {"password": make_password(None), "email_verified_at": clock.now()}
    await User.objects.filter(pk=member["id"]).aupdate(**fields)
    token = await by_email.ask(api, member["email"])
    opened = await by_email.confirm(api, member["email"], await by_email.mailed(member["email"]), token)
    await OutgoingMail.objects.all().adelete()
    return dict(opened.json())


async def ask(api: httpx.AsyncClient, pair: Pair) -> str:
    """Ask for a code; return it."""
    answer = await api.post(ASK, headers=bearer(pair))
    assert answer.status_code == 202, answer.text
    return email_tokens.code(await EmailToken.objects.aget(purpose="reauthenticate"))


def other(code: str) -> str:
    """Return six digits that are not this code."""
    return f"{(int(code) + 1) % 10**6:06}"


async def step_up(api: httpx.AsyncClient, pair: Pair, **shown: Any) -> httpx.Response:
    """Prove again who it is."""
    return await api.post(STEP_UP, json=shown, headers=bearer(pair))


async def test_a_code_proves_it_again(api: httpx.AsyncClient, person: Pair, member: Member) -> None:
    """Once: the act that was kept from the session works for ten minutes; the session says how, and not `mfa`."""
    await age(person, LATER_S)
    assert said(await api.post(PASSKEYS, headers=bearer(person))) == (401, "step_up_required")
    code = await ask(api, person)
    mail = await OutgoingMail.objects.aget()
    assert (mail.kind, mail.recipient) == ("confirmation_code", member["email"])
    assert said(await step_up(api, person, email_code=other(code))) == WRONG
    assert (await step_up(api, person, email_code=code)).status_code == 204
    assert (await api.post(PASSKEYS, headers=bearer(person))).status_code == 200
    assert said(await step_up(api, person, email_code=code)) == WRONG
    session = await Session.objects.aget(pk=person["session_id"])
    assert session.amr == "email"
    assert await sync_to_async(audit.wait_until_written)()
    events = [event.event async for event in AuditEvent.objects.filter(session_id=session.pk).order_by("at")]
    assert events.count("confirmation_code_requested") == 1


async def test_in_place_of_a_password(api: httpx.AsyncClient, person: Pair, member: Member) -> None:
    """Another address and the end of the account ask for it, and say which field is missing."""
    body = {"new_email": "other@example.com"}
    missing = await api.post(EMAIL, json=body, headers=bearer(person))
    assert missing.status_code == 400
    assert [error["field"] for error in missing.json()["errors"]] == ["email_code"]
    wrong = await api.post(EMAIL, json={**body, "password": "any password"}, headers=bearer(person))
    assert said(wrong) == (401, "invalid_credentials")
    code = await ask(api, person)
    assert (await api.post(EMAIL, json={**body, "email_code": code}, headers=bearer(person))).status_code == 202
    gone = await api.request("DELETE", ME, json={"email_code": code}, headers=bearer(person))
    assert said(gone) == WRONG  # used
    gone = await api.request("DELETE", ME, json={"email_code": await ask(api, person)}, headers=bearer(person))
    assert gone.status_code == 204
    assert not (await User.objects.aget(pk=member["id"])).is_active


async def test_only_in_the_session_that_asked(api: httpx.AsyncClient, person: Pair, member: Member) -> None:
    """A thief of another session of the same person gets nothing by a code that its owner asked for."""
    code = await ask(api, person)
    await EmailToken.objects.filter(purpose="reauthenticate").aupdate(session_id=new_id())
    assert said(await step_up(api, person, email_code=code)) == WRONG
    await EmailToken.objects.filter(purpose="reauthenticate").aupdate(session_id=person["session_id"])
    assert (await step_up(api, person, email_code=code)).status_code == 204


async def test_who_has_something_better_shows_that(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """A password: no message is sent, and a code in the body is not looked at."""
    await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=clock.now())
    assert said(await api.post(ASK, headers=bearer(pair))) == (409, "email_code_not_offered")
    refused = await step_up(api, pair, email_code="123456")
    assert [error["field"] for error in refused.json()["errors"]] == ["password"]
    assert not await OutgoingMail.objects.filter(kind="confirmation_code").aexists()


# ---------------------------------------------------------------- beside a password, where people sign in by mail
@pytest.fixture
async def known(member: Member, pair: Pair, settings: Settings) -> Pair:
    """Somebody with a password, whose address is proved, where people sign in by mail; the last proof is too old."""
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=clock.now())
    await age(pair, LATER_S)
    return pair


async def test_a_step_up_takes_either(api: httpx.AsyncClient, known: Pair) -> None:
    """A code does what a sign-in by mail does: the session is young again, and no second factor was shown."""
    assert said(await api.post(PASSKEYS, headers=bearer(known))) == (401, "step_up_required")
    nothing = await step_up(api, known)
    assert [error["field"] for error in nothing.json()["errors"]] == ["password"]  # which is asked for first
    code = await ask(api, known)
    assert said(await step_up(api, known, email_code=other(code))) == WRONG
    assert (await step_up(api, known, email_code=code)).status_code == 204
    assert (await api.post(PASSKEYS, headers=bearer(known))).status_code == 200
    assert (await Session.objects.aget(pk=known["session_id"])).amr == "pwd email"
    await age(known, LATER_S)
    assert said(await step_up(api, known, email_code=code)) == WRONG
    assert (await step_up(api, known, password=PASSWORD)).status_code == 204


async def test_a_code_is_no_more_than_a_sign_in_by_mail(api: httpx.AsyncClient, known: Pair, member: Member) -> None:
    """What a code gives a session, a message gives one that is new: of a passkey's options both get the same."""
    token = await by_email.ask(api, member["email"])
    opened = await by_email.confirm(api, member["email"], await by_email.mailed(member["email"]), token)
    assert (await api.post(PASSKEYS, headers=bearer(opened.json()))).status_code == 200
    assert said(await api.post(PASSKEYS, headers=bearer(known))) == (401, "step_up_required")


@pytest.mark.parametrize(
    ("method", "path", "field", "body"),
    [
        ("POST", EMAIL, "password", {"new_email": "other@example.com"}),
        ("DELETE", ME, "password", {}),
        ("POST", "/api/v1/access/password", "current_password", {"new_password": "seven amber kites over Lyon"}),
    ],
)
async def test_acts_that_ask_for_the_password_take_no_code(
    api: httpx.AsyncClient, known: Pair, method: str, path: str, field: str, body: dict[str, str]
) -> None:
    """After a step-up by one neither; the password does them."""
    assert (await step_up(api, known, email_code=await ask(api, known))).status_code == 204
    shown = {**body, "email_code": await ask(api, known)}
    refused = await api.request(method, path, json=shown, headers=bearer(known))
    assert refused.status_code == 400, refused.text
    assert field in [error["field"] for error in refused.json()["errors"]]
    done = await api.request(method, path, json={**body, field: PASSWORD}, headers=bearer(known))
    assert done.status_code in (200, 202, 204), done.text


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/api/v1/access/mfa/recovery-codes"), ("DELETE", "/api/v1/access/mfa/totp")]
)
async def test_nor_do_acts_on_second_factors(api: httpx.AsyncClient, known: Pair, method: str, path: str) -> None:
    """Not even a code that was asked for before there was a factor; the password does them."""
    code = await ask(api, known)
    await step_up(api, known, password=PASSWORD)
    await enrol(api, known)
    refused = await api.request(method, path, json={"email_code": code}, headers=bearer(known))
    assert refused.status_code == 400, refused.text
    assert [error["field"] for error in refused.json()["errors"]] == ["password"]
    done = await api.request(method, path, json={"password": PASSWORD}, headers=bearer(known))
    assert done.status_code in (200, 204), done.text


@pytest.mark.parametrize("why", ["off", "factor", "unproved"])
async def test_who_may_not_choose(
    api: httpx.AsyncClient, known: Pair, member: Member, settings: Settings, why: str
) -> None:
    """No sign-in by mail, a second factor, or an address that nobody has proved: no message, and no code counts."""
    code = await ask(api, known)
    if why == "off":
        settings.IRONAUTH_SIGN_IN_BY_EMAIL = False
    elif why == "factor":
        await step_up(api, known, password=PASSWORD)
        await enrol(api, known)
    else:
        await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=None)
    await age(known, LATER_S)
    assert said(await api.post(ASK, headers=bearer(known))) == (409, "email_code_not_offered")
    refused = await step_up(api, known, email_code=code)
    assert [error["field"] for error in refused.json()["errors"]] == ["code" if why == "factor" else "password"]


async def test_an_unproved_address_proves_nothing(api: httpx.AsyncClient, person: Pair, member: Member) -> None:
    """A stranger may have typed it."""
    await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=None)
    assert said(await api.post(ASK, headers=bearer(person))) == (409, "email_code_not_offered")
    refused = await step_up(api, person, email_code="123456")
    assert [error["field"] for error in refused.json()["errors"]] == ["password"]
    assert not await OutgoingMail.objects.filter(kind="confirmation_code").aexists()


async def test_a_second_factor_is_no_less_for_it(api: httpx.AsyncClient, person: Pair, member: Member) -> None:
    """Who has one steps up by it, not by mail; acts that ask for the password as well take the code for that."""
    await enrol(api, person)
    await age(person, LATER_S)
    code = await ask(api, person)
    refused = await step_up(api, person, email_code=code)
    assert [error["field"] for error in refused.json()["errors"]] == ["code"]
    body = {"new_email": "other@example.com", "email_code": code}
    assert said(await api.post(EMAIL, json=body, headers=bearer(person))) == (401, "step_up_required")
    await age(person, LATER_S - 1)
    assert (await api.post(EMAIL, json=body, headers=bearer(person))).status_code == 202


async def test_five_tries_and_ten_minutes(api: httpx.AsyncClient, person: Pair, still_clock: float) -> None:
    """On both sides of each."""
    for wrong, right in ((CODE_TRIES - 1, 204), (CODE_TRIES, 401)):
        code = await ask(api, person)
        for _ in range(wrong):
            assert said(await step_up(api, person, email_code=other(code))) == WRONG
        assert (await step_up(api, person, email_code=code)).status_code == right
    for left_s, right in ((1, 204), (0, 401)):
        code = await ask(api, person)
        row = await EmailToken.objects.aget(purpose="reauthenticate")
        assert row.expires_at == clock.now() + timedelta(minutes=SIGN_IN_MIN)
        await EmailToken.objects.filter(pk=row.pk).aupdate(expires_at=clock.now() + timedelta(seconds=left_s))
        assert (await step_up(api, person, email_code=code)).status_code == right


async def test_once_of_many_at_once(api: httpx.AsyncClient, person: Pair) -> None:
    """Of requests with the right code at the same moment one counts."""
    code = await ask(api, person)
    answers = await asyncio.gather(*(step_up(api, person, email_code=code) for _ in range(CODE_TRIES)))
    assert sorted(answer.status_code for answer in answers) == [204, *[401] * (CODE_TRIES - 1)]


async def test_wrong_ones_count_as_wrong_passwords_do(api: httpx.AsyncClient, person: Pair, throttled: None) -> None:
    """A stolen session is no licence to guess: new messages give no new tries."""
    statuses = []
    for _ in range(3):
        code = await ask(api, person)
        statuses += [(await step_up(api, person, email_code=other(code))).status_code for _ in range(4)]
    assert statuses == [401] * 10 + [429] * 2
    assert (await step_up(api, person, email_code=code)).status_code == 429


async def test_messages_are_bounded(api: httpx.AsyncClient, person: Pair, throttled: None, settings: Settings) -> None:
    """A stolen session does not fill a mailbox; the limit itself is allowed."""
    for _ in range(settings.IRONAUTH_THROTTLE_MAILS_TO_ONE):
        await ask(api, person)
    assert (await api.post(ASK, headers=bearer(person))).status_code == 429


async def test_nobody_asks_without_a_session(api: httpx.AsyncClient, signing_key: str) -> None:
    """It is for people who are signed in."""
    assert (await api.post(ASK)).status_code == 401


# ---------------------------------------------------------------- on the account's pages
async def test_the_page_offers_either(api: httpx.AsyncClient, known: Pair) -> None:
    """Password or code, each alone; a wrong code is marked at its field, which stays open as after a message."""
    api.cookies.set(access_name(), known["access_token"])
    row, folded = "/account/security/codes", "<details>"
    page = await api.get(row)
    assert 'name="proof_password"' in page.text
    assert 'name="proof_email_code"' in page.text
    assert folded in page.text
    assert (await press(api, row, "start", proof_password="", proof_email_code="")).status_code == 401
    assert folded not in (await press(api, row, "start", mail_code="1")).text
    code = email_tokens.code(await EmailToken.objects.aget(purpose="reauthenticate"))
    wrong = await press(api, row, "start", proof_password="", proof_email_code=other(code))
    assert (wrong.status_code, folded in wrong.text) == (401, False)
    assert 'id="proof_email_code-problem"' in wrong.text
    started = await press(api, row, "start", proof_password="", proof_email_code=code)
    assert started.status_code == 200
    assert "Scan this with your app" in started.text
    await age(known, LATER_S)
    assert (await press(api, row, "start", proof_password=PASSWORD, proof_email_code="")).status_code == 200


async def test_a_row_with_a_password_of_its_own_offers_no_code(api: httpx.AsyncClient, known: Pair) -> None:
    """A forged field steps up at most; the act still wants the password."""
    code = await ask(api, known)
    api.cookies.set(access_name(), known["access_token"])
    shown = (await api.get(ROW)).text
    assert "email_code" not in shown
    assert "a code by e-mail does not do here" in shown
    refused = await press(api, ROW, "change", new_email="other@example.com", proof_email_code=code, email_code=code)
    assert refused.status_code == 400
    assert not await OutgoingMail.objects.filter(kind="change_email").aexists()


async def press(api: httpx.AsyncClient, path: str, act: str, **typed: str) -> httpx.Response:
    """Fill in the form of an act on a row's page, and press its button, or another one that ``typed`` has."""
    page = await api.get(path)
    assert page.status_code == 200, page.text
    form = re.findall(r'name="form" value="([^"]+)"', page.text)[0]
    return await api.post(path, data={"form": form, "act": act, **typed}, headers=SAME_ORIGIN)


@pytest.fixture
async def browser(api: httpx.AsyncClient, person: Pair) -> Pair:
    """The same person in a browser, which has the cookies of the session."""
    api.cookies.set(access_name(), person["access_token"])
    return person


async def test_the_page_sends_a_code_and_takes_it(api: httpx.AsyncClient, browser: Pair) -> None:
    """Nothing typed is lost while the code is on its way, and a wrong one is marked at its field."""
    asked = await press(api, ROW, "change", new_email="other@example.com", mail_code="1")
    assert asked.status_code == 200
    assert "on its way to your e-mail address" in asked.text
    assert 'value="other@example.com"' in asked.text
    code = email_tokens.code(await EmailToken.objects.aget(purpose="reauthenticate"))
    wrong = await press(api, ROW, "change", new_email="other@example.com", email_code=other(code))
    assert wrong.status_code == 401
    assert 'id="email_code-problem"' in wrong.text
    missing = await press(api, ROW, "change", new_email="other@example.com", email_code="")
    assert missing.status_code == 400
    done = await press(api, ROW, "change", new_email="other@example.com", email_code=code)
    assert (done.status_code, done.headers["location"]) == (303, f"{ROW}?done=change")
    assert await OutgoingMail.objects.filter(recipient="other@example.com", kind="change_email").aexists()


@pytest.mark.parametrize("taken", [False, True])
async def test_the_page_names_the_address_that_waits(api: httpx.AsyncClient, browser: Pair, taken: bool) -> None:
    """Until its link has expired, and whether or not another account has the address."""
    said_so = "A message was sent to <strong>other@example.com</strong>"
    if taken:
        await User.objects.acreate(email="other@example.com", email_key="other@example.com", password="!")
    assert said_so not in (await api.get(ROW)).text
    await press(api, ROW, "change", new_email="other@example.com", mail_code="1")
    code = email_tokens.code(await EmailToken.objects.aget(purpose="reauthenticate"))
    done = await press(api, ROW, "change", new_email="other@example.com", email_code=code)
    assert done.status_code == 303
    assert said_so in (await api.get(ROW)).text
    assert await EmailToken.objects.filter(purpose="change_email").acount() == 1
    await EmailToken.objects.filter(purpose="change_email").aupdate(expires_at=clock.now())
    assert said_so not in (await api.get(ROW)).text


async def test_a_row_that_wants_a_recent_proof_takes_a_code(api: httpx.AsyncClient, browser: Pair) -> None:
    """In place of signing in again, which is still offered; a wrong one is marked at its field."""
    await age(browser, LATER_S)
    page = await api.get("/account/security/codes")
    assert 'name="proof_email_code"' in page.text
    await press(api, "/account/security/codes", "start", mail_code="1")
    code = email_tokens.code(await EmailToken.objects.aget(purpose="reauthenticate"))
    wrong = await press(api, "/account/security/codes", "start", proof_email_code=other(code))
    assert wrong.status_code == 401
    assert 'id="proof_email_code-problem"' in wrong.text
    started = await press(api, "/account/security/codes", "start", proof_email_code=code)
    assert started.status_code == 200
    assert "Scan this with your app" in started.text


async def test_the_page_offers_it_to_nobody_else(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Who has a password is asked for that, and gets no message by a forged button."""
    api.cookies.set(access_name(), pair["access_token"])
    assert "mail_code" not in (await api.get(ROW)).text
    refused = await press(api, ROW, "change", new_email="other@example.com", mail_code="1")
    assert refused.status_code == 409
    assert not await OutgoingMail.objects.filter(kind="confirmation_code").aexists()
