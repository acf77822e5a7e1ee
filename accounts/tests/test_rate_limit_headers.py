"""What answers tell of rate limits: the rule, what is left of one's own count, and nothing of anybody else's."""

import re
from typing import Any

import httpx
import pytest
from pytest_django import Settings

from conftest import PASSWORD, bearer
from ironauth.infrastructure.ratelimit.window import Quota, announce, announced, quota_headers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key", "throttled")]
ACCESS = "/api/v1/access"


def told(answer: httpx.Response) -> tuple[str | None, str | None]:
    """Return both headers."""
    return answer.headers.get("RateLimit-Policy"), answer.headers.get("RateLimit")


async def sign_up(api: httpx.AsyncClient, number: int) -> httpx.Response:
    """Sign somebody up."""
    return await api.post(f"{ACCESS}/signup", json={"email": f"new{number}@example.com", "password": PASSWORD})


@pytest.mark.storage
async def test_sign_ups_are_counted_down(api: httpx.AsyncClient, settings: Settings) -> None:
    """Each answer says how many are left of the hour, down to none; the refusal says when to come back."""
    settings.IRONAUTH_THROTTLE_SIGNUPS = 3
    policy = '"sign_up";q=3;w=3600'
    for number, left in enumerate((2, 1, 0)):
        answer = await sign_up(api, number)
        assert answer.status_code == 201
        assert told(answer) == (policy, f'"sign_up";r={left};t=3600')
    refused = await sign_up(api, 3)
    assert refused.status_code == 429
    assert told(refused) == (policy, f'"sign_up";r=0;t={refused.headers["Retry-After"]}')


async def test_a_guesser_is_not_told_what_is_left(
    api: httpx.AsyncClient, member: dict[str, Any], settings: Settings
) -> None:
    """A sign-in, right or wrong, known or unknown, tells the rule and no count; only the refusal tells the wait."""
    settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = 5
    found = set()
    for email, password in (
        (member["email"], PASSWORD), (member["email"], "wrong horse battery"), ("nobody@example.com", "wrong horse"),
    ):  # fmt: skip
        found.add(told(await api.post(f"{ACCESS}/signin", json={"email": email, "password": password})))
    assert found == {('"sign_in";q=5;w=900', None)}
    for _ in range(5):
        refused = await api.post(f"{ACCESS}/signin", json={"email": "nobody@example.com", "password": "wrong horse"})
    assert refused.status_code == 429
    assert told(refused) == ('"sign_in";q=5;w=900', f'"sign_in";r=0;t={refused.headers["Retry-After"]}')


async def test_nobody_reads_the_count_of_a_mailbox(
    api: httpx.AsyncClient, member: dict[str, Any], settings: Settings
) -> None:
    """Who asks for messages hears the rule and no count, their own or the mailbox's; known or unknown alike."""
    settings.IRONAUTH_THROTTLE_MAILS, settings.IRONAUTH_THROTTLE_MAILS_TO_ONE = 100, 2
    for email in (member["email"], "nobody@example.com", member["email"], "nobody@example.com"):
        answer = await api.post(f"{ACCESS}/password/reset", json={"email": email})
        assert answer.status_code == 202
        assert told(answer) == ('"mail";q=100;w=3600', None)
    for email in (member["email"], "nobody@example.com"):
        refused = await api.post(f"{ACCESS}/password/reset", json={"email": email})
        assert refused.status_code == 429
        assert '"mail_mailbox";q=2;w=900' in refused.headers["RateLimit-Policy"]
        assert f'"mail_mailbox";r=0;t={refused.headers["Retry-After"]}' in refused.headers["RateLimit"]


async def test_ones_own_exports_are_counted(api: httpx.AsyncClient, pair: dict[str, Any], settings: Settings) -> None:
    """A count of the account that asks is told to it."""
    settings.IRONAUTH_THROTTLE_EXPORTS = 2
    answer = await api.get(f"{ACCESS}/me/export", headers=bearer(pair))
    assert answer.status_code == 200
    assert told(answer) == ('"data_export";q=2;w=3600', '"data_export";r=1;t=3600')


async def test_a_whole_site_is_not_told_of(api: httpx.AsyncClient, settings: Settings) -> None:
    """An IPv6 client hears of its own /64, and not of the /48 that it shares."""
    settings.IRONAUTH_THROTTLE_SIGNUPS = 9
    settings.IRONAUTH_TRUSTED_PROXIES = ["127.0.0.1/32"]
    for network in (1, 2):
        headers = {"X-Forwarded-For": f"2001:db8:0:{network}::1"}
        body = {"email": f"site{network}@example.com", "password": PASSWORD}
        answer = await api.post(f"{ACCESS}/signup", json=body, headers=headers)
        assert told(answer) == ('"sign_up";q=9;w=3600', '"sign_up";r=8;t=3600')


@pytest.mark.parametrize("path", ["me", "sessions", "mfa"])
async def test_what_no_throttle_counts_says_nothing(api: httpx.AsyncClient, pair: dict[str, Any], path: str) -> None:
    """Nor does a request after one that was counted, on the same connection."""
    await sign_up(api, 1)
    for _ in range(3):
        assert told(await api.get(f"{ACCESS}/{path}", headers=bearer(pair))) == (None, None)


async def test_without_throttles_nothing_is_told(api: httpx.AsyncClient, settings: Settings) -> None:
    """Where an operator has switched them off there is no rule to tell."""
    settings.IRONAUTH_THROTTLE = False
    assert told(await sign_up(api, 1)) == (None, None)


def test_the_fields_are_structured() -> None:
    """Lists of strings with integer parameters (RFC 9651); the last of a name counts, a lockout has no policy."""
    quotas = [Quota("a", 3, 60, 2, 60), Quota("b", 5, 900), Quota("a", 3, 60, 1, 60), Quota("c", 0, 0, 0, 7)]
    fields = quota_headers(quotas)
    assert fields == {"RateLimit-Policy": '"a";q=3;w=60, "b";q=5;w=900', "RateLimit": '"a";r=1;t=60, "c";r=0;t=7'}
    assert all(re.fullmatch(r'("[a-z_]+"(;[a-z]+=\d+)+(, |$))+', value) for value in fields.values())


def test_an_announcement_outside_a_request_is_dropped() -> None:
    """A command or an admin page counts too, and has nobody to tell."""
    announced.set(None)
    announce(Quota("a", 1, 1))
    assert announced.get() is None
