"""Fixtures of this application's tests."""

import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from django.db.backends.utils import CursorWrapper

from accounts.users.models import User
from accounts.users.outputs import Account
from accounts.users.services import account_snapshot
from conftest import PASSWORD
from ironauth.infrastructure.db import prepared as prepared_statements
from tokens.tests.browser import SIGNIN, Member, Pair
from tokens.tests.stage import Stage

#: What is asserted there is written anew, whichever test imports it first.
pytest.register_assert_rewrite("tokens.oauth.tests.openid.plans", "tokens.oauth.tests.openid.relying_party")


@pytest.fixture
def new_account(db: None, new_email: Callable[[], str]) -> Callable[[], Account]:
    """A source of accounts that cannot sign in by password; for units of work."""

    def create() -> Account:
        user = User.objects.create_user(email=new_email())
        account = account_snapshot(user.pk)
        assert account is not None
        return account

    return create


@pytest.fixture
async def stage(api: httpx.AsyncClient, pair: Pair, member: Member) -> Stage:
    """Everybody is signed in, and what led there is not part of the scene."""
    root = await User.objects.acreate(
        email="root@example.com", email_key="root@example.com", password="", is_superuser=True, is_staff=True
    )
    password = (await User.objects.aget(pk=member["id"])).password
    await User.objects.filter(pk=root.pk).aupdate(password=password)
    signed_in = await api.post(SIGNIN, json={"email": "root@example.com", "password": PASSWORD})
    return Stage(api, uuid.UUID(member["id"]), member["email"], pair, root.pk, signed_in.json())


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement of this process but those that begin a transaction or prepare a new connection."""
    seen: list[str] = []
    original = CursorWrapper.execute

    def watch(self: CursorWrapper, sql: Any, params: Any = None) -> Any:
        if not str(sql).startswith(("BEGIN", "PRAGMA")):
            seen.append(str(sql))
        return original(self, sql, params)

    straight = prepared_statements._straight

    def watch_fixed(connection: Any, raw: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return straight(connection, raw, sql, *rest)

    monkeypatch.setattr(CursorWrapper, "execute", watch)
    monkeypatch.setattr(prepared_statements, "_straight", watch_fixed)
    return seen
