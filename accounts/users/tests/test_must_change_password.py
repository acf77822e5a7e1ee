"""Staff ask for another password: what ends, what is refused, and what lifts it."""

import asyncio
import uuid

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connections, transaction
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD, MakeUser, SignIn
from accounts.email.tests.test_email_flows import ACCESS, NEW_PASSWORD, confirm, delivered, present, sign_in_status
from accounts.outbox.models import OutgoingMail
from accounts.staff import units as staff_units
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]
REFUSED = (403, "password_change_required")


@pytest.fixture
def user(make_user: MakeUser) -> User:
    """Make one person."""
    return make_user(email="mia@example.com", is_staff=True)


@pytest.fixture
def support(make_user: MakeUser) -> User:
    """Somebody who may change users, and is no superuser."""
    return make_user("accounts.change_user", email="support@example.com", is_staff=True)


def require(support: User, *users: User) -> None:
    """Ask for another password as the admin does."""
    with transaction.atomic():
        staff_units.require_password_change([user.pk for user in users], support.pk)


async def refusal(api: httpx.AsyncClient, email: str, password: str) -> tuple[int, str]:
    """Sign in and return the status and the code."""
    answer = await api.post(f"{ACCESS}/signin", json={"email": email, "password": password})
    return answer.status_code, answer.json().get("code", "")


async def test_only_a_reset_by_mail_lets_the_person_in_again(
    api: httpx.AsyncClient, user: User, support: User, sign_in: SignIn
) -> None:
    """Sessions end, the right password is 403 and a wrong one 401 as ever, and the message's token replaces it."""
    headers = await sign_in(user)
    await sync_to_async(require)(support, user)
    assert (await api.get(f"{ACCESS}/me", headers=headers)).status_code == 401
    assert await refusal(api, user.email, PASSWORD) == REFUSED
    assert await refusal(api, user.email, "wrong") == (401, "invalid_credentials")
    ((recipient, subject, token),) = await delivered()
    assert (recipient, subject) == (user.email, "Choose a new password")
    assert token is not None
    assert (await confirm(api, token)).status_code == 204
    assert await sign_in_status(api, user.email, NEW_PASSWORD) == 200
    assert not (await present(user)).must_change_password


async def test_a_message_that_came_too_late_is_asked_for_again(
    api: httpx.AsyncClient, user: User, support: User
) -> None:
    """The ordinary reset lifts the requirement too."""
    await sync_to_async(require)(support, user)
    await delivered()
    assert (await api.post(f"{ACCESS}/password/reset", json={"email": user.email})).status_code == 202
    ((_, _, token),) = await delivered()
    assert token is not None
    assert (await confirm(api, token)).status_code == 204
    assert await sign_in_status(api, user.email, NEW_PASSWORD) == 200


async def test_it_is_recorded(api: httpx.AsyncClient, user: User, support: User) -> None:
    """One event names actor and account, and one that the right password was refused, and why."""
    await sync_to_async(require)(support, user)
    await refusal(api, user.email, PASSWORD)
    assert await sync_to_async(audit.wait_until_written)()
    events = [
        (event.event, event.outcome, event.actor_id, event.user_id, event.details)
        async for event in AuditEvent.objects.filter(user_id=user.pk).order_by("id")
    ]
    details = {"reason": "password_change_required"}
    assert events == [
        ("password_change_required", "success", support.pk, user.pk, {}),
        ("sign_in", "refused", user.pk, user.pk, details),
    ]


async def test_an_unverified_address_is_refused_first(
    api: httpx.AsyncClient, user: User, support: User, settings: Settings
) -> None:
    """Where addresses must be verified: the reset verifies it, so one message mends both."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    await sync_to_async(require)(support, user)
    assert await refusal(api, user.email, PASSWORD) == (401, "invalid_credentials")
    ((_, _, token),) = await delivered()
    assert token is not None
    assert (await confirm(api, token)).status_code == 204
    assert await sign_in_status(api, user.email, NEW_PASSWORD) == 200


def test_a_password_set_by_staff_does_not_lift_it(user: User, support: User) -> None:
    """No matter who writes the row, only the person's own choice or staff who say so do."""
    require(support, user)
    user.refresh_from_db()
    user.set_password(NEW_PASSWORD)
    user.save()
    user.refresh_from_db()
    assert user.must_change_password


def test_the_admin_refuses_likewise(user: User, support: User) -> None:
    """A right password gets the reason, a wrong one none; the right one is in the trail as refused."""
    require(support, user)
    url = reverse("admin:login")
    wrong = Client().post(url, {"username": user.email, "password": "wrong"})
    assert wrong.context["form"].non_field_errors()[0].startswith("Please enter the correct")
    refused = Client().post(url, {"username": user.email, "password": PASSWORD})
    assert refused.context["form"].non_field_errors()[0].startswith("Choose a new password first")
    assert AuditEvent.objects.filter(event="admin_sign_in", outcome="refused", user_id=user.pk).count() == 1


def test_staff_who_say_so_lift_it(client: Client, root: User, user: User) -> None:
    """The list finds who must change, and the action lets them in with the password there is; it is recorded."""
    require(root, user)
    path = reverse("admin:accounts_user_changelist")
    page = client.get(path, {"must_change_password__exact": "1"}).content.decode()
    assert user.email in page
    assert root.email not in page.partition('id="result_list"')[2]
    data = {"action": "accept_password", "_selected_action": [str(user.pk)], "confirmed": "yes"}
    assert "The password is accepted again: 1 user." in client.post(path, data, follow=True).content.decode()
    user.refresh_from_db()
    assert not user.must_change_password
    event = AuditEvent.objects.get(event="user_changed")
    details = {"fields": ["must_change_password"], "must_change_password": False}
    assert (event.user_id, event.details) == (user.pk, details)


def test_all_or_none(user: User, support: User, root: User, make_user: MakeUser) -> None:
    """Nobody is touched when one is beyond the caller's reach, unknown, or the caller may not change users at all."""
    for others, caller, error in (
        ([root], support, PermissionDenied),
        ([User(pk=uuid.UUID(int=1))], support, NotFound),
        ([], make_user(), PermissionDenied),
    ):
        with pytest.raises(error):
            require(caller, user, *others)
    assert not User.objects.filter(must_change_password=True).exists()
    assert not OutgoingMail.objects.exists()


def test_who_is_inactive_gets_no_message(make_user: MakeUser, support: User, user: User) -> None:
    """Their next sign-in, once active again, asks for another password all the same."""
    sleeping = make_user(is_active=False)
    require(support, sleeping, user, user)
    assert User.objects.filter(must_change_password=True).count() == 2
    assert [mail.recipient for mail in OutgoingMail.objects.all()] == [user.email]


async def test_two_requests_at_once_leave_one_token(user: User, support: User, make_user: MakeUser) -> None:
    """Of many people, in any order: the second waits for the first, and replaces its token."""
    people = [user, *[await sync_to_async(make_user)() for _ in range(3)]]

    def ask(order: int) -> None:
        require(support, *people[::order])
        connections.close_all()

    await asyncio.gather(*(asyncio.to_thread(ask, order) for order in (1, -1)))
    assert await OutgoingMail.objects.acount() == len(people)
