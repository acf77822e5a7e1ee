"""What a process holds of bodies: one budget, with a share for each network, and all of it comes back."""

import asyncio
from typing import Any

import pytest

from ironauth.infrastructure.core.asgi_types import Receive, Scope, Send
from ironauth.infrastructure.http import guard
from ironauth.infrastructure.http.guard import BodyBudget, Guard
from ironauth.infrastructure.http.lanes import longest_body
from ironauth.tests.asgi_conversation import Conversation

BODY = b"b" * 60_000
CHUNKED = {"transfer-encoding": "chunked"}


async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 200."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


class Unfinished:
    """Clients that send most of a body, and then wait."""

    def __init__(self, budget: BodyBudget) -> None:
        self.guard = Guard(read_all, longest_body=longest_body, budget=budget)
        self.talks: list[Conversation] = []
        self._tasks: list[asyncio.Task[Any]] = []

    async def come(self, address: str, count: int = 1, path: str = "/api/x") -> list[Conversation]:
        """Let ``count`` more come from ``address``; return them once each is refused or waits."""
        came = [
            Conversation(path, "POST", CHUNKED, client=(address, 1)).body(BODY, finished=False) for _ in range(count)
        ]
        self._tasks += [asyncio.create_task(talk.run(self.guard)) for talk in came]
        for _ in range(5):
            await asyncio.sleep(0)
        self.talks += came
        return came

    async def finish(self) -> list[int]:
        """Let all send the rest; return every status."""
        for talk in self.talks:
            talk.body(b"")
        await asyncio.gather(*self._tasks)
        return [talk.status for talk in self.talks]


@pytest.mark.parametrize(
    ("addresses", "room"),
    [
        (["192.0.2.1"], 2), (["192.0.2.1", "192.0.2.2"], 4), ([f"192.0.2.{n}" for n in range(1, 9)], 8),
        (["2001:db8::1", "2001:db8::2"], 2), (["2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"], 5),
        (["2001:db8:1::1", "2001:db8:2::1", "2001:db8:3::1"], 6), ([""], 8),
    ],
)  # fmt: skip
async def test_networks_have_a_share(addresses: list[str], room: int) -> None:
    """A network holds two bodies here, an IPv6 /48 five, all together eight; everybody beyond hears 503."""
    size = len(BODY)
    budget = BodyBudget(total=8 * size, by_network=2 * size, by_site=5 * size)
    clients = Unfinished(budget)
    for _ in range(8):
        for address in addresses:
            await clients.come(address)
    assert budget.held == room * size
    refused = [talk for talk in clients.talks if talk.sent]
    assert len(clients.talks) - len(refused) == room
    for talk in refused:
        assert (talk.status, talk.json["code"], talk.headers["retry-after"]) == (503, "overloaded", "1")
        assert talk.headers["connection"] == "close"
    assert (await clients.finish()).count(200) == room
    assert budget.held == 0
    assert not budget._by_holder
    assert (await clients.come(addresses[0]))[0].sent == []


async def test_one_network_keeps_no_other_from_sending() -> None:
    """While one network has used its share up, another one's body is taken."""
    size = len(BODY)
    clients = Unfinished(BodyBudget(total=4 * size, by_network=2 * size))
    await clients.come("192.0.2.1", 10)
    (other,) = await clients.come("192.0.2.2")
    assert not other.sent
    await clients.finish()
    assert other.status == 200


async def test_a_client_that_leaves_gives_its_bytes_back() -> None:
    """Departure, the time limit and an application that fails leave nothing counted."""

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("bug")

    budget = BodyBudget()
    left = Conversation("/api/x", "POST", CHUNKED).body(BODY, finished=False).leave()
    await left.run(Guard(read_all, longest_body=longest_body, budget=budget))
    late = Conversation("/api/x", "POST", CHUNKED).body(BODY, finished=False)
    await late.run(Guard(read_all, longest_body=longest_body, budget=budget, body_timeout_s=0.01))
    failed = Conversation("/api/x", "POST", CHUNKED).body(BODY)
    await failed.run(Guard(broken, longest_body=longest_body, budget=budget))
    assert (late.status, failed.status, budget.held) == (408, 500, 0)


@pytest.mark.parametrize(
    ("size", "parts", "counted"), [(4_096, 1, 0), (4_097, 1, 4_097), (10, 2, 0), (0, 1, 0), (6_000, 3, 6_000)]
)
async def test_what_is_small_is_free(size: int, parts: int, counted: int) -> None:
    """A body of 4 KiB costs nothing, in parts neither; a larger one counts in full until it is answered."""
    budget, seen = BodyBudget(), []

    async def looking(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(budget.held)
        await read_all(scope, receive, send)

    pieces = [b"a" * (size // parts)] * parts
    talk = Conversation("/api/x", "POST", CHUNKED).body(*pieces)
    await talk.run(Guard(looking, longest_body=longest_body, budget=budget))
    assert (talk.status, seen, budget.held) == (200, [counted], 0)


async def test_400_unfinished_bodies_of_1_mib_on_every_path() -> None:
    """The process holds 4 MiB of them at most, and nothing for files."""
    budget = BodyBudget()
    clients = Unfinished(budget)
    for path, most in (("/static/x.css", 0), ("/admin/", 4 * 2**20), ("/api/v1/access/signin", 4 * 2**20)):
        await clients.come("192.0.2.1", 400, path)
        assert budget.held <= most
        await clients.finish()
    assert budget.held == 0


def test_the_bounds() -> None:
    """32 MiB for all bodies of a process, an eighth of them for a network, half of them for an IPv6 /48."""
    assert (guard.BUDGET_BYTES, guard.NETWORK_BYTES, guard.SITE_BYTES) == (
        33_554_432,
        4_194_304,
        16_777_216,
    )


@pytest.mark.parametrize(("size", "status"), [(4_096, 200), (4_097, 503)])
async def test_a_small_body_in_parts_needs_no_room(size: int, status: int) -> None:
    """While others hold the whole budget, a sign-in's body of several parts is read; one byte beyond 4 KiB is 503."""
    clients = Unfinished(BodyBudget(total=len(BODY)))
    await clients.come("192.0.2.1")
    for parts in (1, 2, 7):
        pieces = [b"a"] * (parts - 1)
        talk = Conversation("/api/x", "POST", CHUNKED).body(*pieces, b"b" * (size - len(pieces)))
        assert (await talk.run(clients.guard)).status == status
    assert clients.guard.budget.held == len(BODY)
    assert await clients.finish() == [200]
    assert clients.guard.budget.held == 0
