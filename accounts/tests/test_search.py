"""People are found by part of an address or name; on Postgres by an index, where the extension may be had."""

from collections.abc import Callable
from io import StringIO

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.models import QuerySet

from accounts import search
from accounts.admin import search as admin_search
from accounts.privacy.models import PendingDeletion
from accounts.users import queries
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


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("M\u00fcller", "muller"),
        ("Muller", "m\u00fcLLER"),
        ("Stra\u00dfe", "strasse"),
        ("\u0141ukasz S\u00f8ren \u0110or\u0111e", "lukasz SOREN dorde"),
        ("KJ\u00c6R", "kjaer"),
        ("Nguy\u1ec5n", "nguyen"),
        ("\u0413\u041e\u0420\u0401\u0412", "\u0433\u043e\u0440\u0435\u0432"),
        ("\u1f08\u03b8\u03ae\u03bd\u03b1\u03c2", "\u03b1\u03b8\u03b7\u03bd\u03b1\u03c3"),
        ("\uff2d\uff41\uff52\uff49\uff41", "maria"),
    ],
)
def test_a_name_is_found_without_its_accents(name: str, typed: str) -> None:
    """And with accents that it has not; a letter that no keyboard has is typed as people type it."""
    _person("carla@example.com", name)
    _leaving(gone := _person("1@deleted.invalid", name), "anna@left.example")
    assert _found(typed) == {"carla@example.com", gone.email}
    assert set(User.objects.get_queryset().search_leaving(f"{typed} left.ex")) == {gone}


def test_the_mark_of_another_script_makes_another_letter() -> None:
    """The voicing of kana is none, nor is what makes up a syllable of Hangul. No character becomes a wildcard."""
    _person("carla@example.com", "\u304b\u304d\u304f \ud558\uc138\uc694 Ann_a")
    assert _found("\u304b\u304d\u304f") == _found("\ud558\uc138\uc694") == {"carla@example.com"}
    assert _found("\u304c\u304d\u304f") == _found("\ud55c\uc138\uc694") == set()
    assert _found("\uff05\uff05\uff05") == _found("ca\uff3fla") == set()
    assert _found("ann\uff3fa") == {"carla@example.com"}


def _change_by_save(user: User) -> None:
    user.name = "Renamed"
    user.save(update_fields=["name"])


def _change_by_unit(user: User) -> None:
    user.name = "Renamed"
    queries.change(user, ["name"])


def _change_by_bulk(user: User) -> None:
    user.name = "Renamed"
    User.objects.bulk_update([user], ["name"])


def _change_by_sql(user: User) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE accounts_user SET name = 'Renamed' WHERE email = %s", [user.email])


@pytest.mark.parametrize(
    "change",
    [
        _change_by_save,
        _change_by_unit,
        _change_by_bulk,
        _change_by_sql,
        lambda user: User.objects.filter(pk=user.pk).update(name="Renamed"),
        lambda user: queries.set_profile(user.pk, {"name": "Renamed"}),
    ],
)
def test_a_new_name_is_found_at_once_and_the_old_one_never_again(change: Callable[[User], None]) -> None:
    """However it is written: the database keeps the text, and no program has to."""
    user = _person("carla@example.com", "Former")
    assert _found("former") == {"carla@example.com"}
    change(user)
    assert _found("renamed") == {"carla@example.com"}
    assert _found("former") == set()
    if connection.vendor == "postgresql":
        assert _texts() == [" CARLA@EXAMPLE.COM RENAMED   "]


def test_people_are_found_however_they_were_stored() -> None:
    """One by one, many at once, by a unit of work, and by a release that knows nothing of the text."""
    User.objects.bulk_create([User(email="1@example.com", name="Carla")])
    queries.add(User.objects.hashed(email="2@example.com", encoded="!", name="Carla"))
    queries.add_unless_taken(User.objects.hashed(email="3@example.com", encoded="!", name="Carla"))
    _person("4@example.com", "Carla")
    assert _found("carla") == {f"{number}@example.com" for number in range(1, 5)}


def _texts() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT search_text FROM accounts_user ORDER BY email")
        return [text for (text,) in cursor.fetchall()]


@pytest.mark.only_postgres
def test_no_statement_leaves_another_text() -> None:
    """What a program writes into the column is replaced by the trigger."""
    _person("carla@example.com", "Carla")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE accounts_user SET search_text = 'made up'")
    assert _texts() == [" CARLA@EXAMPLE.COM CARLA   "]


@pytest.mark.only_postgres
def test_rows_of_before_are_filled_in_batches_and_going_back_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broken run has filled is not filled again; the previous release runs on either."""
    with connection.cursor() as cursor:
        text_index.forget(connection, search.PEOPLE)
        cursor.execute(
            "SELECT count(*) FROM information_schema.columns"
            " WHERE table_name = 'accounts_user' AND column_name = 'search_text'"
        )
        assert cursor.fetchone() == (0,)
        for number in range(5):
            _person(f"{number}@example.com", "Ann\u00e9")
        monkeypatch.setattr(text_index, "BATCH", 2)
        assert text_index.store(connection, search.PEOPLE) == 5
        assert text_index.store(connection, search.PEOPLE) == 0
        assert _texts() == [f" {number}@EXAMPLE.COM ANNE   " for number in range(5)]
        cursor.execute("ALTER TABLE accounts_user DISABLE TRIGGER USER")
        cursor.execute("UPDATE accounts_user SET search_text = NULL WHERE email < '3'")
        cursor.execute("ALTER TABLE accounts_user ENABLE TRIGGER USER")
        assert text_index.store(connection, search.PEOPLE) == 3
    assert text_index.build(connection, search.PEOPLE)
    assert len(_found("anne")) == 5


@pytest.mark.only_postgres
@pytest.mark.django_db(transaction=True)
def test_nobody_waits_behind_the_migration_while_a_backup_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lets the others through after each try, gives up in the end, and goes on when it is run again."""
    monkeypatch.setattr(text_index, "LOCK_WAIT_MS", 10)
    monkeypatch.setattr(text_index, "PAUSE_S", 0)
    told = {**connection.get_connection_params()}
    told.pop("cursor_factory", None), told.pop("context", None)
    _person("carla@example.com")
    with psycopg.connect(**told) as backup:
        backup.execute("LOCK TABLE accounts_user IN ACCESS SHARE MODE")
        with pytest.raises(OperationalError, match="lock timeout"):
            text_index.store(connection, search.PEOPLE)
        _person("anna@example.com")
    assert text_index.store(connection, search.PEOPLE) == 0
    assert _found("example") == {"anna@example.com", "carla@example.com"}


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
        cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'accounts_user_parts'::regclass")
    assert not text_index.is_there(connection, search.PEOPLE)
    assert len(search.check_indexes(None, databases=["default"])) == 1
    assert text_index.build(connection, search.PEOPLE)
    assert text_index.is_there(connection, search.PEOPLE)


@pytest.mark.only_postgres
@pytest.mark.parametrize("lost", ["DROP TRIGGER {0} ON accounts_user", "ALTER TABLE accounts_user DISABLE TRIGGER {0}"])
def test_a_trigger_that_is_gone_is_told_and_made_anew(lost: str) -> None:
    """People who came meanwhile are found again; a check tells until then."""
    with connection.cursor() as cursor:
        cursor.execute(lost.format("accounts_user_search_text"))
    _person("carla@example.com")
    assert _found("arla") == set()
    assert [found.id for found in search.check_indexes(None, databases=["default"])] == ["ironauth.W003"]
    call_command("search_index", stdout=StringIO())
    assert _found("arla") == {"carla@example.com"}
    assert search.check_indexes(None, databases=["default"]) == []


@pytest.mark.only_sqlite
def test_on_sqlite_there_is_no_index_and_nothing_to_say() -> None:
    """The command does nothing, and no check warns."""
    assert search.check_indexes(None, databases=["default"]) == []
    assert text_index.store(connection, search.PEOPLE) == 0
    text_index.forget(connection, search.PEOPLE)
    said = StringIO()
    call_command("search_index", stdout=said)
    assert said.getvalue() == "Nothing to do: SQLite has no such index.\n"
