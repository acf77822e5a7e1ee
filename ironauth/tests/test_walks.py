"""Four walks through the product: how many modules one real request runs through, which may only become fewer."""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

import httpx
import pytest
import uvicorn
from asgiref.sync import sync_to_async
from django.conf import settings

from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.asgi import application
from ironauth.server.connection import BoundedHttpProtocol
from ironauth.server.server import bind_tcp, listen
from tokens.keys import store
from tokens.oauth.tests.flow import Party
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.only_sqlite]
CEILINGS = Path(__file__).with_name("house_ceilings.json")
ROOMS = tuple(f"{Path(settings.BASE_DIR) / room}/" for room in ("ironauth", "accounts", "tokens"))
#: The first round fills caches, and is not counted. A module counts that all others run through: in some of them
#: something may have been due, or was read for the first time.
ROUNDS = 4
#: Seconds in which what a request leaves to other threads is done: log lines, audit events.
SETTLE_S = 0.3

Walk = Callable[[httpx.AsyncClient], Awaitable[None]]


@contextmanager
def entered() -> Iterator[set[str]]:
    """Collect the modules of the product whose functions are entered in the block, by any thread."""
    found: set[str] = set()
    monitoring = sys.monitoring

    def note(code: CodeType, _offset: int) -> object:
        name = code.co_filename
        is_function = code.co_flags & 0x1  # CO_OPTIMIZED: neither a module's nor a class's body
        if is_function and name.startswith(ROOMS) and "/tests/" not in name and not name.endswith("/conftest.py"):
            found.add(str(Path(name).relative_to(settings.BASE_DIR)))
        return monitoring.DISABLE

    monitoring.use_tool_id(monitoring.PROFILER_ID, "walks")
    monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.PY_START, note)
    monitoring.restart_events()
    monitoring.set_events(monitoring.PROFILER_ID, monitoring.events.PY_START)
    try:
        yield found
    finally:
        monitoring.set_events(monitoring.PROFILER_ID, 0)
        monitoring.free_tool_id(monitoring.PROFILER_ID)


@pytest.fixture(autouse=True)
def _keys_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are not read anew while a walk lasts, on a busy machine either."""
    monkeypatch.setattr(store, "REFRESH_AFTER_S", float("inf"))
    monkeypatch.setattr(store, "MAX_AGE_S", float("inf"))


@pytest.fixture
def address() -> Iterator[str]:
    """A server of this process, on the event loop of a thread of its own; its address."""
    with bind_tcp("127.0.0.1", 0) as bound:
        listen(bound)
        given: dict[str, Any] = {"http": BoundedHttpProtocol, "ws": "none", "lifespan": "off", "log_config": None}
        server = uvicorn.Server(uvicorn.Config(application, loop="uvloop", access_log=False, **given))
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        server.should_exit = True
        thread.join(timeout=10)


async def counted(address: str, walk: Walk) -> set[str]:
    """Return the modules that a walk runs through once everything is warm; each round is another browser's."""
    found: Counter[str] = Counter()
    for number in range(ROUNDS):
        async with httpx.AsyncClient(base_url=address) as browser:
            if number == 0:
                await walk(browser)
                time.sleep(SETTLE_S)  # noqa: ASYNC251 - the server has a loop of its own
                continue
            with entered() as modules:
                await walk(browser)
                time.sleep(SETTLE_S)  # noqa: ASYNC251 - as above
            found.update(modules)
    return each_time(found)


def each_time(found: Counter[str]) -> set[str]:
    """Return the modules that every round but the first ran through."""
    return {module for module, rounds in found.items() if rounds == ROUNDS - 1}


def judge(walk: str, found: set[str]) -> None:
    """Compare the number of modules with the walk's ceiling."""
    ceiling = json.loads(CEILINGS.read_text())["walks"][walk]
    assert len(found) == ceiling, "\n".join([f"{walk}: {len(found)} modules, the ceiling is {ceiling}", *sorted(found)])


async def test_a_sign_in_runs_through_so_many_modules(address: str, member: dict[str, Any], throttled: None) -> None:
    """A sign-in by password runs through exactly the listed number of modules; wanted are 50."""

    async def walk(browser: httpx.AsyncClient) -> None:
        given = {"email": member["email"], "password": PASSWORD}
        assert (await browser.post("/api/v1/access/signin", json=given)).status_code == 200

    judge("sign-in", await counted(address, walk))


async def test_a_warm_me_runs_through_so_many_modules(address: str, pair: dict[str, Any]) -> None:
    """A request to /me with a token that was seen before runs through exactly the listed number of modules."""

    async def walk(browser: httpx.AsyncClient) -> None:
        assert (await browser.get("/api/v1/access/me", headers=bearer(pair))).status_code == 200

    judge("warm /me", await counted(address, walk))


async def test_the_code_flow_runs_through_so_many_modules(
    address: str, member: dict[str, Any], throttled: None
) -> None:
    """Authorization, sign-in, consent and token run through exactly the listed number of modules; wanted are 70."""
    client, secret = await sync_to_async(make_client)()

    async def walk(browser: httpx.AsyncClient) -> None:
        browser.headers["Origin"] = str(browser.base_url).rstrip("/")
        page = await by_password(browser, await authorize(browser, client, prompt="consent"), member["email"])
        code = answered(await say(browser, page, "allow"))["code"]
        redeemed = await Party(browser, client, secret).redeem(code)
        assert redeemed.status_code == 200, redeemed.text

    judge("code flow", await counted(address, walk))


async def test_an_admin_act_runs_through_so_many_modules(address: str, member: dict[str, Any], throttled: None) -> None:
    """Deactivating a person in the admin runs through exactly the listed number of modules; wanted are 35."""
    await User.objects.filter(pk=member["id"]).aupdate(is_staff=True, is_superuser=True)
    found: Counter[str] = Counter()
    async with httpx.AsyncClient(base_url=address, headers={"Referer": address}) as browser:
        page = await browser.get("/admin/login/")
        given = {"username": member["email"], "password": PASSWORD, "csrfmiddlewaretoken": page.cookies["csrftoken"]}
        assert (await browser.post("/admin/login/", data=given)).status_code == 302
        for number in range(ROUNDS):
            one = await User.objects.acreate(email=f"{number}@example.com", email_key=f"{number}@example.com")
            with entered() as modules:
                answer = await browser.post(
                    "/admin/accounts/user/",
                    data={
                        "action": "deactivate",
                        "_selected_action": str(one.pk),
                        "confirmed": "yes",
                        "csrfmiddlewaretoken": browser.cookies["csrftoken"],
                    },
                )
                time.sleep(SETTLE_S)  # noqa: ASYNC251 - the server has a loop of its own
            assert answer.status_code == 302, answer.text
            assert not (await User.objects.aget(pk=one.pk)).is_active
            if number:
                found.update(modules)
    judge("admin act", each_time(found))
