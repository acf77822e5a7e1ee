"""Every act by e-mail leaves exactly one event, and a change of password a message to its owner."""

import uuid
from collections.abc import Awaitable, Callable
from unittest.mock import patch

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import transaction
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.email.tests.test_email_flows import delivered
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.outbox.models import OutgoingMail
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.outbox import GIVE_UP_S
from ironauth.infrastructure.db.unit_of_work import database
from tokens.tests.browser import PASSWORD_URL, SIGNIN
from tokens.tests.stage import AGENT, Expected, Stage, by_member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

ACCESS = "/api/v1/access"
SIGNUP = f"{ACCESS}/signup"
NEW_PASSWORD = "seven amber kites over Lyon"
NOBODY = {"actor_id": None, "user_id": None, "session_id": None}


async def token_in_message() -> str:
    """Deliver the queue and return the only token in it."""
    (token,) = {token for _, _, token in await delivered() if token}
    return str(token)


async def ask_for_a_reset(stage: Stage) -> list[Expected]:
    await stage.send("POST", f"{ACCESS}/password/reset", 202, {"email": stage.email})
    return [by_member(stage, event="password_reset_requested", actor_id=None, session_id=None)]


async def ask_for_a_reset_of_nobody(stage: Stage) -> list[Expected]:
    await stage.send("POST", f"{ACCESS}/password/reset", 202, {"email": "nobody@example.com"})
    return [{**NOBODY, "event": "password_reset_requested"}]


async def reset(stage: Stage) -> list[Expected]:
    asked = await ask_for_a_reset(stage)
    body = {"token": await token_in_message(), "new_password": NEW_PASSWORD}
    await stage.send("POST", f"{ACCESS}/password/reset/confirm", 204, body)
    await stage.send("POST", f"{ACCESS}/password/reset/confirm", 400, body)
    return [*asked, by_member(stage, event="password_reset", session_id=None, details={"first_proof": True})]


async def verify(stage: Stage) -> list[Expected]:
    await stage.send("POST", f"{ACCESS}/email/verify/resend", 202, {"email": stage.email})
    body = {"token": await token_in_message(), "password": "wrong"}
    await stage.send("POST", f"{ACCESS}/email/verify", 400, body)
    await stage.send("POST", f"{ACCESS}/email/verify", 204, body | {"password": PASSWORD})
    await stage.send("POST", f"{ACCESS}/email/verify/resend", 202, {"email": stage.email})  # needless by now
    return [
        by_member(stage, event="verification_requested", actor_id=None, session_id=None),
        by_member(stage, event="email_verified", session_id=None, outcome="failure"),
        by_member(stage, event="email_verified", session_id=None, details={"first_proof": True}),
        {**NOBODY, "event": "verification_requested"},
    ]


async def move(stage: Stage) -> list[Expected]:
    body = {"new_email": "new@example.com", "password": PASSWORD}
    await stage.send("POST", f"{ACCESS}/email", 202, body, stage.pair)
    shown = {"token": await token_in_message(), "password": PASSWORD}
    await stage.send("POST", f"{ACCESS}/email/verify", 204, shown)
    return [
        by_member(stage, event="email_change_requested"),
        by_member(stage, event="email_changed", session_id=None, details={"first_proof": True}),
    ]


async def move_with_a_wrong_password(stage: Stage) -> list[Expected]:
    body = {"new_email": "new@example.com", "password": "wrong"}
    await stage.send("POST", f"{ACCESS}/email", 401, body, stage.pair)
    return [by_member(stage, event="email_change_requested", outcome="failure")]


Act = Callable[[Stage], Awaitable[list[Expected]]]
ACTS: tuple[Act, ...] = (
    ask_for_a_reset,
    ask_for_a_reset_of_nobody,
    reset,
    verify,
    move,
    move_with_a_wrong_password,
)


async def left_since(before: list[uuid.UUID]) -> list[AuditEvent]:
    """Return what else the trail has."""
    assert await sync_to_async(audit.wait_until_written)()
    return [event async for event in AuditEvent.objects.exclude(pk__in=before).order_by("id")]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
async def test_an_act_by_mail_leaves_its_events(stage: Stage, act: Act) -> None:
    """One for each step, with the right ids and outcome, and no address that anybody typed."""
    before = [pk async for pk in AuditEvent.objects.values_list("pk", flat=True)]
    expected = [
        {"outcome": "success", "details": {}, "address": "127.0.0.1", "user_agent": AGENT} | one
        for one in await act(stage)
    ]
    left = await left_since(before)
    assert [{name: getattr(row, name) for name in one} for row, one in zip(left, expected, strict=True)] == expected


async def test_a_sign_up_that_tells_nothing_tells_the_trail(
    stage: Stage,
    settings: Settings,
) -> None:
    """A new person, a known address, and a right password before the address is verified, which is a wrong one."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    before = [pk async for pk in AuditEvent.objects.values_list("pk", flat=True)]
    await stage.send("POST", SIGNUP, 202, {"email": "new@example.com", "password": PASSWORD})
    await stage.send("POST", SIGNUP, 202, {"email": stage.email, "password": PASSWORD})
    await stage.send("POST", SIGNIN, 401, {"email": "new@example.com", "password": PASSWORD})
    new = (await User.objects.aget(email_key="new@example.com")).pk
    found = [(row.event, row.outcome, row.actor_id, row.user_id, row.details) for row in await left_since(before)]
    assert found == [
        ("sign_up", "success", new, new, {}),
        ("sign_up", "refused", None, stage.member, {}),
        ("sign_in", "failure", None, new, {"reason": "address_not_confirmed"}),
    ]


async def test_a_message_given_up_leaves_an_event(stage: Stage) -> None:
    """Which message, of which kind, and whose; one that is to be tried again leaves none."""

    def give_up() -> str:
        with transaction.atomic():
            mail_id = outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=stage.email, user_id=stage.member)
            mail = outbox.claim(mail_id)
            assert mail is not None
            assert not outbox.failed(mail)
        with clock.shifted(GIVE_UP_S + 1), transaction.atomic():
            mail = outbox.claim(mail_id)
            assert mail is not None
            assert outbox.failed(mail)
        return str(mail_id)

    mail_id = await database().write(give_up)
    (event,) = [row async for row in AuditEvent.objects.filter(event="mail_given_up")]
    assert (event.outcome, event.actor_id, event.user_id) == ("failure", None, stage.member)
    assert event.details == {"mail": mail_id, "kind": "password_changed"}


async def messages() -> list[tuple[str, str]]:
    """Return recipient and kind of what is queued."""
    return [(row.recipient, row.kind) async for row in OutgoingMail.objects.all()]


async def test_a_changed_password_is_announced(stage: Stage) -> None:
    """In the transaction of the change: one message when it is made, none when it fails at the last moment."""
    body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    headers = {"Authorization": f"Bearer {stage.pair['access_token']}"}
    with patch.object(audit, "record_own", side_effect=LookupError):
        assert (await stage.api.post(PASSWORD_URL, json=body, headers=headers)).status_code == 500
    assert await messages() == []
    await stage.send("POST", PASSWORD_URL, 401, {**body, "current_password": "wrong"}, stage.pair)
    assert await messages() == []
    await stage.send("POST", PASSWORD_URL, 200, body, stage.pair)
    assert await messages() == [(stage.email, "password_changed")]


async def test_staff_who_set_a_password_announce_it(api: httpx.AsyncClient, stage: Stage) -> None:
    """Set, taken away, and changed by themselves: one message each, to whose password it is."""

    def by_admin() -> None:
        browser, root = Client(), User.objects.get(pk=stage.root)
        browser.force_login(root)
        page = reverse("admin:auth_user_password_change", args=[stage.member])
        chosen = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
        assert browser.post(page, {**chosen, "password2": "other", "usable_password": "true"}).status_code == 200
        assert browser.post(page, {**chosen, "usable_password": "true"}).status_code == 302
        assert browser.post(page, {"usable_password": "false", "unset-password": "1"}).status_code == 302
        own = {"old_password": PASSWORD, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}
        assert browser.post(reverse("admin:password_change"), own).status_code == 302

    await sync_to_async(by_admin)()
    assert sorted(await messages()) == sorted(
        [(stage.email, "password_changed")] * 2 + [("root@example.com", "password_changed")]
    )
