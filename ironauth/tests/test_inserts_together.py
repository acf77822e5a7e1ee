"""Inserts held back for one statement arrive as if each had been run, or not at all."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, connection, models, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext

from ironauth.infrastructure.fixed_queries import FixedInsert, FixedSelect, FixedUpdate, Given, given_row
from ironauth.infrastructure.inserts_together import OnlyIf, inserted_if, inserted_together, is_alone, when_written
from ironauth.infrastructure.models import Invalidation
from tokens.models import SigningKey

pytestmark = [pytest.mark.django_db, pytest.mark.storage]

MOMENT = datetime(2026, 11, 21, 8, 0, 0, 123456, tzinfo=UTC)
TAG = FixedInsert(lambda: Invalidation(tag=Given("tag", models.CharField()), created_at=MOMENT))
KEY = FixedInsert(lambda: given_row(SigningKey))
TAGS = FixedSelect(lambda: Invalidation.objects.order_by("pk").values_list("tag"))
FOUND = FixedSelect(
    lambda: SigningKey.objects.filter(kid=Given("found", models.CharField())).order_by().values_list("pk")
)
RETIRED = FixedUpdate(lambda: SigningKey.objects.filter(kid=Given("kid", models.CharField())), state="retiring")


def key(kid: str) -> dict[str, object]:
    """Return the columns of a key that no constraint forbids."""
    row = SigningKey(kid=kid, alg="EdDSA", public_jwk={}, private_encrypted=b"\0", master_key_id="k1", state="dropped")
    return {field.attname: getattr(row, field.attname) for field in SigningKey._meta.concrete_fields}


def test_one_statement_where_each_is_a_round_trip() -> None:
    """Each row has its own values, though two inserts name theirs alike, and one of them is run twice."""
    on_postgres = connection.vendor == "postgresql"
    for number in (1, 2):
        with CaptureQueriesContext(connection) as asked, transaction.atomic(), inserted_together():
            for tag in ("a", "b"):
                assert TAG.run(tag=f"{tag}{number}") == 1
            assert KEY.run(**key(f"key {number}")) == 1
        assert sum("INSERT" in query["sql"] for query in asked) == (1 if on_postgres else 3)
    assert sorted(TAGS.rows()) == [["a1"], ["a2"], ["b1"], ["b2"]]
    assert set(SigningKey.objects.values_list("kid", flat=True)) == {"key 1", "key 2"}


def test_another_query_finds_what_was_held_back() -> None:
    """A select in the block sees the rows of the inserts before it."""
    with transaction.atomic(), inserted_together():
        TAG.run(tag="a")
        assert TAGS.rows() == [["a"]]
        TAG.run(tag="b")
    assert TAGS.rows() == [["a"], ["b"]]


def test_an_error_leaves_nothing() -> None:
    """Neither where an insert is forbidden nor where something else fails in the block; the next block is a new one."""
    KEY.run(**key("one"))

    def fails(tag: str, *, afterwards: bool) -> None:
        with transaction.atomic(), inserted_together():
            TAG.run(tag=tag)
            if afterwards:
                raise ZeroDivisionError
            KEY.run(**key("one"))

    with pytest.raises(IntegrityError):
        fails("a", afterwards=False)
    with pytest.raises(ZeroDivisionError):
        fails("b", afterwards=True)
    with transaction.atomic(), inserted_together():
        TAG.run(tag="c")
    assert TAGS.rows() == [["c"]]


@pytest.mark.django_db(transaction=True)
def test_without_a_transaction() -> None:
    """On PostgreSQL the block is one statement there as well, and lets nothing come between its inserts."""
    if connection.vendor != "postgresql":
        pytest.skip("elsewhere every insert is a statement")
    told: list[str] = []
    with CaptureQueriesContext(connection) as asked, inserted_together():
        TAG.run(tag="a")
        when_written(lambda: told.append("a"))
        KEY.run(**key("one"))
        assert told == []
    assert (len(asked), told) == (1, ["a"])

    def fails(then: Callable[[], object]) -> None:
        with inserted_together():
            TAG.run(tag="b")
            when_written(lambda: told.append("b"))
            then()

    with pytest.raises(TransactionManagementError):
        fails(TAGS.rows)
    with pytest.raises(IntegrityError):
        fails(lambda: KEY.run(**key("one")))
    assert (TAGS.rows(), told) == ([["a"]], ["a"])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("locked", "changed"), [("one", "two"), ("gone", "two"), ("one", "gone")])
def test_only_if_a_row_is_there_and_another_changes(locked: str, changed: str) -> None:
    """Otherwise nothing happens: no insert, no change, and nobody is told."""
    if not is_alone():
        pytest.skip("PostgreSQL alone has such statements")
    KEY.run(**key("one"))
    KEY.run(**key("two"))
    told: list[int] = []
    with inserted_if(OnlyIf(FOUND, RETIRED, {"found": locked, "kid": changed})) as block:
        TAG.run(tag="a")
        KEY.run(**key("three"))
        when_written(lambda: told.append(1))
    good = "gone" not in (locked, changed)
    assert (block.inserted, told, TAGS.rows()) == (good, [1] * good, [["a"]] * good)
    states = dict(SigningKey.objects.values_list("kid", "state"))
    assert states == {"one": "dropped", "two": "retiring" if good else "dropped"} | (
        {"three": "dropped"} if good else {}
    )
