"""The hash queue over HTTP: a client within its share gets in, however many right passwords another one gives."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import pytest
from pytest_django import Settings

from conftest import PASSWORD, bearer
from ironauth.asgi import application
from ironauth.infrastructure.hashing.local_pool import HashPool
from ironauth.infrastructure.hashing.pool import hash_pool
from tokens.tests.browser import SIGNIN, Member, Pair
from tokens.tests.second_factor import CODES, STEP_UP, TOTP, enrol, password_only, said, with_code

pytestmark = [pytest.mark.django_db(transaction=True)]

FLOODER, OTHER = "192.0.2.1", "198.51.100.7"
ACCESS = "/api/v1/access"
ROOM = 8


@asynccontextmanager
async def client_at(address: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client that comes from ``address``, without cookies."""
    transport = httpx.ASGITransport(app=cast("Any", application), raise_app_exceptions=False, client=(address, 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        yield client


@pytest.fixture
def one_thread(settings: Settings) -> HashPool:
    """A pool of one thread, before which jobs wait up to ten seconds."""
    settings.IRONAUTH_HASH_THREADS, settings.IRONAUTH_HASH_MAX_WAIT_S = 1, 10.0
    return hash_pool()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until it holds, 20 seconds at most."""
    for _ in range(4_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to that")


@pytest.mark.parametrize("way", ["sign-in", "step-up", "mixed"])
async def test_who_signs_in_elsewhere_gets_in_beside_a_flood(
    one_thread: HashPool, signing_key: str, way: str, new_email: Callable[[], str]
) -> None:
    """Twelve accounts of one network fill the queue with right passwords; another network's sign-in is answered 200."""
    pool, release = one_thread, threading.Event()
    async with client_at(FLOODER) as flooder, client_at(OTHER) as other:
        people = [{"email": new_email(), "password": PASSWORD} for _ in range(13)]
        for person in people:
            assert (await other.post(f"{ACCESS}/signup", json=person)).status_code == 201
        pairs = [(await flooder.post(SIGNIN, json=person)).json() for person in people[:12]]
        blocker = threading.Thread(target=pool.run_blocking, args=(release.wait,))
        blocker.start()
        await until(lambda: pool.stats().running == 1)
        pool._mean_s = 10.0 / 1.25 / ROOM - 0.001  # seconds a hash is taken to last
        pool._long_mean_s = pool._deviation_s = 0.0  # whatever the last ones took on a busy machine

        def act(number: int) -> asyncio.Task[httpx.Response]:
            if way == "sign-in" or (way == "mixed" and number % 2):
                asked = flooder.post(SIGNIN, json=people[number % 12])
            else:
                asked = flooder.post(STEP_UP, json={"password": PASSWORD}, headers=bearer(pairs[number % 12]))
            return asyncio.ensure_future(asked)

        try:
            flood = [act(number) for number in range(36)]
            await until(lambda: sum(task.done() for task in flood) == 36 - ROOM)
            mine = asyncio.ensure_future(other.post(SIGNIN, json=people[12]))
            await until(lambda: sum(task.done() for task in flood) == 36 - ROOM + 1)  # the newest has made room
            assert not mine.done()
        finally:
            release.set()
            blocker.join()
        assert (await mine).status_code == 200
        statuses = sorted(answer.status_code for answer in await asyncio.gather(*flood))
        assert statuses.count(503) == 36 - ROOM + 1
        assert set(statuses) <= {200, 204, 503}
        refused = next(task.result() for task in flood if task.result().status_code == 503)
        assert int(refused.headers["retry-after"]) >= 1


@pytest.mark.parametrize(("method", "path"), [("DELETE", TOTP), ("POST", CODES)])
async def test_without_a_factor_nothing_is_hashed(api: httpx.AsyncClient, pair: Pair, method: str, path: str) -> None:
    """What nobody has is not taken away, and has no codes: 409 before the password costs anything, wrong or right."""
    before = hash_pool().stats().completed
    for password in (PASSWORD, "a wrong one, all the same"):
        answer = await api.request(method, path, json={"password": password}, headers=bearer(pair))
        assert said(answer) == (409, "mfa_not_enabled")
    assert hash_pool().stats().completed == before


async def test_with_a_factor_the_password_is_judged(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """On the other side of the boundary a wrong password is one hash and 401."""
    await enrol(api, pair)
    before = hash_pool().stats().completed
    answer = await api.request("DELETE", TOTP, json={"password": "a wrong one"}, headers=bearer(pair))
    assert said(answer) == (401, "invalid_credentials")
    assert hash_pool().stats().completed == before + 1


async def test_an_apps_code_needs_no_hash(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """With the password judged, a full pool keeps nobody from signing in with the code of an app."""
    app, _codes = await enrol(api, pair)
    asked = await password_only(api, member)
    pool, release = hash_pool(), threading.Event()
    busy = [threading.Thread(target=pool.run_blocking, args=(release.wait,)) for _ in range(pool.stats().threads)]
    for each in busy:
        each.start()
    await until(lambda: pool.stats().running == len(busy))
    most, pool._max_wait_s = pool._max_wait_s, 0.0  # nothing may wait
    try:
        assert (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).status_code == 503
        assert (await with_code(api, asked["mfa_token"], app.code())).status_code == 200
    finally:
        pool._max_wait_s = most
        release.set()
        for each in busy:
            each.join()
