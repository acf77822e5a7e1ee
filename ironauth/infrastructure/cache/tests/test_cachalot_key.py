"""Which queries django-cachalot may keep."""

import pytest
from cachalot.utils import UncachableQuery
from django.contrib.auth.models import Group
from django.db import connection
from django.db.models.sql import Query

from accounts.users.models import User
from ironauth.infrastructure.cache.query_cache import query_key
from ironauth.infrastructure.db.unit_of_work import database


def test_a_rarely_written_table_has_a_key_in_the_admin_lane() -> None:
    """Groups may be kept, and two different questions have two keys."""
    keys = {query_key(Group.objects.filter(name=name).query.get_compiler(connection=connection)) for name in "ab"}
    assert len(keys) == 2


def test_people_are_never_kept() -> None:
    """A decision depends on a user's row: it is asked for each time."""
    with pytest.raises(UncachableQuery):
        query_key(User.objects.all().query.get_compiler(connection=connection))


def test_a_query_without_a_model_is_not_kept() -> None:
    """Django checks constraints by a query of no table."""
    with pytest.raises(UncachableQuery):
        query_key(Query(None).get_compiler(connection=connection))


@pytest.mark.django_db(transaction=True)
async def test_a_unit_of_work_asks_the_database() -> None:
    """On a thread of the pool not even groups are looked up in Redis."""

    def unit() -> None:
        query_key(Group.objects.all().query.get_compiler(connection=connection))

    with pytest.raises(UncachableQuery):
        await database().read(unit)
