"""Guessing a second factor: an app's codes have a count of their own, which a right password does not touch."""

import asyncio
import secrets
import threading
import time
import uuid

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event
from accounts.conftest import full_pool  # noqa: F401 - a fixture
from accounts.mfa import factors, services
from accounts.mfa.errors import InvalidMfaCode
from accounts.mfa.totp import factor as totp_factor
from accounts.mfa.totp.models import TotpFactor
from accounts.outbox.models import OutgoingMail
from accounts.tests.authenticator import Authenticator
from accounts.users.models import User
from accounts.users.proofs import Evidence, ProofRequest
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Overloaded, Throttled
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.models import ThrottleFailures
from ironauth.infrastructure.ratelimit.lockout import FREE_FAILURES, MAX_FAILURES
from tokens.tests.browser import SIGNIN, Member, Pair
from tokens.tests.second_factor import (
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
from tokens.tests.test_no_secret_leaks import waiting_tokens

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.usefixtures("throttled", "still_clock"),
]
THROTTLED = (429, "throttled")
INVALID_CODE = (401, "invalid_mfa_code")


async def failures() -> list[int]:
    """Return the counts that are not 0."""
    return [row.failures async for row in ThrottleFailures.objects.filter(failures__gt=0)]


async def test_ten_codes_are_judged(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Then none is, not even the right one, from whatever token, before the wait is over; no hash is paid for."""
    app, _ = await enrol(api, pair)
    token = (await password_only(api, member))["mfa_token"]
    for _ in range(FREE_FAILURES):
        assert said(await with_code(api, token, app.wrong())) == INVALID_CODE
    token = (await password_only(api, member))["mfa_token"]
    jobs = hash_pool().stats().completed
    for code in (app.code(), app.wrong()):
        refused = await with_code(api, token, code)
        assert said(refused) == THROTTLED
        assert "recovery code from this site" in refused.json()["detail"]
        assert refused.headers["retry-after"] == "1"
    assert hash_pool().stats().completed == jobs
    step_up = await api.post(STEP_UP, json={"code": app.code()}, headers=bearer(pair))
    assert said(step_up) == THROTTLED  # one count, wherever the code is asked for
    with clock.shifted(1):
        assert (await with_code(api, token, app.code())).status_code == 200
    assert await failures() == []
    await sync_to_async(audit.wait_until_written)()
    event = await AuditEvent.objects.aget(event="throttled")
    assert (event.user_id, event.details) == (uuid.UUID(member["id"]), {"rule": "second_factor", "by": "account"})


async def test_the_owner_is_told_of_who_hangs_up(
    api: httpx.AsyncClient, member: Member, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tenth wrong code is a message, and a failure in the trail, though its sender does not wait for the answer."""
    app, _ = await enrol(api, pair)
    token = (await password_only(api, member))["mfa_token"]
    for _ in range(FREE_FAILURES - 1):
        await with_code(api, token, app.wrong())
    begun, judge = threading.Event(), totp_factor._judge

    def slow(user_id: uuid.UUID, code: str) -> object:
        begun.set()
        time.sleep(0.1)
        return judge(user_id, code)

    monkeypatch.setattr(totp_factor, "_judge", slow)
    asked = ProofRequest(uuid.UUID(member["id"]), Event.SIGN_IN)
    gone = asyncio.create_task(factors.judge(Evidence(code=app.wrong()), asked))
    await asyncio.to_thread(begun.wait, 5)
    gone.cancel()
    await asyncio.wait([gone])
    assert gone.cancelled()
    warnings = OutgoingMail.objects.filter(kind="second_factor_refused", recipient=member["email"])
    for _ in range(50):
        if await warnings.aexists():
            break
        await asyncio.sleep(0.02)
    assert await warnings.acount() == 1
    await sync_to_async(audit.wait_until_written)()
    wrong = AuditEvent.objects.filter(event="sign_in", outcome="failure", user_id=member["id"])
    assert await wrong.acount() == FREE_FAILURES


async def test_the_owner_is_told_once(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """The tenth wrong code in a row, wherever it is typed, is a message: who types it has the password."""
    app, codes = await enrol(api, pair)
    user = await User.objects.aget(pk=member["id"])
    warnings = OutgoingMail.objects.filter(kind="second_factor_refused", recipient=member["email"])
    token = (await password_only(api, member))["mfa_token"]
    for n in range(FREE_FAILURES - 1):
        assert said(await with_code(api, token, app.wrong() if n % 2 else app.code(-3))) == INVALID_CODE
    assert not await warnings.aexists()
    with pytest.raises(InvalidMfaCode):
        await services.prove(Evidence(code=app.wrong()), ProofRequest(user.pk, Event.ADMIN_SIGN_IN))
    for wait in (0, 1, 3):
        with clock.shifted(wait):
            await with_code(api, token, app.wrong())
            assert await warnings.acount() == 1
    assert (await with_code(api, token, codes[0])).status_code == 200
    token = (await password_only(api, member))["mfa_token"]
    for _ in range(FREE_FAILURES):
        assert said(await with_code(api, token, app.wrong())) == INVALID_CODE
    assert await warnings.acount() == 2


async def test_parallel_guesses_do_not_slip_through(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Of thirty at once ten are judged."""
    app, _ = await enrol(api, pair)
    token = (await password_only(api, member))["mfa_token"]
    answers = await asyncio.gather(*(with_code(api, token, app.wrong()) for _ in range(30)))
    assert sorted(answer.status_code for answer in answers) == [401] * 10 + [429] * 20


async def test_a_right_password_resets_nothing_of_it(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Neither the count of codes nor, without the code, that of passwords; a new password by mail does not either."""
    app, _ = await enrol(api, pair)
    await ThrottleFailures.objects.all().adelete()  # no device is known
    for _ in range(3):
        answer = await api.post(SIGNIN, json={"email": member["email"], "password": "wrong"})
        assert answer.status_code == 401
    token = (await password_only(api, member))["mfa_token"]
    for _ in range(2):
        await with_code(api, token, app.wrong())
    await password_only(api, member)
    assert sorted(await failures()) == [2, 3]
    await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=clock.now())  # else the factor would go
    await api.post("/api/v1/access/password/reset", json={"email": member["email"]})
    body = {"token": (await sync_to_async(waiting_tokens)())[-1], "new_password": PASSWORD + " more"}
    assert (await api.post("/api/v1/access/password/reset/confirm", json=body)).status_code == 204
    assert await failures() == [2]
    await sign_in_fully(api, {**member, "password": PASSWORD + " more"}, app.code())
    assert await failures() == []


@pytest.mark.parametrize("counted", [MAX_FAILURES - 1, MAX_FAILURES])
async def test_a_hundred_in_a_row_and_never_more(
    api: httpx.AsyncClient, member: Member, pair: Pair, counted: int
) -> None:
    """The hundredth is judged, the next one never, until an operator forgives the failures."""
    app, _ = await enrol(api, pair)
    token = (await password_only(api, member))["mfa_token"]
    await with_code(api, token, app.wrong())
    assert await ThrottleFailures.objects.filter(failures=1).aupdate(failures=counted, retry_at=0) == 1
    last = said(await with_code(api, token, app.wrong()))
    assert last == (INVALID_CODE if counted < MAX_FAILURES else THROTTLED)
    assert said(await with_code(api, token, app.code())) == THROTTLED
    await sync_to_async(call_command)("forgive_failures", member["email"])
    assert (await with_code(api, token, app.code())).status_code == 200


async def test_the_owner_is_never_kept_out(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Anybody who has the password uses the count up for good; a recovery code opens nevertheless, and resets it."""
    app, codes = await enrol(api, pair)
    token = (await password_only(api, member))["mfa_token"]
    await with_code(api, token, app.wrong())
    assert await ThrottleFailures.objects.filter(failures=1).aupdate(failures=MAX_FAILURES, retry_at=0) == 1
    assert said(await with_code(api, token, app.code())) == THROTTLED
    assert said(await with_code(api, token, codes[0][:-1] + "?")) == INVALID_CODE
    assert await failures() == [MAX_FAILURES]
    stepped = await api.post(STEP_UP, json={"code": codes[0]}, headers=bearer(pair))
    assert stepped.status_code == 204
    assert await failures() == []
    assert (await with_code(api, token, app.code())).status_code == 200


async def test_recovery_codes_are_counted_for_the_address(
    api: httpx.AsyncClient, member: Member, pair: Pair, settings: Settings
) -> None:
    """Each costs a hash, so that one address has so many, whosever they are, and the app's codes are not among them."""
    settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = 5
    app, codes = await enrol(api, pair)
    token = (await password_only(api, member))["mfa_token"]
    for _ in range(5):
        assert said(await with_code(api, token, "0000-0000-0000-0000")) == INVALID_CODE
    jobs = hash_pool().stats().completed
    for code in (codes[0], "what?"):
        assert said(await with_code(api, token, code)) == THROTTLED
    user = await User.objects.aget(pk=member["id"])
    with pytest.raises(Throttled):
        await services.prove(Evidence(code=codes[0]), ProofRequest(user.pk, Event.ADMIN_SIGN_IN, "127.0.0.1"))
    assert hash_pool().stats().completed == jobs
    assert await failures() == []
    await services.prove(Evidence(code=codes[0]), ProofRequest(user.pk, Event.ADMIN_SIGN_IN, "198.51.100.1"))
    assert (await with_code(api, token, app.code())).status_code == 200


async def test_new_factors_are_counted(api: httpx.AsyncClient, member: Member, pair: Pair, settings: Settings) -> None:
    """An account gets so many in an hour: each is a message to its address, and ten hashes. Taking away is free."""
    settings.IRONAUTH_THROTTLE_NEW_FACTORS = 3
    codes, passkeys = f"{MFA}/recovery-codes", f"{MFA}/passkeys"
    for _ in range(2):
        app, _ = await enrol(api, pair)
        gone = await api.request("DELETE", TOTP, json={"password": PASSWORD}, headers=bearer(pair))
        assert gone.status_code == 204
    options = (await api.post(f"{passkeys}/options", headers=bearer(pair))).json()
    made = Authenticator().create(options["publicKey"])
    body = {"challenge_token": options["challenge_token"], "credential": made}
    assert (await api.post(passkeys, json=body, headers=bearer(pair))).status_code == 201
    messages = await OutgoingMail.objects.acount()
    jobs = hash_pool().stats().completed
    assert said(await api.post(passkeys, json=body, headers=bearer(pair))) == THROTTLED
    app = App((await api.post(TOTP, headers=bearer(pair))).json()["secret"])
    assert said(await api.post(CONFIRM, json={"code": app.code()}, headers=bearer(pair))) == THROTTLED
    assert hash_pool().stats().completed == jobs
    assert said(await api.post(codes, json={"password": PASSWORD}, headers=bearer(pair))) == THROTTLED
    assert hash_pool().stats().completed == jobs + 1  # the password's
    assert await OutgoingMail.objects.acount() == messages
    (passkey,) = (await api.get(MFA, headers=bearer(pair))).json()["passkeys"]
    assert (await api.delete(f"{passkeys}/{passkey['id']}", headers=bearer(pair))).status_code == 204


async def test_a_known_device_comes_with_the_second_factor(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """An address from which only the password was given is not known by it; once the code was right, it is."""
    app, _ = await enrol(api, pair)
    await ThrottleFailures.objects.all().adelete()
    asked = await password_only(api, member)
    assert not await ThrottleFailures.objects.filter(known_until__gt=0).aexists()
    assert (await with_code(api, asked["mfa_token"], app.code())).status_code == 200
    assert await ThrottleFailures.objects.filter(known_until__gt=0).acount() == 1


async def test_what_was_not_judged_is_not_counted(
    api: httpx.AsyncClient,
    member: Member,
    pair: Pair,
    full_pool: None,  # noqa: F811 - the fixture
) -> None:
    """A full hash pool answers 503, and the try is given back."""
    user = await User.objects.aget(pk=member["id"])
    with pytest.raises(Overloaded):
        await services.prove(Evidence(code="0000-0000-0000-0000"), ProofRequest(user.pk, Event.ADMIN_SIGN_IN))
    assert await failures() == []


async def test_a_lost_master_key_keeps_nobody_out(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Codes that nobody can judge are answered 503 and not counted; recovery codes work, and the app does later."""
    app, codes = await enrol(api, pair)
    kept = settings.IRONAUTH_MASTER_KEYS
    with override_settings(IRONAUTH_MASTER_KEYS={"t2": secrets.token_bytes(32), **kept}):
        await TotpFactor.objects.aupdate(master_key_id="gone")
        token = (await password_only(api, member))["mfa_token"]
        for _ in range(FREE_FAILURES + 1):
            refused = await with_code(api, token, app.code())
            assert said(refused) == (503, "totp_unreadable")
            assert refused.headers["retry-after"] == "60"
        assert said(await api.post(STEP_UP, json={"code": app.code()}, headers=bearer(pair))) == (
            503,
            "totp_unreadable",
        )
        assert await failures() == []
        assert (await with_code(api, token, codes[0])).status_code == 200
    await TotpFactor.objects.aupdate(master_key_id=next(iter(kept)))
    token = (await password_only(api, member))["mfa_token"]
    assert (await with_code(api, token, app.code())).status_code == 200


async def test_the_admin_has_the_same_count(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """What the admin's pages call judges as the API does, uses codes up, and is refused with it."""
    app, codes = await enrol(api, pair)
    asked = ProofRequest(uuid.UUID(member["id"]), Event.ADMIN_SIGN_IN)
    for code in (app.code(), codes[0]):
        await services.prove(Evidence(code=code), asked)
        with pytest.raises(InvalidMfaCode):
            await services.prove(Evidence(code=code), asked)
    token = (await password_only(api, member))["mfa_token"]
    for _ in range(FREE_FAILURES):
        assert said(await with_code(api, token, app.wrong())) == INVALID_CODE
    with pytest.raises(Throttled):
        await services.prove(Evidence(code=app.code()), asked)
