"""What units of work write by fixed queries is what ``User.save`` and ``groups`` would have written."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

from accounts.users import queries as user_queries
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotAuthenticated
from ironauth.infrastructure.models import Invalidation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

#: Columns in which two people differ, whatever wrote them.
OWN = {"id", "email", "email_key", "created_at", "updated_at"}


def person(email: str) -> User:
    """Return an unsaved person whose address has been verified."""
    return User.objects.hashed(email=email, encoded="!1", name=" Ada  B ", email_verified_at=clock.now())


def stored(user: User) -> dict[str, Any]:
    """Return the row of ``user``, without what is its own."""
    row: Any = User.objects.filter(pk=user.pk).values().get()
    return {column: value for column, value in row.items() if column not in OWN | {"email_verified_at"}} | {
        "verified": row["email_verified_at"] is not None,
        "folded": row["email_key"] == row["email"].casefold(),
        "touched": row["updated_at"] > row["created_at"],
    }


def told(act: Callable[[], object]) -> int:
    """Run ``act`` in a transaction and return how many invalidations it wrote."""
    before = Invalidation.objects.count()
    with transaction.atomic():
        act()
    return Invalidation.objects.count() - before


def test_adding_is_saving() -> None:
    """Every column is as ``save`` would have it, nobody is told, and a taken address is an error."""
    added, saved = person("Added@Example.COM"), person("Saved@Example.COM")
    assert told(lambda: user_queries.add(added)) == 0
    saved.save()
    assert stored(added) | {"touched": None} == stored(saved) | {"touched": None}
    assert User.objects.get_by_natural_key("ADDED@example.com") == added
    with pytest.raises(IntegrityError), transaction.atomic():
        user_queries.add(person("added@example.com"))


@pytest.mark.parametrize(
    ("change", "ends_sessions"),
    [
        ({"name": "Åse"}, False),
        ({"is_staff": True}, False),
        ({"email": "Other@{}.example"}, False),
        ({"password": "!2"}, True),
        ({"is_active": False}, True),
        ({"is_active": False, "name": "Gone", "email": "x@{}.example"}, True),
    ],
)
def test_changing_is_saving(change: dict[str, Any], ends_sessions: bool) -> None:
    """The folded address, the verification, the session epoch and the invalidation follow a change by either route."""
    people = {by: person(f"{by}@example.com") for by in ("unit", "save")}
    for by, user in people.items():
        user.save()
        for name, value in change.items():
            setattr(user, name, value.format(by) if isinstance(value, str) else value)
    assert told(lambda: user_queries.change(people["unit"], change)) == 1
    assert told(lambda: people["save"].save(update_fields=list(change))) == 1
    assert stored(people["unit"]) == stored(people["save"])
    assert User.objects.get(pk=people["unit"].pk).session_epoch == int(ends_sessions)


def test_roles_and_epochs() -> None:
    """Giving and taking a role, twice each, and ending sessions: told only when something changed."""
    user, role = person("a@example.com"), Group.objects.create(name="support")
    user.save()
    assert [told(lambda: user_queries.give_role(user.pk, role.pk)) for _ in range(2)] == [1, 0]
    assert list(user.groups.all()) == [role]
    assert [told(lambda: user_queries.take_role(user.pk, role.pk)) for _ in range(2)] == [1, 0]
    assert not user.groups.exists()
    assert told(lambda: user_queries.end_sessions(user.pk)) == 1
    User.objects.filter(pk=user.pk).update(is_active=False)  # ends them too
    with pytest.raises(NotAuthenticated), transaction.atomic():
        user_queries.end_sessions(user.pk, if_active=True)
    assert told(lambda: user_queries.end_sessions(user.pk)) == 1
    user.refresh_from_db()
    assert user.session_epoch == 3
