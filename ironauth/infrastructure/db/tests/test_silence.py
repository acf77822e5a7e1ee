"""A server that says nothing any more keeps no thread: the connections to it are cut, and others are not."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connections
from structlog.testing import capture_logs

from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db import silence
from ironauth.infrastructure.db.silence import Waits
from ironauth.infrastructure.db.unit_of_work import DatabasePool, ping
from ironauth.infrastructure.models import Invalidation


class Opened:
    """A connection to a server, as Django's wrapper and psycopg have it."""

    vendor = "postgresql"

    def __init__(self, server: tuple[str, int]) -> None:
        self.line = socket.create_connection(server)
        self.connection = SimpleNamespace(fileno=self.line.fileno)

    @property
    def is_cut(self) -> bool:
        """Whether it ended on this side."""
        self.line.settimeout(0.05)
        try:
            return self.line.recv(1) == b""
        except TimeoutError:
            return False


@pytest.fixture
def opened() -> Iterator[list[Opened]]:
    """Two connections to a server that never says a word, and one to another such server."""
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    made = [Opened(listening[at].getsockname()) for at in (0, 0, 1)]
    yield made
    for line in (*listening, *(one.line for one in made)):
        line.close()


@pytest.fixture
def waits(opened: list[Opened], monkeypatch: pytest.MonkeyPatch) -> Waits:
    """A register of them; the first is this thread's."""
    waits = Waits()
    for one in opened:
        waits.note_opened(one)  # type: ignore[arg-type]  # as much of it as is used
    monkeypatch.setattr(silence, "connections", {"default": opened[0]})
    return waits


@pytest.mark.parametrize(("late_s", "cut"), [(-0.5, False), (0.5, True)])
def test_connections_to_a_silent_server_are_cut(late_s: float, cut: bool, waits: Waits, opened: list[Opened]) -> None:
    """All of them, once a unit is too long over its deadline; those to another server stay."""
    waits.begin(time.monotonic() - silence.SILENT_S - late_s)
    with capture_logs() as logs:
        waits.cut()
        waits.cut()
    assert [one.is_cut for one in opened] == [cut, cut, False]
    assert [(line["event"], line["connections"]) for line in logs] == [("database_silent", 2)] * cut


def test_a_unit_that_has_ended_is_not_waited_for(waits: Waits, opened: list[Opened]) -> None:
    """Its connection is the next one's."""
    waits.begin(time.monotonic() - silence.SILENT_S - 1)
    waits.end()
    waits.cut()
    assert not any(one.is_cut for one in opened)


def test_connections_that_are_closed_are_passed_over(waits: Waits, opened: list[Opened]) -> None:
    """Closed ones, and those that were never opened, have no server."""
    opened[1].line.close()
    opened[2].connection = None  # type: ignore[assignment]
    waits.begin(time.monotonic() - silence.SILENT_S - 1)
    waits.cut()
    assert opened[0].is_cut


@pytest.mark.django_db(transaction=True)
@pytest.mark.storage
@pytest.mark.only_postgres
@pytest.mark.parametrize("write", [False, True])
async def test_a_thread_whose_server_is_silent_comes_back(write: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller has had a 503 long since; what it did is not done, and the next unit has another connection."""
    monkeypatch.setattr(silence, "SILENT_S", 0.3)
    pool = DatabasePool(threads=1, timeout_s=0.3)

    def silent() -> Any:
        if write:
            Invalidation.objects.create(tag="silent")
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT pg_sleep(30)")

    began = time.monotonic()
    with pytest.raises(Unavailable):
        await (pool.write if write else pool.read)(silent)
    await asyncio.sleep(0.4)
    assert pool.pools[0].running == 1
    with pytest.raises(Unavailable):
        await pool.read(ping)  # nobody can be served: that is when it is looked at
    assert await pool.read(ping)
    assert time.monotonic() - began < 5
    assert not await pool.read(Invalidation.objects.filter(tag="silent").exists)
    await asyncio.to_thread(pool.close)


@pytest.mark.django_db(transaction=True)
@pytest.mark.storage
@pytest.mark.only_postgres
async def test_a_slow_unit_runs_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller has had a 503, and the time until its connection is cut is not over."""
    pool = DatabasePool(threads=1, timeout_s=0.2)

    def slow() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0.7)")
        Invalidation.objects.create(tag="slow")

    for unit in (slow, ping):
        with pytest.raises(Unavailable):
            await pool.write(unit)
    await asyncio.sleep(0.7)
    assert await pool.read(Invalidation.objects.filter(tag="slow").exists)
    await asyncio.to_thread(pool.close)


@pytest.mark.django_db(transaction=True)
@pytest.mark.storage
def test_only_connections_to_a_server_are_noted() -> None:
    """SQLite has none; each new connection of Postgres is."""
    connection = connections["default"]
    connection.close()
    ping()
    assert (connection in silence.waits._opened) is (connection.vendor == "postgresql")
    assert threading.get_ident() not in silence.waits._units
