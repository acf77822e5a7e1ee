"""Where addresses must be verified, the admin's sign-in asks it too; nobody who was let in before is locked out."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts import audit
from accounts.audit_models import AuditEvent
from accounts.tests.conftest import PASSWORD, MakeUser
from ironauth.infrastructure import clock

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
    """The right password gets the reason and the remedy, and is in the trail as refused."""
    settings.IRONAUTH_EMAIL_VERIFICATION = mode
    make_user(email="mia@example.com", is_staff=True, email_verified_at=clock.now() if verified else None)
    answer = sign_in("mia@example.com")
    assert answer.status_code == (302 if enters else 200)
    trail = AuditEvent.objects.filter(event="admin_sign_in").values_list("outcome", "details")
    if enters:
        assert list(trail) == [("success", {})]
        return
    assert answer.context["form"].non_field_errors()[0].startswith("Confirm your e-mail address first")
    assert REMEDY in answer.content.decode()
    assert list(trail) == [("refused", {"reason": "email_not_verified"})]


@pytest.mark.parametrize("password", ["not the password at all", PASSWORD])
def test_only_the_right_password_of_staff_hears_of_it(make_user: MakeUser, settings: Settings, password: str) -> None:
    """Strangers, and people who are no staff, learn what they would learn of an unknown address."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    make_user(email="mia@example.com", is_staff=password != PASSWORD)
    pages = [sign_in(email, password) for email in ("mia@example.com", "nobody@example.com")]
    assert audit.wait_until_written()
    said = [page.context["form"].non_field_errors() for page in pages]
    assert said[0] == said[1]
    assert not any(REMEDY in page.content.decode() for page in pages)


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
