"""The idle and the absolute limit, a second before and a second after, through everything a session is good for."""

from typing import Any, Final

import httpx
import pytest
from pytest_django import Settings

from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from tokens.sessions.models import Session
from tokens.tests.browser import ME, REFRESH, SAME_ORIGIN, SIGNIN, VERIFY, by_cookie

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

SESSIONS: Final = "/api/v1/access/sessions"
IDLE_S: Final = 100
ABSOLUTE_S: Final = 250
Pair = dict[str, Any]


@pytest.fixture(autouse=True)
def _short_sessions(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short limits, access tokens that would outlive them, and a clock that moves only when it is told to."""
    settings.IRONAUTH_SESSION_IDLE_S, settings.IRONAUTH_SESSION_ABSOLUTE_S = IDLE_S, ABSOLUTE_S
    settings.IRONAUTH_ACCESS_TOKEN_S = 600
    now = float(int(clock.unix()))
    monkeypatch.setattr(clock, "_source", lambda: now)


async def refreshed(api: httpx.AsyncClient, pair: Pair) -> httpx.Response:
    """Present the pair's refresh token."""
    return await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]})


async def chain(api: httpx.AsyncClient, pair: Pair, *moments: int) -> Pair:
    """Refresh at each of these moments and return the last pair."""
    for moment in moments:
        with clock.shifted(moment):
            answer = await refreshed(api, pair)
            assert answer.status_code == 200, (moment, answer.text)
            pair = answer.json()
    return pair


@pytest.mark.parametrize(("after_s", "alive"), [(IDLE_S - 1, True), (IDLE_S + 1, False)])
@pytest.mark.parametrize("path", [ME, VERIFY, SESSIONS])
async def test_the_access_token_never_outlives_an_idle_session(
    api: httpx.AsyncClient, pair: Pair, path: str, after_s: int, alive: bool
) -> None:
    """Warm or cold, the last second counts and the one after it does not, though the token might have lived longer."""
    assert pair["expires_in"] == pair["refresh_expires_in"] == IDLE_S
    assert (await api.get(path, headers=bearer(pair))).is_success
    with clock.shifted(after_s):
        assert (await api.get(path, headers=bearer(pair))).is_success == alive


@pytest.mark.parametrize(("after_s", "status"), [(IDLE_S - 1, 200), (IDLE_S + 1, 401)])
async def test_a_session_left_idle_is_not_refreshed(
    api: httpx.AsyncClient, pair: Pair, after_s: int, status: int
) -> None:
    """And a refresh that came in time starts the idle time anew."""
    with clock.shifted(after_s):
        assert (await refreshed(api, pair)).status_code == status
    if status == 200:
        with clock.shifted(2 * after_s):
            assert (await Session.objects.aget()).idle_expires_at > clock.now()


@pytest.mark.parametrize(("after_s", "alive"), [(ABSOLUTE_S - 1, True), (ABSOLUTE_S + 1, False)])
async def test_however_much_it_is_used_a_session_ends(
    api: httpx.AsyncClient, pair: Pair, after_s: int, alive: bool
) -> None:
    """Refreshed all along, a second before its end too: no token, no list and no refresh passes the absolute limit."""
    last = await chain(api, pair, 90, 180, ABSOLUTE_S - 5)
    assert last["expires_in"] == last["refresh_expires_in"] == 5
    with clock.shifted(after_s):
        assert (await api.get(ME, headers=bearer(last))).is_success == alive
        assert (await api.get(SESSIONS, headers=bearer(last))).is_success == alive
        answer = await refreshed(api, last)
        assert answer.is_success == alive
        if alive:
            assert answer.json()["refresh_expires_in"] == 1


@pytest.mark.parametrize(("after_s", "listed"), [(IDLE_S - 1, True), (IDLE_S + 1, False)])
async def test_the_list_leaves_out_what_is_over(
    api: httpx.AsyncClient, member: dict[str, Any], pair: Pair, after_s: int, listed: bool
) -> None:
    """Another session of the same person is listed until its end, and can be ended no later."""
    with clock.shifted(50):
        other = (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).json()
    with clock.shifted(after_s):
        shown = [session["id"] for session in (await api.get(SESSIONS, headers=bearer(other))).json()]
        assert (pair["session_id"] in shown) == listed
        answer = await api.delete(f"{SESSIONS}/{pair['session_id']}", headers=bearer(other))
        assert answer.status_code == (204 if listed else 404)


@pytest.mark.parametrize(("after_s", "status"), [(ABSOLUTE_S - 1, 204), (ABSOLUTE_S + 1, 401)])
async def test_cookies_end_with_their_session(
    api: httpx.AsyncClient, member: dict[str, Any], after_s: int, status: int
) -> None:
    """The browser is told to keep neither longer than the session may last, and to forget both when it is over."""
    await by_cookie(api, member)
    for moment in (90, 180):
        with clock.shifted(moment):
            answer = await api.post(REFRESH, headers=SAME_ORIGIN)
            assert [f"Max-Age={min(IDLE_S, ABSOLUTE_S - moment)}" in line for line in tokens_in(answer)] == [True] * 2
    with clock.shifted(after_s):
        answer = await api.post(REFRESH, headers=SAME_ORIGIN)
        assert answer.status_code == status
        assert [f"Max-Age={1 if status == 204 else 0};" in line for line in tokens_in(answer)] == [True] * 2


def tokens_in(answer: httpx.Response) -> list[str]:
    """Return the Set-Cookie lines."""
    return answer.headers.get_list("set-cookie")


async def test_last_use_is_the_last_refresh(api: httpx.AsyncClient, pair: Pair) -> None:
    """Requests by access token write nothing; the next refresh, which is due by then, moves the moment shown."""
    opened = (await Session.objects.aget()).last_used_at
    with clock.shifted(60):
        for _ in range(2):
            (shown,) = (await api.get(SESSIONS, headers=bearer(pair))).json()
        assert (await Session.objects.aget()).last_used_at == opened
        assert shown["last_used_at"] == shown["created_at"]
    pair = await chain(api, pair, 70)
    assert ((await Session.objects.aget()).last_used_at - opened).total_seconds() == 70
    with clock.shifted(75):  # the grace is no use: it may be a copy of an answer that was lost
        assert (await refreshed(api, pair)).status_code == 200


@pytest.mark.parametrize(("after_s", "moved_s"), [(59, 0), (60, 60), (61, 61)])
async def test_last_use_moves_once_a_minute(api: httpx.AsyncClient, pair: Pair, after_s: int, moved_s: int) -> None:
    """A refresh within 60 s of the last use noted leaves it as it is, and the session ends later all the same."""
    opened = (await Session.objects.aget()).last_used_at
    await chain(api, pair, after_s)
    session = await Session.objects.aget()
    assert (session.last_used_at - opened).total_seconds() == moved_s
    assert (session.idle_expires_at - opened).total_seconds() == after_s + IDLE_S
    assert session.rotated_at is not None
    assert (session.rotated_at - opened).total_seconds() == after_s


async def test_the_minute_counts_from_the_use_that_was_noted(api: httpx.AsyncClient, pair: Pair) -> None:
    """However often it is refreshed within a minute: refreshes that were not noted do not put the next one off."""
    opened = (await Session.objects.aget()).last_used_at
    for moment, noted_s in ((30, 0), (59, 0), (60, 60), (119, 60), (120, 120)):
        pair = await chain(api, pair, moment)
        assert ((await Session.objects.aget()).last_used_at - opened).total_seconds() == noted_s
