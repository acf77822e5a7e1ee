"""Units of work: persistent connections, one transaction, a time limit that counts waiting, and faults as 503."""

import asyncio
import contextvars
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings as django_settings
from django.db import IntegrityError, connection, transaction
from django.db.backends.signals import connection_created
from pytest_django import Settings
from structlog.testing import capture_logs

from ironauth import settings_test
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db.faults import Outages
from ironauth.infrastructure.db.unit_of_work import DatabasePool, about_to_commit, database, ping
from ironauth.infrastructure.models import Invalidation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
only_postgres = pytest.mark.only_postgres
only_sqlite = pytest.mark.only_sqlite


@pytest.fixture
def opened() -> Iterator[list[int]]:
    """The threads in which connections were opened, from a pool without any."""
    database().close()
    threads: list[int] = []

    def note(**_: Any) -> None:
        threads.append(threading.get_ident())

    connection_created.connect(note)
    yield threads
    connection_created.disconnect(note)


def add(tag: str = "t") -> int:
    """Write a row and return its id."""
    return Invalidation.objects.create(tag=tag).pk


async def test_units_share_few_connections_that_stay_open(opened: list[int], settings: Settings) -> None:
    """200 concurrent units open at most one connection per thread; 200 more open one only on a thread without."""
    pool = database()

    async def burst() -> None:
        await asyncio.gather(
            *(pool.read(Invalidation.objects.count) for _ in range(150)), *(pool.write(add) for _ in range(50))
        )

    await burst()
    bound = settings.IRONAUTH_DATABASE_THREADS + (settings_test.STORAGE == "sqlite")
    assert 1 <= len(opened) <= bound
    assert len(set(opened)) == len(opened)
    before = list(opened)
    await burst()
    assert opened[: len(before)] == before
    assert len(set(opened)) == len(opened) <= bound
    assert await pool.read(Invalidation.objects.count) == 100


async def test_a_connection_belongs_to_its_thread_not_to_the_context() -> None:
    """Although context variables travel to the pool, each unit sees its thread's connection, never another's."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("mine")

    def unit() -> tuple[int, int, str]:
        time.sleep(0.01)
        connection.ensure_connection()
        return threading.get_ident(), id(connection.connection), variable.get()

    seen = await asyncio.gather(*(database().read(unit) for _ in range(40)))
    by_thread: dict[int, set[int]] = {}
    for thread, raw, value in seen:
        assert value == "mine"
        by_thread.setdefault(thread, set()).add(raw)
    assert all(len(raws) == 1 for raws in by_thread.values())
    assert threading.get_ident() not in by_thread


async def test_a_write_is_one_transaction() -> None:
    """What a failing unit wrote is rolled back, its exception passes through, and the next unit works."""

    def unit() -> None:
        add()
        raise KeyError("no")

    with pytest.raises(KeyError):
        await database().write(unit)
    assert await database().read(Invalidation.objects.count) == 0
    await database().write(add)
    assert await database().read(Invalidation.objects.count) == 1


async def test_constraint_errors_pass_through() -> None:
    """IntegrityError is the caller's business, not an outage."""

    def unit() -> None:
        Invalidation.objects.create(id=7, tag="a")
        Invalidation.objects.create(id=7, tag="b")

    with pytest.raises(IntegrityError):
        await database().write(unit)


@only_sqlite
async def test_a_read_that_writes_is_a_mistake_with_a_remedy() -> None:
    """On SQLite a unit run by read() cannot write: RuntimeError that says to use write()."""
    with pytest.raises(RuntimeError, match=r"run it by write\(\)$"):
        await database().read(add)
    assert await database().read(Invalidation.objects.count) == 0


@only_sqlite
async def test_readers_never_take_the_write_lock() -> None:
    """While another connection holds SQLite's write lock, a read, even inside atomic(), goes on at once."""

    def unit() -> int:
        with transaction.atomic():
            return Invalidation.objects.count()

    await database().write(add)
    other = sqlite3.connect(django_settings.DATABASES["default"]["NAME"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        began = time.monotonic()
        assert await database().read(unit) == 1
        assert time.monotonic() - began < 0.5
    finally:
        other.rollback()
        other.close()


@only_sqlite
async def test_a_locked_database_is_503_within_the_limit_and_recovers() -> None:
    """While another process holds the write lock a write ends in Unavailable within the limit; then it works."""
    other = sqlite3.connect(django_settings.DATABASES["default"]["NAME"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    try:
        with pytest.raises(Unavailable):
            await database().write(add)
        assert time.monotonic() - began < django_settings.IRONAUTH_DATABASE_TIMEOUT_S + 0.5
    finally:
        other.rollback()
        other.close()
    await asyncio.sleep(0.1)
    await database().write(add)


@only_sqlite
async def test_a_file_that_cannot_be_opened_is_503_and_said_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without its folder every unit is Unavailable, and the log has one line; with it back, the pool works."""
    monkeypatch.setattr("ironauth.infrastructure.db.unit_of_work.outages", Outages())
    database().close()
    with monkeypatch.context() as elsewhere, capture_logs() as logged:
        elsewhere.setitem(connection.settings_dict, "NAME", str(tmp_path / "gone" / "db.sqlite3"))
        for unit in (database().read(ping), database().write(add), database().read(ping)):
            with pytest.raises(Unavailable):
                await unit
    database().close()
    assert await database().write(add) >= 1
    (line,) = [event for event in logged if event["event"].startswith("database_un")]
    assert (line["event"], line["log_level"]) == ("database_unreachable", "error")
    assert "unable to open" in line["cause"]


@only_sqlite
async def test_a_full_disk_is_503_and_recovers() -> None:
    """When SQLite reports that there is no room, the unit is rolled back and answered Unavailable."""

    def fill() -> None:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA page_count")
            pages = cursor.fetchone()[0]
            cursor.execute(f"PRAGMA max_page_count = {pages + 4}")
            # More than the file has room for, also in the pages that other tests have emptied.
            cursor.execute("PRAGMA freelist_count")
            too_much = "x" * 4096 * (cursor.fetchone()[0] + 50)
        Invalidation.objects.create(tag=too_much)

    with pytest.raises(Unavailable):
        await database().write(fill)
    await database().write(add)  # on a new connection, without the limit
    assert await database().read(Invalidation.objects.count) == 1


async def test_the_limit_counts_waiting_and_running(settings: Settings) -> None:
    """With every thread stuck, running and waiting callers get Unavailable at the limit, then all works again."""
    settings.IRONAUTH_DATABASE_TIMEOUT_S = 0.3
    settings.IRONAUTH_DATABASE_THREADS = 2
    gate = threading.Event()
    ran: list[int] = []
    began = time.monotonic()

    async def timed(unit: Any) -> float:
        with pytest.raises(Unavailable) as caught:
            await database().read(unit)
        assert caught.value.headers["Retry-After"] == "1"
        return time.monotonic() - began

    waits = await asyncio.gather(*(timed(gate.wait) for _ in range(2)), *(timed(lambda: ran.append(1)) for _ in "abc"))
    assert all(0.25 < wait < 0.8 for wait in waits)
    began = time.monotonic()
    assert await timed(lambda: ran.append(2)) < 0.8  # the stuck units still occupy the threads
    gate.set()
    await asyncio.sleep(0.05)
    assert await database().read(Invalidation.objects.count) == 0
    assert ran == []


async def test_a_cancelled_waiting_unit_never_runs(settings: Settings) -> None:
    """A unit whose caller is gone before it starts is not run."""
    settings.IRONAUTH_DATABASE_THREADS = 1
    begun, gate = threading.Event(), threading.Event()
    ran: list[int] = []

    def blocks() -> None:
        begun.set()
        gate.wait()

    blocker = asyncio.ensure_future(database().write(blocks))
    assert await asyncio.to_thread(begun.wait, 10)
    waiting = asyncio.ensure_future(database().write(lambda: ran.append(1)))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)  # the cancellation has arrived: it takes a turn of the loop
    gate.set()
    await blocker
    await database().write(lambda: None)
    assert ran == []


async def test_the_query_log_does_not_grow_in_debug(settings: Settings) -> None:
    """With DEBUG on, Django's list of queries starts afresh with each unit."""
    settings.DEBUG = True

    def unit() -> int:
        Invalidation.objects.count()
        return len(connection.queries_log)

    settings.IRONAUTH_DATABASE_THREADS = 1
    assert [await database().read(unit) for _ in range(5)][-1] == 1


async def test_a_unit_that_leaves_a_transaction_open_does_not_hurt_the_next() -> None:
    """A unit that turns autocommit off loses its connection, not the units after it."""

    def unit() -> None:
        transaction.set_autocommit(False)
        list(Invalidation.objects.all())

    for _ in range(10):
        await database().read(unit)
    await database().write(add)
    assert await database().read(Invalidation.objects.count) == 1


async def test_closing_ends_connections_and_the_pool_works_again(opened: list[int]) -> None:
    """close() drops every connection; the next unit opens a new one."""
    await database().write(add)
    first = len(opened)
    database().close()
    await database().write(add)
    assert len(opened) == first + 1


def pid() -> int:
    """Return the server process of this thread's connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def terminate_others() -> None:
    """End every other connection to this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture
def none_of_the_tests() -> None:
    """No connection of the thread that the suite looks into the tables by: a test ends all that are there."""
    connection.close()


@only_postgres
@pytest.mark.usefixtures("none_of_the_tests")
async def test_connections_ended_by_the_server_are_replaced_unnoticed() -> None:
    """After the server has ended all idle connections, reads and writes succeed at the first attempt."""
    await asyncio.gather(*(database().read(pid) for _ in range(50)))
    await asyncio.to_thread(_with_own_connection, terminate_others)
    results = await asyncio.gather(*(database().write(add) for _ in range(30)), return_exceptions=True)
    assert not [result for result in results if isinstance(result, BaseException)]
    assert await database().read(Invalidation.objects.count) == 30


@only_postgres
async def test_a_unit_whose_connection_breaks_before_commit_is_run_once_more() -> None:
    """The server ends the connection in the middle of a unit: it is run again, and takes effect once."""
    runs: list[int] = []

    def unit() -> None:
        add()
        runs.append(pid())
        if len(runs) == 1:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        add()

    await database().write(unit)
    assert len(runs) == 2
    assert await database().read(Invalidation.objects.count) == 2


@only_postgres
async def test_a_unit_that_always_breaks_is_tried_twice_at_most() -> None:
    """A unit that loses its connection each time ends in Unavailable after the second attempt."""
    runs: list[int] = []

    def unit() -> None:
        runs.append(1)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(Unavailable):
        await database().write(unit)
    assert len(runs) == 2
    await database().write(add)


@only_postgres
async def test_a_commit_that_fails_is_never_repeated() -> None:
    """When the connection is lost inside COMMIT, whose outcome nobody knows, the unit is not run again."""

    def prepare() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE OR REPLACE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
            )
            cursor.execute(
                "CREATE CONSTRAINT TRIGGER die AFTER INSERT ON infrastructure_invalidation "
                "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()"
            )

    def restore() -> None:
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER die ON infrastructure_invalidation")

    runs: list[int] = []

    def unit() -> None:
        runs.append(1)
        add()

    await database().write(prepare)
    try:
        with pytest.raises(Unavailable):
            await database().write(unit)
    finally:
        await database().write(restore)
    assert len(runs) == 1


@only_postgres
async def test_a_server_that_refuses_connections_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listening at the address: Unavailable at once; with the address back, the pool works."""
    database().close()
    with monkeypatch.context() as elsewhere:
        elsewhere.setitem(connection.settings_dict, "PORT", settings_test._free_port())
        began = time.monotonic()
        results = await asyncio.gather(*(database().write(add) for _ in range(20)), return_exceptions=True)
        assert all(isinstance(result, Unavailable) for result in results)
        assert time.monotonic() - began < 2.5
    assert await database().write(add) >= 1


@only_postgres
async def test_too_many_connections_is_503(settings: Settings) -> None:
    """When the server has no connection left, a unit is answered Unavailable, and works again afterwards."""
    database().close()
    url = f"postgres://postgres@127.0.0.1:{settings_test.POSTGRES_PORT}/postgres"
    hoard: list[Any] = []
    try:
        with suppress(psycopg.OperationalError):
            while len(hoard) < 200:
                hoard.append(psycopg.connect(url))
        assert len(hoard) < 200
        with pytest.raises(Unavailable):
            await database().write(add)
    finally:
        for each in hoard:
            each.close()
    await asyncio.sleep(0.2)
    await database().write(add)


@only_postgres
async def test_a_statement_cancelled_by_the_server_is_503() -> None:
    """statement_timeout ends in Unavailable, without a second attempt."""
    runs: list[int] = []

    def unit() -> None:
        runs.append(1)
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 50")
            cursor.execute("SELECT pg_sleep(5)")

    with pytest.raises(Unavailable):
        await database().write(unit)
    assert len(runs) == 1


def _with_own_connection(unit: Any) -> None:
    try:
        unit()
    finally:
        connection.close()


def test_the_shared_pool_follows_the_settings(settings: Settings) -> None:
    """database() is one object until its settings change."""
    first = database()
    assert database() is first
    settings.IRONAUTH_DATABASE_THREADS = 3
    assert database() is not first
    assert isinstance(database(), DatabasePool)


async def test_a_unit_that_writes_once_has_no_transaction_around_it() -> None:
    """What its statement wrote stays, although the unit raised afterwards; ``write`` undoes it."""

    def unit() -> None:
        about_to_commit()
        add()
        assert not connection.in_atomic_block
        raise LookupError

    with pytest.raises(LookupError):
        await database().write_autocommit(unit)
    assert await database().read(Invalidation.objects.count) == 1

    def whole() -> None:
        add()
        assert connection.in_atomic_block
        raise LookupError

    with pytest.raises(LookupError):
        await database().write(whole)
    assert await database().read(Invalidation.objects.count) == 1


@only_postgres
@pytest.mark.parametrize("announced", [False, True])
async def test_a_unit_that_writes_once_is_repeated_only_before_it_may_have_committed(announced: bool) -> None:
    """A connection that breaks before the unit announced its write costs nothing; after it, the outcome is unknown."""
    runs: list[int] = []

    def unit() -> None:
        runs.append(1)
        if announced:
            about_to_commit()
        if len(runs) == 1:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        add()

    if announced:
        with pytest.raises(Unavailable):
            await database().write_autocommit(unit)
    else:
        await database().write_autocommit(unit)
    assert len(runs) == (1 if announced else 2)
    assert await database().read(Invalidation.objects.count) == (0 if announced else 1)
    await database().write_autocommit(add)


async def test_announcing_a_write_elsewhere_means_nothing() -> None:
    """The same unit of work may run in a transaction, by itself, or in a test."""
    about_to_commit()

    def unit() -> int:
        about_to_commit()
        return add()

    assert await database().write(unit) >= 1
