"""Fixtures of the accounts tests: people made straight in the database, and a way in for them over HTTP."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import Group, Permission

from accounts.models import User

PASSWORD = "violet otter rides 9 trams"

MakeUser = Callable[..., User]
SignIn = Callable[[User], Awaitable[dict[str, str]]]


@pytest.fixture
def permission() -> Callable[[str], Permission]:
    """Give a look-up of Django permissions by ``app_label.codename``."""

    def find(name: str) -> Permission:
        label, _, codename = name.partition(".")
        return Permission.objects.get(content_type__app_label=label, codename=codename)

    return find


@pytest.fixture
def make_role(permission: Callable[[str], Permission]) -> Callable[..., Group]:
    """Give a maker of roles with permissions."""

    def make(name: str, *permissions: str) -> Group:
        group = Group.objects.create(name=name)
        group.permissions.set([permission(one) for one in permissions])
        return group

    return make


@pytest.fixture
def make_user(permission: Callable[[str], Permission]) -> MakeUser:
    """Give a maker of users with the standard password and the given permissions; needs the database."""

    def make(*permissions: str, **fields: Any) -> User:
        fields.setdefault("email", f"user-{os.urandom(6).hex()}@example.com")
        user = User.objects.create_user(password=fields.pop("password", PASSWORD), **fields)
        user.user_permissions.set([permission(one) for one in permissions])
        return user

    return make


@pytest.fixture
def sign_in(api: httpx.AsyncClient, signing_key: str) -> SignIn:
    """Give a way in: it returns the request header that presents a user's access token."""

    async def enter(user: User) -> dict[str, str]:
        answer = await api.post("/api/v1/access/signin", json={"email": user.email, "password": PASSWORD})
        assert answer.status_code == 200, answer.text
        return {"Authorization": f"Bearer {answer.json()['access_token']}"}

    return enter
