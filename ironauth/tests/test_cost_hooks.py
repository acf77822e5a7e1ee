"""What makes the suite cheaper, and where it must not: connections between tests, and the static files' list."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.db import connection
from django.test import TransactionTestCase

from ironauth.tests.cost_hooks import _listed_once, is_connection_spent

ANY = cast("TransactionTestCase", None)


@pytest.mark.storage
@pytest.mark.django_db(transaction=True)
def test_a_connection_goes_on_unless_a_test_has_left_something_in_it() -> None:
    """After plain statements it does; with an open transaction, or after an error, the next test gets another."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert not is_connection_spent(ANY)
    connection.set_autocommit(False)
    assert is_connection_spent(ANY)
    connection.rollback()
    connection.set_autocommit(True)
    assert not is_connection_spent(ANY)
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
    assert is_connection_spent(ANY)
    with connection.cursor() as cursor:
        cursor.execute("ROLLBACK")
    assert not is_connection_spent(ANY)
    connection.errors_occurred = True
    assert is_connection_spent(ANY)


def test_static_files_are_listed_once_for_the_same_settings() -> None:
    """Another prefix asks again, and what one instance changes in its list is not in the next one's."""
    asked: list[str] = []

    def read(one: Any) -> None:
        asked.append(one.static_prefix)
        one.files = {f"{one.static_prefix}a.css": "file"}

    listed = _listed_once(read)
    instances = [
        SimpleNamespace(static_prefix=prefix, max_age=60, autorefresh=False, files={})
        for prefix in ("/static/", "/static/", "/other/")
    ]
    for one in instances:
        listed(one)
        assert one.files == {f"{one.static_prefix}a.css": "file"}
        one.files.clear()
    assert asked == ["/static/", "/other/"]
