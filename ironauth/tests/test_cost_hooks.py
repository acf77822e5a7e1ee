"""What makes the suite cheaper, and where it must not: connections, static files, and cases on Postgres."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.db import connection
from django.test import TransactionTestCase

from ironauth.tests.cost_hooks import _listed_once, is_connection_spent, pytest_collection_modifyitems

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


@pytest.mark.parametrize("case", range(4))
def test_of_many_cases_two_run_on_postgres(
    case: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and the last as written, in whatever order they come; where no whole suite runs, all of them."""
    test = request.node.nodeid.partition("[")[0]
    siblings = [item for item in request.session.items if item.nodeid.partition("[")[0] == test]
    dropped: list[pytest.Item] = []

    def told(*, items: list[pytest.Item]) -> None:
        dropped.extend(items)

    hooks = SimpleNamespace(pytest_deselected=told)
    config = cast("pytest.Config", SimpleNamespace(hook=hooks))
    written = sorted(siblings, key=lambda item: item.name)
    for order in (written, written[::-1], written[1:] + written[:1]):
        monkeypatch.setenv("IRONAUTH_TEST_CASES", "few")
        pytest_collection_modifyitems(config, kept := list(order))
        assert {item.name for item in kept} == {written[0].name, written[-1].name}
        monkeypatch.delenv("IRONAUTH_TEST_CASES")
        pytest_collection_modifyitems(config, kept := list(order))
        assert kept == order
    assert set(dropped) == set(written[1:-1])
