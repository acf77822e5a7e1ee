"""A member of staff who is signed in, with the rights that a test gives."""

import uuid

import httpx
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission

from accounts.users.models import User
from conftest import PASSWORD
from tokens.tests.browser import SIGNIN, Pair


async def staff(api: httpx.AsyncClient, *codenames: str) -> Pair:
    """Sign in as one of staff with these rights alone."""

    def make() -> str:
        user = User.objects.create_user(f"{uuid.uuid4().hex}@example.com", PASSWORD, is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        return user.email

    email = await sync_to_async(make)()
    return dict((await api.post(SIGNIN, json={"email": email, "password": PASSWORD})).json())
