"""What a project may register as its own fields of a person."""

from collections.abc import Iterator

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, models, transaction
from django.test.utils import isolate_apps
from django.urls import NoReverseMatch, reverse

from accounts.conftest import MakeUser
from accounts.email import first_proof
from accounts.email.first_proof import Fate
from accounts.own_account import project_profile
from accounts.privacy import export
from accounts.users.models import User


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(project_profile, "_registered", [])
    monkeypatch.setattr(export, "_sections", dict(export._sections))
    monkeypatch.setattr(first_proof, "_rules", dict(first_proof._rules))
    first_proof._removals.cache_clear()
    with isolate_apps():
        yield
    first_proof._removals.cache_clear()


def profile(**fields: models.Field) -> type[models.Model]:  # type: ignore[type-arg] # of any kind
    """Return a model with these fields."""
    meta = type("Meta", (), {"app_label": "shop"})
    return type("Profile", (models.Model,), {"__module__": __name__, "Meta": meta, **fields})


def person() -> "models.OneToOneField[User, User]":
    """Return the field that every such model has."""
    return models.OneToOneField(User, models.CASCADE, related_name="+")


def test_plain_fields_are_taken() -> None:
    """Of those that are named, no others are in the serializer, and the export has a section for them."""
    model = profile(
        user=person(), nickname=models.CharField(max_length=9), age=models.IntegerField(), x=models.TextField()
    )
    project_profile.register(model, "nickname", "age")
    found = project_profile.registered()
    assert found is not None
    assert list(found.serializer().fields) == ["nickname", "age"]
    assert model in export.covered()
    assert first_proof.rules()[model].fate is Fate.REMOVED
    with pytest.raises(ImproperlyConfigured, match="registered already"):
        project_profile.register(model, "nickname")


def test_another_fate_of_the_model_is_kept() -> None:
    """A project that has said before what becomes of the rows is not overruled, and starts."""
    model = profile(user=person(), nickname=models.CharField(max_length=9))
    first_proof.register(model, Fate.KEPT, "Staff alone fill it.")
    project_profile.register(model, "nickname")
    assert first_proof.rules()[model].fate is Fate.KEPT


@pytest.mark.django_db(transaction=True)
def test_what_a_stranger_said_goes_with_the_first_proof(make_user: MakeUser) -> None:
    """The row of the account whose address is proved, and nobody else's."""
    model = profile(user=person(), nickname=models.CharField(max_length=9))
    project_profile.register(model, "nickname")
    victim, other = make_user(), make_user()
    with connection.schema_editor() as schema:
        schema.create_model(model)
    try:
        for user in (victim, other):
            model._default_manager.create(user_id=user.pk, nickname="Evil")
        with transaction.atomic():
            first_proof.start_clean(victim, encoded=victim.password)
        assert project_profile.read(user_id=victim.pk) == {"nickname": ""}
        assert project_profile.read(user_id=other.pk) == {"nickname": "Evil"}
    finally:
        with connection.schema_editor() as schema:
            schema.delete_model(model)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (models.JSONField(), "no field that people may change"),
        (models.FileField(), "no field that people may change"),
        (models.BinaryField(), "no field that people may change"),
        (models.CharField(editable=False, max_length=9), "no field that people may change"),
        (models.CharField(primary_key=True, max_length=9), "no field that people may change"),
        (models.ForeignKey(User, models.CASCADE, related_name="+"), "no field that people may change"),
        (models.ManyToManyField(User, related_name="+"), "no field that people may change"),
    ],
)
def test_other_fields_are_refused(field: models.Field, words: str) -> None:  # type: ignore[type-arg] # of any kind
    """A reference would let people point at rows of others, and the rest is no JSON that a column can hold."""
    with pytest.raises(ImproperlyConfigured, match=words):
        project_profile.register(profile(user=person(), given=field), "given")
    assert project_profile.registered() is None


@pytest.mark.parametrize(
    ("fields", "named", "words"),
    [
        ({"nickname": models.TextField()}, ["nickname"], "called user"),
        ({"user": models.TextField(), "nickname": models.TextField()}, ["nickname"], "called user"),
        ({"user": models.ForeignKey(User, models.CASCADE, related_name="+")}, ["nickname"], "called user"),
        ({"user": person(), "nickname": models.TextField()}, ["nick"], "has no field 'nick'"),
        ({"user": person(), "nickname": models.TextField()}, ["user"], "no field that people may change"),
        ({"user": person(), "nickname": models.TextField()}, [], "Name the fields"),
    ],
)
def test_models_that_are_none(fields: dict[str, models.Field], named: list[str], words: str) -> None:  # type: ignore[type-arg] # of any kind
    """One without its person, and names that it has not; the error says the remedy."""
    with pytest.raises(ImproperlyConfigured, match=words):
        project_profile.register(profile(**fields), *named)


def test_without_one_there_is_no_path() -> None:
    """An installation that has registered nothing has no path for it."""
    with pytest.raises(NoReverseMatch):
        reverse("me-profile")
