"""Users' sessions, for staff, over HTTP."""

import uuid
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import Permission

from accounts.users.models import User
from conftest import PASSWORD, bearer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

ME = "/api/v1/access/me"
Pair = dict[str, Any]


def of(user_id: object) -> str:
    """Return the address of a user's sessions."""
    return f"/api/v1/users/{user_id}/sessions"


@pytest.fixture
async def staff(api: httpx.AsyncClient, new_email: Any, signing_key: str) -> Pair:
    """The TokenPair of a person who may become staff; nothing is granted yet."""
    email = new_email()
    await api.post("/api/v1/access/signup", json={"email": email, "password": PASSWORD})
    pair: Pair = (await api.post("/api/v1/access/signin", json={"email": email, "password": PASSWORD})).json()
    return pair


async def grant(pair: Pair, *codenames: str) -> None:
    """Give the person behind the pair these permissions on users."""
    user = await User.objects.aget(sessions=pair["session_id"])
    user.is_staff = True
    await user.asave()
    async for permission in Permission.objects.filter(codename__in=codenames, content_type__app_label="accounts"):
        await user.user_permissions.aadd(permission)


async def test_list(api: httpx.AsyncClient, member: dict[str, Any], pair: Pair, staff: Pair) -> None:
    """With the right to view users, a user's live sessions are listed; none of them is the caller's."""
    await grant(staff, "view_user")
    answer = await api.get(of(member["id"]), headers=bearer(staff))
    assert answer.status_code == 200
    assert [(entry["id"], entry["current"]) for entry in answer.json()] == [(pair["session_id"], False)]


async def test_end_all(api: httpx.AsyncClient, member: dict[str, Any], pair: Pair, staff: Pair) -> None:
    """With the right to change users, every session of a user ends at once, and the caller's does not."""
    await grant(staff, "view_user", "change_user")
    assert (await api.get(ME, headers=bearer(pair))).status_code == 200
    assert (await api.delete(of(member["id"]), headers=bearer(staff))).status_code == 204
    assert (await api.get(ME, headers=bearer(pair))).status_code == 401
    assert (await api.get(of(member["id"]), headers=bearer(staff))).json() == []
    assert (await api.get(ME, headers=bearer(staff))).status_code == 200


async def test_without_the_right(api: httpx.AsyncClient, member: dict[str, Any], pair: Pair, staff: Pair) -> None:
    """Without the permission both are 403, for oneself too, and nothing ends; without credential 401."""
    for headers in (bearer(staff), bearer(pair)):
        assert (await api.get(of(member["id"]), headers=headers)).status_code == 403
        assert (await api.delete(of(member["id"]), headers=headers)).status_code == 403
    await grant(staff, "view_user")
    assert (await api.delete(of(member["id"]), headers=bearer(staff))).status_code == 403
    assert (await api.get(of(member["id"]))).status_code == 401
    assert (await api.get(ME, headers=bearer(pair))).status_code == 200


async def test_superusers_are_out_of_reach(
    api: httpx.AsyncClient, member: dict[str, Any], pair: Pair, staff: Pair
) -> None:
    """Who is no superuser cannot end a superuser's sessions."""
    await grant(staff, "change_user")
    user = await User.objects.aget(pk=member["id"])
    user.is_superuser = True
    await user.asave()
    assert (await api.delete(of(member["id"]), headers=bearer(staff))).status_code == 403
    assert (await api.get(ME, headers=bearer(pair))).status_code == 200


async def test_unknown_user(api: httpx.AsyncClient, staff: Pair) -> None:
    """A user who does not exist is 404."""
    await grant(staff, "view_user", "change_user")
    assert (await api.get(of(uuid.uuid4()), headers=bearer(staff))).status_code == 404
    assert (await api.delete(of(uuid.uuid4()), headers=bearer(staff))).status_code == 404
    assert (await api.get(of("nobody"), headers=bearer(staff))).status_code == 404
