"""What tests of organisations share: an organisation with one member of each role, and what its members do."""

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from django.db import transaction

from accounts.conftest import MakeUser
from accounts.organizations import units
from accounts.organizations.models import Membership
from accounts.organizations.signals import membership_changed
from accounts.users.models import User
from ironauth.infrastructure.core import clock

INVITED = "Ida@Example.com"


class Acme(NamedTuple):
    """An organisation, and its members by their roles."""

    id: uuid.UUID
    owner: User
    admin: User
    member: User


@pytest.fixture
def make_acme(make_user: MakeUser) -> Callable[..., Acme]:
    """Give a maker of organisations with one member of each role, whose addresses are proved."""

    def make(name: str = "Acme") -> Acme:
        people = [make_user(email_verified_at=clock.now()) for _ in range(3)]
        with transaction.atomic():
            made = units.create_organization(user_id=people[0].pk, name=name)
        for person, role in zip(people[1:], ("admin", "member"), strict=True):
            Membership.objects.create(organization_id=made.organization_id, user=person, role=role)
        return Acme(made.organization_id, *people)

    return make


@pytest.fixture
def acme(make_acme: Callable[..., Acme]) -> Acme:
    """Return one of them."""
    return make_acme()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Collect what other applications hear of memberships: (organisation, people, role)."""
    heard: list[tuple[uuid.UUID, list[uuid.UUID], str | None]] = []

    def hear(organization_id: uuid.UUID, user_ids: list[uuid.UUID], role: str | None, **_: object) -> None:
        heard.append((organization_id, sorted(user_ids), role))

    membership_changed.connect(hear)
    yield heard
    membership_changed.disconnect(hear)


def roles_in(organization_id: uuid.UUID) -> dict[uuid.UUID, str]:
    """Return who is a member, and as what."""
    return dict(Membership.objects.filter(organization_id=organization_id).values_list("user_id", "role"))
