"""What tests of invitations share: sign-up by invitation, somebody who may invite, and links as they are mailed."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.conftest import MakeUser, SignIn
from accounts.email.tests.test_email_flows import delivered

INVITATIONS, SIGNUP, PAGE = "/api/v1/users/invitations", "/api/v1/access/signup", "/account/invitation"
INVITED, NEW_PASSWORD = "Ida@Example.com", "seven amber kites over Lyon"
RIGHTS = tuple(f"accounts.{verb}_invitation" for verb in ("view", "add", "delete"))

Call = Callable[..., Awaitable[httpx.Response]]


@pytest.fixture(autouse=True)
def _by_invitation(settings: Settings) -> None:
    settings.IRONAUTH_SIGN_UP = "invitation"


@pytest.fixture
async def as_inviter(api: httpx.AsyncClient, transactional_db: None, make_user: MakeUser, sign_in: SignIn) -> Call:
    """Give a way to call the API as somebody who may invite, and may give roles."""
    headers = await sign_in(await sync_to_async(make_user)(*RIGHTS, "accounts.add_user", email="staff@example.com"))

    async def call(method: str, path: str = INVITATIONS, **json: Any) -> httpx.Response:
        return await api.request(method, path, json=json or None, headers=headers)

    return call


async def mailed() -> str:
    """Deliver the only message and return the token of its link."""
    ((_, _, token),) = await delivered()
    assert token is not None
    return token


async def invited(call: Call, **fields: Any) -> str:
    """Invite Ida, and return the token that she is mailed."""
    answer = await call("POST", email=INVITED, **fields)
    assert answer.status_code == 201, answer.text
    return await mailed()
