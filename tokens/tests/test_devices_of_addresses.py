"""Devices on which somebody has signed in under an address are nothing to who has the address after them."""

import uuid

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import transaction
from pytest_django import Settings

from accounts.email import units as email_units
from accounts.lockout import throttling
from accounts.outbox import tokens as email_tokens
from accounts.outbox.tokens import Purpose
from accounts.privacy import units as deletions
from accounts.staff import units as staff_units
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.ratelimit import lockout
from tokens.tests.browser import SIGNIN, Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

CONTEXT = ClientContext(address="127.0.0.1")  # of the test's client


def is_known(email: str) -> bool:
    """Tell whether a try to sign in under the address has the share of a known device here."""
    plan = throttling.sign_in_keys(email, CONTEXT)
    return lockout.is_known(plan.known, forgotten=plan.forgotten)


def moved(user: User) -> None:
    """Let the person confirm another address."""
    token_id = email_tokens.issue(purpose=Purpose.CHANGE_EMAIL, user_id=user.pk, new_email="new@example.com")
    found = email_tokens.FoundToken(token_id, Purpose.CHANGE_EMAIL, "new@example.com", user.pk, user.email, "")
    email_units.confirm(found=found, owner=email_units.ByPassword(user.password))


def deleted(user: User) -> None:
    """Let the person delete the account."""
    deletions.request(user_id=user.pk, old=user.password, session_id=None)


def moved_by_staff(user: User) -> None:
    """Let a superuser change the address."""
    staff = User.objects.create_superuser("staff@example.com", PASSWORD)
    staff_units.update_user(actor_id=staff.pk, user_id=user.pk, values={"email": "new@example.com"})


@pytest.mark.usefixtures("throttled", "signing_key")
@pytest.mark.parametrize(
    ("way", "days"),
    [(moved, 7), (deleted, 7), (deleted, 0), (moved_by_staff, 7)],
    ids=["moved", "left", "gone", "staff"],
)
async def test_an_address_leaves_its_devices_behind(
    api: httpx.AsyncClient, member: Member, settings: Settings, way: object, days: int
) -> None:
    """A stranger who had the address first has no share of the tries of who signs up with it after them."""
    settings.IRONAUTH_DELETION_GRACE_DAYS = days
    body = {"email": member["email"], "password": PASSWORD}
    assert (await api.post(SIGNIN, json=body)).status_code == 200

    def unit() -> tuple[bool, bool]:
        before = is_known(member["email"])
        with transaction.atomic():
            assert callable(way)
            way(User.objects.get(pk=uuid.UUID(member["id"])))
        return before, is_known(member["email"])

    assert await sync_to_async(unit)() == (True, False)
