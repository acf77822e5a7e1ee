"""Fixtures of the accounts tests: people made straight in the database, and a way in for them over HTTP."""

import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client
from pytest_django import Settings

from accounts.users.models import User
from ironauth.infrastructure.hashing.pool import hash_pool

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


@pytest.fixture
def root(make_user: MakeUser, client: Client) -> User:
    """Make a superuser and sign in."""
    user = make_user(email="root@example.com", is_superuser=True, is_staff=True)
    client.force_login(user)
    return user


@pytest.fixture
def manager(make_user: MakeUser, client: Client) -> User:
    """Make a member of staff who manages users without being a superuser, and sign in."""
    users = tuple(f"accounts.{verb}_user" for verb in ("view", "add", "change", "delete"))
    groups = ("auth.view_group", "auth.change_group", "auth.add_group", "auth.delete_group")
    user = make_user(*users, *groups, email="manager@example.com", is_staff=True)
    client.force_login(user)
    return user


@pytest.fixture
def staff(make_user: MakeUser) -> User:
    """A member of staff who may see users."""
    return make_user("accounts.view_user", email="mia@example.com", is_staff=True)


@pytest.fixture
def full_pool(settings: Settings) -> Iterator[None]:
    """Occupy the only hash thread for the time of a test."""
    settings.IRONAUTH_HASH_MAX_WAIT_S, settings.IRONAUTH_HASH_THREADS = 0.1, 1
    release, taken = threading.Event(), threading.Event()

    def occupy() -> None:
        taken.set()
        release.wait()

    busy = threading.Thread(target=hash_pool().run_blocking, args=(occupy,))
    busy.start()
    taken.wait()
    yield
    release.set()
    busy.join()
