"""Throttles over HTTP: strangers are slowed down, nobody is locked out, and what is right costs little."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.conftest import full_pool  # noqa: F401 - a fixture
from accounts.email import units as email_units
from accounts.lockout import rate_limits, throttling
from accounts.lockout.rate_limits import Refused
from accounts.lockout.throttling import KNOWN_ADDRESSES, KNOWN_BROWSERS, KNOWN_S, SIGNED_IN, STRANGERS
from accounts.outbox.models import EmailToken
from accounts.outbox.tokens import FoundToken
from accounts.users import units
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.asgi import application
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.durations import in_words
from ironauth.infrastructure.core.errors import Throttled
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.models import ThrottleFailures, ThrottleWindow
from ironauth.infrastructure.ratelimit.lockout import FREE_FAILURES, MAX_FAILURES
from tokens.sign_in import services
from tokens.sign_in.proofs import SignInProof
from tokens.tests.browser import ME, PASSWORD_URL, REFRESH, SAME_ORIGIN, SIGNIN, Member, by_cookie, cookie_lines

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

SIGNUP = "/api/v1/access/signup"
WRONG = "not the password at all"
DAY = 86_400


@pytest.fixture(autouse=True)
def _throttled(throttled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Throttles on, and a clock that stands still where a window begins."""
    now = clock.unix()
    now -= now % 900
    monkeypatch.setattr(clock, "_source", lambda: now)


@asynccontextmanager
async def client_at(address: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client that comes from ``address``, without cookies."""
    transport = httpx.ASGITransport(app=cast("Any", application), raise_app_exceptions=False, client=(address, 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        yield client


async def sign_in(address: str, email: str, password: str = WRONG, **headers: str) -> httpx.Response:
    """Sign in from ``address`` as an API client does."""
    async with client_at(address) as client:
        return await client.post(SIGNIN, json={"email": email, "password": password}, headers=headers)


async def fail(address: str, email: str, times: int) -> None:
    """Be wrong so many times, which is let in."""
    for _ in range(times):
        assert (await sign_in(address, email)).status_code == 401


def refused(answer: httpx.Response, wait_s: int | None = None) -> bool:
    """Tell whether the answer is a complete 429; of a wait of days, a few seconds may be over."""
    problem, left = answer.json(), int(answer.headers["retry-after"])
    says_more = (
        "A new password by e-mail ends the wait." in problem["detail"]
    )  # where waiting is no help, and only there
    return (
        (answer.status_code, problem["status"], problem.get("code")) == (429, 429, "throttled")
        and answer.headers["content-type"] == "application/problem+json"
        and answer.headers["cache-control"] == "no-store"
        and left >= 1
        and f"try again in {in_words(left)}." in problem["detail"]
        and (wait_s is None or 0 <= wait_s - left <= (10 if wait_s > DAY else 0))
        and (says_more or left <= DAY)
        and (left > 3_600 or not says_more)
    )


# ------------------------------------------------------------------ accounts
async def test_a_hundred_and_twenty_wrong_tries(member: Member) -> None:
    """Ten are judged, the others are not; the right password works from elsewhere after the wait, and resets all."""
    jobs = hash_pool().stats().completed
    answers = [await sign_in(f"198.51.100.{n % 250}", member["email"]) for n in range(120)]
    assert [answer.status_code for answer in answers] == [401] * FREE_FAILURES + [429] * 110
    assert all(refused(answer, 1) for answer in answers[FREE_FAILURES:])
    assert hash_pool().stats().completed == jobs + FREE_FAILURES  # no hash for who is refused
    assert refused(await sign_in("203.0.113.7", member["email"], PASSWORD), 1)
    with clock.shifted(1):
        assert (await sign_in("203.0.113.7", member["email"], PASSWORD)).status_code == 200
        await fail("198.51.100.251", member["email"], FREE_FAILURES)
        assert refused(await sign_in("198.51.100.251", member["email"]), 1)


async def test_who_may_not_sign_in_yet_is_not_counted_for_it(member: Member) -> None:
    """A right password that has to be changed first is no failure, and resets those there were."""
    await fail("198.51.100.7", member["email"], 3)
    await User.objects.filter(pk=member["id"]).aupdate(must_change_password=True)
    assert (await sign_in("198.51.100.7", member["email"], PASSWORD)).json()["code"] == "password_change_required"
    assert not await ThrottleFailures.objects.filter(failures__gt=0).aexists()


async def test_who_does_not_get_in_is_not_forgiven(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """A right password that was changed while it was hashed: a failure, and no device is known by it."""

    async def late(proof: SignInProof, **rest: Any) -> Any:
        await database().write(units.end_all_sessions, user_id=proof.user_id, session_id=None)
        return await opened(proof, **rest)

    await fail("198.51.100.7", member["email"], 3)
    opened = services.open_session  # where the account can still change
    monkeypatch.setattr(services, "open_session", late)
    assert (await sign_in("198.51.100.7", member["email"], PASSWORD)).status_code == 401
    counted = ThrottleFailures.objects.filter(failures__gt=0)
    assert [row async for row in counted.values_list("failures", "known_until")] == [(4, 0)]


async def test_unknown_and_known_accounts_are_refused_alike(member: Member) -> None:
    """The same bytes, waits and number of tries, in whatever case the address is typed."""
    seen = []
    for email in (member["email"], "nobody@example.com"):
        spellings = [email, email.upper()]
        answers = [await sign_in(f"198.51.100.{n}", spellings[n % 2]) for n in range(14)]
        for answer in answers:
            answer.headers.pop("x-request-id")
        seen.append(
            [
                (answer.status_code, sorted(answer.headers.items()), {**answer.json(), "request_id": ""})
                for answer in answers
            ]
        )
    assert seen[0] == seen[1]
    assert [status for status, _, _ in seen[0]] == [401] * 10 + [429] * 4


async def test_parallel_guesses_do_not_slip_through(member: Member) -> None:
    """Of forty at once ten are judged."""
    jobs = hash_pool().stats().completed
    answers = await asyncio.gather(*(sign_in(f"198.51.100.{n}", member["email"]) for n in range(40)))
    assert sorted(answer.status_code for answer in answers) == [401] * 10 + [429] * 30
    assert hash_pool().stats().completed == jobs + 10


@pytest.mark.parametrize("failures", [STRANGERS - 1, STRANGERS])
async def test_strangers_have_an_end_and_the_owner_gets_in(member: Member, failures: int) -> None:
    """The last of their share is let in, the next never; a known address is, and that resets the count."""
    assert (await sign_in("203.0.113.7", member["email"], PASSWORD)).status_code == 200
    await fail("198.51.100.1", member["email"], 1)
    strangers = ThrottleFailures.objects.filter(known_until=0)
    assert await strangers.aupdate(failures=failures, retry_at=0) == 1
    with clock.shifted(29 * DAY):
        answer = await sign_in("198.51.100.2", member["email"], PASSWORD if failures == STRANGERS else WRONG)
        assert refused(answer, 336 * DAY) if failures == STRANGERS else answer.status_code == 401
        last = 365 * DAY if failures < STRANGERS else 336 * DAY  # a year after the last failure it is forgotten
        assert refused(await sign_in("198.51.100.2", member["email"], PASSWORD), last)
        assert (await sign_in("203.0.113.7", member["email"], PASSWORD)).status_code == 200
        assert (await sign_in("198.51.100.2", member["email"], PASSWORD)).status_code == 200


@pytest.mark.live
async def test_a_hundred_failures_in_a_row_and_no_more(member: Member, settings: Settings) -> None:
    """Strangers, three known browsers, two known addresses and a session try until nobody is let in: a hundred tries.

    Once forgiven, as by a new password, all begin anew, on devices that are still known.
    """
    settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = 1_000
    assert STRANGERS + KNOWN_ADDRESSES + KNOWN_BROWSERS + SIGNED_IN == MAX_FAILURES
    pair = (await sign_in("203.0.113.8", member["email"], PASSWORD)).json()
    cookies = []
    for _ in range(3):
        async with client_at("203.0.113.7") as browser:
            await by_cookie(browser, member)
            cookies.append(f"device={browser.cookies['device']}")
    ways = [("198.51.100.1", ""), ("203.0.113.7", ""), ("203.0.113.8", ""), *(("198.51.100.2", one) for one in cookies)]
    body = {"current_password": WRONG, "new_password": "seven quiet lanterns over Bern"}
    let_in, before = 0, -1
    async with client_at("198.51.100.3") as session:
        while let_in != before:
            before = let_in
            answers = [await sign_in(address, member["email"], Cookie=cookie) for address, cookie in ways]
            answers.append(await session.post(PASSWORD_URL, json=body, headers=bearer(pair)))
            let_in += [answer.status_code for answer in answers].count(401)
            await ThrottleFailures.objects.all().aupdate(retry_at=0)  # as if all waits were over
    assert let_in == MAX_FAILURES
    user_id = (await User.objects.aget()).pk
    await database().write(throttling.forgive_account, email=member["email"].upper(), user_id=user_id)
    for count, (address, cookie) in enumerate((ways[0], ways[1], ways[5]), start=1):
        assert (await sign_in(address, member["email"], Cookie=cookie)).status_code == 401
        rows = [row.failures async for row in ThrottleFailures.objects.filter(failures__gt=0)]
        assert rows == [1] * count


async def test_a_known_browser_works_while_strangers_are_refused(member: Member) -> None:
    """Its cookie knows it from any address, for this account alone, for thirty days after its last sign-in."""
    async with client_at("203.0.113.7") as browser:
        line = cookie_lines(await by_cookie(browser, member))["device"]
        assert f"Max-Age={KNOWN_S}" in line
        assert "HttpOnly" in line
        assert "SameSite=Strict" in line
        first = browser.cookies["device"]
        await by_cookie(browser, member)
        device = browser.cookies["device"]
        assert device != first
    await fail("198.51.100.1", member["email"], FREE_FAILURES)
    assert refused(await sign_in("198.51.100.2", member["email"], PASSWORD), 1)
    assert refused(await sign_in("198.51.100.2", member["email"], PASSWORD, Cookie=f"device={first}"), 1)
    assert refused(await sign_in("198.51.100.2", member["email"], PASSWORD, Cookie=f"device={device}x"), 1)
    for shift, status in ((KNOWN_S, 429), (KNOWN_S - 1, 200)):
        await ThrottleFailures.objects.filter(known_until=0).aupdate(retry_at=clock.unix() + 40 * DAY)
        with clock.shifted(shift):
            answer = await sign_in("198.51.100.2", member["email"], PASSWORD, Cookie=f"device={device}")
            assert answer.status_code == status
    await fail("198.51.100.1", "other@example.com", FREE_FAILURES)
    assert refused(await sign_in("198.51.100.2", "other@example.com", Cookie=f"device={device}"), 1)


async def test_a_known_device_is_no_licence_to_guess(member: Member) -> None:
    """It has the same waits and the same end."""
    assert (await sign_in("203.0.113.7", member["email"], PASSWORD)).status_code == 200
    await fail("203.0.113.7", member["email"], FREE_FAILURES)
    assert refused(await sign_in("203.0.113.7", member["email"], PASSWORD), 1)
    assert (await sign_in("198.51.100.2", member["email"], PASSWORD)).status_code == 200
    await fail("203.0.113.7", member["email"], FREE_FAILURES)  # a right password has reset them all
    assert refused(await sign_in("203.0.113.7", member["email"], PASSWORD), 1)


@pytest.mark.parametrize("verified", [False, True])
async def test_the_owners_first_reset_makes_a_strangers_device_unknown(member: Member, verified: bool) -> None:
    """Who signed up under the address has no share of the owner's tries; a confirmed owner keeps their devices."""
    async with client_at("203.0.113.7") as browser:
        await by_cookie(browser, member)
        cookie = f"device={browser.cookies['device']}"
    user = await User.objects.aget()
    if verified:
        await User.objects.filter(pk=user.pk).aupdate(email_verified_at=clock.now())
    await database().write(email_units.request_reset, user.email_key)
    row = await EmailToken.objects.aget()
    found = FoundToken(row.pk, row.purpose, "", user.pk, user.email, user.name)
    await database().write(email_units.reset_password, found=found, new=user.password)
    await fail("198.51.100.1", member["email"], FREE_FAILURES)
    for address, device in (("198.51.100.2", cookie), ("203.0.113.7", "")):
        answer = await sign_in(address, member["email"], PASSWORD if verified else WRONG, Cookie=device)
        assert answer.status_code == 200 if verified else refused(answer, 1)
        if verified:
            await fail("198.51.100.1", member["email"], FREE_FAILURES)


async def test_strangers_at_an_owners_address_leave_a_share_to_browsers(member: Member) -> None:
    """Who fails at a known address until nobody is let in there keeps no known browser out, at that very address."""
    async with client_at("203.0.113.7") as browser:
        await by_cookie(browser, member)
        cookie = f"device={browser.cookies['device']}"
    for _ in range(STRANGERS + KNOWN_ADDRESSES):
        await fail("203.0.113.7", member["email"], 1)
        await ThrottleFailures.objects.all().aupdate(retry_at=0)
    assert refused(await sign_in("203.0.113.7", member["email"], PASSWORD), 365 * DAY)
    assert refused(await sign_in("198.51.100.2", member["email"], PASSWORD), 365 * DAY)
    assert (await sign_in("203.0.113.7", member["email"], PASSWORD, Cookie=cookie)).status_code == 200
    assert (await sign_in("198.51.100.2", member["email"], PASSWORD)).status_code == 200


@pytest.mark.usefixtures("full_pool")
async def test_a_full_hash_pool_is_no_failure(signing_key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A try that was never judged is given back, address and account."""
    monkeypatch.setattr(hash_pool(), "require_capacity", lambda: None)
    for _ in range(FREE_FAILURES + 2):
        assert (await sign_in("203.0.113.7", "mia@example.com", PASSWORD)).status_code == 503
    assert [row.failures async for row in ThrottleFailures.objects.all()] == [0]
    assert not [row.count async for row in ThrottleWindow.objects.all() if row.count]


# ------------------------------------------------------------------ addresses
async def test_an_address_has_its_limit_whatever_the_accounts(settings: Settings, member: Member) -> None:
    """The last failure is let in, the next is not, not even a right one; successes are given back; it slides."""
    settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = 5
    for n in range(5):
        assert (await sign_in("203.0.113.7", member["email"], PASSWORD)).status_code == 200
        assert (await sign_in("203.0.113.7", f"nobody{n}@example.com")).status_code == 401
    jobs = hash_pool().stats().completed
    assert refused(await sign_in("203.0.113.7", "nobody6@example.com"), 900 + 180)
    assert refused(await sign_in("203.0.113.7", member["email"], PASSWORD), 900 + 180)
    assert hash_pool().stats().completed == jobs
    assert (await sign_in("203.0.113.8", member["email"], PASSWORD)).status_code == 200
    with clock.shifted(1079):
        assert refused(await sign_in("203.0.113.7", member["email"], PASSWORD), 1)
    with clock.shifted(1080):
        assert (await sign_in("203.0.113.7", member["email"], PASSWORD)).status_code == 200


async def test_a_known_browser_works_where_strangers_have_used_up_the_address(
    settings: Settings, member: Member
) -> None:
    """Behind one address with them it is let in, for this account, with ten tries for all its browsers there."""
    settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = 5
    async with client_at("203.0.113.7") as browser:
        await by_cookie(browser, member)
        cookie = f"device={browser.cookies['device']}"
    async with client_at("203.0.113.7") as browser:
        await by_cookie(browser, member)
        another = f"device={browser.cookies['device']}"
    for n in range(5):
        await fail("203.0.113.7", f"nobody{n}@example.com", 1)
    for email, device in ((member["email"], ""), (member["email"], f"device={'A' * 43}"), ("x@example.com", cookie)):
        assert refused(await sign_in("203.0.113.7", email, PASSWORD, Cookie=device), 900 + 180)
    answers = [await sign_in("203.0.113.7", member["email"], Cookie=cookie) for _ in range(FREE_FAILURES)]
    assert [answer.status_code for answer in answers] == [401] * FREE_FAILURES
    assert refused(await sign_in("203.0.113.7", member["email"], PASSWORD, Cookie=cookie), 1)
    assert refused(await sign_in("203.0.113.7", member["email"], PASSWORD, Cookie=another), 1)
    with clock.shifted(1):
        assert (await sign_in("203.0.113.7", member["email"], PASSWORD, Cookie=cookie)).status_code == 200
        assert refused(await sign_in("203.0.113.7", member["email"], PASSWORD))


async def test_a_network_of_ipv6_is_one_client(settings: Settings, signing_key: str) -> None:
    """Its /64 counts together, the next /64 does not, and IPv4 in IPv6 clothing is IPv4."""
    settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = 5
    for n in range(5):
        await fail(f"2001:db8:1:2:{n}::{n}", f"nobody{n}@example.com", 1)
    assert refused(await sign_in("2001:db8:1:2:ffff:ffff:ffff:ffff", "nobody@example.com"))
    await fail("2001:db8:1:3::1", "nobody@example.com", 1)
    for n in range(5):
        await fail("203.0.113.7", f"nobody{n}@example.com", 1)
    assert refused(await sign_in("::ffff:203.0.113.7", "nobody@example.com"))


async def test_a_forged_header_does_not_move_the_count(settings: Settings, signing_key: str) -> None:
    """X-Forwarded-For counts from a configured proxy only, and there the right-most entry does."""
    settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = 5
    for proxies in ([], ["10.0.0.0/8"]):
        settings.IRONAUTH_TRUSTED_PROXIES = proxies
        peer, tail = ("10.0.0.1", ", 203.0.113.50") if proxies else ("203.0.113.60", "")
        for n in range(5):
            headers = {"X-Forwarded-For": f"198.51.100.{n}{tail}"}
            assert (await sign_in(peer, f"nobody{n}@example.com", **headers)).status_code == 401
        headers = {"X-Forwarded-For": f"198.51.100.77{tail}"}
        assert refused(await sign_in(peer, "nobody@example.com", **headers))
    assert (await sign_in("10.0.0.1", "x@example.com", **{"X-Forwarded-For": "198.51.100.77"})).status_code == 401


# ------------------------------------------------------------------ the other rules
async def test_sign_ups_of_an_address(settings: Settings, new_email: Callable[[], str]) -> None:
    """Two in an hour here: taken addresses count, bad input does not, and nothing is hashed for who is refused."""
    settings.IRONAUTH_THROTTLE_SIGNUPS = 2
    body = {"email": new_email(), "password": PASSWORD}
    async with client_at("203.0.113.7") as client:
        assert (await client.post(SIGNUP, json={"email": "x", "password": "y"})).status_code == 400
        assert (await client.post(SIGNUP, json=body)).status_code == 201
        assert (await client.post(SIGNUP, json=body)).status_code == 409
        jobs = hash_pool().stats().completed
        assert refused(await client.post(SIGNUP, json=body))
        assert refused(await client.post(SIGNUP, json={**body, "email": new_email()}))
        assert hash_pool().stats().completed == jobs
        with clock.shifted(7200):
            assert (await client.post(SIGNUP, json={**body, "email": new_email()})).status_code == 201


async def test_invalid_refreshes_of_an_address(settings: Settings, pair: dict[str, Any]) -> None:
    """They are refused after so many; a valid one still works, from the very same address."""
    settings.IRONAUTH_THROTTLE_BAD_REFRESHES = 5
    async with client_at("203.0.113.7") as client:
        for n in range(5):
            answer = await client.post(REFRESH, json={"refresh_token": ("A" * 70, "x")[n % 2]})
            assert answer.status_code == 401
        assert refused(await client.post(REFRESH, json={"refresh_token": "A" * 70}))
        assert refused(await client.post(REFRESH, headers={**SAME_ORIGIN, "Cookie": "refresh_token=x"}))
        assert (await client.post(REFRESH, json={"refresh_token": pair["refresh_token"]})).status_code == 200


async def test_a_stolen_session_is_no_licence_to_guess(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """The present password has ten tries too, at both places that ask for it, then waits; a right one resets."""
    body = {"current_password": WRONG, "new_password": "seven quiet lanterns over Bern"}
    for _ in range(5):
        assert (await api.post(PASSWORD_URL, json=body, headers=bearer(pair))).status_code == 401
        answer = await api.request("DELETE", ME, json={"password": WRONG}, headers=bearer(pair))
        assert answer.status_code == 401
    right = {**body, "current_password": PASSWORD}
    assert refused(await api.post(PASSWORD_URL, json=right, headers=bearer(pair)), 1)
    assert refused(await api.request("DELETE", ME, json={"password": PASSWORD}, headers=bearer(pair)), 1)
    with clock.shifted(1):
        assert (await api.post(PASSWORD_URL, json=right, headers=bearer(pair))).status_code == 200
    assert not await ThrottleFailures.objects.filter(failures__gt=0).aexists()


# ------------------------------------------------------------------ cost, and what is kept
async def test_hot_paths_pay_nothing(
    api: httpx.AsyncClient, settings: Settings, pair: dict[str, Any], statements: list[str]
) -> None:
    """A valid refresh and /me need as many statements with throttles as without, and count nothing."""
    counts = []
    for on in (True, False):
        settings.IRONAUTH_THROTTLE = on
        statements.clear()
        answer = await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]})
        assert answer.status_code == 200
        pair = answer.json()
        assert (await api.get(ME, headers=bearer(pair))).status_code == 200
        counts.append(len(statements))
    assert counts == [2, 2]


async def test_what_a_sign_in_pays(settings: Settings, member: Member, statements: list[str]) -> None:
    """As many statements as the docstrings say, whether or not somebody has the address."""
    extra = []
    await sign_in("203.0.113.7", member["email"], PASSWORD)  # keys are in memory from here on
    for email, password in ((member["email"], PASSWORD), (member["email"], WRONG), ("nobody@example.com", WRONG)):
        counts = []
        for on in (True, False):
            settings.IRONAUTH_THROTTLE = on
            statements.clear()
            await sign_in("203.0.113.7", email, password)
            assert await sync_to_async(audit.wait_until_written)()
            counts.append(len(statements))
        extra.append(counts[0] - counts[1])
    assert extra == ([4, 2, 2] if settings.REDIS_URL else [6, 3, 3])


async def test_the_tables_hold_no_address(member: Member) -> None:
    """Neither the client's nor the account's, in the clear or as a plain digest."""
    assert (await sign_in("203.0.113.7", member["email"], PASSWORD)).status_code == 200
    await fail("203.0.113.7", member["email"], 2)
    keys = [row.pk async for row in ThrottleFailures.objects.all()]
    keys += [row.pk async for row in ThrottleWindow.objects.all()]
    assert keys
    assert all(len(key) == 32 and set(key) <= set("0123456789abcdef") for key in keys)


async def test_switched_off_nothing_is_counted(settings: Settings, member: Member) -> None:
    """IRONAUTH_THROTTLE=0 is for load tests."""
    settings.IRONAUTH_THROTTLE = False
    await fail("203.0.113.7", member["email"], FREE_FAILURES + 2)
    assert not await ThrottleFailures.objects.aexists()
    assert await User.objects.acount() == 1


# ---------------------------------------------------------------- a rented /48
def of_site(number: int, site: str = "2001:db8:7") -> str:
    """Return an address in the /64 with this number of a /48."""
    return f"{site}:{number:x}::1"


async def let_in(address: str, email: str) -> throttling.Attempt | None:
    """Return a try to sign in from ``address`` that was let in and not judged."""
    pending = await throttling.begin_sign_in(email=email, context=ClientContext(address=address))
    assert pending is not None
    attempt = await database().write(throttling.admit, pending)
    if isinstance(attempt, Refused):
        await throttling.refuse_sign_in(attempt, email=email)
    return attempt


async def test_a_48_has_ten_times_what_a_64_has(settings: Settings) -> None:
    """Ten networks of a /48 use up its count: the eleventh has no try; a network of another /48, and IPv4, have."""
    settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = 5
    for network in range(10):
        for number in range(5):
            assert await let_in(of_site(network), f"{network}-{number}@example.com")
        with pytest.raises(Throttled):  # by its own count, which the site's does not hear of
            await let_in(of_site(network), "own@example.com")
    with pytest.raises(Throttled):
        await let_in(of_site(10), "eleventh@example.com")
    for address in (of_site(10, "2001:db8:8"), "192.0.2.7"):
        assert await let_in(address, "other@example.com")


async def test_what_was_right_is_taken_off_both_counts(settings: Settings) -> None:
    """Ten times the limit of right passwords from one /48 leave room for more; one try given back leaves one."""
    settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = 5
    for number in range(60):
        attempt = await let_in(of_site(number), f"{number}@example.com")
        await (throttling.succeeded(attempt) if number % 2 else throttling.give_back(attempt))
    rows = [row async for row in ThrottleWindow.objects.values_list("count", flat=True)]
    assert set(rows) <= {0}  # with Redis there is no row at all
    assert await let_in(of_site(100), "last@example.com")


async def test_what_is_no_sign_in_is_counted_for_a_48_too(settings: Settings) -> None:
    """Bad refresh tokens from eleven networks of a /48: the eleventh is refused at its first."""
    settings.IRONAUTH_THROTTLE_BAD_REFRESHES = 5
    for network in range(11):
        async with client_at(of_site(network)) as client:
            statuses = [(await client.post(REFRESH, json={"refresh_token": "x"})).status_code for _ in range(5)]
        assert statuses == [401 if network < 10 else 429] * 5
    settings.IRONAUTH_THROTTLE_PASSKEYS = 5
    for network in range(10):
        for _ in range(5):
            await rate_limits.admit(rate_limits.PASSKEY, address=of_site(network))
    with pytest.raises(Throttled):
        await rate_limits.admit(rate_limits.PASSKEY, address=of_site(10))
    await rate_limits.admit(rate_limits.PASSKEY, address=of_site(10, "2001:db8:8"))
