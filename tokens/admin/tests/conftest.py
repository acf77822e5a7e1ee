"""Browsers of staff, and the fixtures of the provider's tests, for tests of a room below it."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from accounts.users.models import User
from tokens.oauth.conftest import app, gateway, robot, tokens, wiki

__all__ = [
    "app",
    "gateway",
    "robot",
    "tokens",
    "wiki",
]


@pytest.fixture
def make_clerk(new_email: Callable[[], str]) -> Callable[..., Client]:
    """A maker of browsers of staff with these permissions."""

    def make(*codenames: str) -> Client:
        user = User.objects.create_user(email=new_email(), is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client = Client()
        client.force_login(user)
        return client

    return make
