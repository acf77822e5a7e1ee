"""Seeding many people and sessions at once."""

from datetime import timedelta
from typing import Any, cast

import pytest
from django.contrib.auth.models import Group
from django.db.models import Count

from accounts.email_address import fold
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from perf.rig import bulk_seed
from tokens.purge import purge_expired
from tokens.sessions import refresh_token
from tokens.sessions import rotation as session_rotation
from tokens.sessions.models import Session
from tokens.sessions.rotation import Outcome

pytestmark = [pytest.mark.django_db, pytest.mark.storage]

PEOPLE = 1_000


@pytest.fixture
def seeded() -> None:
    """A thousand people and sessions."""
    bulk_seed.seed(PEOPLE)


@pytest.mark.parametrize(("model", "columns"), [(User, bulk_seed.USER_COLUMNS), (Session, bulk_seed.SESSION_COLUMNS)])
def test_every_column_is_seeded(model: Any, columns: tuple[str, ...]) -> None:
    """A new column of a model is noticed here, not by a database that refuses a million rows."""
    assert set(columns) == {field.column for field in model._meta.concrete_fields}


def test_the_rows_are_as_the_models_want_them(seeded: None) -> None:
    """People and sessions pass their models' own validation, and keep the rules the database cannot check."""
    for user in User.objects.order_by("?")[:50]:
        user.full_clean(exclude=["email", "email_key"])  # unique: checked below for all of them
        assert user.email_key == fold(user.email)
        assert user.created_at <= clock.now()
    for session in Session.objects.order_by("?")[:50]:
        session.full_clean()
        assert session.created_at <= session.last_used_at <= clock.now()
        assert session.idle_expires_at <= session.absolute_expires_at
        assert session.id.version == 7
        assert len(bytes(session.secret)) == refresh_token.SECRET_BYTES


def test_who_has_what(seeded: None) -> None:
    """One person in a hundred has ten sessions, most have one, and roles go to those they are meant for."""
    counts = User.objects.annotate(number=Count("sessions")).values_list("number", flat=True).order_by()
    assert sorted(counts).count(10) == PEOPLE // 100
    assert sorted(counts).count(1) == PEOPLE * 9 // 10
    assert Session.objects.count() == User.objects.count() == PEOPLE
    for role, every in bulk_seed.ROLES.items():
        assert Group.objects.get(name=role).user_set.count() == PEOPLE // every
    assert User.objects.filter(name="Robin 07").count() == PEOPLE // bulk_seed.NAMES


def test_a_tenth_of_the_sessions_is_ready_to_be_purged(seeded: None) -> None:
    """The purge takes those that ended two days ago and no other."""
    assert Session.objects.live(clock.now()).count() == PEOPLE * 9 // 10
    assert purge_expired().sessions == PEOPLE // 10


def test_live_sessions_can_be_refreshed(seeded: None) -> None:
    """A token made from a seeded row is accepted as one that this server has given out."""
    found = Session.objects.live(clock.now()).order_by("?")[:20]
    for session in found:
        token = refresh_token.mint(
            session_id=session.pk,
            generation=session.generation,
            secret=bytes(session.secret),
            master_key_id=session.master_key_id,
        )
        parsed = cast("refresh_token.ParsedRefreshToken", refresh_token.parse(token))
        assert session_rotation.rotate(parsed=parsed).outcome is Outcome.ROTATED


def test_sessions_will_live_for_hours(seeded: None) -> None:
    """No session that is live now ends while an experiment runs."""
    now = clock.now()
    live = Session.objects.live(now).count()
    assert Session.objects.live(now + timedelta(hours=12)).count() == live


@pytest.mark.parametrize("people", [0, 50, 150, 611_953 * 100])
def test_numbers_that_do_not_work_are_refused(people: int) -> None:
    """Only multiples of a hundred can be divided as promised, and not those of the scattering prime."""
    with pytest.raises(ValueError, match="seed a multiple of 100 people"):
        bulk_seed.seed(people)
