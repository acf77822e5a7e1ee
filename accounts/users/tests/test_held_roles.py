"""The roles of many people: everybody's own, whatever number of them is asked for."""

import uuid

import pytest
from django.contrib.auth.models import Group

from accounts.conftest import MakeUser
from accounts.staff import units as staff_units

pytestmark = [pytest.mark.storage, pytest.mark.django_db, pytest.mark.live]


@pytest.mark.parametrize("others", [0, 8, 9, 199, 401])
def test_everybody_has_their_own(make_user: MakeUser, others: int) -> None:
    """On both sides of the numbers of parameters there are; who has none, or does not exist, has none."""
    first, last = make_user(), make_user()
    for name, holders in (("a", [first, last]), ("b", [last])):
        for holder in holders:
            holder.groups.add(Group.objects.get_or_create(name=name)[0])
    ids = [first.pk, *(uuid.uuid4() for _ in range(others)), last.pk]
    names = staff_units.roles_of(ids)
    assert list(names) == ids
    assert {key: sorted(held) for key, held in names.items() if held} == {first.pk: ["a"], last.pk: ["a", "b"]}


def test_nobody_is_not_asked_about() -> None:
    """No ids, no names."""
    assert staff_units.roles_of([]) == {}
