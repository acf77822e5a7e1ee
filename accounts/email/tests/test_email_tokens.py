"""Single-use tokens that travel by e-mail."""

import base64
import uuid
from collections import Counter
from functools import partial

import pytest
from django.db import connections
from django.test import override_settings
from pytest_django import DjangoAssertNumQueries

from accounts.conftest import MakeUser
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken
from accounts.outbox.tokens import Purpose
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.tests.at_once import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("still_clock")]


@pytest.fixture
def user(make_user: MakeUser) -> User:
    """Make one person."""
    return make_user(email="mia@example.com", name="Mia")


def issued(user: User | None, purpose: Purpose = Purpose.RESET_PASSWORD, new_email: str = "") -> str:
    """Make a token and return its text."""
    token_id = email_tokens.issue(purpose=purpose, user_id=user.pk if user else None, new_email=new_email)
    return email_tokens.text(EmailToken.objects.get(pk=token_id))


def test_a_token_says_whose_it_is_and_for_what(user: User) -> None:
    """What was made is found again, with everything the flows need, by its purpose alone."""
    token = issued(user, Purpose.CHANGE_EMAIL, "new@example.com")
    found = email_tokens.find(token, Purpose.CHANGE_EMAIL)
    assert found is not None
    assert found[1:] == ("change_email", "new@example.com", user.pk, "mia@example.com", "Mia")
    assert email_tokens.find(token, Purpose.VERIFY_EMAIL, Purpose.CHANGE_EMAIL) == found
    assert email_tokens.find(token, Purpose.RESET_PASSWORD, Purpose.VERIFY_EMAIL) is None


def test_the_database_holds_nothing_that_makes_a_token(user: User) -> None:
    """Neither the text nor its 256-bit code is stored, and another master key gives another text."""
    token = issued(user)
    mac = base64.urlsafe_b64decode(token)[16:]
    assert len(mac) == 32
    row = EmailToken.objects.values().get()
    assert token not in str(row)
    assert mac not in (bytes(row["digest"]), bytes(row["nonce"]))
    stored = EmailToken.objects.get()
    with override_settings(IRONAUTH_MASTER_KEYS={stored.master_key_id: bytes(range(32))}):
        assert email_tokens.text(stored) != token
    with override_settings(IRONAUTH_MASTER_KEYS={"other": bytes(range(32))}), pytest.raises(MasterKeyMissingError):
        email_tokens.text(stored)


def test_the_text_is_bound_to_purpose_id_and_nonce(user: User) -> None:
    """Anybody who changes a row does not get the token of another purpose out of this one."""
    token = issued(user)
    stored = EmailToken.objects.get()
    stored.purpose = Purpose.VERIFY_EMAIL.value
    assert email_tokens.text(stored) != token


@pytest.mark.parametrize("end", ["last moment", "over"])
@pytest.mark.parametrize("minutes", [10, 60])
def test_a_token_lives_as_long_as_the_setting_says(user: User, end: str, minutes: int) -> None:
    """It is good a tenth of a second before its end, and neither found nor used up at it."""
    with override_settings(IRONAUTH_EMAIL_TOKEN_MIN=minutes):
        token = issued(user)
    token_id = EmailToken.objects.get().pk
    with clock.shifted(60 * minutes - (1 if end == "last moment" else 0)):
        assert (email_tokens.find(token, Purpose.RESET_PASSWORD) is not None) == (end == "last moment")
        assert email_tokens.consume(token_id) == (end == "last moment")


def test_its_life_begins_with_its_message(user: User) -> None:
    """A message that waited for an hour brings a token with its whole life before it."""
    token = issued(user)
    with clock.shifted(3_600):
        assert email_tokens.find(token, Purpose.RESET_PASSWORD) is None
        email_tokens.renew(EmailToken.objects.get())
        assert email_tokens.find(token, Purpose.RESET_PASSWORD) is not None


def test_a_newer_token_replaces_only_the_older_of_its_kind(user: User, make_user: MakeUser) -> None:
    """Of two for one purpose the older is dead; other purposes and other people keep theirs."""
    other = make_user()
    first, verify, theirs = issued(user), issued(user, Purpose.VERIFY_EMAIL), issued(other)
    second = issued(user)
    assert email_tokens.find(first, Purpose.RESET_PASSWORD) is None
    for token in (second, verify, theirs):
        assert email_tokens.find(token, *Purpose) is not None


def test_of_many_users_at_once_one_wins(user: User) -> None:
    """Twelve threads use a token up at the same moment: exactly one is told that it was good."""
    issued(user)
    token_id = EmailToken.objects.get().pk
    assert Counter(at_once(*[partial(email_tokens.consume, token_id)] * 12)) == {True: 1, False: 11}


@pytest.mark.parametrize(
    "route", ["save", "update", "bulk_update", "set_password", "deactivate", "address", "address by update", "delete"]
)
def test_a_changed_account_forgets_its_tokens(user: User, make_user: MakeUser, route: str) -> None:
    """A new password, address or a deactivation by any route leaves no token of the person, and all of others."""
    theirs = issued(make_user())
    for purpose in Purpose:
        issued(user, purpose)
    match route:
        case "save":
            user.password = "changed"
            user.save()
        case "update":
            User.objects.filter(pk=user.pk).update(password="changed")
        case "bulk_update":
            user.password = "changed"
            User.objects.bulk_update([user], ["password"])
        case "set_password":
            user.set_password("another otter rides 7 trams")
            user.save(update_fields=["password"])
        case "deactivate":
            User.objects.filter(pk=user.pk).update(is_active=False)
        case "address":
            user.email = "new@example.com"
            user.save(update_fields=["email"])
        case "address by update":
            User.objects.filter(pk=user.pk).update(email="new@example.com")
        case "delete":
            user.delete()
    assert not EmailToken.objects.filter(user_id=user.pk).exists()
    assert email_tokens.find(theirs, Purpose.RESET_PASSWORD) is not None


@pytest.mark.parametrize("route", ["hash upgrade", "name", "same password", "same address", "end sessions"])
def test_what_changes_no_secret_keeps_the_tokens(user: User, route: str) -> None:
    """A costlier hash of the same password, a new name or a sign-out everywhere leave what was mailed."""
    token = issued(user)
    match route:
        case "hash upgrade":
            assert User.objects.get_queryset().upgrade_hash(user.pk, user.password, "costlier")
        case "name":
            user.name = "Mia M."
            user.save()
        case "same password":
            user.save(update_fields=["password"])
        case "same address":
            user.email = "MIA@example.com"
            user.save(update_fields=["email"])
        case "end sessions":
            User.objects.filter(pk=user.pk).update(session_epoch=7)
    assert email_tokens.find(token, Purpose.RESET_PASSWORD) is not None


def test_an_inactive_person_has_no_token(user: User) -> None:
    """A token does nothing while its person is inactive, however that came about."""
    token = issued(user)
    with connections["default"].cursor() as cursor:
        cursor.execute("UPDATE accounts_user SET is_active = %s", [False])
    assert email_tokens.find(token, Purpose.RESET_PASSWORD) is None


@pytest.mark.parametrize("change", ["", "x", "=", "first", "last", "plus", "nul", "other", "unicode"])
def test_what_is_no_token_of_ours_is_refused(user: User, change: str) -> None:
    """Nothing but the exact text is accepted, and nothing at all breaks it."""
    token = issued(user)
    raw = bytearray(base64.urlsafe_b64decode(token))
    match change:
        case "first":
            raw[0] ^= 1
            token = base64.urlsafe_b64encode(raw).decode()
        case "last":
            raw[-1] ^= 1
            token = base64.urlsafe_b64encode(raw).decode()
        case "plus":
            token = token[:-1] + "+"
        case "nul":
            token = "\x00" * 64
        case "other":
            token = base64.urlsafe_b64encode(uuid.uuid4().bytes + bytes(32)).decode()
        case "unicode":
            token = "é" * 64
        case _:
            token = change if change == "" else token + change
    assert email_tokens.find(token, *Purpose) is None


def test_a_token_for_nobody_costs_the_same_and_opens_nothing(
    user: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """The row for an unknown address is written by the same statements."""
    for whose in (user, None):
        issued(whose)
        with django_assert_num_queries(2):
            token_id = email_tokens.issue(purpose=Purpose.RESET_PASSWORD, user_id=whose.pk if whose else None)
    token = email_tokens.text(EmailToken.objects.get(pk=token_id))
    assert email_tokens.find(token, *Purpose) is None


def test_expired_tokens_are_purged_in_batches(user: User, make_user: MakeUser) -> None:
    """What has expired goes, so many at a time; what has not stays."""
    for _ in range(3):
        issued(None)
    with clock.shifted(2_000):
        kept = issued(user)
        assert email_tokens.purge(before=clock.now(), batch=2) == 2
        assert email_tokens.purge(before=clock.now(), batch=2) == 1
        assert email_tokens.purge(before=clock.now(), batch=2) == 0
        assert email_tokens.find(kept, Purpose.RESET_PASSWORD) is not None
