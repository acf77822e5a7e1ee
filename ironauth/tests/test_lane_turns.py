"""FairTurns in the admin lane: one network's forms leave threads to others, and every turn comes back."""

import asyncio
import random
import threading

from asgiref.sync import sync_to_async

from ironauth.infrastructure.core.asgi_types import Receive, Scope, Send
from ironauth.infrastructure.core.errors import Overloaded
from ironauth.infrastructure.http.error_pages import BUSY
from ironauth.infrastructure.http.lanes import AdminLane, FairTurns
from ironauth.infrastructure.threads.request_threads import RequestThreads
from ironauth.tests.asgi_conversation import Conversation

LOGIN = "/admin/login/"


async def test_forms_of_one_network_leave_threads_to_others() -> None:
    """While 40 forms of one network wait, somebody elsewhere is shown a page and has a form answered at once."""
    hashed, threads = threading.Event(), RequestThreads()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        """Keep the thread, as a sign-in waits for its hash, for a form of the flood."""
        is_form_of_flood = scope["method"] == "POST" and scope["client"][0].startswith("2001:db8:1:")
        if BUSY not in scope:
            await sync_to_async(hashed.wait if is_form_of_flood else lambda _: None)(10)
        await send({"type": "http.response.start", "status": 503 if BUSY in scope else 200, "headers": []})

    lane = AdminLane(answer, threads)
    flood = [Conversation(LOGIN, "POST", client=(f"2001:db8:1:{number}::1", 1)) for number in range(40)]
    forms = [asyncio.create_task(talk.run(lane)) for talk in flood]
    await asyncio.sleep(0.05)
    try:
        async with asyncio.timeout(2):
            for method in ("GET", "POST"):
                assert (await Conversation(LOGIN, method).run(lane)).status == 200
    finally:
        hashed.set()
        await asyncio.gather(*forms)
        threads.close()
    assert [talk.status for talk in flood].count(200) == 2 + 16  # running, waiting


async def held(turns: FairTurns, network: str, ran: list[str], until: asyncio.Event) -> None:
    """Take a turn and keep it."""
    async with turns.turn(network):
        ran.append(network)
        await until.wait()


async def test_networks_alternate() -> None:
    """A network has two of three turns; one that comes last with one form waits for no more than one of each other."""
    turns, ran, until = FairTurns(at_once=3, of_one=2, waiting_of_one=9, wait_s=9), list[str](), asyncio.Event()
    came = [asyncio.create_task(held(turns, network, ran, until)) for network in "aaaabbbc"]
    await asyncio.sleep(0)
    assert ran == ["a", "a", "b"]
    until.set()
    await asyncio.gather(*came)
    assert ran == ["a", "a", "b", "a", "b", "c", "a", "b"]


async def test_who_waits_too_long_or_with_too_many_is_refused() -> None:
    """The third form that would wait, and one that has waited for the whole time, are refused."""
    turns, until = FairTurns(at_once=1, of_one=1, waiting_of_one=2, wait_s=0.05), asyncio.Event()
    came = [asyncio.create_task(held(turns, "a", [], until)) for _ in range(4)]
    await asyncio.wait(came[3:], timeout=0.02)
    assert isinstance(came[3].exception(), Overloaded)
    await asyncio.wait(came[1:3])
    assert all(isinstance(each.exception(), Overloaded) for each in came[1:3])
    until.set()
    await came[0]
    assert not turns._running
    assert not turns._waiting


async def test_every_turn_comes_back() -> None:
    """After forms that end, fail, leave or are refused at any moment nobody holds a turn, and nobody waits."""
    chance = random.Random(7)
    turns = FairTurns(at_once=3, of_one=2, waiting_of_one=5, wait_s=0.004)
    most = 0

    async def come() -> None:
        nonlocal most
        async with turns.turn(chance.choice("abcd")):
            most = max(most, turns._running.total())
            await asyncio.sleep(chance.random() * 0.003)
            if chance.random() < 0.2:
                raise ValueError

    for _ in range(50):
        tasks = [asyncio.create_task(come()) for _ in range(chance.randrange(1, 30))]
        for each in tasks:
            if chance.random() < 0.3:
                await asyncio.sleep(chance.random() * 0.001)
                each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not turns._running
        assert not turns._waiting
    assert most == 3
