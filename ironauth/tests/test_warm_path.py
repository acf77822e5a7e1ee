"""The warm path costs nothing but Python: zero SQL, zero Redis commands, zero thread hops."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import asgiref.sync
import httpx
import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from redis.asyncio.connection import AbstractConnection

from conftest import bearer
from ironauth.infrastructure.db import prepared as prepared_statements

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Count statements, Redis commands and thread hand-overs of the whole process inside the block."""
    counts = {"sql": 0, "redis": 0, "hops": 0}

    def watch(name: str, owner: Any, method: str) -> None:
        original = getattr(owner, method)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, method, wrapper)

    watch("sql", BaseDatabaseWrapper, "_prepare_cursor")  # what every cursor of Django's goes through
    watch("sql", prepared_statements, "run")
    watch("redis", AbstractConnection, "send_command")
    watch("redis", AbstractConnection, "send_packed_command")
    watch("hops", asgiref.sync.SyncToAsync, "__call__")
    watch("hops", Executor, "submit")
    for executor in Executor.__subclasses__():
        watch("hops", executor, "submit")
    watch("hops", threading.Thread, "start")
    watch("hops", asyncio.base_events.BaseEventLoop, "run_in_executor")
    yield counts


async def test_a_warm_me_touches_no_database_cache_server_or_thread(
    api: httpx.AsyncClient, pair: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty warm requests to /me and /verify: no statement, no Redis command, no thread hop."""
    for path in ("me", "verify"):
        assert (await api.get(f"/api/v1/access/{path}", headers=bearer(pair))).is_success
    with counted(monkeypatch) as counts:
        for _ in range(25):
            assert (await api.get("/api/v1/access/me", headers=bearer(pair))).status_code == 200
            assert (await api.get("/api/v1/access/verify", headers=bearer(pair))).status_code == 204
    assert counts == {"sql": 0, "redis": 0, "hops": 0}


async def test_the_count_is_able_to_see_a_cold_request(
    api: httpx.AsyncClient, pair: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same counters do see a cold request's statements and hops, so that zero means something."""
    with counted(monkeypatch) as counts:
        assert (await api.get("/api/v1/access/me", headers=bearer(pair))).status_code == 200
    assert counts["sql"] > 0
    assert counts["hops"] > 0


async def test_threads_and_connections_do_not_grow_with_requests(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """Three hundred mixed requests start no more threads than the pools' own, and open no more connections."""
    opened: list[object] = []

    def note(**signal: Any) -> None:
        opened.append(signal["connection"])

    async def burst(count: int) -> None:
        await asyncio.gather(*(api.get("/api/v1/access/sessions", headers=bearer(pair)) for _ in range(count)))

    await burst(50)
    threads = threading.active_count()
    connection_created.connect(note)
    try:
        for _ in range(6):
            await burst(50)
    finally:
        connection_created.disconnect(note)
    assert threading.active_count() <= threads
    assert not opened
    assert not connections["default"].in_atomic_block
