"""Inserts held back for one statement arrive as if each had been run, or not at all."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, connection, models, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext

from ironauth.infrastructure.db.batch import OnlyIf, batch, inserted_if, is_alone, when_written
from ironauth.infrastructure.db.compiled import (
    CompiledInsert,
    CompiledNumberedInsert,
    CompiledSelect,
    CompiledUpdate,
    given_row,
)
from ironauth.infrastructure.db.compiled_sql import Param
from ironauth.infrastructure.models import Invalidation
from tokens.keys.models import SigningKey

pytestmark = [pytest.mark.django_db, pytest.mark.storage]

MOMENT = datetime(2026, 11, 21, 8, 0, 0, 123456, tzinfo=UTC)
TAG = CompiledInsert(lambda: Invalidation(tag=Param("tag", models.CharField()), created_at=MOMENT))
NUMBERED = CompiledNumberedInsert(lambda: Invalidation(tag=Param("tag", models.CharField()), created_at=MOMENT))
KEY = CompiledInsert(lambda: given_row(SigningKey))
RETIRE = CompiledUpdate(lambda: SigningKey.objects.filter(kid=Param("kid", models.CharField())), state="retiring")
TAGS = CompiledSelect(lambda: Invalidation.objects.order_by("pk").values_list("tag"))
FOUND = CompiledSelect(
    lambda: SigningKey.objects.filter(kid=Param("found", models.CharField())).order_by().values_list("pk")
)


def key(kid: str) -> dict[str, object]:
    """Return the columns of a key that no constraint forbids."""
    row = SigningKey(kid=kid, alg="EdDSA", public_jwk={}, private_encrypted=b"\0", master_key_id="k1", state="dropped")
    return {field.attname: getattr(row, field.attname) for field in SigningKey._meta.concrete_fields}


def test_one_statement_where_each_is_a_round_trip() -> None:
    """Each row has its own values, though two inserts name theirs alike, and one of them is run twice."""
    on_postgres = connection.vendor == "postgresql"
    for number in (1, 2):
        with CaptureQueriesContext(connection) as asked, transaction.atomic(), batch():
            for tag in ("a", "b"):
                assert TAG.run(tag=f"{tag}{number}") == 1
            assert KEY.run(**key(f"key {number}")) == 1
        assert sum("INSERT" in query["sql"] for query in asked) == (1 if on_postgres else 3)
    assert sorted(TAGS.rows()) == [["a1"], ["a2"], ["b1"], ["b2"]]
    assert set(SigningKey.objects.values_list("kid", flat=True)) == {"key 1", "key 2"}


def test_another_query_finds_what_was_held_back() -> None:
    """A select in the block sees the rows of the inserts before it."""
    with transaction.atomic(), batch():
        TAG.run(tag="a")
        assert TAGS.rows() == [["a"]]
        TAG.run(tag="b")
    assert TAGS.rows() == [["a"], ["b"]]


def test_an_error_leaves_nothing() -> None:
    """Neither where an insert is forbidden nor where something else fails in the block; the next block is a new one."""
    KEY.run(**key("one"))

    def fails(tag: str, *, afterwards: bool) -> None:
        with transaction.atomic(), batch():
            TAG.run(tag=tag)
            if afterwards:
                raise ZeroDivisionError
            KEY.run(**key("one"))

    with pytest.raises(IntegrityError):
        fails("a", afterwards=False)
    with pytest.raises(ZeroDivisionError):
        fails("b", afterwards=True)
    with transaction.atomic(), batch():
        TAG.run(tag="c")
    assert TAGS.rows() == [["c"]]


def test_an_update_takes_along_what_was_held_back() -> None:
    """As one statement on PostgreSQL, which counts the rows of the update alone and numbers those that want it."""
    on_postgres = connection.vendor == "postgresql"
    KEY.run(**key("one"))
    with CaptureQueriesContext(connection) as asked, transaction.atomic(), batch():
        numbers: list[int] = []
        TAG.run(tag="a")
        NUMBERED.on_insert_id(numbers.append, tag="b")
        assert len(numbers) == (0 if on_postgres else 1)
        assert RETIRE.run(kid="one") == 1
        assert RETIRE.run(kid="none") == 0
        TAG.run(tag="c")
        NUMBERED.on_insert_id(numbers.append, tag="d")
    assert sum("INSERT" in query["sql"] for query in asked) == (2 if on_postgres else 4)
    assert list(Invalidation.objects.filter(pk__in=numbers).order_by("tag").values_list("tag", flat=True)) == ["b", "d"]
    assert sorted(TAGS.rows()) == [["a"], ["b"], ["c"], ["d"]]
    assert SigningKey.objects.get(kid="one").state == "retiring"


@pytest.mark.django_db(transaction=True)
def test_without_a_transaction() -> None:
    """On PostgreSQL the block is one statement there as well, and lets nothing come between its inserts.

    On SQLite each is committed at once.
    """
    alone = is_alone()
    told: list[str] = []
    with CaptureQueriesContext(connection) as asked, batch():
        TAG.run(tag="a")
        when_written(lambda: told.append("a"))
        KEY.run(**key("one"))
        assert told == ([] if alone else ["a"])
    assert (len(asked), told) == (1 if alone else 2, ["a"])
    if not alone:
        return

    def fails(then: Callable[[], object]) -> None:
        with batch():
            TAG.run(tag="b")
            when_written(lambda: told.append("b"))
            then()

    between: list[Callable[[], object]] = [
        TAGS.rows, lambda: RETIRE.run(kid="one"), lambda: RETIRE.execute_deferred(kid="one"),
        lambda: NUMBERED.on_insert_id(lambda _number: None, tag="c"),
    ]  # fmt: skip
    for query in between:
        with pytest.raises(TransactionManagementError):
            fails(query)
    with pytest.raises(IntegrityError):
        fails(lambda: KEY.run(**key("one")))
    assert (TAGS.rows(), told) == ([["a"]], ["a"])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("locked", "changed"), [("one", "two"), ("gone", "two"), ("one", "gone")])
def test_only_if_a_row_is_there_and_another_changes(locked: str, changed: str) -> None:
    """Otherwise nothing happens: no insert, no change, and nobody is told."""
    if not is_alone():  # SQLite has no such statements, and nobody asks for them there
        assert connection.vendor == "sqlite"
        return
    KEY.run(**key("one"))
    KEY.run(**key("two"))
    told: list[int] = []
    with inserted_if(OnlyIf(FOUND, RETIRE, {"found": locked, "kid": changed})) as block:
        TAG.run(tag="a")
        KEY.run(**key("three"))
        when_written(lambda: told.append(1))
    good = "gone" not in (locked, changed)
    assert (block.inserted, told, TAGS.rows()) == (good, [1] * good, [["a"]] * good)
    states = dict(SigningKey.objects.values_list("kid", "state"))
    assert states == {"one": "dropped", "two": "retiring" if good else "dropped"} | (
        {"three": "dropped"} if good else {}
    )
