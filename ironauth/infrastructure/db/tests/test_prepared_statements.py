"""Prepared statements: only where one server process answers, and never a reason for an error."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection, models, transaction

from ironauth.infrastructure.db import prepared_postgres
from ironauth.infrastructure.db.compiled import CompiledInsert, CompiledSelect, Param
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.models import Invalidation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.only_postgres]


@pytest.fixture
def select() -> Iterator[CompiledSelect]:
    """A select by id, on connections that have prepared nothing yet."""
    database().close()
    connection.close()
    yield CompiledSelect(
        lambda: (
            Invalidation.objects.filter(pk__gte=Param("id", models.BigIntegerField())).order_by("pk").values_list("tag")
        )
    )
    database().close()


def prepared() -> list[str]:
    """Return the statements this thread's connection has prepared."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        return [row[0] for row in cursor.fetchall()]


def test_a_fixed_query_is_prepared_at_its_first_use_and_no_other_is(select: CompiledSelect) -> None:
    """The server plans it once; the ORM's own statements stay as Django sends them."""
    Invalidation.objects.create(tag="a")
    for _ in range(10):
        assert select.rows(id=0) == [["a"]]
        assert Invalidation.objects.count() == 1
    found = prepared()
    assert len(found) == 1
    assert "$1" in found[0]
    assert "infrastructure_invalidation" in found[0]


def test_behind_a_pooler_nothing_is_prepared(select: CompiledSelect, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server process than the connection was told of means a pooler, whose next one knows no statement."""
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", property(lambda _: 1))
    Invalidation.objects.create(tag="a")
    for _ in range(10):
        assert select.rows(id=0) == [["a"]]
    assert prepared() == []


async def test_a_statement_the_server_forgot_is_prepared_again(select: CompiledSelect) -> None:
    """What a connection had prepared may be gone, as after DISCARD ALL: the unit is repeated on a fresh one."""

    def forget() -> None:
        connection.ensure_connection()
        connection.connection.pgconn.exec_(b"DEALLOCATE ALL")  # behind psycopg's back, which would notice the command

    pool = database()
    await pool.write(Invalidation.objects.create, tag="a")
    for _ in range(pool._readers.threads * 3):
        assert await pool.read(select.rows, id=0) == [["a"]]
        await asyncio.gather(*(pool.read(forget) for _ in range(pool._readers.threads)))
    assert await pool.read(select.rows, id=0) == [["a"]]


def test_a_rollback_is_no_reason_for_another_connection(select: CompiledSelect) -> None:
    """What a connection has prepared outlives it, also what was prepared in the transaction."""
    Invalidation.objects.create(tag="a")
    assert select.dicts(id=0) == [{"tag": "a"}]
    process = connection.connection.info.backend_pid
    with transaction.atomic():
        select.rows(id=0)
        assert select.rows(id=2**40) == []  # a wider integer is another type, and another statement
        transaction.set_rollback(True)
    assert select.rows(id=2**40) == []
    assert select.dicts(id=0) == [{"tag": "a"}]
    assert connection.connection.info.backend_pid == process
    assert len(prepared()) == 2


def test_a_transaction_begins_with_the_first_statement(select: CompiledSelect) -> None:
    """What is inserted in it is seen in it, and gone with it; the isolation level is the one that was asked for."""
    insert = CompiledInsert(lambda: Invalidation(tag=Param("tag", models.CharField())))
    for level in (None, psycopg.IsolationLevel.REPEATABLE_READ):
        connection.ensure_connection()
        raw = connection.connection
        raw.isolation_level = level
        with transaction.atomic():
            assert insert.run(tag="a") == 1
            assert select.rows(id=0) == [["a"]]
            with connection.cursor() as cursor:
                cursor.execute("SHOW transaction_isolation")
                assert cursor.fetchone() == ("repeatable read" if level else "read committed",)
            transaction.set_rollback(True)
        raw.isolation_level = None
        assert select.rows(id=0) == []


def test_the_oldest_statement_makes_room(select: CompiledSelect, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection keeps so many at once."""
    monkeypatch.setattr(prepared_postgres, "MOST_PREPARED", 2)
    Invalidation.objects.create(tag="a")
    for number in (0, 2**20, 2**40, 0):  # a type each, and a statement
        assert select.rows(id=number) == ([["a"]] if number == 0 else [])
        assert len(prepared()) <= 2


async def test_a_migration_may_change_what_a_prepared_statement_returns(select: CompiledSelect) -> None:
    """PostgreSQL refuses the plan it kept: the unit is repeated on a fresh connection."""

    def alter(kind: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE infrastructure_invalidation ALTER COLUMN tag TYPE {kind}")

    pool = database()
    await pool.write(Invalidation.objects.create, tag="a")
    for _ in range(pool._readers.threads * 3):
        assert await pool.read(select.rows, id=0) == [["a"]]
    before = "varchar(80)"
    try:
        await pool.write(alter, "text")
        for _ in range(pool._readers.threads * 3):
            assert await pool.read(select.rows, id=0) == [["a"]]
    finally:
        await pool.write(alter, before)


def test_psycopg_remembers_no_statement(select: CompiledSelect) -> None:
    """It keeps the text of what it may prepare one day: Django's statements have password hashes in theirs."""
    Invalidation.objects.create(tag="secret-of-a-statement")
    with transaction.atomic():
        select.rows(id=0)
    Invalidation.objects.filter(tag="secret-of-a-statement").count()
    assert "infrastructure_invalidation" not in str(vars(connection.connection._prepared))
