"""Signing in with a second factor: nothing opens before it, each code and each token works once."""

import asyncio
import uuid
from collections.abc import MutableMapping
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.test import override_settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.mfa.recovery.models import RecoveryCode
from accounts.mfa.totp.models import TotpFactor
from accounts.outbox.models import OutgoingMail
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.telemetry import logs
from tokens.sessions.models import Session
from tokens.sign_in import mfa_token
from tokens.tests.browser import CROSS_SITE, ME, PASSWORD_URL, REFRESH, Member, Pair, cookie_lines
from tokens.tests.second_factor import SIGNIN_MFA, enrol, password_only, said, sign_in_fully, with_code
from tokens.tests.test_no_secret_leaks import events, every_table, spellings, waiting_tokens  # noqa: F401 - a fixture among them

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.usefixtures("still_clock"),
]

NEW_PASSWORD = "seven amber kites over Lyon"
INVALID_TOKEN, INVALID_CODE = (401, "invalid_mfa_token"), (401, "invalid_mfa_code")


async def test_a_password_alone_opens_no_session(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """The answer names the methods and a token that is no credential; the code makes a session of it."""
    app, _ = await enrol(api, pair)
    sessions = await Session.objects.acount()
    asked = await password_only(api, member)
    assert asked["methods"] == ["totp", "recovery_code"]
    assert await Session.objects.acount() == sessions
    answer = await api.get(ME, headers={"Authorization": f"Bearer {asked['mfa_token']}"})
    assert answer.status_code == 401
    opened = await with_code(api, asked["mfa_token"], app.code())
    assert opened.status_code == 200
    assert opened.headers["cache-control"] == "no-store"
    assert (await api.get(ME, headers=bearer(opened.json()))).json()["email"] == member["email"]
    session = await Session.objects.aget(pk=opened.json()["session_id"])
    assert session.amr == "pwd otp mfa"


async def test_by_cookie(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """With the cookie transport the tokens, and the device, travel in cookies."""
    app, _ = await enrol(api, pair)
    asked = await password_only(api, member)
    answer = await with_code(api, asked["mfa_token"], app.code(), transport="cookie")
    assert answer.status_code == 204
    assert set(cookie_lines(answer)) == {"access_token", "refresh_token", "device"}


async def test_a_code_works_once(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Nobody who has seen a code, or a recovery code, gets in with it."""
    app, codes = await enrol(api, pair)
    for code in (app.code(), codes[3].upper().replace("-", " ")):
        await sign_in_fully(api, member, code)
        asked = await password_only(api, member)
        assert said(await with_code(api, asked["mfa_token"], code)) == (401, "invalid_mfa_code")
    with clock.shifted(30):
        await sign_in_fully(api, member, app.code())


async def test_a_token_opens_one_session(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """A wrong code leaves it as it is; once it has opened a session it opens no other, whatever the code."""
    app, codes = await enrol(api, pair)
    token = (await password_only(api, member))["mfa_token"]
    for wrong in (app.wrong(), codes[0][:-1] + ("0" if codes[0][-1] != "0" else "1"), "what?", app.code(-1)):
        assert said(await with_code(api, token, wrong)) == INVALID_CODE
    assert (await with_code(api, token, app.code())).status_code == 200
    jobs = hash_pool().stats().completed
    assert said(await with_code(api, token, codes[1])) == INVALID_TOKEN
    assert hash_pool().stats().completed == jobs
    assert await RecoveryCode.objects.acount() == 10


@pytest.mark.parametrize(("after_s", "good"), [(299, True), (301, False)])
async def test_a_token_dies_after_five_minutes(
    api: httpx.AsyncClient, member: Member, pair: Pair, after_s: int, good: bool
) -> None:
    """Then the password is asked for again."""
    app, _ = await enrol(api, pair)
    token = (await password_only(api, member))["mfa_token"]
    with clock.shifted(after_s):
        answer = await with_code(api, token, app.code())
    assert (answer.status_code == 200) == good
    assert good or said(answer) == INVALID_TOKEN


@pytest.mark.parametrize("change", ["password", "sessions ended", "deactivated", "deleted", "forged"])
async def test_a_token_dies_with_what_it_stands_for(
    api: httpx.AsyncClient, member: Member, pair: Pair, change: str
) -> None:
    """A new password, an ended account, and a token that this server did not make: one answer for all of them."""
    app, codes = await enrol(api, pair)
    token = (await password_only(api, member))["mfa_token"]
    user = await User.objects.aget(pk=member["id"])
    match change:
        case "password":
            body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
            assert (await api.post(PASSWORD_URL, json=body, headers=bearer(pair))).status_code == 200
        case "sessions ended":
            await api.post("/api/v1/access/logout-all", headers=bearer(pair))
        case "deactivated":
            user.is_active = False
            await sync_to_async(user.save)()
        case "deleted":
            await sync_to_async(user.delete)()
        case "forged":
            token = token[:-5] + "AAAAA"
    jobs = hash_pool().stats().completed
    for code in (app.code(), codes[0]):
        assert said(await with_code(api, token, code)) == INVALID_TOKEN
    assert hash_pool().stats().completed == jobs


async def test_two_at_once_with_one_code(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Of eight sign-ins with the same code one gets in, and of eight with the same token and different codes."""
    app, codes = await enrol(api, pair)
    tokens = [(await password_only(api, member))["mfa_token"] for _ in range(8)]
    answers = await asyncio.gather(*(with_code(api, token, app.code()) for token in tokens))
    assert sorted(answer.status_code for answer in answers) == [200] + [401] * 7
    assert {said(answer) for answer in answers if answer.status_code != 200} == {INVALID_CODE}
    token = (await password_only(api, member))["mfa_token"]
    answers = await asyncio.gather(*(with_code(api, token, code) for code in codes[:8]))
    assert sorted(answer.status_code for answer in answers) == [200] + [401] * 7
    assert {said(answer) for answer in answers if answer.status_code != 200} == {INVALID_TOKEN}
    assert await RecoveryCode.objects.acount() == 9  # what opened nothing was not used up


async def test_a_password_reset_by_mail_leaves_the_factor(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Who has the mailbox of a confirmed address, and thereby the password, still needs the second factor."""
    app, _ = await enrol(api, pair)
    await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=clock.now())
    await api.post("/api/v1/access/password/reset", json={"email": member["email"]})
    token = (await sync_to_async(waiting_tokens)())[-1]
    body = {"token": token, "new_password": NEW_PASSWORD}
    assert (await api.post("/api/v1/access/password/reset/confirm", json=body)).status_code == 204
    await sign_in_fully(api, {**member, "password": NEW_PASSWORD}, app.code())


async def test_a_refresh_keeps_how_and_when(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Rotating a token proves nothing: neither time nor method changes, nor does a new password change them."""
    app, _ = await enrol(api, pair)
    opened = await sign_in_fully(api, member, app.code())
    before = await Session.objects.aget(pk=opened["session_id"])
    with clock.shifted(100):
        refreshed = (await api.post(REFRESH, json={"refresh_token": opened["refresh_token"]})).json()
        after = await Session.objects.aget(pk=opened["session_id"])
        assert (after.authenticated_at, after.amr) == (before.authenticated_at, "pwd otp mfa")
        body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
        changed = (await api.post(PASSWORD_URL, json=body, headers=bearer(refreshed))).json()
    newest = await Session.objects.aget(pk=changed["session_id"])
    assert (newest.authenticated_at, newest.amr) == (before.authenticated_at.replace(microsecond=0), "pwd otp mfa")


async def test_another_site_signs_nobody_in(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """By cookie, the second step has the rule of the first one (login CSRF)."""
    app, _ = await enrol(api, pair)
    token = (await password_only(api, member))["mfa_token"]
    body = {"mfa_token": token, "code": app.code(), "transport": "cookie"}
    assert said(await api.post(SIGNIN_MFA, json=body, headers=CROSS_SITE)) == (403, "cross_origin")
    assert (await api.post(SIGNIN_MFA, json=body)).status_code == 204


async def test_the_trail_of_a_sign_in(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """One event for the password, one for the session that opens, for each wrong code, and for a recovery code.

    The last is told by mail.
    """
    app, codes = await enrol(api, pair)
    await sync_to_async(audit.wait_until_written)()
    before = [event.pk async for event in AuditEvent.objects.all()]
    token = (await password_only(api, member))["mfa_token"]
    await with_code(api, token, app.wrong())
    opened = (await with_code(api, token, codes[0])).json()
    await sync_to_async(audit.wait_until_written)()
    trail = [event async for event in AuditEvent.objects.exclude(pk__in=before).order_by("event", "outcome")]
    me = uuid.UUID(member["id"])
    assert [(e.event, e.outcome, e.actor_id, e.user_id, e.details) for e in trail] == [
        ("recovery_code_used", "success", me, me, {"left": 9}),
        ("second_factor_asked", "success", None, me, {"on_the_way_to": "sign_in"}),
        ("sign_in", "failure", None, me, {"reason": "invalid_mfa_code"}),
        ("sign_in", "success", me, me, {"by": "pwd rec mfa"}),
    ]
    assert str(trail[-1].session_id) == opened["session_id"]
    kinds = [mail.kind async for mail in OutgoingMail.objects.order_by("pk")]
    assert kinds == ["mfa_enabled", "recovery_code_used"]


async def test_secrets_are_kept_nowhere(
    api: httpx.AsyncClient,
    member: Member,
    pair: Pair,
    events: list[MutableMapping[str, Any]],  # noqa: F811 - the fixture
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither table nor log has the app's secret, a code, a recovery code or an mfa_token, in any spelling."""
    with override_settings(IRONAUTH_ACCESS_LOG=True):
        app, codes = await enrol(api, pair)
        token = (await password_only(api, member))["mfa_token"]
        assert said(await with_code(api, token, codes[0][:-1])) == INVALID_CODE
        assert (await with_code(api, token, codes[1])).status_code == 200
    logs.flush()
    await sync_to_async(audit.wait_until_written)()
    assert await TotpFactor.objects.filter(confirmed_at__isnull=False).aexists()
    written = capsys.readouterr()
    seen = "\n".join([written.err, written.out, *map(repr, events)]).encode() + await sync_to_async(every_table)()
    assert member["id"].encode() in seen
    raw = app.raw()
    kept = {app.secret.encode(), token.encode(), mfa_token_mac(token)} | spellings(raw)
    kept |= {code.encode() for code in codes} | {code.replace("-", "").encode() for code in codes}
    assert not [secret for secret in kept if secret in seen]


def mfa_token_mac(token: str) -> bytes:
    """Return the end of the token's text: a log that shortens it must not have kept this part."""
    assert mfa_token.parse(token) is not None
    return token[-43:].encode()


async def test_who_has_no_factor_pays_nothing(
    api: httpx.AsyncClient, member: Member, statements: list[str], signing_key: str
) -> None:
    """A sign-in by password is as many statements as ever: what factors there are is read with the password's hash."""
    body = {"email": member["email"], "password": PASSWORD}
    await api.post("/api/v1/access/signin", json=body)  # keys are in memory from here on
    statements.clear()
    opened = (await api.post("/api/v1/access/signin", json=body)).json()
    # Credentials; account, how many sessions there are, session, event, the last two as one on PostgreSQL.
    assert len(statements) == 5
    statements.clear()
    token_cache().clear()
    assert (await api.get(ME, headers=bearer(opened))).status_code == 200
    assert len(statements) == 1
