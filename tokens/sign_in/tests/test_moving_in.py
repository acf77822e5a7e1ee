"""The sign-in page of applications lets people of the old system move in, as the API does."""

from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.lazy_migration import asking
from accounts.lazy_migration.tests.old_system import EMAIL, PASSWORD, OldSystem, endpoint
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.threads.circuit_breaker import Breaker
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]


@pytest.fixture(autouse=True)
def old_system(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[OldSystem]:
    """An endpoint with one person, which is asked until tomorrow."""
    monkeypatch.setattr(asking, "_breaker", Breaker("old_system"))
    with OldSystem(endpoint()) as there:
        settings.IRONAUTH_LAZY_MIGRATION = "endpoint"
        settings.IRONAUTH_LAZY_MIGRATION_URL = there.url
        settings.IRONAUTH_LAZY_MIGRATION_UNTIL = clock.now() + timedelta(days=1)
        settings.IRONAUTH_LAZY_MIGRATION_TIMEOUT_S = 10.0
        settings.IRONAUTH_LAZY_MIGRATION_NETWORKS = ["127.0.0.0/8"]
        yield there


async def test_on_the_page_of_an_application(api: httpx.AsyncClient, old_system: OldSystem) -> None:
    """From the client's link over the sign-in page to the client, with an account that was not there before."""
    client, _ = await sync_to_async(make_client)(trusted=True)
    page = await by_password(api, await authorize(api, client), EMAIL, PASSWORD)
    assert answered(page)["code"]
    assert await User.objects.acount() == len(old_system.requests) == 1
