"""Where addresses must be verified, the admin's sign-in asks it too; nobody who was let in before is locked out."""

import re
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD, MakeUser
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.hashing.pool import hash_pool

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

REMEDY = "/account/verify-again"


def sign_in(email: str, password: str = PASSWORD) -> Any:
    """Fill in the admin's form in a new browser."""
    return Client().post(reverse("admin:login"), {"username": email, "password": password, "next": "/admin/"})


@pytest.mark.parametrize(
    ("mode", "verified", "enters"),
    [("required", False, False), ("required", True, True), ("optional", False, True), ("off", False, True)],
)
def test_an_unverified_address_opens_nothing_where_it_is_required(
    make_user: MakeUser, settings: Settings, mode: str, verified: bool, enters: bool
) -> None:
    """The right password is a wrong one, on the page and in the trail."""
    settings.IRONAUTH_EMAIL_VERIFICATION = mode
    make_user(email="mia@example.com", is_staff=True, email_verified_at=clock.now() if verified else None)
    answer = sign_in("mia@example.com")
    assert answer.status_code == (302 if enters else 200)
    trail = AuditEvent.objects.filter(event="admin_sign_in").values_list("outcome", "details")
    if enters:
        assert list(trail) == [("success", {})]
        return
    assert answer.context["form"].non_field_errors()[0].startswith("Please enter the correct e-mail address")
    assert list(trail) == [("failure", {})]


@pytest.mark.parametrize("password", ["not the password at all", PASSWORD])
@pytest.mark.parametrize("is_staff", [True, False])
def test_nobody_hears_of_it(make_user: MakeUser, settings: Settings, password: str, is_staff: bool) -> None:
    """Everybody, with any password, gets the page of an unknown address, and every page has the remedy."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    make_user(email="mia@example.com", is_staff=is_staff)
    pages = [sign_in(email, password).content.decode() for email in ("mia@example.com", "nobody@example.com")]
    mia, nobody = (re.sub(r'name="csrfmiddlewaretoken" value="\w+"|nonce="[^"]+"', "", page) for page in pages)
    assert mia.replace("mia@", "nobody@") == nobody
    assert REMEDY in nobody


def test_the_remedy_is_offered_where_it_is_one(settings: Settings) -> None:
    """Where nobody has to confirm an address, no page of the admin speaks of it."""
    for mode, offered in (("required", True), ("optional", False), ("off", False)):
        settings.IRONAUTH_EMAIL_VERIFICATION = mode
        assert (REMEDY in Client().get(reverse("admin:login")).content.decode()) == offered


@pytest.mark.parametrize(
    ("fields", "upgraded"),
    [({"email_verified_at": datetime(2026, 1, 1, tzinfo=UTC)}, True), ({}, False), ({"is_active": False}, False)],
)
def test_only_an_account_that_opens_gets_a_new_hash(
    make_user: MakeUser, settings: Settings, fields: dict[str, Any], upgraded: bool
) -> None:
    """A hash takes as long as a sign-in: by one more, a right password that opens nothing could be told."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    user = make_user(email="mia@example.com", is_staff=True, **fields)
    settings.IRONAUTH_ARGON2_TIME_COST += 1
    jobs, old = hash_pool().stats().completed, user.password
    sign_in("mia@example.com")
    user.refresh_from_db()
    assert (user.password != old) == upgraded
    assert hash_pool().stats().completed == jobs + (2 if upgraded else 1)


def test_who_runs_the_server_is_believed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A superuser made by the command enters at once."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    call_command("createsuperuser", interactive=False, email="root@example.com", verbosity=0)
    assert sign_in("root@example.com").status_code == 302


def test_an_upgrade_locks_nobody_out(make_user: MakeUser, settings: Settings) -> None:
    """Who may open the admin when the release comes is verified by it, everybody else stays as they are."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    before = clock.now()
    people = {
        "staff": make_user(email="staff@example.com", is_staff=True),
        "root": make_user(email="root@example.com", is_staff=True, is_superuser=True),
        "known": make_user(email="known@example.com", is_staff=True, email_verified_at=before),
        "member": make_user(email="member@example.com"),
    }
    migration = import_module("accounts.migrations.0009_staff_verified")
    with connection.schema_editor() as editor:
        migration.verify(apps, editor)
    for user in people.values():
        user.refresh_from_db()
    assert people["member"].email_verified_at is None
    assert people["known"].email_verified_at == before
    assert [sign_in(people[name].email).status_code for name in ("staff", "root")] == [302, 302]
