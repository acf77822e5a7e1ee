"""Acts at the same moment, in threads with connections of their own: the rules hold for what is left in the end."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, transaction

from accounts.conftest import MakeUser
from accounts.organizations import changes, rules, units
from accounts.organizations.models import Membership
from accounts.organizations.tests.conftest import Acme, roles_in
from accounts.privacy import units as deletions
from ironauth.infrastructure.core.errors import DomainError

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
ROUNDS = 5


def at_once(*acts: Callable[[], Any]) -> list[str]:
    """Run units of work begun together; return what each came to."""
    ready = Barrier(len(acts))

    def run(act: Callable[[], Any]) -> str:
        try:
            ready.wait(timeout=30)
            with transaction.atomic():
                act()
        except DomainError as error:
            return error.code
        finally:
            connection.close()
        return "done"

    with ThreadPoolExecutor(len(acts)) as pool:
        return sorted(pool.map(run, acts))


@pytest.fixture
def two_owners(make_acme: Callable[..., Acme]) -> Callable[[], Acme]:
    """Give a maker of organisations whose admin is an owner too."""

    def make() -> Acme:
        acme = make_acme()
        Membership.objects.filter(user=acme.admin).update(role="owner")
        return acme

    return make


def _leave(acme: Acme, user: Any) -> None:
    units.leave(user_id=user.pk, organization_id=acme.id)


def _step_down(acme: Acme, user: Any) -> None:
    units.set_role(actor_id=user.pk, organization_id=acme.id, user_id=user.pk, role="member")


def _delete_account(acme: Acme, user: Any) -> None:
    deletions.request(user_id=user.pk, old=user.password, session_id=None)


@pytest.mark.parametrize("first", [_leave, _step_down, _delete_account])
@pytest.mark.parametrize("second", [_leave, _step_down, _delete_account])
def test_of_two_owners_who_go_at_once_one_stays(two_owners: Callable[[], Acme], first: Any, second: Any) -> None:
    """Whichever way each of them goes."""
    acme = two_owners()
    outcomes = at_once(partial(first, acme, acme.owner), partial(second, acme, acme.admin))
    assert outcomes in (["done", "last_owner"], ["done", "sole_owner"])
    active = Membership.objects.filter(organization_id=acme.id, role="owner", user__is_active=True)
    assert active.count() == 1


def test_of_two_owners_who_remove_each_other_one_stays(two_owners: Callable[[], Acme]) -> None:
    """Who comes second is no member any more, and to them there is no organisation."""
    acme = two_owners()
    remove = partial(units.remove_member, organization_id=acme.id)
    outcomes = at_once(
        partial(remove, actor_id=acme.owner.pk, user_id=acme.admin.pk),
        partial(remove, actor_id=acme.admin.pk, user_id=acme.owner.pk),
    )
    assert outcomes == ["done", "not_found"]
    assert sorted(roles_in(acme.id).values()) == ["member", "owner"]


def test_nobody_makes_more_than_allowed(make_user: MakeUser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four at once, where one is left."""
    monkeypatch.setattr(rules, "MOST_OWNED", 1)
    user = make_user()
    make = partial(units.create_organization, user_id=user.pk, name="Acme")
    assert at_once(*[make] * 4) == ["done", *["too_many_organizations"] * 3]
    assert len(units.memberships_of(user.pk)) == 1


def test_nobody_joins_more_than_there_is_room_for(
    acme: Acme, make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four at once, where one place is left."""
    monkeypatch.setattr(rules, "MOST_MEMBERS", 4)
    people = [make_user() for _ in range(4)]
    join = [partial(changes.join, user_id=one.pk, organization_id=acme.id, role="member") for one in people]
    assert at_once(*join) == ["done", *["too_many_members"] * 3]
    assert len(roles_in(acme.id)) == 4


def test_who_joins_while_the_organization_goes(acme: Acme, make_user: MakeUser) -> None:
    """Is a member of nothing in either order, and nothing is left of it."""
    user = make_user()
    outcomes = at_once(
        partial(units.delete_organization, actor_id=acme.owner.pk, organization_id=acme.id),
        partial(changes.join, user_id=user.pk, organization_id=acme.id, role="member"),
    )
    assert outcomes in (["done", "done"], ["done", "not_found"])
    assert not Membership.objects.exists()
