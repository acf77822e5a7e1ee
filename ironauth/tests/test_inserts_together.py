"""Inserts held back for one statement arrive as if each had been run, or not at all."""

from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, connection, models, transaction
from django.test.utils import CaptureQueriesContext

from ironauth.infrastructure.fixed_queries import (
    FixedInsert,
    FixedNumberedInsert,
    FixedSelect,
    FixedUpdate,
    Given,
    given_row,
)
from ironauth.infrastructure.inserts_together import inserted_together
from ironauth.infrastructure.models import Invalidation
from tokens.models import SigningKey

pytestmark = [pytest.mark.django_db, pytest.mark.storage]

MOMENT = datetime(2026, 11, 21, 8, 0, 0, 123456, tzinfo=UTC)
TAG = FixedInsert(lambda: Invalidation(tag=Given("tag", models.CharField()), created_at=MOMENT))
NUMBERED = FixedNumberedInsert(lambda: Invalidation(tag=Given("tag", models.CharField()), created_at=MOMENT))
KEY = FixedInsert(lambda: given_row(SigningKey))
RETIRE = FixedUpdate(lambda: SigningKey.objects.filter(kid=Given("kid", models.CharField())), state="retiring")
TAGS = FixedSelect(lambda: Invalidation.objects.order_by("pk").values_list("tag"))


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


def test_an_update_takes_along_what_was_held_back() -> None:
    """As one statement on PostgreSQL, which counts the rows of the update alone and numbers those that want it."""
    on_postgres = connection.vendor == "postgresql"
    KEY.run(**key("one"))
    with CaptureQueriesContext(connection) as asked, transaction.atomic(), inserted_together():
        numbers: list[int] = []
        TAG.run(tag="a")
        NUMBERED.tell_id(numbers.append, tag="b")
        assert len(numbers) == (0 if on_postgres else 1)
        assert RETIRE.run(kid="one") == 1
        assert RETIRE.run(kid="none") == 0
        TAG.run(tag="c")
        NUMBERED.tell_id(numbers.append, tag="d")
    assert sum("INSERT" in query["sql"] for query in asked) == (2 if on_postgres else 4)
    assert list(Invalidation.objects.filter(pk__in=numbers).order_by("tag").values_list("tag", flat=True)) == ["b", "d"]
    assert sorted(TAGS.rows()) == [["a"], ["b"], ["c"], ["d"]]
    assert SigningKey.objects.get(kid="one").state == "retiring"
