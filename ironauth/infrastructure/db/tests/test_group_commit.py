"""Units of work that wait for SQLite's writer share one commit, and no fate."""

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, OperationalError, connection, transaction
from django.db.backends.sqlite3.base import DatabaseWrapper

from accounts.users.models import User
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db import group_commit
from ironauth.infrastructure.db.unit_of_work import DatabasePool, database
from ironauth.infrastructure.models import Invalidation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.only_sqlite]
WRAPPER: Any = DatabaseWrapper
type Tasks = list["asyncio.Task[Any]"]


def add(tag: str) -> str:
    """Write a row."""
    Invalidation.objects.create(tag=tag)
    return tag


def stored() -> list[str]:
    """Return the rows' tags, as another connection sees them: what is committed."""
    return list(Invalidation.objects.order_by("pk").values_list("tag", flat=True))


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine: anybody who waits joins."""
    monkeypatch.setattr(group_commit, "JOIN_WITHIN_S", 30)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that committed, in order."""
    seen: list[str] = []
    commit = WRAPPER._commit

    def counting(self: Any) -> None:
        commit(self)
        seen.append(threading.current_thread().name)

    monkeypatch.setattr(DatabaseWrapper, "_commit", counting)
    return seen


@contextmanager
def busy(pool: DatabasePool) -> Iterator[None]:
    """Keep the writer from the queue meanwhile."""
    began, go_on = threading.Event(), threading.Event()

    def block() -> None:
        began.set()
        go_on.wait(5)

    pool.enqueue_write(block, done=lambda _error: None)
    assert began.wait(5)
    try:
        yield
    finally:
        go_on.set()


async def together(*units: Callable[[], Awaitable[Any]], pool: DatabasePool | None = None) -> list[Any]:
    """Queue units behind one another and return what became of each."""
    with busy(pool or database()):
        tasks: Tasks = [asyncio.ensure_future(unit()) for unit in units]
        await asyncio.sleep(0.01)
    return await asyncio.gather(*tasks, return_exceptions=True)


def written(tag: str) -> Callable[[], Awaitable[str]]:
    """Return a unit run by ``write``."""
    return lambda: database().write(add, tag)


def once(tag: str) -> Callable[[], Awaitable[str]]:
    """Return a unit run by ``write_autocommit``."""
    return lambda: database().write_autocommit(add, tag)


async def test_what_waits_shares_a_commit(commits: list[str]) -> None:
    """In the order of arrival, whichever way it was handed in; what comes alone commits alone."""
    results = await together(written("a"), once("b"), written("c"))
    assert results == ["a", "b", "c"]
    assert await database().read(stored) == ["a", "b", "c"]
    assert len(commits) == 1
    await database().write(add, "d")
    assert len(commits) == 2


@pytest.mark.parametrize(("units", "number"), [(4, 1), (5, 2), (9, 3)])
async def test_a_bound_on_what_joins(
    monkeypatch: pytest.MonkeyPatch, commits: list[str], units: int, number: int
) -> None:
    """The rest forms a group of its own, or commits alone."""
    monkeypatch.setattr(group_commit, "MOST", 4)
    assert await together(*(written(str(at)) for at in range(units))) == [str(at) for at in range(units)]
    assert len(commits) == number


@pytest.mark.parametrize(("within_s", "number"), [(30.0, 1), (0.0, 2)])
async def test_who_comes_late_waits(
    monkeypatch: pytest.MonkeyPatch, commits: list[str], within_s: float, number: int
) -> None:
    """A transaction is not held open forever by those who join."""
    monkeypatch.setattr(group_commit, "JOIN_WITHIN_S", within_s)
    assert await together(*(written(str(at)) for at in range(4))) == ["0", "1", "2", "3"]
    assert len(commits) == number


async def test_nobody_hears_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could still be lost is no result yet."""
    seen: list[str] = []
    commit = WRAPPER._commit

    def noting(self: Any) -> None:
        seen.append("commit")
        commit(self)

    monkeypatch.setattr(DatabaseWrapper, "_commit", noting)
    over = threading.Event()

    def heard(_error: BaseException | None) -> None:
        seen.append("heard")

    with busy(database()):
        for tag in "ab":
            database().enqueue_write(partial(add, tag), done=heard)
        database().enqueue_write(partial(add, "c"), done=lambda _error: over.set())
    assert await asyncio.to_thread(over.wait, 5)
    assert seen == ["commit", "heard", "heard"]


async def test_who_fails_undoes_its_own_part(commits: list[str]) -> None:
    """Its caller gets its error; before it and behind it nothing is lost. ``write_autocommit`` keeps what it wrote."""

    def fail(tag: str) -> None:
        add(tag)
        raise KeyError(tag)

    def forbidden() -> None:
        Invalidation.objects.create(pk=7_000, tag="c")
        Invalidation.objects.create(pk=7_000, tag="c")

    results = await together(
        written("a"),
        lambda: database().write(fail, "b"),
        lambda: database().write(forbidden),
        lambda: database().write_autocommit(fail, "d"),
        written("e"),
    )
    assert [type(one) for one in results] == [str, KeyError, IntegrityError, KeyError, str]
    assert await database().read(stored) == ["a", "d", "e"]
    assert len(commits) == 1


async def test_a_constraint_that_is_looked_at_last_is_one_callers_own() -> None:
    """SQLite looks at foreign keys when it commits: for all who share the commit."""

    def orphan() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO accounts_user_groups (user_id, group_id) VALUES (%s, 1)",
                [User(email="nobody@x.example").pk.hex],
            )

    results = await together(written("a"), lambda: database().write(orphan), written("b"))
    assert [type(one) for one in results] == [str, IntegrityError, str]
    assert await database().read(stored) == ["a", "b"]


@pytest.mark.parametrize("hand_in", [DatabasePool.write, DatabasePool.write_autocommit])
async def test_a_lost_transaction_is_repeated_one_by_one(hand_in: Any) -> None:
    """An error after which SQLite may have rolled back: each unit runs again by itself, and takes effect once."""
    runs: list[str] = []

    def full_at_first() -> str:
        runs.append("b")
        add("b")
        if len(runs) == 1:
            cause = sqlite3.OperationalError("database or disk is full")
            cause.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise OperationalError(*cause.args) from cause
        return "b"

    results = await together(written("a"), lambda: hand_in(database(), full_at_first), written("c"))
    assert results == ["a", "b", "c"]
    assert await database().read(stored) == ["a", "b", "c"]
    assert runs == ["b", "b"]


async def test_a_rollback_that_a_unit_keeps_to_itself_costs_nobody_a_row() -> None:
    """A full disk makes SQLite roll everything back; the next COMMIT does nothing, and does not complain of it."""
    runs: list[str] = []

    def fill_up() -> str:
        runs.append("b")
        if len(runs) == 1:
            with connection.cursor() as cursor:  # the limit is this connection's, which is given up
                cursor.execute("PRAGMA page_count")
                pages = cursor.fetchone()[0]
                cursor.execute(f"PRAGMA max_page_count = {pages}")
            size = pages * 65_536  # more than the whole file, of whose pages some may be free
            with suppress(OperationalError), connection.cursor() as cursor:
                cursor.execute(
                    f"INSERT INTO infrastructure_invalidation (tag, created_at) VALUES (zeroblob({size}), 0)"  # noqa: S608 - a number
                )
        return "b"

    results = await together(written("a"), lambda: database().write_autocommit(fill_up), written("c"))
    assert results == ["a", "b", "c"]
    assert await database().read(stored) == ["a", "c"]
    assert runs == ["b", "b"]


async def test_a_unit_that_broke_the_transaction_spoils_nobodys(commits: list[str]) -> None:
    """Django goes on with no transaction in which an error left an inner block without a savepoint."""

    def broken() -> None:
        add("b")
        with transaction.atomic(savepoint=False):
            raise KeyError("b")

    results = await together(written("a"), lambda: database().write_autocommit(broken), written("c"))
    assert [type(one) for one in results] == [str, KeyError, str]
    assert await database().read(stored) == ["a", "b", "c"]  # b by itself, as alone: written before the error
    assert commits


@pytest.mark.parametrize("error", [OperationalError, DatabaseError])
async def test_a_commit_that_fails_is_nobodys_success(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    """Not repeated: everybody hears that it is not known, refusals included, which rest on what was not committed."""
    commit = WRAPPER._commit
    failing = [True]

    def fails_once(self: Any) -> None:
        if failing and failing.pop():
            cause = sqlite3.OperationalError("disk I/O error")
            cause.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error(*cause.args) from cause
        commit(self)

    def refused() -> None:
        raise KeyError("no")

    monkeypatch.setattr(DatabaseWrapper, "_commit", fails_once)
    results = await together(written("a"), lambda: database().write(refused), once("b"))
    assert [type(one) for one in results] == [Unavailable] * 3
    assert len({id(one) for one in results}) == 3  # each its own: a traceback is written into it
    assert await database().read(stored) == []
    assert await database().write(add, "c") == "c"
    assert await database().read(stored) == ["c"]


async def test_what_fails_behind_the_commit_is_heard_and_the_writer_lives() -> None:
    """A callback that was to follow the commit: the rows are there, and the next unit finds a thread."""

    def with_callback() -> None:
        add("b")

        def fail() -> None:
            raise KeyError("behind")

        transaction.on_commit(fail)

    results = await together(written("a"), lambda: database().write(with_callback))
    assert [type(one) for one in results] == [KeyError] * 2
    assert await database().write(add, "c") == "c"
    assert await database().read(stored) == ["a", "b", "c"]


@pytest.mark.parametrize("error", [IntegrityError, OperationalError])
async def test_what_is_committed_is_not_repeated(error: type[Exception]) -> None:
    """Also when a callback behind the commit meets an error of the database."""

    def with_callback() -> None:
        add("b")

        def fail() -> None:
            raise error("behind")

        transaction.on_commit(fail)

    results = await together(written("a"), lambda: database().write(with_callback), written("c"))
    assert [type(one) for one in results] == [error] * 3
    assert await database().read(stored) == ["a", "b", "c"]


async def test_callbacks_of_who_failed_do_not_run() -> None:
    """And those of the others do, once everything is committed."""
    heard: list[str] = []

    def noting(tag: str, *, fails: bool) -> None:
        add(tag)
        transaction.on_commit(lambda: heard.append(tag))
        if fails:
            raise KeyError(tag)

    await together(
        lambda: database().write(noting, "a", fails=False),
        lambda: database().write(noting, "b", fails=True),
        lambda: database().write_autocommit(noting, "c", fails=False),
    )
    assert heard == ["a", "c"]


async def test_a_locked_database_is_503_for_all_who_wait() -> None:
    """And what did not begin in time is not written when the lock is free again."""
    pool = DatabasePool(threads=1, timeout_s=0.6)
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    try:
        with busy(pool):
            other.execute("BEGIN IMMEDIATE")
            tasks: Tasks = [asyncio.ensure_future(pool.write(add, tag)) for tag in "abc"]
            await asyncio.sleep(0.01)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in results] == [Unavailable] * 3
        other.execute("ROLLBACK")
        assert await pool.write(add, "d") == "d"
        assert await pool.read(stored) == ["d"]
    finally:
        other.close()
        pool.close()


async def test_who_waited_too_long_does_not_run() -> None:
    """Each unit's own time limit holds in a group too."""
    pool = DatabasePool(threads=1, timeout_s=0.4)
    try:
        with busy(pool):
            tasks: Tasks = [asyncio.ensure_future(pool.write(add, tag)) for tag in "ab"]
            await asyncio.sleep(0.5)
        assert [type(one) for one in await asyncio.gather(*tasks, return_exceptions=True)] == [Unavailable] * 2
        assert await pool.write(add, "c") == "c"
        assert await pool.read(stored) == ["c"]
    finally:
        pool.close()


async def test_savepoints_are_for_transactions_that_are_shared() -> None:
    """A unit that nobody waits behind costs what it did before there were groups; ``write_autocommit`` needs none."""

    def blocks() -> tuple[bool, int]:
        return connection.in_atomic_block, len(connection.savepoint_ids)

    assert await database().write(blocks) == (True, 0)
    assert await database().write_autocommit(blocks) == (False, 0)
    pool = database()
    assert await together(lambda: pool.write(blocks), lambda: pool.write_autocommit(blocks)) == [(True, 1), (True, 0)]
