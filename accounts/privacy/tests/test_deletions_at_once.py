"""Deleting, restoring, purging and signing up at the same moment: one is done, and each says what became of it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from pytest_django import Settings

from accounts.conftest import PASSWORD, MakeUser, SignIn
from accounts.email.tests.test_email_flows import delivered
from accounts.privacy import units as deletions
from accounts.privacy.models import PendingDeletion
from accounts.privacy.tests.test_deletions import ACCESS, DAY, EMAIL, ME, restored
from accounts.users.models import User
from ironauth.infrastructure.core import clock

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


def on_own_connection(unit: Callable[[], int]) -> int:
    """Run a unit of work in a transaction of this thread, and close its connection."""
    try:
        with transaction.atomic():
            return unit()
    finally:
        connection.close()


@pytest.mark.parametrize("rule", ["off", "required"])
async def test_of_a_restore_and_a_sign_up_at_once_one_has_the_address(
    api: httpx.AsyncClient, make_user: MakeUser, sign_in: SignIn, settings: Settings, rule: str
) -> None:
    """No matter who is first; the other is told by the contract's answers, and never by a fault of the server."""
    settings.IRONAUTH_EMAIL_VERIFICATION = rule
    taken, new = (201, 409) if rule == "off" else (202, 202), "seven amber kites over Lyon"
    for number in range(4):
        email = f"mia{number}@example.com"
        user = await sync_to_async(make_user)(email=email, email_verified_at=clock.now())
        headers = await sign_in(user)
        await api.request("DELETE", ME, json={"password": PASSWORD}, headers=headers)
        ((_, _, token),) = await delivered()
        sign_up = api.post(f"{ACCESS}/signup", json={"email": email, "password": new})
        answer, (status, code) = await asyncio.gather(sign_up, restored(api, token or ""))
        holder = await User.objects.aget(email_key=email)
        assert (status, code) == ((204, "") if holder.pk == user.pk else (409, "email_taken"))
        assert answer.status_code == taken[holder.pk == user.pk]
        await delivered()


def test_of_a_purge_and_a_restore_at_once_one_is_done(make_user: MakeUser) -> None:
    """The account is gone, or whole and no longer due; each knows which."""
    for _ in range(4):
        user, staff = make_user(email=EMAIL), make_user()
        with transaction.atomic():
            deletions.request(user_id=user.pk, old=user.password, session_id=None)
        with clock.shifted(8 * DAY), ThreadPoolExecutor(2) as pool:
            restore = partial(deletions.restore_by_staff, user_id=user.pk, actor_id=staff.pk)
            counted = pool.submit(on_own_connection, lambda: deletions.purge_due(5).gone)
            undone = pool.submit(on_own_connection, restore)
            assert (counted.result(), undone.result()) in {(1, False), (0, True)}
        assert User.objects.filter(email=EMAIL, is_active=True).exists() == undone.result()
        assert not PendingDeletion.objects.exists()
        User.objects.all().delete()
