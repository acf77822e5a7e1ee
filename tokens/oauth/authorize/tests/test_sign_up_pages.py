"""Making an account on a page, and signing in with a code that is mailed: who gets in, and what others learn."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.outbox.tokens import CODE_TRIES
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.second_clicks import WITHIN_S
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, form_to, forms, is_page, send
from tokens.sessions.models import Session
from tokens.tests.browser import CROSS_SITE, Member, Pair
from tokens.tests.second_factor import enrol

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]

SIGNUP, EMAIL, CODE, SIGNIN = "/oauth/signup", "/oauth/signin/email", "/oauth/code", "/oauth/signin"
NEW = {"email": "new@example.com", "name": "New", "password": PASSWORD}


@pytest.fixture
async def client(transactional_db: None) -> OAuthClient:
    """One of our own clients, which asks for no consent."""
    return (await sync_to_async(make_client)(trusted=True))[0]


@pytest.fixture
def by_email(settings: Settings) -> None:
    """Codes sign people in."""
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True


async def code_of(purpose: str) -> str:
    """Return the code of the newest message of this purpose."""
    row = await EmailToken.objects.filter(purpose=purpose, code_tries__isnull=False).order_by("-created_at").afirst()
    assert row is not None
    return email_tokens.code(row)


def other(code: str) -> str:
    """Return a code of six digits that is not this one."""
    return f"{(int(code) + 1) % 10**6:06}"


def gone_to(answer: httpx.Response, path: str) -> bool:
    """Tell whether a sign-in led there, with the cookies of a session."""
    return (
        answer.status_code == 303
        and answer.headers["location"] == path
        and {"access_token", "refresh_token"} <= set(answer.cookies)
    )


# ---------------------------------------------------------------- sign-up
async def test_an_account_is_made_and_signed_in(api: httpx.AsyncClient, settings: Settings) -> None:
    """Where no address has to be proved, the person is in at once, and goes where they wanted to."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "off"
    page = await api.get("/account/signup?next=/shop?a=1")
    assert gone_to(await send(api, page, SIGNUP, **NEW), "/shop?a=1")
    me = (await api.get("/api/v1/access/me")).json()
    assert (me["email"], me["name"]) == ("new@example.com", "New")


async def test_an_account_is_made_on_the_way_to_a_client(
    api: httpx.AsyncClient, client: OAuthClient, settings: Settings
) -> None:
    """The authorization goes on after the sign-up, without another question."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "off"
    page = await send(api, await authorize(api, client), SIGNUP)
    assert is_page(page, 200, "Create an account", client.name)
    assert answered(await send(api, page, SIGNUP, **NEW))["code"]


async def test_a_client_asks_for_a_new_account(api: httpx.AsyncClient, client: OAuthClient, settings: Settings) -> None:
    """``prompt=create`` shows the sign-up page, to somebody who is signed in too; without sign-up it is no prompt."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "off"
    for email in ("first@example.com", "second@example.com"):
        page = await authorize(api, client, prompt="create")
        assert is_page(page, 200, "Create an account", client.name)
        assert answered(await send(api, page, SIGNUP, **{**NEW, "email": email}))["code"]
    page = await send(api, await authorize(api, client, prompt="create"), SIGNIN)
    assert is_page(page, 200, "Sign in")
    assert "create" in (await api.get("/.well-known/openid-configuration")).json()["prompt_values_supported"]
    for rule in ("closed", "invitation"):
        settings.IRONAUTH_SIGN_UP = rule
        assert answered(await authorize(api, client, prompt="create"))["error"] == "invalid_request"
        assert "create" not in (await api.get("/.well-known/openid-configuration")).json()["prompt_values_supported"]


async def test_the_code_of_the_message_goes_on(api: httpx.AsyncClient, client: OAuthClient, settings: Settings) -> None:
    """Where addresses have to be proved, the code does that, keeps the password, and the client gets its answer."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    page = await send(api, await send(api, await authorize(api, client), SIGNUP), SIGNUP, **NEW)
    assert is_page(page, 200, "Check your e-mail", "new@example.com")
    right = await code_of("verify_email")
    assert is_page(await send(api, page, CODE, code=other(right)), 401, "The code is wrong")
    assert answered(await send(api, page, CODE, code=f" {right[:3]} {right[3:]}"))["code"]
    user = await User.objects.aget(email="new@example.com")
    assert user.email_verified_at is not None
    assert await user.acheck_password(PASSWORD)
    assert is_page(await send(api, page, CODE, code=right), 401)  # once


async def test_a_taken_address_looks_the_same(api: httpx.AsyncClient, member: Member, settings: Settings) -> None:
    """Its owner gets a message; the page asks for a code that does not exist, and no code is right."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    texts = []
    for email in (member["email"], "new@example.com"):
        page = await send(api, await api.get("/account/signup"), SIGNUP, **{**NEW, "email": email})
        assert is_page(page, 200, "Check your e-mail")
        state = form_to(page, CODE).fields["request"]
        texts.append(page.text.replace(state, "").replace(email, ""))
        if email == member["email"]:
            right = await code_of("verify_email")  # of the row that was written for nobody
            assert is_page(await send(api, page, CODE, code=right), 401)
    assert texts[0] == texts[1]
    kinds = {mail.recipient: mail.kind async for mail in OutgoingMail.objects.all()}
    assert kinds[member["email"]] == "account_exists"


async def test_five_tries_of_one_code(api: httpx.AsyncClient, settings: Settings) -> None:
    """The fifth try may be right; after five wrong ones the right code is refused, and another message helps."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    for wrong, lets_in in ((CODE_TRIES - 1, True), (CODE_TRIES, False)):
        email = f"tries{wrong}@example.com"
        page = await send(api, await api.get("/account/signup"), SIGNUP, **{**NEW, "email": email})
        right = await code_of("verify_email")
        for _ in range(wrong):
            assert is_page(await send(api, page, CODE, code=other(right)), 401)
        answer = await send(api, page, CODE, code=right)
        assert gone_to(answer, "/account/security") == lets_in
    again = await api.post(CODE, data={**form_to(page, CODE).fields, "again": "1"})
    assert is_page(again, 200, "Another message is on its way")
    assert is_page(await send(api, page, CODE, code=await code_of("verify_email")), 401)  # of the older page
    assert gone_to(await send(api, again, CODE, code=await code_of("verify_email")), "/account/security")


@pytest.mark.usefixtures("still_clock")  # the wait after the tenth try is a second, which a busy machine takes anyway
async def test_new_messages_give_no_new_tries(api: httpx.AsyncClient, throttled: None, settings: Settings) -> None:
    """A stranger who signs up with somebody's mailbox may not guess on and on; the right code is refused too then."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    page = await send(api, await api.get("/account/signup"), SIGNUP, **NEW)
    statuses = []
    for _ in range(3):
        wrong = other(await code_of("verify_email"))
        statuses += [(await send(api, page, CODE, code=wrong)).status_code for _ in range(CODE_TRIES)]
        page = await api.post(CODE, data={**form_to(page, CODE).fields, "again": "1"})
    assert statuses[:CODE_TRIES] == [401] * CODE_TRIES
    assert statuses[-1] == 429
    assert (await send(api, page, CODE, code=await code_of("verify_email"))).status_code == 429
    assert (await User.objects.aget(email=NEW["email"])).email_verified_at is None


async def test_a_right_code_after_wrong_ones_resets_the_count(
    api: httpx.AsyncClient, throttled: None, settings: Settings
) -> None:
    """Who mistyped a few times is not kept from signing in."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    page = await send(api, await api.get("/account/signup"), SIGNUP, **NEW)
    right = await code_of("verify_email")
    for _ in range(CODE_TRIES - 1):
        assert (await send(api, page, CODE, code=other(right))).status_code == 401
    assert gone_to(await send(api, page, CODE, code=right), "/account/security")
    api.cookies.clear()
    wrong = 0
    page = await api.get("/account/signin")
    while (await send(api, page, SIGNIN, email=NEW["email"], password="not it at all")).status_code == 401:
        wrong += 1
    assert wrong >= CODE_TRIES


async def test_a_code_expires(api: httpx.AsyncClient, settings: Settings) -> None:
    """As the link in the same message does."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    page = await send(api, await api.get("/account/signup"), SIGNUP, **NEW)
    await EmailToken.objects.aupdate(expires_at=clock.now() - timedelta(seconds=1))
    assert is_page(await send(api, page, CODE, code=await code_of("verify_email")), 401)


async def test_a_code_belongs_to_its_browser(api: httpx.AsyncClient, settings: Settings) -> None:
    """Another browser with the form and the code gets nothing; nor does another site's page in this browser."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    page = await send(api, await api.get("/account/signup"), SIGNUP, **NEW)
    filled = {**form_to(page, CODE).fields, "code": await code_of("verify_email")}
    mine = dict(api.cookies)
    api.cookies.clear()
    await api.get("/account/signup")  # another browser, with a cookie of its own
    assert is_page(await api.post(CODE, data=filled), 400, "another browser")
    api.cookies.clear()
    api.cookies.update(mine)
    assert (await api.post(CODE, data=filled, headers=CROSS_SITE)).status_code == 403
    assert gone_to(await api.post(CODE, data=filled), "/account/security")


async def test_a_changed_password_ends_the_code(api: httpx.AsyncClient, settings: Settings) -> None:
    """The owner of the address starts clean by the link: the page that signed up lets nobody in any more."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    page = await send(api, await api.get("/account/signup"), SIGNUP, **NEW)
    right = await code_of("verify_email")
    row = await EmailToken.objects.aget(purpose="verify_email", user__email="new@example.com")
    link = {"token": email_tokens.text(row), "new_password": "green comet sings 7 hymns", "answer": "choose"}
    assert (await api.post("/email/verify", data=link)).status_code == 200
    assert is_page(await send(api, page, CODE, code=right), 401)


async def test_nothing_typed_is_lost(api: httpx.AsyncClient, member: Member, settings: Settings) -> None:
    """What is wrong is marked at its field, the rest stays, and the password is never sent back."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "off"
    page = await api.get("/account/signup")
    for change, status, field in (
        ({"password": "too short"}, 400, "password"),
        ({"password": "password password"}, 400, "password"),
        ({"email": "no address"}, 400, "email"),
        ({"name": "x" * 151}, 400, "name"),
        ({"email": member["email"]}, 409, "email"),
    ):
        typed = {**NEW, **change}
        answer = await send(api, page, SIGNUP, **typed)
        assert is_page(answer, status, f'id="{field}-problem"', f'aria-describedby="{field}-problem')
        fields = form_to(answer, SIGNUP).fields
        assert (fields["email"], fields["name"], fields["password"]) == (typed["email"], typed["name"], "")
    assert not await User.objects.filter(email=NEW["email"]).aexists()


@pytest.mark.parametrize("rule", ["closed", "invitation", "a value of tomorrow"])
async def test_a_closed_service(api: httpx.AsyncClient, client: OAuthClient, settings: Settings, rule: str) -> None:
    """Nobody makes an account by page or API, and no page offers it; by invitation, nobody without one."""
    page = await authorize(api, client)
    settings.IRONAUTH_SIGN_UP = rule
    assert is_page(await api.get("/account/signup"), 403, "ask them for one")
    assert is_page(await send(api, page, SIGNUP, **NEW), 403)
    assert (await api.post("/api/v1/access/signup", json=NEW)).json()["code"] == "sign_up_closed"
    assert not [form for form in forms(await api.get("/account/signin")) if form.action == SIGNUP]
    assert not await User.objects.filter(email=NEW["email"]).aexists()


@pytest.mark.parametrize(
    "wanted", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "/a\nb", "", "a"]
)
async def test_nobody_is_led_elsewhere(api: httpx.AsyncClient, member: Member, wanted: str) -> None:
    """``next`` is a path of this site, or it is not followed."""
    page = await api.get("/account/signin", params={"next": wanted})
    assert gone_to(await send(api, page, SIGNIN, email=member["email"], password=PASSWORD), "/account/security")


async def test_a_path_of_this_site_is_followed(api: httpx.AsyncClient, member: Member, settings: Settings) -> None:
    """With the issuer before it, too."""
    for wanted in ("/orders?x=1#y", f"{settings.IRONAUTH_ISSUER}/orders?x=1#y"):
        page = await api.get("/account/signin", params={"next": wanted})
        assert gone_to(await send(api, page, SIGNIN, email=member["email"], password=PASSWORD), "/orders?x=1#y")


# ---------------------------------------------------------------- a code in place of the password
async def ask(api: httpx.AsyncClient, email: str, **changes: Any) -> httpx.Response:
    """Ask for a code on the way to the account's pages."""
    page = await send(api, await api.get("/account/signin"), EMAIL)
    return await send(api, page, EMAIL, email=email, **changes)


async def prove(email: str) -> None:
    """Have the address of this account proved."""
    await User.objects.filter(email=email).aupdate(email_verified_at=clock.now())


async def test_codes_are_off_by_default(api: httpx.AsyncClient, member: Member) -> None:
    """Neither offered nor answered."""
    page = await api.get("/account/signin")
    assert EMAIL not in {form.action for form in forms(page)}
    filled = {**form_to(page, SIGNIN).fields, "email": member["email"]}
    assert is_page(await api.post(EMAIL, data=filled), 404)


@pytest.mark.usefixtures("by_email")
async def test_a_code_signs_in(api: httpx.AsyncClient, member: Member) -> None:
    """Once: of two clicks at the same moment both lead into one session; it says how."""
    await prove(member["email"])
    page = await ask(api, member["email"])
    assert is_page(page, 200, "If there is an account")
    right = await code_of("sign_in")
    answers = await asyncio.gather(*(send(api, page, CODE, code=right) for _ in range(2)))
    assert [answer.status_code for answer in answers] == [303, 303]
    session = await Session.objects.aget(user_id=member["id"])
    assert session.amr == "email"


@pytest.mark.usefixtures("by_email")
async def test_nobody_learns_who_has_an_account(api: httpx.AsyncClient, member: Member) -> None:
    """Unknown, inactive, not proved and proved addresses look the same; nobody who is inactive gets a code."""
    await User.objects.filter(pk=member["id"]).aupdate(is_active=False)
    seen = []
    for state in ("inactive", "unproved", "proved", "unknown"):
        if state != "inactive":
            await User.objects.filter(pk=member["id"]).aupdate(is_active=True)
        if state == "proved":
            await prove(member["email"])
        await OutgoingMail.objects.all().adelete()
        email = "nobody@example.com" if state == "unknown" else member["email"]
        api.cookies.clear()  # for the same browser it would be a second click
        page = await ask(api, email)
        fields = form_to(page, CODE).fields
        seen.append(page.text.replace(fields["request"], "").replace(email, ""))
        sent = [mail.kind async for mail in OutgoingMail.objects.exclude(recipient="")]
        assert sent == (["sign_in_code"] if state in ("unproved", "proved") else [])
    assert len(set(seen)) == 1


@pytest.mark.usefixtures("by_email")
async def test_a_second_factor_is_asked_for(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """As after a password; the code is used up by then, and the session says both."""
    app, _codes = await enrol(api, pair)
    await prove(member["email"])
    page = await ask(api, member["email"])
    right = await code_of("sign_in")
    step = await send(api, page, CODE, code=right)
    assert is_page(step, 200, "One more step")
    with clock.shifted(WITHIN_S):  # until then a second click leads where the first one led
        assert is_page(await send(api, page, CODE, code=right), 401)
    assert gone_to(await send(api, step, "/oauth/signin/code", code=app.code(1)), "/account/security")
    session = await Session.objects.filter(user_id=member["id"]).order_by("-created_at").afirst()
    assert session is not None
    assert session.amr.split() == ["email", "otp", "mfa"]


@pytest.mark.usefixtures("by_email", "still_clock")  # as above
async def test_wrong_codes_lock_as_wrong_passwords_do(
    api: httpx.AsyncClient, member: Member, throttled: None, settings: Settings
) -> None:
    """New messages give no new tries: what strangers may try at one account is counted together."""
    await prove(member["email"])
    statuses = []
    for _ in range(3):
        api.cookies.clear()  # for the same browser it would be a second click
        page = await ask(api, member["email"])
        wrong = other(await code_of("sign_in"))
        statuses += [(await send(api, page, CODE, code=wrong)).status_code for _ in range(CODE_TRIES)]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    page = await send(api, await api.get("/account/signin"), SIGNIN, email=member["email"], password=PASSWORD)
    assert page.status_code == 429
    assert await AuditEvent.objects.filter(event="sign_in", outcome="failure").aexists()


@pytest.mark.usefixtures("by_email")
async def test_a_code_of_another_account(api: httpx.AsyncClient, member: Member) -> None:
    """A code is good for the address it was asked for, and for no other purpose."""
    await prove(member["email"])
    page = await ask(api, "nobody@example.com")
    await ask(api, member["email"])
    assert is_page(await send(api, page, CODE, code=await code_of("sign_in")), 401)
