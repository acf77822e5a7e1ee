"""Fixtures of this application's tests."""

from collections.abc import Callable

import pytest

from accounts.models import User
from accounts.outputs import Account
from accounts.services import account_snapshot


@pytest.fixture
def new_account(db: None, new_email: Callable[[], str]) -> Callable[[], Account]:
    """A source of accounts that cannot sign in by password; for units of work."""

    def create() -> Account:
        user = User.objects.create_user(email=new_email())
        account = account_snapshot(user.pk)
        assert account is not None
        return account

    return create
