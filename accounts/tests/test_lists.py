"""The query of a list that is read in pages."""

import uuid
from types import MappingProxyType
from typing import Any

import pytest
from rest_framework import serializers

from accounts.lists import MAX_PAGE_SIZE, ListInput, SearchField
from ironauth.infrastructure.api.paging import Cursor


class OneOrder(ListInput):
    places = MappingProxyType({"": "things -created_at"})

    search = SearchField(most=5, help_text="A part of the name.")


class TwoOrders(ListInput):
    places = MappingProxyType({"name": "things name", "-name": "things -name"})

    ordering = serializers.ChoiceField(required=False, choices=("name", "-name"), default="name")


def codes(form: type[ListInput], **query: str) -> dict[str, Any]:
    """Return the codes of what is wrong with a query, by field."""
    judged = form(data=query)
    judged.is_valid()
    return {field: [error.code for error in errors] for field, errors in judged.errors.items()}


def cursor(place: str) -> str:
    return Cursor(place, "", uuid.UUID(int=1), False).encode()


@pytest.mark.parametrize(
    ("text", "code"), [("12345", None), ("123456", "search_too_long"), ("1\n2", "search_character"), ("", None)]
)
def test_a_search_is_short_and_has_no_control_characters(text: str, code: str | None) -> None:
    """A search is at most as long as the text it is compared with, and has no control characters."""
    assert codes(OneOrder, search=text) == ({"search": [code]} if code else {})


@pytest.mark.parametrize(("size", "good"), [(0, False), (1, True), (MAX_PAGE_SIZE, True), (MAX_PAGE_SIZE + 1, False)])
def test_a_page_has_one_row_to_two_hundred(size: int, good: bool) -> None:
    """A page has 1 to 200 rows."""
    assert (codes(OneOrder, page_size=str(size)) == {}) is good


def test_a_list_takes_its_own_cursor_alone() -> None:
    """A list takes its own cursors and refuses those of other lists, and text that is too long."""
    assert codes(OneOrder, cursor=cursor("things -created_at")) == {}
    assert codes(OneOrder, cursor=cursor("others -created_at")) == {"cursor": ["invalid_cursor"]}
    assert codes(OneOrder, cursor="A" * 4000) == {"cursor": ["invalid_cursor"]}


def test_a_cursor_belongs_to_the_order_that_is_asked_for() -> None:
    """A cursor belongs to the order that is asked for, or to the default one."""
    assert codes(TwoOrders, cursor=cursor("things name")) == {}
    assert codes(TwoOrders, cursor=cursor("things -name"), ordering="-name") == {}
    assert codes(TwoOrders, cursor=cursor("things -name")) == {"cursor": ["invalid_cursor"]}


def test_an_unknown_order_is_reported_alone() -> None:
    """An unknown order is reported by itself where the cursor is one of the list."""
    assert codes(TwoOrders, cursor=cursor("things name"), ordering="age") == {"ordering": ["invalid_choice"]}
