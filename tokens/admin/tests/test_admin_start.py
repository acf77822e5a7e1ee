"""The figure of live sessions on the admin's start page."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from accounts.users.models import User
from ironauth.infrastructure.core import clock
from tokens.admin import start as admin_start
from tokens.sessions.models import Session

pytestmark = [pytest.mark.django_db, pytest.mark.storage]


def _session(user: User, *, used_ago_s: float = 0, **columns: Any) -> None:
    now = clock.now()
    ends = {"idle_expires_at": now + timedelta(days=1), "absolute_expires_at": now + timedelta(days=2)}
    used = now - timedelta(seconds=used_ago_s)
    Session.objects.create(
        **{"user": user, "master_key_id": "t1", "epoch": user.session_epoch, "last_used_at": used, **ends, **columns}
    )


@pytest.fixture
def user() -> User:
    """Somebody with four live sessions, used at different times, and three that are over."""
    user = User.objects.create_user("pia@example.com")
    gone = User.objects.create_user("gone@example.com", is_active=False)
    for used_ago_s in (0, 3_500, 3_700, 90_000):
        _session(user, used_ago_s=used_ago_s)
    _session(user, revoked_at=clock.now())
    _session(user, idle_expires_at=clock.now())
    _session(user, epoch=user.session_epoch + 1)
    _session(gone)
    return user


def _figure(client: Client) -> Any:
    cache.clear()
    (figure,) = [one for one in client.get("/admin/").context["figures"] if one.label == "Active sessions"]
    return figure


def test_live_sessions_and_when_they_were_used(client: Client, user: User) -> None:
    """Those that would be let in are counted, by their last use, and the link lists the same."""
    client.force_login(User.objects.create_superuser("root@example.com"))
    figure = _figure(client)
    assert figure.value == "4"
    assert [note.text for note in figure.notes] == ["2 used in the past hour, 3 in 24 h"]
    assert figure.plot.summary == "Last used in the past hour: 2; Last used in 24 hours: 1; Last used before: 1"
    assert [bar.width for bar in figure.plot.bars] == [50, 25, 25]
    assert client.get(figure.link).context["cl"].result_count == 4


def test_a_million_sessions_are_not_looked_at(client: Client, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number the newest are counted, which the page says."""
    client.force_login(User.objects.create_superuser("root@example.com"))
    monkeypatch.setattr(admin_start, "LOOKED_AT", 9)
    assert _figure(client).value == "4"
    monkeypatch.setattr(admin_start, "LOOKED_AT", 7)
    figure = _figure(client)
    assert figure.value == "3+"
    assert figure.notes[-1].text == "Of the newest 7; there are older ones"


def test_the_count_is_kept_for_a_moment(user: User, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Two queries, and none while it is fresh."""
    with django_assert_num_queries(2):
        assert admin_start.live_sessions()["total"] == 4
    _session(user)
    with django_assert_num_queries(0):
        assert admin_start.live_sessions()["total"] == 4
