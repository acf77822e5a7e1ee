"""A transaction that cannot begin leaves nothing behind in django-cachalot."""

from typing import NoReturn

import pytest
from cachalot import monkey_patch
from cachalot.cache import cachalot_caches
from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, transaction
from django.db.transaction import Atomic

from ironauth.infrastructure.cache.query_cache import close_levels_of_failed_transactions


def levels() -> int:
    """Return how many transactions django-cachalot believes this thread to be in."""
    return len(cachalot_caches.atomic_caches[DEFAULT_DB_ALIAS])


@pytest.fixture
def _patched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrap transactions as with Redis, unless it is there."""
    if not apps.is_installed("cachalot"):
        for name in ("__enter__", "__exit__"):
            monkeypatch.setattr(Atomic, name, getattr(Atomic, name))
        close_levels_of_failed_transactions()
        monkey_patch._patch_atomic()


@pytest.mark.storage
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_patched")
def test_a_transaction_that_cannot_begin_leaves_no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the outermost nor one inside, however often; and those that begin have theirs."""

    def refuse(*_args: object, **_kwargs: object) -> NoReturn:
        raise OperationalError("database is locked")

    for _ in range(2):
        with monkeypatch.context() as locked:
            locked.setattr(connection, "set_autocommit", refuse)
            with pytest.raises(OperationalError), transaction.atomic():
                pytest.fail("It began.")
        assert levels() == 0
    with transaction.atomic():
        assert levels() == 1
        with monkeypatch.context() as locked:
            locked.setattr(connection, "savepoint", refuse)
            with pytest.raises(OperationalError), transaction.atomic():
                pytest.fail("It began.")
        assert levels() == 1
    assert levels() == 0
