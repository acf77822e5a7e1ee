"""One role over HTTP: to read, change and delete it; nobody gives, keeps or takes what they do not hold."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import IntegrityError

from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser, SignIn
from accounts.errors import RoleExists
from accounts.staff.roles import units
from accounts.users.models import User
from accounts.users.outputs import RoleOut
from ironauth.infrastructure.core import clock
from ironauth.tests.at_once import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

ROLES = "/api/v1/roles"
GROUPS = ("auth.view_group", "auth.change_group", "auth.delete_group")


@pytest.fixture
def role(db: None, make_role: Callable[..., Group]) -> Group:
    """A role that lets its members see people."""
    return make_role("helpers", "accounts.view_user")


@pytest.fixture
def enter(make_user: MakeUser, sign_in: SignIn) -> Callable[..., Any]:
    """Give a way in for somebody with these rights."""

    async def with_rights(*rights: str, **fields: Any) -> dict[str, str]:
        return await sign_in(await sync_to_async(make_user)(*rights, **fields))

    return with_rights


async def age(user: Any, seconds: int) -> None:
    """Let the proof of a person's session be so old, without waiting: what is stored and what is in memory."""
    session = await user.sessions.aget()
    session.authenticated_at = clock.now() - timedelta(seconds=seconds)
    await session.asave()  # invalidates it


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def test_a_role_is_read_changed_and_deleted(
    api: httpx.AsyncClient, role: Group, enter: Callable[..., Any]
) -> None:
    """Each leaves an event with what has changed; a body that changes nothing leaves none."""
    headers = await enter(*GROUPS, "accounts.view_user", "accounts.add_user")
    path = f"{ROLES}/helpers"
    told = {"name": "helpers", "permissions": ["accounts.view_user"]}
    assert (await api.get(path, headers=headers)).json() == told
    assert (await api.patch(path, json={}, headers=headers)).json() == told
    assert (await api.patch(path, json=told, headers=headers)).json() == told
    assert not await AuditEvent.objects.filter(event="role_changed").aexists()
    changed = {"name": "front desk", "permissions": ["accounts.add_user"]}
    assert (await api.patch(path, json=changed, headers=headers)).json() == changed
    assert (await AuditEvent.objects.aget(event="role_changed")).details == {
        "role": "front desk", "before": "helpers", "fields": ["name", "permissions"],
        "permissions_given": ["accounts.add_user"], "permissions_taken": ["accounts.view_user"],
    }  # fmt: skip
    assert code(await api.get(path, headers=headers)) == (404, "not_found")
    assert (await api.delete(f"{ROLES}/front desk", headers=headers)).status_code == 204
    assert (await AuditEvent.objects.aget(event="role_deleted")).details == {"role": "front desk"}
    assert not await Group.objects.aexists()
    for method in ("GET", "PATCH", "DELETE"):
        body: Any = {} if method == "PATCH" else None
        assert code(await api.request(method, f"{ROLES}/front desk", json=body, headers=headers)) == (404, "not_found")
        assert code(await api.request(method, f"{ROLES}/a%00b", json=body, headers=headers)) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "right", "body"),
    [("GET", "view", None), ("PATCH", "change", {"name": "other"}), ("DELETE", "delete", None)],
)
async def test_each_needs_its_own_right(
    api: httpx.AsyncClient, role: Group, enter: Callable[..., Any], method: str, right: str, body: Any
) -> None:
    """And a caller; the others do not help."""
    path = f"{ROLES}/helpers"
    assert (await api.request(method, path, json=body)).status_code == 401
    others = {"auth.add_group", *GROUPS} - {f"auth.{right}_group"}
    refused = await api.request(method, path, json=body, headers=await enter(*others, "accounts.view_user"))
    assert code(refused) == (403, "permission_denied")
    headers = await enter(f"auth.{right}_group", "accounts.view_user")
    assert (await api.request(method, path, json=body, headers=headers)).is_success


async def test_nobody_touches_a_role_that_grants_more(
    api: httpx.AsyncClient, role: Group, enter: Callable[..., Any]
) -> None:
    """Neither its name nor what it grants, nor its end; and nobody lets it grant what they do not hold."""
    path = f"{ROLES}/helpers"
    without = await enter(*GROUPS)
    bodies: tuple[dict[str, object], ...] = ({"name": "other"}, {"permissions": []}, {})
    for body in bodies:
        assert code(await api.patch(path, json=body, headers=without)) == (403, "permission_denied")
    assert code(await api.delete(path, headers=without)) == (403, "permission_denied")
    some = await enter(*GROUPS, "accounts.view_user")
    more = {"permissions": ["accounts.view_user", "accounts.delete_user"]}
    assert code(await api.patch(path, json=more, headers=some)) == (403, "permission_denied")
    assert (await api.patch(path, json={"permissions": []}, headers=some)).status_code == 200
    root = await enter(is_superuser=True)
    assert (await api.patch(path, json=more, headers=root)).json()["permissions"] == sorted(more["permissions"])


async def test_bad_bodies(api: httpx.AsyncClient, role: Group, make_role: Any, enter: Callable[..., Any]) -> None:
    """A name that is taken is 409; bad names and unknown permissions are named together, and nothing changes."""
    await sync_to_async(make_role)("taken")
    headers = await enter(is_superuser=True)
    path = f"{ROLES}/helpers"
    assert code(await api.patch(path, json={"name": "taken"}, headers=headers)) == (409, "role_taken")
    answer = await api.patch(path, json={"name": "a,b", "permissions": ["accounts.nope"]}, headers=headers)
    assert code(answer) == (400, "invalid")
    assert {one["field"] for one in answer.json()["errors"]} == {"name", "permissions"}
    assert (await api.get(path, headers=headers)).json() == {"name": "helpers", "permissions": ["accounts.view_user"]}


async def test_a_stale_session_changes_nothing(
    api: httpx.AsyncClient, role: Group, make_user: MakeUser, sign_in: SignIn
) -> None:
    """601 seconds after the proof a change and the end of a role ask for another one; to read needs none."""
    root: Any = await sync_to_async(make_user)(is_superuser=True)
    headers = await sign_in(root)
    await age(root, 601)
    path = f"{ROLES}/helpers"
    assert (await api.get(path, headers=headers)).status_code == 200
    acts: tuple[tuple[str, object], ...] = (("PATCH", {"name": "x"}), ("DELETE", None))
    for method, body in acts:
        refused = await api.request(method, path, json=body, headers=headers)
        assert code(refused) == (401, "step_up_required")
    await age(root, 600)
    assert (await api.delete(path, headers=headers)).status_code == 204


async def test_members_have_what_it_grants_now(
    api: httpx.AsyncClient, role: Group, make_user: MakeUser, sign_in: SignIn, enter: Callable[..., Any]
) -> None:
    """From the next request on, by the token of before; the role's new name too."""
    member = await sync_to_async(make_user)()
    await member.groups.aadd(role)
    theirs, headers = await sign_in(member), await enter(is_superuser=True)
    path, me = f"{ROLES}/helpers", "/api/v1/access/me"
    assert (await api.get("/api/v1/users", headers=theirs)).status_code == 200
    assert (await api.get(me, headers=theirs)).json()["roles"] == ["helpers"]
    await api.patch(path, json={"name": "new", "permissions": []}, headers=headers)
    assert (await api.get("/api/v1/users", headers=theirs)).status_code == 403
    assert (await api.get(me, headers=theirs)).json()["roles"] == ["new"]
    assert (await api.delete(f"{ROLES}/new", headers=headers)).status_code == 204
    assert (await api.get(me, headers=theirs)).json()["roles"] == []


def test_of_two_roles_that_want_one_name_one_gets_it(make_user: MakeUser, make_role: Callable[..., Group]) -> None:
    """At the same moment: the other is told, and keeps its own."""
    root = make_user(is_superuser=True)
    for name in ("one", "two"):
        make_role(name)

    def renamed(name: str) -> RoleOut:
        return units.change_role(actor_id=root.pk, name=name, values={"name": "wanted"})

    results = at_once(partial(renamed, "one"), partial(renamed, "two"))
    assert sorted(isinstance(one, RoleExists | IntegrityError) for one in results) == [False, True]
    assert sorted(isinstance(one, RoleOut) for one in results) == [False, True]
    assert set(Group.objects.values_list("name", flat=True)) & {"one", "two"}
    assert User.objects.count() == 1
