"""Lists for those who hold a right, where there is a replica: who is asked what."""

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from accounts.access import listing
from accounts.access.rights import VIEW_USERS
from accounts.conftest import MakeUser
from ironauth.infrastructure.core.errors import PermissionDenied
from ironauth.infrastructure.db.unit_of_work import database

pytestmark = pytest.mark.django_db(transaction=True)


class TwoServers:
    """The database as the primary, and a replica that answers without asking it."""

    has_replica = True

    def __init__(self) -> None:
        self.primary: list[str] = []
        self.replica: list[tuple[Any, ...]] = []

    async def read(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Ask the primary."""
        self.primary.append(fn.__name__)
        return await database().read(fn, *args)

    async def read_stale(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Ask the replica."""
        self.replica.append((fn, *args))
        return "page"


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> TwoServers:
    """Both servers."""
    made = TwoServers()
    monkeypatch.setattr(listing, "database", lambda: made)
    return made


def unit(_: dict[str, int]) -> str:
    """Stand for a list, that of the primary."""
    return "the primary's page"


async def test_the_right_is_the_primarys_and_the_list_the_replicas(servers: TwoServers, make_user: MakeUser) -> None:
    """Who holds the right gets the list of the replica, which is asked for nothing else."""
    actor = await sync_to_async(make_user)(VIEW_USERS)
    assert await listing.list_for_holder(actor.pk, VIEW_USERS, unit, {"page_size": 1}) == "page"
    assert servers.primary == ["rights_of"]
    assert servers.replica == [(unit, {"page_size": 1})]


async def test_without_the_right_no_replica_is_asked(servers: TwoServers, make_user: MakeUser) -> None:
    """It is refused by what the primary says."""
    actor = await sync_to_async(make_user)()
    with pytest.raises(PermissionDenied):
        await listing.list_for_holder(actor.pk, VIEW_USERS, unit, {"page_size": 1})
    assert servers.replica == []
