"""Setting second factors up and taking them away, by their owners and by staff."""

import re
import uuid
from collections import Counter
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.mfa.recovery.models import RecoveryCode
from accounts.mfa.totp.models import TotpFactor
from accounts.outbox.models import OutgoingMail
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from tokens.sessions.models import Session
from tokens.tests.browser import ME, SIGNIN, Member, Pair, me
from tokens.tests.second_factor import (
    CODES,
    CONFIRM,
    MFA,
    STEP_UP,
    TOTP,
    App,
    enrol,
    password_only,
    said,
    sign_in_fully,
    with_code,
)
from tokens.tests.stage import Stage

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.usefixtures("still_clock"),
]
CODE = re.compile("[0-9a-hjkmnp-tv-z]{4}(-[0-9a-hjkmnp-tv-z]{4}){3}")
NOTHING = {"methods": [], "totp": False, "recovery_codes_left": 0, "passkeys": [], "has_password": True}
USERS = "/api/v1/users"


async def overview(api: httpx.AsyncClient, pair: Pair) -> dict[str, Any]:
    """Return what the person is told."""
    return dict((await api.get(MFA, headers=bearer(pair))).json())


async def trail() -> Counter[tuple[str, str]]:
    """Return what the trail says about factors, in no order: the clock stands still."""
    await sync_to_async(audit.wait_until_written)()
    events = AuditEvent.objects.filter(event__startswith="mfa")
    return Counter([(event.event, event.outcome) async for event in events])


async def mails() -> list[str]:
    """Return the kinds of messages that wait."""
    return [mail.kind async for mail in OutgoingMail.objects.order_by("pk")]


async def test_setting_up(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """A secret counts from its first code on; ten codes are shown once, and no session ends."""
    other = (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).json()
    assert await overview(api, pair) == NOTHING
    assert said(await api.post(CONFIRM, json={"code": "123456"}, headers=bearer(pair))) == (409, "mfa_not_started")
    first = (await api.post(TOTP, headers=bearer(pair))).json()
    answer = await api.post(TOTP, headers=bearer(pair))
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    second = answer.json()
    assert set(second) == {"secret", "otpauth_uri", "qr_svg"}
    assert parse_qs(urlsplit(second["otpauth_uri"]).query)["secret"] == [second["secret"]] != [first["secret"]]
    assert second["qr_svg"].startswith("<svg ")
    assert await overview(api, pair) == NOTHING
    assert (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).status_code == 200
    app = App(second["secret"])
    for wrong in (App(first["secret"]).code(), app.wrong(), app.code(-2), "0000-0000-0000-0000"):
        refused = await api.post(CONFIRM, json={"code": wrong}, headers=bearer(pair))
        assert said(refused) == (401, "invalid_mfa_code")
        assert "recovery code" not in refused.json()["detail"]  # there are none yet, or none that would do here
    code = app.code()
    confirmed = await api.post(CONFIRM, json={"code": f" {code[:3]} {code[3:]} "}, headers=bearer(pair))
    assert (confirmed.status_code, confirmed.headers["cache-control"]) == (200, "no-store")
    codes = confirmed.json()["recovery_codes"]
    assert len(set(codes)) == 10
    assert all(CODE.fullmatch(code) for code in codes)
    assert await overview(api, pair) == {
        "methods": ["totp", "recovery_code"],
        "totp": True,
        "recovery_codes_left": 10,
        "passkeys": [],
        "has_password": True,
    }
    assert [await me(api, one) for one in (pair, other)] == [200, 200]
    asked = await password_only(api, member)
    assert said(await with_code(api, asked["mfa_token"], code)) == (401, "invalid_mfa_code")  # it confirmed the app
    for again in (api.post(TOTP, headers=bearer(pair)), api.post(CONFIRM, json={"code": code}, headers=bearer(pair))):
        assert said(await again) == (409, "mfa_already_enabled")
    assert await trail() == {("mfa_enabled", "failure"): 4, ("mfa_enabled", "success"): 1}
    assert await mails() == ["mfa_enabled"]


async def test_new_recovery_codes(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """They need the password, and make the older ones worthless; the person gets a message."""
    body = {"password": PASSWORD}
    assert said(await api.post(CODES, json=body, headers=bearer(pair))) == (409, "mfa_not_enabled")
    _, old = await enrol(api, pair)
    wrong = await api.post(CODES, json={"password": "wrong"}, headers=bearer(pair))
    assert said(wrong) == (401, "invalid_credentials")
    new = (await api.post(CODES, json=body, headers=bearer(pair))).json()["recovery_codes"]
    assert not set(new) & set(old)
    asked = await password_only(api, member)
    assert said(await with_code(api, asked["mfa_token"], old[0])) == (401, "invalid_mfa_code")
    assert (await with_code(api, asked["mfa_token"], new[0])).status_code == 200
    assert (await overview(api, pair))["recovery_codes_left"] == 9
    stored = [code.encoded async for code in RecoveryCode.objects.all()]
    assert all(encoded.startswith("argon2$") for encoded in stored)
    assert await mails() == ["mfa_enabled", "recovery_codes_created", "recovery_code_used"]


async def test_taking_away(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """It needs the password; the recovery codes go too, and the password alone signs in again."""
    assert said(await api.request("DELETE", TOTP, json={"password": PASSWORD}, headers=bearer(pair))) == (
        409,
        "mfa_not_enabled",
    )
    await api.post(TOTP, headers=bearer(pair))  # one that only waits is no factor
    assert (await api.request("DELETE", TOTP, json={"password": PASSWORD}, headers=bearer(pair))).status_code == 409
    await enrol(api, pair)
    wrong = await api.request("DELETE", TOTP, json={"password": "wrong"}, headers=bearer(pair))
    assert said(wrong) == (401, "invalid_credentials")
    gone = await api.request("DELETE", TOTP, json={"password": PASSWORD}, headers=bearer(pair))
    assert (gone.status_code, gone.content) == (204, b"")
    assert await overview(api, pair) == NOTHING
    assert not await RecoveryCode.objects.aexists()
    disabled = {("mfa_disabled", "failure"): 1, ("mfa_disabled", "success"): 1}
    assert await trail() == {("mfa_enabled", "success"): 1, **disabled}
    assert await mails() == ["mfa_enabled", "mfa_disabled"]
    assert (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).status_code == 200


async def test_nobody_reaches_others_factors(api: httpx.AsyncClient, stage: Stage) -> None:
    """Two people's factors have nothing to do with each other: not their codes, and not their going."""
    app, codes = await enrol(api, stage.pair)
    theirs, their_codes = await enrol(api, stage.root_pair)
    asked = await password_only(api, {"email": stage.email, "password": PASSWORD})
    for foreign in (theirs.code(), their_codes[0]):
        assert said(await with_code(api, asked["mfa_token"], foreign)) == (401, "invalid_mfa_code")
    await User.objects.filter(pk=stage.root).adelete()
    assert await TotpFactor.objects.acount() == 1
    assert await RecoveryCode.objects.acount() == 10
    assert (await with_code(api, asked["mfa_token"], codes[0])).status_code == 200
    assert await sign_in_fully(api, {"email": stage.email, "password": PASSWORD}, app.code())


# ------------------------------------------------------------------ staff
async def give(user_id: uuid.UUID, *names: str) -> None:
    """Give rights by codename."""
    user = await User.objects.aget(pk=user_id)
    await user.user_permissions.aset([permission async for permission in Permission.objects.filter(codename__in=names)])


async def test_staff_reset(stage: Stage) -> None:
    """Every factor is gone, every session has ended, the person is told; a second time changes nothing."""
    await enrol(stage.api, stage.pair)
    path = f"{USERS}/{stage.member}/mfa"
    before = [event.pk async for event in AuditEvent.objects.all()]
    for _ in range(2):
        await stage.send("DELETE", path, 204, pair=stage.root_pair)
    events = [event async for event in AuditEvent.objects.exclude(pk__in=before)]
    assert [(e.event, e.actor_id, e.user_id, e.details) for e in events] == [
        ("mfa_reset", stage.root, stage.member, {"methods": ["totp", "recovery_code"]})
    ]
    assert await mails() == ["mfa_enabled", "mfa_reset"]
    assert await me(stage.api, stage.pair) == 401
    assert not await TotpFactor.objects.aexists()
    assert not await RecoveryCode.objects.aexists()
    await stage.send("POST", SIGNIN, 200, {"email": stage.email, "password": PASSWORD})
    await stage.send("DELETE", f"{USERS}/{uuid.uuid4()}/mfa", 404, pair=stage.root_pair)


async def test_who_may_reset(stage: Stage) -> None:
    """Only with the right to it, nobody of more rights, never the own account, and not without a recent proof."""
    path = f"{USERS}/{stage.member}/mfa"
    root = f"{USERS}/{stage.root}/mfa"
    await enrol(stage.api, stage.root_pair)
    for rights in ((), ("change_user", "delete_user")):
        await give(stage.member, *rights)
        await stage.send("DELETE", root, 403, pair=stage.pair)
    await give(stage.member, "reset_mfa")
    await stage.send("DELETE", root, 403, pair=stage.pair)  # a superuser
    await stage.send("DELETE", path, 403, pair=stage.pair)  # oneself
    await stage.send("DELETE", root, 403, pair=stage.root_pair)  # oneself, with every right
    assert await TotpFactor.objects.acount() == 1
    await User.objects.filter(pk=stage.root).aupdate(is_superuser=False)
    await give(stage.root, "view_user")
    await stage.send("DELETE", root, 403, pair=stage.pair)  # a right the caller does not hold
    await give(stage.member, "reset_mfa", "view_user")
    session = await Session.objects.aget(pk=stage.pair["session_id"])
    session.authenticated_at = clock.now().replace(year=2020)
    await sync_to_async(session.save)()
    await stage.send("DELETE", root, 401, pair=stage.pair)
    await give(stage.member, "view_user")
    await stage.send("DELETE", root, 403, pair=stage.pair)  # what is missing goes first
    await give(stage.member, "reset_mfa", "view_user")
    await stage.send("POST", STEP_UP, 204, {"password": PASSWORD}, stage.pair)
    await stage.send("DELETE", root, 204, pair=stage.pair)
    assert not await TotpFactor.objects.aexists()


async def test_staff_may_have_to_have_one(stage: Stage, settings: Settings) -> None:
    """With IRONAUTH_STAFF_MFA=required the staff API serves sessions that a second factor opened or confirmed alone."""
    paths = [USERS, f"{USERS}/{stage.member}", f"{USERS}/{stage.member}/sessions", "/api/v1/roles", "/api/v1/audit"]
    for path in paths:
        await stage.send("GET", path, 200, pair=stage.root_pair)
    settings.IRONAUTH_STAFF_MFA = "required"
    for path in paths:
        refused = await stage.send("GET", path, 403, pair=stage.root_pair)
        assert refused["code"] == "mfa_enrolment_required"
    await stage.send("GET", ME, 200, pair=stage.root_pair)
    await stage.send("DELETE", f"{USERS}/{stage.member}", 403, pair=stage.root_pair)
    app, codes = await enrol(stage.api, stage.root_pair)
    await stage.send("GET", USERS, 403, pair=stage.root_pair)  # this session has seen the password alone
    await stage.send("POST", STEP_UP, 204, {"code": app.code()}, stage.root_pair)
    for path in paths:
        await stage.send("GET", path, 200, pair=stage.root_pair)
    signed_in = await sign_in_fully(stage.api, {"email": "root@example.com", "password": PASSWORD}, codes[0])
    await stage.send("GET", USERS, 200, pair=signed_in)
    await sync_to_async(audit.wait_until_written)()
    denied = AuditEvent.objects.filter(event="access_denied", actor_id=stage.root)
    assert await denied.acount() == len(paths) + 2


async def test_whom_a_factor_would_not_help_is_told_what_is_missing(stage: Stage, settings: Settings) -> None:
    """Others than staff get the plain 403 by the same setting; who holds the one right needed is asked for a factor."""
    settings.IRONAUTH_STAFF_MFA = "required"
    plain = await stage.send("GET", USERS, 403, pair=stage.pair)
    assert (plain["code"], "accounts.view_user" in plain["detail"]) == ("permission_denied", True)
    assert (await stage.send("POST", USERS, 403, {}, stage.pair))["code"] == "permission_denied"
    await stage.send("PUT", USERS, 405, {}, stage.pair)  # nothing a right, or a factor, would allow
    await give(stage.member, "view_user")
    assert (await stage.send("GET", USERS, 403, pair=stage.pair))["code"] == "mfa_enrolment_required"
    assert (await stage.send("POST", USERS, 403, {}, stage.pair))["code"] == "permission_denied"
    await sync_to_async(audit.wait_until_written)()
    assert await AuditEvent.objects.filter(event="access_denied", actor_id=stage.member).acount() == 4
