"""Applications of strangers that nobody uses are deleted; all others stay."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from tokens.clients.models import OAuthClient
from tokens.oauth import unused_clients
from tokens.oauth.models import Consent
from tokens.oauth.tests.flow import signed_on
from tokens.oauth.tests.material import make_public_client

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

DAY = timedelta(days=1)


def stranger(age: timedelta, **fields: Any) -> OAuthClient:
    """Store a client that registered itself so long ago."""
    given = {"profile": "agent", "origin": "registered", "created_at": clock.now() - age, **fields}
    return make_public_client(**given)


def allowed(client: OAuthClient, ago: timedelta) -> User:
    """Let somebody have allowed it something so long ago."""
    user = User.objects.create_user(f"{uuid.uuid4().hex}@example.com", "seven amber kites over Lyon")
    then = clock.now() - ago
    Consent.objects.create(user=user, client=client, scope="openid", created_at=then, updated_at=then)
    return user


@pytest.mark.parametrize(("age", "gone"), [(DAY - timedelta(seconds=5), 0), (DAY + timedelta(seconds=5), 1)])
def test_never_allowed_anything(age: timedelta, gone: int) -> None:
    """A day after it came; its end leaves an event."""
    stranger(age)
    assert unused_clients.purge(batch=10) == gone
    assert OAuthClient.objects.count() == 1 - gone
    assert AuditEvent.objects.filter(event="client_expired").count() == gone


@pytest.mark.parametrize(("ago", "gone"), [(9, 0), (11, 1)])
def test_not_used_since(settings: Settings, ago: int, gone: int) -> None:
    """Allowed something: after IRONAUTH_REGISTRATION_UNUSED_DAYS without any more, its consents go with it."""
    settings.IRONAUTH_REGISTRATION_UNUSED_DAYS = 10
    allowed(stranger(20 * DAY), ago * DAY)
    assert unused_clients.purge(batch=10) == gone
    assert Consent.objects.count() == 1 - gone


@pytest.mark.parametrize("over", [False, True])
def test_a_live_session_is_use(settings: Settings, over: bool) -> None:
    """While somebody is signed in to it, it stays."""
    settings.IRONAUTH_REGISTRATION_UNUSED_DAYS = 10
    client = stranger(40 * DAY)
    user = allowed(client, 40 * DAY)
    signed_on(user.pk, client_id=str(client.pk), revoked_at=clock.now() if over else None)
    assert unused_clients.purge(batch=10) == int(over)


@pytest.mark.parametrize("fields", [{"origin": "staff"}, {"verified_at": clock.now}, {"disabled_at": clock.now}])
def test_others_stay(fields: dict[str, Any]) -> None:
    """Clients of staff, verified ones, and those that staff have disabled, which could come back otherwise."""
    stranger(400 * DAY, **{name: value() if callable(value) else value for name, value in fields.items()})
    assert unused_clients.purge(batch=10) == 0


def test_in_batches() -> None:
    """However many at once, and though the first are in use."""
    used = stranger(40 * DAY)
    signed_on(allowed(used, 40 * DAY).pk, client_id=str(used.pk))
    for _ in range(5):
        stranger(40 * DAY)
    assert unused_clients.purge(batch=2) == 5
    assert list(OAuthClient.objects.values_list("pk", flat=True)) == [used.pk]
