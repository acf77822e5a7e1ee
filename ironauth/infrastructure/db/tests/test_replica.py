"""Reads of a replica: how old one may be, what is done without one, and when the primary answers instead."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import DatabaseError
from structlog.testing import capture_logs

from ironauth.infrastructure.core.errors import NotFound, Unavailable
from ironauth.infrastructure.db import replica as module
from ironauth.infrastructure.db.replica import Marks, NotOnReplica, Replica
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.models import Invalidation

BOUND_S = 5.0


def test_a_replica_may_be_as_old_as_the_bound() -> None:
    """What has to be replayed is the oldest position within the bound; one that is older by anything proves nothing."""
    marks = Marks(BOUND_S)
    assert marks.least(0.0) is None
    marks.note(100.0, 1_000)
    marks.note(103.0, 3_000)
    assert marks.least(105.0) == 1_000
    assert marks.least(math.nextafter(105.0, math.inf)) == 3_000
    assert marks.least(108.0) == 3_000
    assert marks.least(108.001) is None


def test_the_primary_is_asked_five_times_in_the_bound() -> None:
    """By one caller each time, whatever many ask at once, and what is older than the bound is forgotten."""
    marks = Marks(BOUND_S)
    times = [at / 10 for at in range(1_000, 1_101)]  # ten seconds
    claimed = [at for at in times for _ in range(3) if marks.claim(at)]
    assert claimed == [100.0 + each for each in range(11)]
    for at in claimed:
        marks.note(at, int(at))
    assert len(marks._known) == 6


class Server:
    """A replica that stands wherever a test puts it, and counts who asks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.primary: int | None = 100
        self.replayed: Any = 100
        self.asked = self.primary_asked = 0
        self.replica = Replica({"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}, bound_s=BOUND_S)
        monkeypatch.setattr(module, "replayed", self.position)

    def position(self) -> int | None:
        """Say how far the replica has come, or fail."""
        self.asked += 1
        if isinstance(self.replayed, Exception):
            raise self.replayed
        return None if self.replayed is None else int(self.replayed)

    async def primary_read[T](self, fn: Callable[[], T]) -> Any:
        """Answer as the primary, which knows how far it is."""
        self.primary_asked += 1
        return self.primary

    async def read(self, unit: Callable[[], Any] = lambda: "replica", least: int | None = None) -> str:
        """Say who answered."""
        primary: Callable[..., Awaitable[Any]] = self.primary_read
        try:
            return str(await self.replica.read(unit, least, primary=primary, until=time.monotonic() + 1.0))
        except NotOnReplica:
            return "primary"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A replica as up to date as its primary."""
    made = Server(monkeypatch)
    yield made
    made.replica.executor.shutdown()


async def test_a_replica_that_is_up_to_date_answers(server: Server) -> None:
    """The primary says once where it is; the next reads need nothing of it."""
    assert [await server.read() for _ in range(20)] == ["replica"] * 20
    assert (server.asked, server.primary_asked) == (20, 1)


async def test_a_replica_that_is_behind_does_not(server: Server) -> None:
    """One byte is enough; it is left alone for a second, then asked by one, and used again when it has come so far."""
    server.replayed = 99
    with capture_logs() as logged:
        assert [await server.read() for _ in range(5)] == ["primary"] * 5
        assert server.asked == 1
        server.replayed = 100
        server.replica._rest_until -= module.BEHIND_S
        assert [await server.read() for _ in range(5)] == ["replica"] * 5
    assert [(line["event"], line.get("why")) for line in logged] == [
        ("replica_not_used", "behind"), ("replica_used_again", None),
    ]  # fmt: skip


async def test_a_server_that_is_no_replica_any_more_does_not(server: Server) -> None:
    """It was promoted, and has a log of its own that may be longer: the primary answers until there is a replica."""
    server.replayed = None
    assert [await server.read() for _ in range(5)] == ["primary"] * 5
    assert await server.read(least=1) == "primary"
    server.replayed = 100
    server.replica._rest_until -= module.BEHIND_S
    assert await server.read() == "replica"


async def test_a_replica_that_is_away_is_tried_by_one_request_in_five_seconds(server: Server) -> None:
    """Whatever the database says is the primary's to answer, and is said in the log once."""
    server.replayed = DatabaseError("connection refused")
    with capture_logs() as logged:
        assert [await server.read() for _ in range(5)] == ["primary"] * 5
        assert server.asked == 2  # once more on a fresh connection
        server.replica._rest_until -= module.REST_S
        assert await asyncio.gather(*(server.read() for _ in range(5))) == ["primary"] * 5
        assert server.asked == 4
    assert [line["why"] for line in logged] == ["away"]


async def test_a_connection_that_died_unused_is_replaced(server: Server) -> None:
    """The first error of a connection costs nobody the replica."""
    errors = [DatabaseError("terminating connection")]

    def position() -> int:
        if errors:
            raise errors.pop()
        return 100

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "replayed", position)
        assert await server.read() == "replica"


async def test_a_replica_that_hangs_leaves_half_of_the_time(server: Server) -> None:
    """The primary is asked after half a second of the one that there is."""

    def hang() -> str:
        time.sleep(0.7)
        return "late"

    began = time.monotonic()
    assert await server.read(hang) == "primary"
    assert 0.45 < time.monotonic() - began < 0.7
    assert await server.read() == "primary"


async def test_who_wants_a_position_gets_it_or_the_primary(server: Server) -> None:
    """A replica that is on its way there is no reason to leave it alone; the bound does not count."""
    assert await server.read(least=101) == "primary"
    server.replayed = 101
    assert await server.read(least=101) == "replica"
    assert server.primary_asked == 0


async def test_an_error_of_the_unit_is_no_fault_of_the_replica(server: Server) -> None:
    """What a unit of work raises on purpose is the answer."""

    def missing() -> str:
        raise NotFound

    with pytest.raises(NotFound):
        await server.read(missing)
    assert await server.read() == "replica"


async def test_a_primary_that_does_not_say_where_it_is_is_no_answer(server: Server) -> None:
    """Without its position nothing is believed, and nobody is told that all is well."""

    async def unavailable(_: Callable[[], Any]) -> Any:
        raise Unavailable(retry_after_s=1)

    with pytest.raises(Unavailable):
        await server.replica.read(lambda: 1, None, primary=unavailable, until=time.monotonic() + 1)
    assert await server.read() == "primary"  # for a part of the bound nobody else asks


async def test_a_former_primary_has_no_position(server: Server) -> None:
    """Nothing is known of how old the replica is then: the default server answers, and later one with a position."""
    server.primary = None
    assert [await server.read() for _ in range(5)] == ["primary"] * 5
    assert server.primary_asked == 1
    assert server.replica._marks.least(time.monotonic()) is None
    server.primary = 100
    server.replica._rest_until -= module.BEHIND_S
    server.replica._marks._next_at = 0.0
    assert await server.read() == "replica"


@pytest.mark.django_db(transaction=True)
async def test_without_a_replica_everything_is_the_primarys() -> None:
    """Each way to read is one read of the database, and there is no position to wait for."""
    pool = database()
    assert django_settings.IRONAUTH_REPLICA is None
    assert pool.has_replica is False
    assert await pool.position() is None
    assert await pool.read_stale(Invalidation.objects.count) == 0
    assert await pool.read_since(None, Invalidation.objects.filter(pk=1).count) == 0
