"""Saying that an address is verified: a right of its own, a fresh proof of who says it, and its value in the trail."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from tokens.sign_in.tests.test_step_up import STEP_UP_REQUIRED, age
from tokens.tests.browser import Member
from tokens.tests.second_factor import said
from tokens.tests.staff import staff
from tokens.tests.stage import Stage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

USERS = "/api/v1/users"
NEW = {"email": "new@example.com", "password": PASSWORD}
CHANGE, ADD, VERIFY = "change_user", "add_user", "verify_email"


async def told(event: str) -> dict[str, Any]:
    """Return what the newest event of this name says."""
    row = await AuditEvent.objects.filter(event=event).order_by("-id").afirst()
    assert row is not None
    return dict(row.details)


async def test_it_needs_a_fresh_proof(stage: Stage) -> None:
    """At 601 seconds neither a new nor an old account gets it, either way; at 590 both do, and without it a new one."""
    path = f"{USERS}/{stage.member}"
    await age(stage.root_pair, 601)
    for method, where, body in (
        ("PATCH", path, {"email_verified": True}),
        ("PATCH", path, {"email_verified": False}),
        ("POST", USERS, {**NEW, "email_verified": True}),
    ):
        refused = await stage.api.request(method, where, json=body, headers=bearer(stage.root_pair))
        assert said(refused) == STEP_UP_REQUIRED, (method, body)
    await stage.send("POST", USERS, 201, {**NEW, "email": "plain@example.com"}, stage.root_pair)
    assert not await User.objects.filter(email_verified_at__isnull=False).aexists()
    await age(stage.root_pair, 590)  # not 600: two requests follow, and a slow machine takes a second for them
    await stage.send("PATCH", path, 200, {"email_verified": True}, stage.root_pair)
    await stage.send("POST", USERS, 201, {**NEW, "email_verified": True}, stage.root_pair)
    assert await User.objects.filter(email_verified_at__isnull=False).acount() == 2


@pytest.mark.parametrize("before", [False, True])
async def test_it_needs_its_own_right(api: httpx.AsyncClient, member: Member, signing_key: str, before: bool) -> None:
    """403 naming it, for a change in either direction; what is so already needs none."""
    await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=clock.now() if before else None)
    headers, path = bearer(await staff(api, CHANGE, ADD)), f"{USERS}/{member['id']}"
    refused = await api.patch(path, json={"email_verified": not before}, headers=headers)
    assert said(refused) == (403, "permission_denied")
    assert "accounts.verify_email" in refused.json()["detail"]
    assert (await api.patch(path, json={"email_verified": before, "name": "M"}, headers=headers)).status_code == 200
    refused = await api.post(USERS, json={**NEW, "email_verified": True}, headers=headers)
    assert said(refused) == (403, "permission_denied")
    assert (await api.post(USERS, json=NEW, headers=headers)).status_code == 201


async def test_with_the_right_it_is_recorded_with_its_value(
    api: httpx.AsyncClient, member: Member, signing_key: str
) -> None:
    """Of a new account and of a change, whichever way it goes."""
    headers, path = bearer(await staff(api, CHANGE, ADD, VERIFY)), f"{USERS}/{member['id']}"
    for value in (True, False):
        body = {"email": f"new-{value}@example.com", "password": PASSWORD, "email_verified": value}
        assert (await api.post(USERS, json=body, headers=headers)).status_code == 201
        details = await told("user_created")
        assert details == {"email_verified": value, "is_staff": False, "is_superuser": False, "roles": []}
        assert (await api.patch(path, json={"email_verified": value}, headers=headers)).status_code == 200
        assert await told("user_changed") == {"fields": ["email_verified_at"], "email_verified": value}


async def test_nobody_reaches_upwards_by_it(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """Where addresses must be verified it lets people in: not those who hold rights that the caller does not."""

    def give() -> None:
        User.objects.get(pk=member["id"]).user_permissions.add(Permission.objects.get(codename="delete_user"))

    await sync_to_async(give)()
    headers = bearer(await staff(api, CHANGE, VERIFY))
    refused = await api.patch(f"{USERS}/{member['id']}", json={"email_verified": True}, headers=headers)
    assert said(refused) == (403, "permission_denied")
    assert "holds rights you do not" in refused.json()["detail"]
