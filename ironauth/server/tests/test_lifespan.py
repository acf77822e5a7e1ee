"""What a worker does before its first request and after its last."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from ironauth.infrastructure.cache.invalidation import invalidation_feed
from ironauth.infrastructure.core import lifecycle
from ironauth.infrastructure.hashing import argon2_log
from ironauth.infrastructure.hashing.argon2 import Argon2Wrong
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.server import lifespan

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


class Server:
    """The server's side of one lifespan."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.task = asyncio.ensure_future(lifespan.run(self.inbox.get, self.outbox.put))  # type: ignore[arg-type]

    async def say(self, kind: str) -> dict[str, Any]:
        """Send a message and return the application's answer."""
        await self.inbox.put({"type": kind})
        return await asyncio.wait_for(self.outbox.get(), 20)


@pytest.fixture(autouse=True)
def _hooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Registries of the test's own, and a garbage collector as it was."""
    monkeypatch.setattr(lifecycle, "startup_hooks", [])
    monkeypatch.setattr(lifecycle, "shutdown_hooks", [])
    yield
    gc.unfreeze()


async def test_a_whole_life() -> None:
    """Start-up warms the pool, starts the feed and runs the hooks in order; shutdown undoes it in reverse."""
    told: list[str] = []

    def hook(name: str) -> lifecycle.Hook:
        async def run() -> None:
            told.append(f"{name} {invalidation_feed().position is not None}")

        return run

    for name in ("one", "two"):
        lifecycle.on_startup(hook(f"start {name}"))
        lifecycle.on_shutdown(hook(f"stop {name}"))
    server = Server()
    assert await server.say("lifespan.startup") == {"type": "lifespan.startup.complete"}
    assert told == ["start one True", "start two True"]
    assert hash_pool().stats().completed >= 1
    assert gc.get_freeze_count() > 0
    assert await server.say("lifespan.shutdown") == {"type": "lifespan.shutdown.complete"}
    await asyncio.wait_for(server.task, 5)
    assert told[2:] == ["stop two True", "stop one True"]
    assert invalidation_feed().position is None


async def test_a_failing_start_is_reported_and_undone() -> None:
    """A hook's exception becomes lifespan.startup.failed with its message, and nothing keeps running."""

    async def fail() -> None:
        raise LookupError("No signing key: run manage.py create_signing_key")

    lifecycle.on_startup(fail)
    server = Server()
    answer = await server.say("lifespan.startup")
    assert answer["type"] == "lifespan.startup.failed"
    assert answer["message"] == "LookupError: No signing key: run manage.py create_signing_key"
    await asyncio.wait_for(server.task, 5)
    assert invalidation_feed().position is None


async def test_a_failing_shutdown_hook_does_not_stop_the_others() -> None:
    """Every step of the shutdown is taken, whatever one of them raises."""
    told: list[str] = []

    async def note() -> None:
        told.append("done")

    async def fail() -> None:
        raise KeyError

    lifecycle.on_shutdown(note)
    lifecycle.on_shutdown(fail)
    server = Server()
    await server.say("lifespan.startup")
    assert (await server.say("lifespan.shutdown"))["type"] == "lifespan.shutdown.complete"
    assert told == ["done"]


async def test_the_warm_up_is_logged_with_its_figures() -> None:
    """One line says how many threads hash, how long one takes, and how much memory they need at most."""
    with structlog.testing.capture_logs() as lines:
        await lifespan._warm_hash_pool()
    (line,) = [line for line in lines if line["event"] == "hash_pool_ready"]
    assert line["threads"] == hash_pool().stats().threads
    assert line["mean_ms"] > 0
    assert line["memory_bound_mib"] > 0
    assert line["argon2"] in {"libsodium", "native", "wheel"}
    assert [line["argon2"] for line in lines if line["event"] == "argon2_chosen"] == [line["argon2"]]


async def test_nothing_starts_where_argon2_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that would write hashes nobody else can verify refuses to start, with the remedy."""

    def refuse() -> None:
        raise Argon2Wrong("argon2-cffi computes Argon2 wrongly: remove .venv and run make install")

    monkeypatch.setattr(argon2_log, "choice", refuse)
    answer = await Server().say("lifespan.startup")
    assert answer["type"] == "lifespan.startup.failed"
    assert answer["message"].startswith("Argon2Wrong: argon2-cffi computes Argon2 wrongly: remove")


async def test_one_lifespan_can_follow_another() -> None:
    """Pools and clients that were closed work again, in the same process."""
    for _ in range(2):
        server = Server()
        assert (await server.say("lifespan.startup"))["type"] == "lifespan.startup.complete"
        assert (await server.say("lifespan.shutdown"))["type"] == "lifespan.shutdown.complete"


async def test_another_protocol_is_refused() -> None:
    """A first message that is no start-up is an error that says what is wrong."""
    server = Server()
    await server.inbox.put({"type": "http.request"})
    with pytest.raises(RuntimeError, match="ASGI 3"):
        await asyncio.wait_for(server.task, 5)


def test_a_hook_is_registered_once() -> None:
    """Registering the same hook again changes nothing."""

    async def hook() -> None:
        pass

    assert lifecycle.on_startup(lifecycle.on_startup(hook)) is hook
    assert lifecycle.startup_hooks == [hook]
