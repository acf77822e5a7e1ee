"""What fixed queries write is made known to django-cachalot, which does not see them."""

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.db import transaction

from accounts.conftest import MakeUser
from accounts.staff.roles import units as role_units
from accounts.users.models import User

pytestmark = [pytest.mark.storage, pytest.mark.django_db(transaction=True)]


def test_a_role_created_by_a_fixed_query_is_listed(make_user: MakeUser) -> None:
    """A list of roles kept before is not believed any more: the admin shows the new one at once."""
    staff = make_user()
    User.objects.filter(pk=staff.pk).update(is_superuser=True)
    names = Group.objects.order_by("name").values_list("name", flat=True)
    for expected in (["a"], ["a", "b"]):
        with transaction.atomic():
            made = role_units.create_role(actor_id=staff.pk, name=expected[-1], permissions=["auth.add_group"])
        assert made.permissions == ("auth.add_group",)
        assert list(names.all()) == expected
        assert list(Group.objects.get(name=expected[-1]).permissions.values_list("codename", flat=True)) == [
            "add_group"
        ]
    if apps.is_installed("cachalot"):
        from cachalot.api import get_last_invalidation  # noqa: PLC0415 - with Redis only

        assert get_last_invalidation(Group) > 0
