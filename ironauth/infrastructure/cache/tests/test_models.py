"""The table of invalidations and its purge."""

from datetime import timedelta

import pytest
from django.core.management import call_command

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.models import Invalidation, purge

pytestmark = [pytest.mark.django_db, pytest.mark.storage]


def rows(*ages_s: float) -> list[Invalidation]:
    """Write one row of each age, oldest first."""
    return [Invalidation.objects.create(tag="t", created_at=clock.now() - timedelta(seconds=age)) for age in ages_s]


def test_only_what_is_old_goes() -> None:
    """Rows younger than the limit stay."""
    kept = rows(4000, 3601, 3500, 10)[2:]
    assert purge() == 2
    assert list(Invalidation.objects.order_by("id")) == kept
    assert purge() == 0


def test_the_newest_row_always_stays() -> None:
    """However old: running feeds recognise the table by the last row they read."""
    newest = rows(9000, 8000)[-1]
    assert purge() == 1
    assert list(Invalidation.objects.all()) == [newest]
    Invalidation.objects.all().delete()
    assert purge() == 0


def test_one_call_deletes_one_batch() -> None:
    """A backlog is deleted in bounded transactions."""
    rows(*([9000] * 7))
    assert [purge(batch=3), purge(batch=3), purge(batch=3)] == [3, 3, 0]


def test_the_migration_is_complete() -> None:
    """The model and its migrations agree."""
    call_command("makemigrations", "infrastructure", check=True, dry_run=True, verbosity=0)
