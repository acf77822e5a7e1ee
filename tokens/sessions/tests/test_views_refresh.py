"""Refreshing over HTTP: rotation, grace, reuse, and what happens to the cookies."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest

from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from tokens.errors import api_challenge
from tokens.sessions.models import Session
from tokens.tests.browser import CROSS_SITE, ME, REFRESH, SAME_ORIGIN, SIGNIN, Member, Pair, by_cookie, cookie_lines, me

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("still_clock")]


async def test_refresh_by_body(api: httpx.AsyncClient, pair: Pair) -> None:
    """A refresh gives a new pair of the same session; both access tokens work until they expire."""
    answer = await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]})
    assert answer.status_code == 200
    fresh = answer.json()
    assert fresh["session_id"] == pair["session_id"]
    assert fresh["refresh_token"] != pair["refresh_token"]
    assert fresh["access_token"] != pair["access_token"]
    assert answer.headers["cache-control"] == "no-store"
    assert [await me(api, each) for each in (pair, fresh)] == [200, 200]


async def test_refresh_needs_no_origin_by_body(api: httpx.AsyncClient, pair: Pair) -> None:
    """A token in the body is no cookie: where the request comes from does not matter."""
    answer = await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]}, headers=CROSS_SITE)
    assert answer.status_code == 200


async def test_refresh_by_cookie(api: httpx.AsyncClient, member: Member) -> None:
    """The cookie is refreshed into cookies, from this origin only."""
    await by_cookie(api, member)
    before = api.cookies["refresh_token"]
    for headers in (CROSS_SITE, {"Sec-Fetch-Site": "same-site"}, {}):
        refused = await api.post(REFRESH, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "cross_origin")
    answer = await api.post(REFRESH, headers=SAME_ORIGIN)
    assert answer.status_code == 204
    assert api.cookies["refresh_token"] != before


async def test_refresh_without_token(api: httpx.AsyncClient, signing_key: str) -> None:
    """Neither body nor cookie: 400 naming the field."""
    for answer in (await api.post(REFRESH), await api.post(REFRESH, json={})):
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "refresh_token")


@pytest.mark.parametrize("token", ["x", "", "A" * 70, "a.b.c", "x" * 50_000, "\0", 5, None, ["x"], {"a": 1}])
async def test_malformed_refresh_token(api: httpx.AsyncClient, signing_key: str, token: Any) -> None:
    """Text that is no token of ours is 401 with the one generic body; what is not text is 400."""
    answer = await api.post(REFRESH, json={"refresh_token": token})
    assert answer.status_code == (401 if isinstance(token, str) and token else 400)
    if answer.status_code == 401:
        assert answer.json()["code"] == "invalid_refresh_token"
        assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_concurrent_refresh_gets_one_successor(api: httpx.AsyncClient, pair: Pair) -> None:
    """The same token used again moments later gets the same refresh token, and a working access token."""
    answers = [(await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]})).json() for _ in range(4)]
    assert len({answer["refresh_token"] for answer in answers}) == 1
    assert [await me(api, answer) for answer in answers] == [200] * 4
    assert (await Session.objects.aget()).generation == 1


async def test_fifty_parallel_refreshes(api: httpx.AsyncClient, pair: Pair) -> None:
    """Fifty simultaneous uses of one refresh token get one and the same successor, and the session moves by one."""
    for generation in range(1, 4):
        body = {"refresh_token": pair["refresh_token"]}
        answers = await asyncio.gather(*(api.post(REFRESH, json=body) for _ in range(50)))
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.json()["refresh_token"] for answer in answers}) == 1
        assert (await Session.objects.aget()).generation == generation
        pair = answers[0].json()
    assert await me(api, pair) == 200


async def test_reuse_ends_the_session_for_good(api: httpx.AsyncClient, pair: Pair) -> None:
    """r0→r1→r2, then r0: 401; afterwards r2 is 401 too and no access token of the family works (finding 11)."""
    family = [pair]
    for _ in range(2):
        family.append((await api.post(REFRESH, json={"refresh_token": family[-1]["refresh_token"]})).json())
    assert await me(api, family[-1]) == 200
    refused = [await api.post(REFRESH, json={"refresh_token": family[i]["refresh_token"]}) for i in (0, 2, 1)]
    assert [answer.status_code for answer in refused] == [401, 401, 401]
    bodies = [{k: v for k, v in answer.json().items() if k != "request_id"} for answer in refused]
    assert bodies[0] == bodies[1] == bodies[2]
    assert [await me(api, each) for each in family] == [401, 401, 401]


async def test_cookies_after_a_refused_refresh(api: httpx.AsyncClient, member: Member) -> None:
    """Cookies are cleared when the session is over, and left alone when the token names no session of ours.

    So are those of a session that has just ended: a refresh that was on its way then would drop the next session's.
    """
    await by_cookie(api, member)
    good = api.cookies["refresh_token"]
    api.cookies.clear()
    garbage = await api.post(REFRESH, headers={**SAME_ORIGIN, "Cookie": f"refresh_token={'A' * 70}"})
    assert (garbage.status_code, "set-cookie" in garbage.headers) == (401, False)
    await Session.objects.aupdate(revoked_at=clock.now(), revoke_reason="signed_out")
    moments_ago = await api.post(REFRESH, headers={**SAME_ORIGIN, "Cookie": f"refresh_token={good}"})
    assert (moments_ago.status_code, "set-cookie" in moments_ago.headers) == (401, False)
    await Session.objects.aupdate(revoked_at=clock.now() - timedelta(minutes=1))
    over = await api.post(REFRESH, headers={**SAME_ORIGIN, "Cookie": f"refresh_token={good}"})
    assert over.status_code == 401
    assert all("Max-Age=0" in line for line in cookie_lines(over).values())
    assert set(cookie_lines(over)) == {"access_token", "refresh_token"}


async def test_tokens_do_not_stand_in_for_each_other(api: httpx.AsyncClient, pair: Pair) -> None:
    """A refresh token is no access token, and the other way round (security-bar 29)."""
    swapped = {"access_token": pair["refresh_token"]}
    assert await me(api, swapped) == 401
    assert (await api.post(REFRESH, json={"refresh_token": pair["access_token"]})).status_code == 401


async def test_access_token_never_outlives_its_session(api: httpx.AsyncClient, member: Member, settings: Any) -> None:
    """When the session ends before the usual ten minutes, the access token ends with it."""
    settings.IRONAUTH_SESSION_ABSOLUTE_S = 120
    pair = (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).json()
    assert 118 <= pair["expires_in"] <= 120
    assert pair["expires_in"] == pair["refresh_expires_in"]
    with clock.shifted(100):
        fresh = (await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]})).json()
        assert fresh["expires_in"] <= 20
    with clock.shifted(121):
        assert await me(api, fresh) == 401
        assert (await api.post(REFRESH, json={"refresh_token": fresh["refresh_token"]})).status_code == 401


async def test_expired_access_token(api: httpx.AsyncClient, pair: Pair) -> None:
    """An access token works 2 s before its end and not after it, cached or not; the refresh token still does."""
    with clock.shifted(598):
        assert await me(api, pair) == 200
    with clock.shifted(601):
        refused = await api.get(ME, headers=bearer(pair))
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == f'{api_challenge()}, error="invalid_token"'
        assert (await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]})).status_code == 200
