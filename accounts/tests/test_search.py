"""People are found by part of an address or name; on Postgres by an index, where the extension may be had."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import QuerySet

from accounts import search
from accounts.admin import search as admin_search
from accounts.privacy.models import PendingDeletion
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db import text_index

pytestmark = [pytest.mark.storage, pytest.mark.django_db]


def _person(address: str, name: str = "") -> User:
    user = User(email=address, name=name, password="!")
    user.save()
    return user


def _leaving(user: User, address: str) -> User:
    now = clock.now()
    PendingDeletion.objects.create(user=user, email=address, requested_at=now, due_at=now)
    return user


def _found(text: str) -> set[str]:
    return {user.email for user in User.objects.get_queryset().search(text)}


def test_three_characters_are_found_anywhere_and_two_where_a_word_begins() -> None:
    """No index finds two letters in the middle of a word, so that nothing else does."""
    _person("carla.olsen@example.com", "Maria Xu-Lan")
    everybody = {"carla.olsen@example.com"}
    assert _found("rla") == _found("ols") == _found("u-L") == everybody
    assert _found("ca") == _found("c") == _found("xu") == _found("MA x") == everybody
    assert _found("rl") == _found("la") == _found("@e") == set()


def test_a_word_is_found_within_one_column() -> None:
    """The end of the address and the beginning of the name make no word together."""
    _person("anna@example.com", "Berta")
    assert _found("comberta") == _found("com\tcarla") == set()
    assert _found("com\tberta") == _found("example.com\u3000ber") == {"anna@example.com"}


def test_a_whole_address_is_found_and_none_of_another_domain() -> None:
    """What is before the @ finds them, and all of it has to be there."""
    for domain in ("example.com", "example.org", "xample.com"):
        _person(f"carla.olsen@{domain}")
    _person("carla@example.com")
    assert _found("Carla.Olsen@Example.COM") == {"carla.olsen@example.com"}
    assert _found("sen@example.") == {"carla.olsen@example.com", "carla.olsen@example.org"}
    assert _found("olsen@") == {f"carla.olsen@{domain}" for domain in ("example.com", "example.org", "xample.com")}
    assert _found("a@xa") == set()
    assert _found("n@xa") == {"carla.olsen@xample.com"}


def test_a_name_is_searched_in_the_form_it_is_stored_in() -> None:
    """A letter and its accent apart find the letter with the accent."""
    _person("carla@example.com", "M\u00fcller")
    assert _found("mu\u0308ll") == {"carla@example.com"}


def test_staff_find_people_who_leave_by_the_address_they_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether few of them have the word, each named by the condition, or more."""
    gone = _leaving(_person("1@deleted.invalid", "Anna"), "anna@left.example")
    other = _leaving(_person("2@deleted.invalid"), "other@left.example")
    _person("stays@example.com")
    for most in (0, 1, 1_000):
        monkeypatch.setattr(admin_search, "MOST_NAMED", most)
        assert set(admin_search.people(User.objects.all(), "left.ex")) == {gone, other}
        assert set(admin_search.people(User.objects.all(), "left an")) == {gone}
        assert not admin_search.people(User.objects.all(), "nobody")


def _plan(people: QuerySet[User]) -> str:
    """Return the plan where a walk through the table, or an order, is the last thing to be chosen."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_indexscan = off")
    return people.order_by().explain()


@pytest.mark.only_postgres
def test_an_index_finds_part_of_a_name_and_who_leaves() -> None:
    """One condition over the row of the person, or the primary key of somebody who leaves."""
    _leaving(_person("1@deleted.invalid"), "anna@left.example")
    assert search.PEOPLE.name in _plan(User.objects.get_queryset().search("left.ex anna"))
    both = _plan(admin_search.people(User.objects.all(), "left"))
    assert "BitmapOr" in both
    assert search.PEOPLE.name in both
    leaving = _plan(PendingDeletion.objects.filter(search.has("left", "email")))  # type: ignore[arg-type] # a plan of any
    assert search.LEAVING.name in leaving


@pytest.mark.only_postgres
def test_without_the_right_to_the_extension_nothing_fails_and_a_check_tells() -> None:
    """The migration goes on, people are found, and the command says what to do; with the right it is made up for."""
    with connection.cursor() as cursor:
        cursor.execute("DROP EXTENSION pg_trgm CASCADE")
        cursor.execute("CREATE ROLE poor")
        cursor.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO poor")
        cursor.execute("SET LOCAL ROLE poor")
    assert not any(text_index.build(connection, index) for index in search.INDEXES)
    assert [found.id for found in search.check_indexes(None, databases=["default"])] == ["ironauth.W003"]
    with pytest.raises(CommandError, match="CREATE EXTENSION pg_trgm"):
        call_command("search_index")
    _person("carla@example.com")
    assert _found("arla") == {"carla@example.com"}
    with connection.cursor() as cursor:
        cursor.execute("RESET ROLE")
    said = StringIO()
    call_command("search_index", stdout=said)
    assert said.getvalue().splitlines() == [f"{index.name}: there" for index in search.INDEXES]
    assert search.check_indexes(None, databases=["default"]) == []


@pytest.mark.only_postgres
def test_what_a_broken_attempt_has_left_is_made_anew() -> None:
    """An index that Postgres does not use is dropped; one that it uses stays as it is."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'accounts_user_search'::regclass")
    assert not text_index.is_there(connection, search.PEOPLE)
    assert len(search.check_indexes(None, databases=["default"])) == 1
    assert text_index.build(connection, search.PEOPLE)
    assert text_index.is_there(connection, search.PEOPLE)


@pytest.mark.only_sqlite
def test_on_sqlite_there_is_no_index_and_nothing_to_say() -> None:
    """The command does nothing, and no check warns."""
    assert search.check_indexes(None, databases=["default"]) == []
    said = StringIO()
    call_command("search_index", stdout=said)
    assert said.getvalue() == "Nothing to do: SQLite has no such index.\n"
