"""Cursors: what they carry, and that nothing forged does harm."""

import base64
import itertools
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.users.models import User
from accounts.users.paging import ORDERINGS, page
from ironauth.infrastructure.api.paging import Cursor, decode
from ironauth.infrastructure.core.errors import ValidationFailed


@given(st.sampled_from(["email", "-email", "name"]), st.text(max_size=150), st.uuids(), st.booleans())
def test_cursors_round_trip(ordering: str, value: str, user_id: object, backwards: bool) -> None:
    """Whatever a row holds, but NUL which none can hold, its cursor comes back as it went out."""
    cursor = Cursor(ordering, value, user_id, backwards)  # type: ignore[arg-type]  # hypothesis' UUIDs are UUIDs
    if "\x00" not in value:
        assert decode(cursor.encode(), ordering) == cursor


@given(st.text(max_size=100))
def test_any_other_text_is_refused(text: str) -> None:
    """Made-up cursors are a 400, never a 500."""
    with pytest.raises(ValidationFailed) as refused:
        decode(text, "email")
    assert refused.value.errors[0].code == "invalid_cursor"


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b'["email","x","not-a-uuid",false]',
        b'["email",5,"0198c5d2-0000-7000-8000-000000000000",false]',
        b'["-email","x","0198c5d2-0000-7000-8000-000000000000",false]',
        b'["email","a\\u0000","0198c5d2-0000-7000-8000-000000000000",false]',
        b'{"ordering":"email"}',
        b"[" * 5000,
    ],
)
def test_well_formed_cursors_of_another_kind_are_refused(content: bytes) -> None:
    """Wrong types, another ordering and NUL are refused after decoding as well."""
    with pytest.raises(ValidationFailed):
        decode(base64.urlsafe_b64encode(content).decode(), "email")


def test_times_must_be_times() -> None:
    """A cursor by time with something else in it is refused instead of reaching the database."""
    forged = Cursor("created_at", "yesterday", User().pk, backwards=False).encode()
    with pytest.raises(ValidationFailed):
        decode(forged, "created_at")


@pytest.mark.each_case
@pytest.mark.django_db
@pytest.mark.storage
@pytest.mark.parametrize("ordering", [f"{sign}{name}" for name in ORDERINGS for sign in ("", "-")])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pages_partition_the_list_in_both_directions(ordering: str, size: int) -> None:
    """Forwards and then backwards every row is met once, in order, also where many rows share a value."""
    User.objects.bulk_create([User(email=f"u{n}@example.com", name=f"n{n // 3}", password="!") for n in range(7)])
    users = User.objects.get_queryset()
    everyone = list(
        users.order_by(
            f"{'-' if ordering[0] == '-' else ''}{ORDERINGS[ordering.lstrip('-')]}",
            f"{'-' if ordering[0] == '-' else ''}id",
        ).values_list("pk", flat=True)
    )
    forwards: list[uuid.UUID] = []
    cursor = None
    for _ in itertools.count():
        found = page(users, ordering=ordering, cursor=cursor, size=size)
        forwards.extend(row.id for row in found.rows)
        if found.next is None:
            break
        cursor = decode(found.next, ordering)
    assert forwards == everyone
    backwards = [row.id for row in found.rows]
    while found.previous is not None:
        found = page(users, ordering=ordering, cursor=decode(found.previous, ordering), size=size)
        backwards = [*(row.id for row in found.rows), *backwards]
    assert backwards == everyone


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-W01", "2026-01-01"])
def test_times_no_row_can_hold_are_refused(moment: str) -> None:
    """A time beyond the calendar once in UTC, or without a zone, is not one of our cursors."""
    with pytest.raises(ValidationFailed):
        decode(Cursor("-created_at", moment, uuid.uuid4(), False).encode(), "-created_at")
