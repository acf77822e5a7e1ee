"""An account that a stranger made under somebody's address: what the owner of the mailbox can do about it.

What goes with the first proof of an address: ``test_first_proof``.
"""

import re
from typing import Any

import httpx
import pytest
from django.core import mail
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.email import units as email_units
from accounts.email.tests.test_email_flows import confirm, delivered, token_for
from accounts.mfa.passkeys import services as passkeys
from accounts.mfa.passkeys.models import Passkey
from accounts.mfa.recovery.models import RecoveryCode
from accounts.mfa.totp import codes as totp
from accounts.mfa.totp import services as totp_services
from accounts.mfa.totp.models import TotpFactor
from accounts.privacy.models import PendingDeletion
from accounts.tests.authenticator import Authenticator
from accounts.users.models import User
from conftest import bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotAuthenticated, Unavailable
from ironauth.infrastructure.http.second_clicks import WITHIN_S
from tokens.sessions.models import KnownDevice
from tokens.sign_in.tests.test_passkeys import ADD_OPTIONS, add, by_passkey
from tokens.tests.browser import SIGNIN, Member, Pair, me
from tokens.tests.second_factor import TOTP, App, enrol, said

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

NEW_PASSWORD = "another otter rides 7 trams"
NOTICE = "The second factors that were set up for the account are gone"
VERIFY = "/email/verify"
DAY = 86_400


async def left(user_id: str) -> tuple[int, ...]:
    """Return how many passkeys, apps, recovery codes and known devices there are."""
    tables: tuple[Any, ...] = (Passkey, TotpFactor, RecoveryCode, KnownDevice)
    return tuple([await table.objects.filter(user_id=user_id).acount() for table in tables])


async def reset(api: httpx.AsyncClient, member: Member) -> str:
    """Set a new password by mail as the owner does; return the message about it, whose two forms say the same."""
    await delivered()
    token = await token_for(api, "password/reset", member["email"])
    assert (await confirm(api, token, NEW_PASSWORD)).status_code == 204
    assert [subject for _, subject, _ in await delivered()] == ["Your password was changed"]
    message: Any = mail.outbox[0]
    html = message.alternatives[0].content
    assert (NOTICE in message.body) == (NOTICE in html)
    return str(message.body)


async def events(user_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Return what the trail says of the reset."""
    rows = AuditEvent.objects.filter(user_id=user_id, actor_id=user_id, event__in=("mfa_reset", "password_reset"))
    return sorted([(row.event, row.details) async for row in rows])


async def is_proved(user_id: str) -> bool:
    """Tell whether the address counts as verified."""
    return (await User.objects.aget(pk=user_id)).email_verified_at is not None


@pytest.mark.parametrize("verified", [False, True])
async def test_a_reset_takes_the_factors_of_an_unproved_address_only(
    api: httpx.AsyncClient, member: Member, pair: Pair, settings: Settings, verified: bool
) -> None:
    """Of a proved one they stay (ASVS 6.4.3); of another one they may be a stranger's, and the message says it."""
    settings.IRONAUTH_NEW_DEVICE_MAIL = True
    user_id, device = member["id"], Authenticator()
    await add(api, pair, device)
    await enrol(api, pair)
    assert (await by_passkey(api, device)).status_code == 200
    if verified:
        await User.objects.filter(pk=user_id).aupdate(email_verified_at=clock.now())
    assert await left(user_id) == (1, 1, 10, 1)
    assert (NOTICE in await reset(api, member)) == (not verified)
    assert await left(user_id) == ((1, 1, 10, 1) if verified else (0, 0, 0, 0))
    assert await me(api, pair) == 401
    owner = {"email": member["email"], "password": NEW_PASSWORD}
    entered = await api.post(SIGNIN, json=owner)
    assert (entered.status_code, (await by_passkey(api, device)).status_code) == (
        (401, 200) if verified else (200, 401)
    )
    assert await is_proved(user_id)
    removed = {} if verified else {"factors_removed": ["totp", "passkey", "recovery_code"]}
    assert await events(user_id) == [("password_reset", {"first_proof": not verified, **removed})]


async def test_without_a_factor_a_reset_proves_the_address(
    api: httpx.AsyncClient, member: Member, pair: Pair, settings: Settings
) -> None:
    """The new password is all that lets in, and what was remembered of anybody who used the account before is gone."""
    settings.IRONAUTH_NEW_DEVICE_MAIL = True
    await api.post(SIGNIN, json={"email": member["email"], "password": member["password"]})
    assert await left(member["id"]) == (0, 0, 0, 1)
    assert NOTICE not in await reset(api, member)
    assert await left(member["id"]) == (0, 0, 0, 0)
    assert await is_proved(member["id"])
    assert await events(member["id"]) == [("password_reset", {"first_proof": True})]


# ---------------------------------------------------------------- a stranger's link
async def link(api: httpx.AsyncClient, member: Member) -> str:
    """Have the message sent that confirms the address; return its token."""
    await delivered()
    return await token_for(api, "email/verify/resend", member["email"])


@pytest.mark.parametrize("factors", [False, True])
async def test_the_page_says_whose_account_it_is(
    api: httpx.AsyncClient, member: Member, pair: Pair, factors: bool
) -> None:
    """Its address and age, and whether it has a factor: who never signed up sees that; looking changes nothing."""
    if factors:
        await add(api, pair, Authenticator())
    token = await link(api, member)
    user = await User.objects.aget(pk=member["id"])
    for method in ("GET", "HEAD", "GET"):
        shown = await api.request(method, VERIFY, params={"token": token})
        assert shown.status_code == 200
    assert f"<strong>{member['email']}</strong>" in shown.text
    assert f"<strong>{user.created_at:%-d %B %Y, %H:%M} UTC</strong>" in shown.text
    assert ("and the second factors" in shown.text) == factors
    if factors:
        made = (await Passkey.objects.aget()).created_at
        assert f"<li>a passkey, since {made:%-d %B %Y, %H:%M} UTC</li>" in shown.text
    assert 'value="not_me"' in shown.text
    assert not await is_proved(member["id"])
    assert await me(api, pair) == 200
    nothing = (await api.get(VERIFY, params={"token": "x" * 64})).text
    assert (member["email"] in nothing, "not_me" in nothing) == (False, False)


@pytest.mark.parametrize(("factors", "staff"), [(False, False), (False, True), (True, False), (True, True)])
async def test_who_confirms_says_whose_the_account_is(
    api: httpx.AsyncClient, member: Member, pair: Pair, factors: bool, staff: bool
) -> None:
    """With its password and factor, a new password, or by ending it: a click alone confirms nothing.

    One of staff cannot be ended by mail.
    """
    if factors:
        await enrol(api, pair)
        await add(api, pair, Authenticator())
        await Passkey.objects.aupdate(name="Click on confirm")
    token = await link(api, member)
    await User.objects.filter(pk=member["id"]).aupdate(is_staff=staff)
    shown = (await api.get(VERIFY, params={"token": token})).text
    ways = re.findall("<li>(one-time codes of an app|a passkey), since [^<]+ UTC</li>", shown)
    assert ways == (["one-time codes of an app", "a passkey"] if factors else [])
    assert "Click on confirm" not in shown
    codes = ["code", "recovery_code"] if factors else []
    assert re.findall('<input id="([a-z_]+)"', shown) == ["password", *codes, "new_password"]
    assert re.findall('name="answer" value="([a-z_]+)"', shown) == ["choose", *([] if staff else ["not_me"])]
    kept = await left(member["id"])
    clicked = await api.post(VERIFY, data={"token": token})
    assert clicked.status_code == 400
    assert "Type the account&#x27;s password, or choose a new one." in clicked.text
    assert 'name="new_password"' in clicked.text
    assert (await is_proved(member["id"]), await left(member["id"])) == (False, kept)


async def test_a_recovery_code_confirms(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """It has a field of its own, which is open where a wrong one was typed; a right one leaves the account as it is."""
    _, codes = await enrol(api, pair)
    token = await link(api, member)
    assert "<details open>" not in (await api.get(VERIFY, params={"token": token})).text
    form = {"token": token, "password": member["password"]}
    wrong = await api.post(VERIFY, data={**form, "recovery_code": "aaaa-aaaa-aaaa-aaaa"})
    assert (wrong.status_code, "<details open>" in wrong.text, await is_proved(member["id"])) == (400, True, False)
    done = await api.post(VERIFY, data={**form, "recovery_code": codes[0]})
    assert (done.status_code, await is_proved(member["id"])) == (200, True)
    assert await me(api, pair) == 200


@pytest.mark.parametrize("away", [False, True])
async def test_the_page_is_a_page_without_the_database(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    """503 with when to come back, in HTML: people see it."""

    def no_answer(_: str) -> None:
        raise Unavailable(retry_after_s=2)

    if away:
        monkeypatch.setattr(email_units, "asked", no_answer)
    shown = await api.get(VERIFY, params={"token": "x" * 64})
    assert (shown.status_code, shown.headers.get("retry-after")) == (
        (503, "2") if away else (400, None)
    )  # of no token of ours
    assert shown.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("grace_days", [0, 3])
async def test_who_did_not_sign_up_ends_the_account(
    api: httpx.AsyncClient, member: Member, pair: Pair, settings: Settings, grace_days: int
) -> None:
    """Password, passkey and sessions of the stranger are worth nothing, the address is free, and nobody else gets in.

    A week of grace where there is none for deletions; the link works once.
    """
    settings.IRONAUTH_DELETION_GRACE_DAYS = grace_days
    device = Authenticator()
    await add(api, pair, device)
    token = await link(api, member)
    done = await api.post(VERIFY, data={"token": token, "answer": "not_me"})
    assert (done.status_code, "That account has ended" in done.text) == (200, True)
    with clock.shifted(WITHIN_S):  # until then a second click leads where the first one led
        assert (await api.post(VERIFY, data={"token": token, "answer": "not_me"})).status_code == 400
    assert await me(api, pair) == 401
    assert (await by_passkey(api, device)).status_code == 401
    credentials = {"email": member["email"], "password": member["password"]}
    assert said(await api.post(SIGNIN, json=credentials)) == (401, "invalid_credentials")
    pending = await PendingDeletion.objects.aget()
    assert pending.email == member["email"]
    assert round((pending.due_at - pending.requested_at).total_seconds() / DAY) == (grace_days or 7)
    row = await AuditEvent.objects.aget(event="account_deleted")
    assert (row.actor_id, str(row.user_id), row.details) == (
        None,
        member["id"],
        {"grace_days": grace_days or 7, "disowned": True},
    )
    ((recipient, _, back),) = await delivered()
    assert recipient == member["email"]
    assert "said that the account with this address" in str(mail.outbox[0].body)
    fresh = await api.post("/api/v1/access/signup", json={**credentials, "password": NEW_PASSWORD})
    assert fresh.status_code == 201
    assert fresh.json()["id"] != member["id"]
    assert (await api.post("/account/restore", data={"token": back})).status_code == 409  # the owner has the address


async def test_a_mistaken_click_is_taken_back(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """The message restores the account as it was."""
    await api.post(VERIFY, data={"token": await link(api, member), "answer": "not_me"})
    ((_, _, back),) = await delivered()
    assert (await api.post("/account/restore", data={"token": back})).status_code == 200
    assert (await api.post(SIGNIN, json={k: member[k] for k in ("email", "password")})).status_code == 200


@pytest.mark.parametrize("why", ["email_verified_at", "is_staff", "is_superuser"])
async def test_not_everybodys_account_ends_by_a_link(
    api: httpx.AsyncClient, member: Member, pair: Pair, why: str
) -> None:
    """Neither one whose address is proved, nor one that colleagues made: then the page offers nothing of the kind."""
    token = await link(api, member)
    await User.objects.filter(pk=member["id"]).aupdate(**{why: clock.now() if why == "email_verified_at" else True})
    shown = (await api.get(VERIFY, params={"token": token})).text
    assert "not_me" not in shown
    assert ("is confirmed already" in shown, "close this page and tell them" in shown) == (
        (True, False) if why == "email_verified_at" else (False, True)
    )
    assert (await api.post(VERIFY, data={"token": token, "answer": "not_me"})).status_code == 400
    assert await User.objects.filter(pk=member["id"], is_active=True, email=member["email"]).aexists()
    form = {"token": token} if why == "email_verified_at" else {"token": token, "password": member["password"]}
    assert (await api.post(VERIFY, data=form)).status_code == 200
    assert await me(api, pair) == 200


async def test_another_address_is_not_disowned(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """A message of a change that came by mistake ends no account; the page names the address it is about."""
    body = {"new_email": "bo@example.com", "password": member["password"]}
    assert (await api.post("/api/v1/access/email", json=body, headers=bearer(pair))).status_code == 202
    token = next(token for _, _, token in await delivered() if token)
    shown = (await api.get(VERIFY, params={"token": token})).text
    assert ("bo@example.com" in shown, member["email"] in shown, "not_me" in shown) == (True, False, False)
    assert (await api.post(VERIFY, data={"token": token, "answer": "not_me"})).status_code == 400
    assert await me(api, pair) == 200
    assert (await api.post(VERIFY, data={"token": token})).status_code == 400
    wrong = await api.post(VERIFY, data={"token": token, "password": NEW_PASSWORD})
    assert (wrong.status_code, "This is not the account&#x27;s password" in wrong.text) == (400, True)
    assert (await User.objects.aget(pk=member["id"])).email == member["email"]
    assert (await api.post(VERIFY, data={"token": token, "password": member["password"]})).status_code == 200
    assert (await User.objects.aget(pk=member["id"])).email == "bo@example.com"
    assert await me(api, pair) == 200


# ---------------------------------------------------------------- what is begun in a session that ends
@pytest.mark.parametrize("ended", [False, True])
async def test_a_session_that_has_ended_adds_no_factor(
    api: httpx.AsyncClient, member: Member, pair: Pair, ended: bool
) -> None:
    """Not even one that another worker still takes for live, for the seconds until it hears of the reset."""
    user = await User.objects.aget(pk=member["id"])
    options = (await api.post(ADD_OPTIONS, json={}, headers=bearer(pair))).json()
    proof = {"challenge_token": options["challenge_token"], "credential": Authenticator().create(options["publicKey"])}
    secret = (await api.post(TOTP, headers=bearer(pair))).json()["secret"]
    if ended:
        await reset(api, member)
        await User.objects.filter(pk=user.pk).aupdate(email_verified_at=None)
        sealed = totp.seal(App(secret).raw(), user.pk)
        await TotpFactor.objects.acreate(user=user, sealed=sealed[1], master_key_id=sealed[0])
        with pytest.raises(NotAuthenticated):
            await passkeys.add(user_id=user.pk, epoch=user.session_epoch, **proof)
        with pytest.raises(NotAuthenticated):
            await totp_services.confirm_totp(user_id=user.pk, epoch=user.session_epoch, code=App(secret).code())
        assert await left(member["id"]) == (0, 1, 0, 0)
    else:
        await passkeys.add(user_id=user.pk, epoch=user.session_epoch, **proof)
        await totp_services.confirm_totp(user_id=user.pk, epoch=user.session_epoch, code=App(secret).code())
        assert await left(member["id"]) == (1, 1, 10, 0)


async def test_an_app_half_set_up_goes_too(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """The secret that waits for its first code is the stranger's; there was no factor to speak of."""
    assert (await api.post(TOTP, headers=bearer(pair))).status_code == 200
    assert await left(member["id"]) == (0, 1, 0, 0)
    assert NOTICE not in await reset(api, member)
    assert await left(member["id"]) == (0, 0, 0, 0)
    assert await events(member["id"]) == [("password_reset", {"first_proof": True})]
