"""The lookup of a part of a text finds it without regard to case and accents, on both databases."""

import pytest
from django.contrib.auth.models import Group

from ironauth.infrastructure.db import folding

pytestmark = pytest.mark.storage


@pytest.mark.django_db
@pytest.mark.parametrize(
    "part", ["M\u00fcller", "m\u00dcLL", "M\u00dcLL", "\u0142\u00f3d\u017a", "\u0141\u00d3D\u0179", "50%_\\"]
)
def test_every_letter_is_folded_and_no_wildcard_means_more(part: str) -> None:
    """Letters beyond ASCII in either case; what ``LIKE`` would take for a wildcard stands for itself."""
    Group.objects.create(name="Mueller, 500 a\\")
    row = Group.objects.create(name="M\u00fcller, \u0141\u00f3d\u017a, 50%_\\")
    assert list(Group.objects.filter(name__has_part=part)) == [row]


@pytest.mark.django_db
def test_accents_do_not_matter_and_other_letters_do() -> None:
    """Everything has the empty part."""
    row = Group.objects.create(name="M\u00fcller")
    assert list(Group.objects.filter(name__has_part="muller")) == [row]
    assert not Group.objects.filter(name__has_part="mueller").exists()
    assert list(Group.objects.filter(name__has_part="")) == [row]


def test_nothing_has_no_part() -> None:
    """A column without a value is not found, and is no error."""
    assert not folding._has_part(None, "")


@pytest.mark.django_db
@pytest.mark.only_postgres
def test_without_icu_the_locale_of_the_database_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without the collation is searched all the same."""
    row = Group.objects.create(name="M\u00fcller")
    monkeypatch.setattr(folding, "_has_collation", lambda alias: False)
    assert list(Group.objects.filter(name__has_part="LLER")) == [row]
