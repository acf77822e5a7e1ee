"""Signing in on the way to a client: what is right, what is wrong, and forms that are not this browser's own."""

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.audit.models import AuditEvent
from accounts.mfa.recovery.models import RecoveryCode
from accounts.tests.authenticator import Authenticator
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.asgi import application
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Overloaded
from ironauth.infrastructure.hashing.pool import hash_pool
from tokens.clients.models import OAuthClient
from tokens.oauth.authorize import services as authorizations
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.services import Decision
from tokens.oauth.models import AuthorizationCode
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, form_to, forms, is_page, say, send
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.tests.browser import CROSS_SITE, SAME_ORIGIN, Member, Pair, cookie_lines
from tokens.tests.second_factor import enrol

pytestmark = [pytest.mark.django_db(transaction=True)]

SIGNIN, CODE, PASSKEY, CONSENT = "/oauth/signin", "/oauth/signin/code", "/oauth/signin/passkey", "/oauth/consent"


@pytest.fixture
async def client(transactional_db: None) -> OAuthClient:
    """One of our own clients, which asks for no consent."""
    return (await sync_to_async(make_client)(trusted=True))[0]


async def test_refusals_are_the_same(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """Unknown, wrong and inactive are the same page with 401 but for the address typed; the form is still good then."""
    page = await authorize(api, client)
    answers = [
        await by_password(api, page, "nobody@example.com"),
        await by_password(api, page, member["email"], "not the password at all"),
    ]
    await User.objects.filter(pk=member["id"]).aupdate(is_active=False)
    answers.append(await by_password(api, page, member["email"]))
    assert all(is_page(answer, 401, "is wrong: check both") for answer in answers)
    pages = [re.sub(r'data-autofill="[^"]+"', "", answer.text) for answer in answers]  # random
    texts = {page.replace("nobody@example.com", "X").replace(member["email"], "X") for page in pages}
    assert len(texts) == 1
    assert not any("set-cookie" in answer.headers for answer in answers)
    await User.objects.filter(pk=member["id"]).aupdate(is_active=True)
    assert answered(await by_password(api, answers[1], member["email"]))["code"]


async def test_a_client_deleted_while_the_password_is_checked(
    api: httpx.AsyncClient, member: Member, client: OAuthClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Session and code are one transaction: nobody is signed in half, and the page says what to do."""
    page = await authorize(api, client)
    decide = authorizations._decided

    def deleted_first(**given: Any) -> Decision:
        OAuthClient.objects.filter(pk=client.pk).delete()
        return decide(**given)

    monkeypatch.setattr(authorizations, "_decided", deleted_first)
    assert is_page(await by_password(api, page, member["email"]), 401, "sign in again")
    assert not await Session.objects.filter(client_id=SSO_CLIENT).aexists()
    assert not await AuthorizationCode.objects.aexists()
    monkeypatch.undo()
    assert answered(await by_password(api, page, member["email"]))["code"]  # the deletion was undone with the rest


async def test_one_hash_each(
    api: httpx.AsyncClient, member: Member, client: OAuthClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown address costs as many runs of Argon2 as a wrong password: one; a form without either costs none."""
    page, runs = await authorize(api, client), []
    run = hash_pool().run

    async def counted(*arguments: Any, **more: Any) -> Any:
        runs.append(1)
        return await run(*arguments, **more)

    monkeypatch.setattr(hash_pool(), "run", counted)
    for email in ("nobody@example.com", member["email"]):
        await by_password(api, page, email, "not the password at all")
        assert len(runs) == 1
        runs.clear()
    for typed in ({}, {"email": member["email"]}, {"password": PASSWORD}, {"email": "", "password": ""}):
        assert is_page(await send(api, page, SIGNIN, **{"email": "", "password": "", **typed}), 400, "Type your")
    assert not runs


async def test_what_stands_in_the_way(
    api: httpx.AsyncClient, member: Member, client: OAuthClient, settings: Any
) -> None:
    """Who must change the password is told where, with 403, and only after the right password."""
    page = await authorize(api, client)
    settings.IRONAUTH_EMAIL_VERIFICATION = "off"
    await User.objects.filter(pk=member["id"]).aupdate(must_change_password=True)
    assert is_page(await by_password(api, page, member["email"]), 403, "Ask for a new password", "/oauth/forgot")
    assert not await Session.objects.filter(client_id=SSO_CLIENT).aexists()


async def test_an_address_that_is_not_proved_yet(
    api: httpx.AsyncClient, member: Member, client: OAuthClient, settings: Any
) -> None:
    """Where addresses have to be proved, every page says it, and a right password gets the page of a wrong one."""
    hint = "Have you just signed up, or been moved here"
    assert hint not in (await authorize(api, client)).text
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    page = await authorize(api, client)
    assert is_page(page, 200, hint, "/oauth/verify-again")
    texts = set()
    for email, password in ((member["email"], PASSWORD), (member["email"], "wrong"), ("nobody@example.com", PASSWORD)):
        answer = await by_password(api, page, email, password)
        assert is_page(answer, 401, "or the address is not confirmed yet", hint, "/oauth/verify-again")
        assert answer.text.lower().count("just signed up") == 1
        assert answer.text.lower().count("confirm your address first") == 1
        texts.add(re.sub(r'(name="request" value|data-autofill)="[^"]+"', "", answer.text).replace(email, ""))
    assert len(texts) == 1


async def test_busy_and_throttled(
    api: httpx.AsyncClient, member: Member, client: OAuthClient, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full hash pool is 503 and too many tries are 429, on the page, with Retry-After."""
    page = await authorize(api, client)
    settings.IRONAUTH_THROTTLE, settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = True, 5
    for _ in range(12):
        answer = await by_password(api, page, "nobody@example.com", "not the password at all")
        if answer.status_code == 429:
            break
    assert is_page(answer, 429, "too many")
    assert int(answer.headers["retry-after"]) > 0

    def full() -> None:
        raise Overloaded

    monkeypatch.setattr(hash_pool(), "require_capacity", full)
    answer = await by_password(api, page, member["email"])
    assert is_page(answer, 503, "busy")
    assert answer.headers["retry-after"] == "1"


# ------------------------------------------------------------------ second factors
async def test_code(api: httpx.AsyncClient, member: Member, pair: Pair, client: OAuthClient) -> None:
    """After the password a code is asked for: a wrong one is 401 on the same page, the right one goes on, with amr."""
    app, codes = await enrol(api, pair)
    page = await by_password(api, await authorize(api, client), member["email"])
    assert is_page(page, 200, "One more step", "recovery code", f"You are <strong>{member['email']}</strong>")
    assert not await Session.objects.filter(client_id=SSO_CLIENT).aexists()
    again = await send(api, page, CODE, code=app.wrong())
    assert is_page(again, 401, "The code is wrong", f"You are <strong>{member['email']}</strong>")
    assert is_page(await send(api, page, CODE, code=""), 400, "Send a code")
    assert answered(await send(api, again, CODE, code=app.code()))["code"]
    assert (await Session.objects.aget(client_id=SSO_CLIENT)).amr == "pwd otp mfa"
    assert (await AuthorizationCode.objects.aget()).amr == "pwd otp mfa"
    assert is_page(await send(api, page, CODE, code=codes[0]), 401, "That took too long")  # used up with the sign-in


async def test_each_kind_of_code_has_its_field(
    api: httpx.AsyncClient, member: Member, pair: Pair, client: OAuthClient
) -> None:
    """Digits for a code of the app; a button leads to a recovery code's field, where a wrong one stays, and back."""
    _, codes = await enrol(api, pair)
    page = await by_password(api, await authorize(api, client), member["email"])
    assert is_page(page, 200, 'inputmode="numeric"', "Use a recovery code")
    other = await api.post(CODE, data={"request": form_to(page, CODE).fields["request"], "recovery": "1"})
    assert is_page(other, 200, "Recovery code</label>", "Use a code from your app", "7k3d-9w2m-x4pq-8n5t")
    assert "inputmode" not in other.text
    wrong = await send(api, other, CODE, code="wrong")
    assert is_page(wrong, 401, "The recovery code is wrong", "Recovery code</label>")
    back = await api.post(CODE, data={"request": form_to(wrong, CODE).fields["request"], "app": "1"})
    assert is_page(back, 200, 'inputmode="numeric"')
    assert answered(await send(api, wrong, CODE, code=codes[0]))["code"]


async def test_somebody_else_signs_in(api: httpx.AsyncClient, member: Member, pair: Pair, client: OAuthClient) -> None:
    """The button on the page for the second factor leads back to the start, which suggests nobody any more."""
    await enrol(api, pair)
    page = await by_password(api, await authorize(api, client, login_hint=member["email"]), member["email"])
    assert is_page(page, 200, "Sign in as somebody else")
    begun = await api.post(SIGNIN, data=form_to(page, SIGNIN).fields | {"other": "1"})
    assert is_page(begun, 200, "Sign in")
    assert member["email"] not in begun.text
    assert is_page(await api.post(CODE, data={"request": form_to(begun, SIGNIN).fields["request"], "code": "1"}), 401)


async def test_who_has_no_recovery_code_is_offered_none(
    api: httpx.AsyncClient, member: Member, pair: Pair, client: OAuthClient
) -> None:
    """Once all are used up there is the field for the app alone, whatever is asked for."""
    await enrol(api, pair)
    await RecoveryCode.objects.all().adelete()
    page = await by_password(api, await authorize(api, client), member["email"])
    asked = await api.post(CODE, data={"request": form_to(page, CODE).fields["request"], "recovery": "1"})
    for one in (page, asked):
        assert is_page(one, 200, 'inputmode="numeric"')
        assert "ecovery code" not in one.text


async def test_code_too_late(api: httpx.AsyncClient, member: Member, pair: Pair, client: OAuthClient) -> None:
    """Five minutes after the password it is asked for again, and the way to the client is still open."""
    app, _ = await enrol(api, pair)
    page = await by_password(api, await authorize(api, client), member["email"])
    with clock.shifted(301):
        late = await send(api, page, CODE, code=app.code())
        assert is_page(late, 401, "That took too long", "Password")
        page = await by_password(api, late, member["email"])
        assert answered(await send(api, page, CODE, code=app.code()))["code"]
    assert is_page(await send(api, page, SIGNIN), 200, "Password")


async def test_passkey(api: httpx.AsyncClient, member: Member, pair: Pair, client: OAuthClient) -> None:
    """A passkey signs in alone, and after the password where it is the second factor; a wrong one is 401."""
    device = Authenticator()
    options = (await api.post("/api/v1/access/mfa/passkeys/options", json={}, headers=bearer(pair))).json()
    made = {"challenge_token": options["challenge_token"], "credential": device.create(options["publicKey"])}
    assert (await api.post("/api/v1/access/mfa/passkeys", json=made, headers=bearer(pair))).status_code == 201

    async def answer_to(path: str, **body: str) -> dict[str, str]:
        options = (await api.post(path, json=body)).json()
        credential = json.dumps(device.get(options["publicKey"]))
        return {"challenge_token": options["challenge_token"], "credential": credential}

    page = await authorize(api, client)
    shown = await answer_to("/api/v1/access/signin/passkey/options")
    for wrong in ({}, {"credential": "["}, {"credential": "{}"}, {"challenge_token": "x"}):
        typed = {**shown, **wrong} if wrong else {}
        assert is_page(await send(api, page, PASSKEY, **typed), 401, "The passkey was not accepted", "Password")
    assert answered(await send(api, page, PASSKEY, **shown))["code"]
    assert (await Session.objects.aget(client_id=SSO_CLIENT)).amr == "pop user mfa"
    page = await authorize(api, client, prompt="login")
    host, token, challenge = page.text.split('data-autofill="')[1].split('"')[0].split()
    asked = (await api.post("/api/v1/access/signin/passkey/options")).json()["publicKey"]
    assert (asked["rpId"], asked["userVerification"], asked["allowCredentials"]) == (host, "required", [])
    suggested = {"challenge_token": token, "credential": json.dumps(device.get({**asked, "challenge": challenge}))}
    assert answered(await send(api, page, PASSKEY, **suggested))["code"]
    assert is_page(await send(api, page, PASSKEY, **suggested), 401, "The passkey was not accepted")
    page = await by_password(api, await authorize(api, client, prompt="login"), member["email"])
    ticket = page.text.split('data-ticket="')[1].split('"')[0]
    shown = await answer_to("/api/v1/access/signin/mfa/options", mfa_token=ticket)
    assert answered(await send(api, page, CODE, **shown))["code"]
    assert "pop" in (await Session.objects.aget(client_id=SSO_CLIENT)).amr


# ------------------------------------------------------------------ the value in the form
async def test_another_browser(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """A form's value is good in its own browser only (CSRF), and only while that has its cookie."""
    page = await authorize(api, client)
    transport = httpx.ASGITransport(app=application, raise_app_exceptions=False)  # type: ignore[arg-type] # ASGI types
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as other:
        assert is_page(await by_password(other, page, member["email"]), 400, "another browser")
        await authorize(other, client)
        assert is_page(await by_password(other, page, member["email"]), 400, "another browser")
    assert answered(await by_password(api, page, member["email"]))["code"]


async def test_two_tabs(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """A second tab leaves the first one's form as it was."""
    first = await authorize(api, client, state="first")
    await authorize(api, client, state="second")
    assert answered(await by_password(api, first, member["email"]))["state"] == "first"


async def test_changed_between_get_and_post(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """What the page was made for is what its form does: any change is refused, parameters beside it are not read."""
    page = await authorize(api, client, scope="openid")
    value = form_to(page, SIGNIN).fields["request"]
    body, _, mac = value.partition(".")
    raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    for old, new in ((b'"openid"', b'"openid account"'), (b"/callback", b"/callbacks"), (b'"n-1"', b'"n-2"')):
        assert old in raw
        forged = base64.urlsafe_b64encode(raw.replace(old, new)).rstrip(b"=").decode()
        answer = await send(api, page, SIGNIN, email=member["email"], password=PASSWORD, request=f"{forged}.{mac}")
        assert is_page(answer, 400, "has expired")
    for other in ("", ".", body, f"{body}.", f"{value}=", f"{value}A", "é.é", "a" * 50_000 + ".b"):
        assert is_page(await send(api, page, SIGNIN, request=other), 400, "has expired")
    beside = {"scope": "openid account", "redirect_uri": "https://evil.example/", "code_challenge": "x" * 43}
    answered(await send(api, page, SIGNIN, email=member["email"], password=PASSWORD, **beside))
    assert (await AuthorizationCode.objects.aget()).scope == "openid"


async def test_half_an_hour(
    api: httpx.AsyncClient, member: Member, client: OAuthClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A form is good for 30 minutes, and not a second longer."""
    now = float(int(clock.unix()))
    monkeypatch.setattr(clock, "_source", lambda: now)
    page = await authorize(api, client)
    with clock.shifted(authorization_state.LIFE_S):
        assert is_page(await by_password(api, page, member["email"]), 400, "has expired")
    with clock.shifted(authorization_state.LIFE_S - 1):
        assert answered(await by_password(api, page, member["email"]))["code"]


async def test_other_sites(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """A form sent by another site is refused though it has value and cookie; our own pages' and scripts' are not."""
    page = await authorize(api, client)
    for action, typed in ((SIGNIN, {"email": member["email"], "password": PASSWORD}), (CONSENT, {"decision": "deny"})):
        fields = {**form_to(page, action).fields, **typed}
        for headers in (CROSS_SITE, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}):
            assert is_page(await api.post(action, data=fields, headers=headers), 403)
        assert answered(await api.post(action, data=fields, headers=SAME_ORIGIN))


async def test_a_client_that_is_changed_meanwhile(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """Somebody on the way to an address that was taken from the client, or to a disabled client, does not get there."""
    page = await authorize(api, client)
    client.redirect_uris = ["https://app.example.com/other"]
    await client.asave()
    assert is_page(await by_password(api, page, member["email"]), 400)
    client.disabled_at = clock.now()
    await client.asave()
    assert is_page(await by_password(api, page, member["email"]), 400, "disabled")


async def test_nothing_is_repeated_unescaped(
    api: httpx.AsyncClient, member: Member, new_email: Callable[[], str], transactional_db: None
) -> None:
    """What was typed, hinted or named is text on every page."""
    evil = '"><script>alert(1)</script>'
    client, _ = await sync_to_async(make_client)(name=evil)
    page = await authorize(api, client, login_hint=evil, state=evil)
    assert form_to(page, SIGNIN).fields["email"] == evil
    wrong = await by_password(api, page, evil)
    consent = await by_password(api, page, member["email"])
    for answer in (page, wrong, consent):
        assert "<script>alert" not in answer.text
        assert len(forms(answer)) == (1 if answer is consent else 5)


async def test_cookies(api: httpx.AsyncClient, member: Member, client: OAuthClient, settings: Any) -> None:
    """Both are for this host alone, unreadable for scripts, Lax; __Host- and Secure where cookies are."""
    settings.IRONAUTH_COOKIE_SECURE = True
    page = await authorize(api, client)
    lines = cookie_lines(page)
    assert set(lines) == {"__Host-authorize"}
    browser = lines["__Host-authorize"].split(";")[0]
    fields = {**form_to(page, SIGNIN).fields, "email": member["email"], "password": PASSWORD}
    answer = await api.post(SIGNIN, data=fields, headers={"Cookie": browser})
    lines |= cookie_lines(answer)
    assert set(lines) == {"__Host-authorize", "__Host-sso", "__Host-device"}
    for name in ("__Host-authorize", "__Host-sso"):
        assert all(part in lines[name] for part in ("HttpOnly", "Secure", "Path=/;", "SameSite=Lax"))
        assert "Domain" not in lines[name]
    assert "Max-Age=604800" in lines["__Host-sso"]


async def test_the_trail(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """A sign-in here leaves what any sign-in leaves, and consent leaves who allowed what."""
    other, _ = await sync_to_async(make_client)()
    page = await by_password(api, await authorize(api, other), member["email"])
    answered(await say(api, page, "allow"))
    session = await Session.objects.aget(client_id=SSO_CLIENT)
    events = [event async for event in AuditEvent.objects.filter(session_id=session.pk).order_by("id")]
    assert [event.event for event in events] == ["sign_in", "consent_given"]
    assert {str(event.actor_id) for event in events} == {member["id"]}
    assert events[1].details == {"client": str(other.pk), "scope": ["openid", "profile"]}


async def test_who_has_a_passkey_alone_is_asked_for_it(
    api: httpx.AsyncClient, member: Member, pair: Pair, client: OAuthClient
) -> None:
    """A recovery code has a field only after its button, for who has lost the passkey, and signs in there."""
    options = (await api.post("/api/v1/access/mfa/passkeys/options", json={}, headers=bearer(pair))).json()
    made = {
        "challenge_token": options["challenge_token"],
        "credential": Authenticator().create(options["publicKey"]),
    }
    codes = (await api.post("/api/v1/access/mfa/passkeys", json=made, headers=bearer(pair))).json()["recovery_codes"]
    page = await by_password(api, await authorize(api, client), member["email"])
    assert is_page(page, 200, '<button type="submit">Use a passkey', "Use a recovery code", "or use a code")
    assert 'id="code"' not in page.text
    other = await api.post(CODE, data={"request": form_to(page, CODE).fields["request"], "recovery": "1"})
    assert is_page(other, 200, "Recovery code</label>", 'class="second">Use a passkey')
    assert answered(await send(api, other, CODE, code=codes[0]))["code"]
