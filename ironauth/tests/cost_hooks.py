"""What makes thousands of tests cheaper: a plugin of the root conftest. No test needs to know of it."""

import gc
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TransactionTestCase
from psycopg.pq import TransactionStatus

#: Whether tests leave out none of their cases, as before a release: docs/security/tests.md.
ALL_CASES: Final = os.environ.get("IRONAUTH_TEST_CASES") == "all"

_patch = pytest.MonkeyPatch()


def pytest_configure(config: pytest.Config) -> None:
    """Keep connections from test to test, and list static files once."""
    config.addinivalue_line("markers", "each_case: every case is another SQL statement; all run on Postgres too")
    _patch.setattr(TransactionTestCase, "_should_reload_connections", is_connection_spent)
    static_files = import_module("whitenoise.middleware").WhiteNoiseMiddleware
    _patch.setattr(static_files, "add_files_from_finders", _listed_once(static_files.add_files_from_finders))


def pytest_unconfigure() -> None:
    """Let both be as they are."""
    _patch.undo()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out, on Postgres, what has no test of the storage: importing it takes longer than the others' set-up."""
    of_storage = str(config.getoption("markexpr")).split()[:1] == ["storage"]
    if of_storage and collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        return "storage" not in collection_path.read_text(encoding="utf-8") or None
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the first and the last case of each parametrised test, where the whole suite runs on Postgres (.ci/test).

    They show that the statements work there. Every case runs on SQLite, and those of ``each_case`` on both.
    """
    if os.environ.get("IRONAUTH_TEST_CASES") != "few":
        return
    cases: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and not item.get_closest_marker("each_case"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for of_test in cases.values():  # as written: by now they may be shuffled
        of_test.sort(key=lambda item: tuple(item.callspec.indices.values()))
    between = {item for of_test in cases.values() for item in of_test[1:-1]}
    config.hook.pytest_deselected(items=list(between))
    items[:] = [item for item in items if item not in between]


def pytest_collection_finish() -> None:
    """Let the garbage collector look no more at the modules and the tests: each time takes a second for thousands."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


def is_connection_spent(_case: TransactionTestCase) -> bool:
    """Tell whether the next test needs another connection: making one takes 2 ms, on Postgres a process too.

    Django makes one after each test. Here one goes on unless a test has left it in a transaction, or with an error.
    """
    return not all(one.connection is None or _is_as_new(one) for one in connections.all(initialized_only=True))


def _is_as_new(one: BaseDatabaseWrapper) -> bool:
    if one.in_atomic_block or one.needs_rollback or one.errors_occurred or not one.get_autocommit():
        return False
    if one.vendor == "sqlite":
        return not one.connection.in_transaction
    return bool(one.connection.info.transaction_status == TransactionStatus.IDLE)


def _listed_once(read: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return what lists WhiteNoise's files by ``read``, once for the same settings: each test client asks for them."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}

    def add(self: Any) -> None:
        key = (self.static_prefix, self.max_age, self.autorefresh, *self.files, *map(str, settings.STATICFILES_DIRS))
        if key not in found:
            read(self)
            found[key] = self.files
        self.files = dict(found[key])

    return add
