"""Fixed queries answer what the ORM answers, on whichever database."""

import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, models, transaction
from django.db.models import F
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext
from django.utils.functional import lazystr

from ironauth.infrastructure.db.compiled import (
    CompiledDelete,
    CompiledInsert,
    CompiledNumberedInsert,
    CompiledSelect,
    CompiledUpdate,
    Param,
    adaptation,
    given_row,
)
from ironauth.infrastructure.models import Invalidation
from tokens.keys.models import SigningKey
from tokens.sessions.models import Session

pytestmark = [pytest.mark.django_db, pytest.mark.storage]

MOMENT = datetime(2026, 11, 21, 8, 0, 0, 123456, tzinfo=UTC)
KEY_ID = uuid.UUID("0192d4e8-1c00-7000-8000-0123456789ab")
COLUMNS = ("kid", "public_jwk", "private_encrypted", "created_at", "retired_at")


@pytest.fixture
def key() -> SigningKey:
    """A row with text, JSON, bytes, a time and a null."""
    return SigningKey.objects.create(
        kid="one",
        alg="EdDSA",
        public_jwk={"a": [1, "é"]},
        private_encrypted=b"\x00\xff",
        state="next",
        created_at=MOMENT,
    )


def by_kid() -> CompiledSelect:
    """Return a select with one parameter of text and one of time."""
    return CompiledSelect(
        lambda: (
            SigningKey.objects.filter(
                kid=Param("kid", models.CharField()), created_at__lt=Param("before", models.DateTimeField())
            )
            .order_by()
            .values_list(*COLUMNS)
        )
    )


def test_rows_are_what_the_orm_returns(key: SigningKey) -> None:
    """Every type comes back as the ORM gives it, and parameters are values of this call, not of the first."""
    select = by_kid()
    for before, found in ((MOMENT, 0), (MOMENT + timedelta(microseconds=1), 1), (MOMENT, 0)):
        rows = select.rows(kid="one", before=before)
        assert [tuple(row) for row in rows] == list(
            SigningKey.objects.filter(kid="one", created_at__lt=before).values_list(*COLUMNS)
        )
        assert len(rows) == found
    assert select.rows(kid="' OR 1=1 --", before=MOMENT + timedelta(1)) == []
    assert key.created_at == MOMENT


def test_one_query_and_no_compiling_again(key: SigningKey) -> None:
    """The queryset is built once; each run is one statement."""
    built: list[int] = []

    def build() -> models.QuerySet[Group, tuple[str]]:
        built.append(1)
        return Group.objects.filter(pk=Param("id", models.IntegerField())).order_by().values_list("name")

    select = CompiledSelect(build)
    with CaptureQueriesContext(connection) as captured:
        for number in range(3):
            assert select.rows(id=number) == []
    assert len(captured) == 3
    assert built == [1]
    assert key.state == "next"


def test_a_missing_parameter_is_an_error() -> None:
    """A forgotten parameter never becomes NULL."""
    with pytest.raises(KeyError, match="before"):
        by_kid().rows(kid="one")


def test_an_update_changes_what_it_names(key: SigningKey) -> None:
    """Parameters in SET and WHERE, F() beside them, and the number of rows."""
    other = SigningKey.objects.create(
        kid=str(uuid.uuid4()), alg="EdDSA", public_jwk={}, private_encrypted=b"", state="retiring", created_at=MOMENT
    )
    retire = CompiledUpdate(
        lambda: SigningKey.objects.filter(kid=Param("kid", models.CharField()), retired_at=None),
        retired_at=Param("now", models.DateTimeField()),
        activated_at=F("created_at"),
        state="retiring",
    )
    later = MOMENT + timedelta(days=1)
    assert [retire.run(kid="one", now=later) for _ in range(2)] == [1, 0]
    key.refresh_from_db()
    assert (key.retired_at, key.activated_at, key.state) == (later, MOMENT, "retiring")
    other.refresh_from_db()
    assert other.retired_at is None


def test_an_insert_writes_what_the_orm_would_and_returns_the_number() -> None:
    """Each call is a row of its own values, in one query, and the number is the one the row has."""
    insert = CompiledNumberedInsert(
        lambda: Invalidation(tag=Param("tag", models.CharField()), created_at=Param("now", models.DateTimeField()))
    )
    insert.new_id(tag="first", now=MOMENT)
    with CaptureQueriesContext(connection) as captured:
        key = insert.new_id(tag="it's 100 %s", now=MOMENT + timedelta(seconds=1))
    assert len(captured) == 1
    row = Invalidation.objects.get(pk=key)
    assert (row.tag, row.created_at) == ("it's 100 %s", MOMENT + timedelta(seconds=1))
    assert Invalidation.objects.exclude(pk=key).get().tag == "first"


def test_a_text_that_is_more_than_a_text_is_the_fields_to_convert() -> None:
    """A member of an enumeration, or a lazy text, becomes what the ORM makes of it; so does a number for a text."""
    insert = CompiledNumberedInsert(
        lambda: Invalidation(tag=Param("tag", models.CharField()), created_at=Param("now", models.DateTimeField()))
    )
    for value, stored in ((SigningKey.State.ACTIVE, "active"), (lazystr("late"), "late"), (7, "7")):
        key = insert.new_id(tag=value, now=MOMENT)
        assert Invalidation.objects.get(pk=key).tag == stored


def test_values_become_what_their_fields_make_of_them() -> None:
    """The short way for times, ids and texts ends where the field's own does, whatever kind of value arrives."""
    instant = MOMENT.replace(microsecond=0)
    values: dict[Any, list[Any]] = {
        models.DateTimeField(): [MOMENT, instant, MOMENT.astimezone(timezone(timedelta(hours=5))), "2026-11-21 08:00Z"],
        models.UUIDField(): [KEY_ID, str(KEY_ID), KEY_ID.hex],
        models.CharField(): ["text", SigningKey.State.ACTIVE, lazystr("late"), 7],
        models.BooleanField(): [True, False, "1"],
        Session._meta.get_field("user"): [KEY_ID, str(KEY_ID)],
    }
    for field, several in values.items():
        adapt, plain = adaptation(field)
        for value in several:
            short = value if type(value) in plain else adapt(value, connection)
            long = field.get_db_prep_value(value, connection)
            assert (short, type(short)) == (long, type(long))


def test_a_whole_row_is_written_as_the_orm_writes_it(key: SigningKey) -> None:
    """Text, JSON, bytes, times and nulls arrive as they do by save(), and a row that exists is an error."""
    insert = CompiledInsert(lambda: given_row(SigningKey))
    values = {field.attname: getattr(key, field.attname) for field in SigningKey._meta.concrete_fields}
    SigningKey.objects.all().delete()
    assert insert.run(**values) == 1
    stored = SigningKey.objects.get()
    assert {name: getattr(stored, name) for name in values} == values
    with pytest.raises(IntegrityError), transaction.atomic():
        insert.run(**values)


def test_an_insert_may_leave_out_what_exists(key: SigningKey) -> None:
    """With ``ignore_conflicts`` a row that is there stays as it is, and nothing is counted."""
    insert = CompiledInsert(lambda: given_row(SigningKey), ignore_conflicts=True)
    values = {field.attname: getattr(key, field.attname) for field in SigningKey._meta.concrete_fields}
    assert insert.run(**values | {"alg": "other"}) == 0
    assert insert.run(**values | {"kid": "two", "state": "retiring"}) == 1
    assert dict(SigningKey.objects.values_list("kid", "alg")) == {"one": "EdDSA", "two": "EdDSA"}


def test_a_delete_takes_what_it_names(key: SigningKey) -> None:
    """Only the rows meant go, and they are counted."""
    delete = CompiledDelete(lambda: SigningKey.objects.filter(kid=Param("kid", models.CharField())))
    assert delete.run(kid="another") == 0
    assert SigningKey.objects.get() == key
    assert [delete.run(kid="one") for _ in range(2)] == [1, 0]
    assert not SigningKey.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_lock_needs_a_transaction_also_after_the_first_time(key: SigningKey) -> None:
    """Django asks when it compiles; a query compiled once must ask every time, or its lock ends unnoticed."""
    locking = CompiledSelect(
        lambda: (
            SigningKey.objects.select_for_update()
            .filter(kid=Param("kid", models.CharField()))
            .order_by()
            .values_list("kid")
        )
    )
    with transaction.atomic():
        assert locking.rows(kid=key.kid) == [[key.kid]]
    with pytest.raises(TransactionManagementError):
        locking.rows(kid=key.kid)


def test_rows_have_names_as_values_gives_them(key: SigningKey) -> None:
    """A column, one of another table, and an expression that was given a name."""
    role = Group.objects.create(name="support")
    rows = Group.objects.filter(pk=Param("id", models.IntegerField())).values(
        "name", "permissions__codename", key=F("pk")
    )
    found = CompiledSelect(lambda: rows).dicts(id=role.pk)
    assert found == [{"name": "support", "permissions__codename": None, "key": role.pk}]
    assert CompiledSelect(lambda: rows).dicts(id=role.pk + 1) == []
