"""The user row: what stays true whatever writes it."""

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.db.models import F
from pytest_django import DjangoAssertNumQueries, Settings

from accounts.conftest import PASSWORD, MakeUser
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.hashing.pool import hash_pool

pytestmark = [pytest.mark.django_db, pytest.mark.storage]


def _deactivate_by_save(user: User) -> None:
    user.is_active = False
    user.save()


def _deactivate_one_field(user: User) -> None:
    user.is_active = False
    user.save(update_fields=["is_active"])


def _deactivate_bulk(user: User) -> None:
    user.is_active = False
    User.objects.bulk_update([user], ["is_active"])


def _deactivate_partly_loaded(user: User) -> None:
    partial = User.objects.only("is_active").get(pk=user.pk)
    partial.is_active = False
    partial.save()


def _set_password(user: User) -> None:
    user.set_password("another otter rides 7 trams")
    user.save()


def _take_password(user: User) -> None:
    user.set_unusable_password()
    user.save()


ENDS_SESSIONS: dict[str, Callable[[User], Any]] = {
    "save": _deactivate_by_save,
    "update_fields": _deactivate_one_field,
    "queryset": lambda user: User.objects.filter(pk=user.pk).update(is_active=False),
    "bulk_update": _deactivate_bulk,
    "update_or_create": lambda user: User.objects.update_or_create(pk=user.pk, defaults={"is_active": False}),
    "deferred": _deactivate_partly_loaded,
    "set_password": _set_password,
    "password by queryset": lambda user: User.objects.filter(pk=user.pk).update(password=make_password("x" * 20)),
    "unusable": _take_password,
}


@pytest.mark.each_case
@pytest.mark.parametrize("route", ENDS_SESSIONS.values(), ids=ENDS_SESSIONS.keys())
def test_deactivation_and_new_password_raise_the_epoch_by_any_route(
    route: Callable[[User], Any], make_user: MakeUser
) -> None:
    """Every way to deactivate a user or to change a password ends every session."""
    user = make_user()
    route(User.objects.get(pk=user.pk))
    assert User.objects.get(pk=user.pk).session_epoch == 1


def test_other_changes_leave_the_epoch_alone(make_user: MakeUser) -> None:
    """A new name, a new address, activation, a login and an upgraded hash end no session."""
    user = make_user(is_active=False)
    user.name, user.email, user.is_active, user.last_login = "New", "new@example.com", True, clock.now()
    user.save()
    user.save(update_fields=["last_login"])
    assert User.objects.get_queryset().upgrade_hash(user.pk, user.password, make_password(PASSWORD))
    assert User.objects.get(pk=user.pk).session_epoch == 0


def test_epoch_never_goes_down(make_user: MakeUser) -> None:
    """Saving an instance that was read before the sessions were ended must not revive them."""
    user = make_user()
    stale = User.objects.get(pk=user.pk)
    User.objects.filter(pk=user.pk).update(session_epoch=F("session_epoch") + 5)
    stale.name = "stale"
    stale.save()
    assert User.objects.get(pk=user.pk).session_epoch == 5
    stale.session_epoch = 2
    stale.save(update_fields=["session_epoch"])
    assert User.objects.get(pk=user.pk).session_epoch == 5


def test_stale_instance_that_restores_an_old_password_ends_sessions(make_user: MakeUser) -> None:
    """The stored row decides what is a change, not what the instance was loaded with."""
    user = make_user()
    stale = User.objects.get(pk=user.pk)
    _set_password(user)
    stale.save()
    assert User.objects.get(pk=user.pk).session_epoch == 2


def test_epoch_can_be_raised_by_an_expression(make_user: MakeUser) -> None:
    """``F("session_epoch") + 1`` works as with any Django model."""
    user = make_user()
    user.session_epoch = F("session_epoch") + 1
    user.save(update_fields=["session_epoch"])
    assert User.objects.get(pk=user.pk).session_epoch == 1


def test_folded_address_follows_the_address_by_any_route(make_user: MakeUser) -> None:
    """However the address is written, the row is found by any case of it."""
    user = make_user(email="First@Example.com")
    assert user.email == "First@Example.com"
    user.email = "Second@Example.com"
    user.save(update_fields=["email"])
    assert User.objects.get_by_natural_key("second@EXAMPLE.com") == user
    User.objects.filter(pk=user.pk).update(email="Third@Example.com")
    assert User.objects.get_by_natural_key("THIRD@example.com") == user
    (fourth,) = User.objects.bulk_create([User(email=" Fourth@Example.com ", password="!")])
    assert User.objects.get_by_natural_key("fourth@example.com") == fourth


def test_address_is_unique_whatever_its_case(make_user: MakeUser) -> None:
    """A second account under another case of the same address is refused by the database itself."""
    make_user(email="same@example.com")
    with pytest.raises(IntegrityError), transaction.atomic():
        make_user(email="SAME@example.com")
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.bulk_create([User(email="Same@Example.com", password="!")])


@pytest.mark.parametrize("email", ["", "no-address", "a\x00@example.com", "\u212aate@example.com"])
def test_create_user_refuses_bad_addresses(email: str) -> None:
    """Code that makes users by the manager is held to the same rules as the API."""
    with pytest.raises(ValidationError):
        User.objects.create_user(email=email, password=PASSWORD)


@pytest.mark.each_case
@pytest.mark.parametrize(
    "login", ["\u212aate@example.com", "kate@example.com\x00", "", "\ud800@example.com", "k" * 5000]
)
def test_look_up_by_odd_logins_finds_nobody_and_never_fails(login: str, make_user: MakeUser) -> None:
    """Look-alikes, NUL and lone surrogates are simply unknown."""
    make_user(email="kate@example.com")
    with pytest.raises(User.DoesNotExist):
        User.objects.get_by_natural_key(login)


def test_new_address_is_not_verified_yet(make_user: MakeUser) -> None:
    """Changing the address clears its verification; another case of it, or a verification set at once, stays."""
    user = make_user(email="mia@example.com", email_verified_at=clock.now())
    user.email = "MIA@example.com"
    user.save()
    assert user.email_verified_at is not None
    user.email = "other@example.com"
    user.save(update_fields=["email"])
    assert User.objects.get(pk=user.pk).email_verified_at is None


def test_updated_at_moves_with_visible_changes_only(make_user: MakeUser) -> None:
    """``updated_at`` says when the account changed, not when the person last came by."""
    user = make_user()
    before = user.updated_at
    user.last_login = clock.now()
    user.save(update_fields=["last_login"])
    user.refresh_from_db()
    assert user.updated_at == before
    with clock.shifted(60):
        User.objects.filter(pk=user.pk).update(name="New")
    user.refresh_from_db()
    assert (user.updated_at - before).total_seconds() >= 60


def test_save_costs_one_more_query_only_when_a_guarded_field_may_change(
    make_user: MakeUser, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """A login writes one row; a change of the password does what its comment says."""
    user = make_user()
    with django_assert_num_queries(1):  # the update, without a savepoint around it
        user.save(update_fields=["last_login"])
    user.set_password("another otter rides 7 trams")
    # As above, the stored row, kept devices, SSO sessions of which clients hear, e-mail tokens, the invalidation.
    with django_assert_num_queries(6):
        user.save(update_fields=["password"])


def test_django_authenticates_by_any_case_and_not_when_inactive(make_user: MakeUser) -> None:
    """Django's own backend, which the admin uses, works with the folded address."""
    user = make_user(email="Mia@Example.com")
    assert authenticate(username="mia@example.COM", password=PASSWORD) == user
    assert authenticate(username="mia@example.com", password="wrong") is None
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert authenticate(username="mia@example.com", password=PASSWORD) is None


@pytest.mark.parametrize("kind", ["unknown", "wrong", "inactive", "unusable"])
def test_djangos_backend_hashes_once_for_every_refusal(kind: str, make_user: MakeUser) -> None:
    """The admin's login tells unknown, wrong, inactive and unusable apart by nothing."""
    user = make_user(is_active=kind != "inactive")
    if kind == "unusable":
        user.set_unusable_password()
        user.save()
    jobs = hash_pool().stats().completed
    email = "nobody@example.com" if kind == "unknown" else user.email
    assert authenticate(username=email, password="wrong" if kind == "wrong" else PASSWORD) is None or kind == "wrong"
    assert hash_pool().stats().completed == jobs + 1


def test_outdated_hash_is_upgraded_by_djangos_check(make_user: MakeUser, settings: Settings) -> None:
    """A login through Django upgrades the hash; no session ends, and the second check is at the new cost."""
    user = make_user()
    settings.IRONAUTH_ARGON2_TIME_COST = 2
    assert not user.check_password("wrong")
    assert "t=1" in User.objects.get(pk=user.pk).password
    assert user.check_password(PASSWORD)
    stored = User.objects.get(pk=user.pk)
    assert "t=2" in stored.password
    assert stored.password == user.password
    assert stored.session_epoch == 0


def test_admin_session_is_bound_to_password_and_epoch(make_user: MakeUser) -> None:
    """Ending all sessions, or a new password, ends Django's own sessions as well."""
    user = make_user()
    first = user.get_session_auth_hash()
    user.session_epoch += 1
    second = user.get_session_auth_hash()
    user.password = "another"
    assert len({first, second, user.get_session_auth_hash()}) == 3


def test_createsuperuser_works_and_applies_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django's command makes a superuser through the pool, and refuses a bad or taken address."""
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    call_command("createsuperuser", email="Root@Example.com", interactive=False, verbosity=0)
    root = User.objects.get_by_natural_key("root@example.com")
    assert root.is_superuser
    assert root.is_staff
    with pytest.raises(CommandError):
        call_command("createsuperuser", email="ROOT@example.com", interactive=False, verbosity=0, stderr=StringIO())
    with pytest.raises(CommandError):
        call_command("createsuperuser", email="no-address", interactive=False, verbosity=0, stderr=StringIO())
