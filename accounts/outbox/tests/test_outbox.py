"""The queue of messages: leases, retries, and what is written for nobody."""

import uuid
from datetime import timedelta
from functools import partial

import pytest
from django.db import transaction

from accounts.conftest import MakeUser
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.outbox.queue import FIRST_RETRY_S, Claimed
from accounts.outbox.tokens import Purpose
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.outbox import GIVE_UP_S, LEASE_S, retry_after
from ironauth.tests.at_once import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("still_clock")]


@pytest.fixture
def user(make_user: MakeUser) -> User:
    """Make one person."""
    return make_user(email="mia@example.com")


def queued(recipient: str = "mia@example.com", token_id: uuid.UUID | None = None) -> uuid.UUID:
    """Queue a message."""
    return outbox.enqueue(Kind.RESET_PASSWORD, recipient=recipient, token_id=token_id, facts={"browser": "Firefox"})


def taken(mail_id: uuid.UUID) -> Claimed:
    """Claim a message that is free."""
    mail = outbox.claim(mail_id)
    assert mail is not None
    return mail


def test_a_message_goes_with_its_transaction() -> None:
    """What is rolled back sends nothing."""
    with transaction.atomic():
        queued()
        transaction.set_rollback(True)
    assert outbox.due() == []
    with transaction.atomic():
        mail_id = queued()
    assert outbox.due() == [mail_id]


def test_a_claim_has_all_that_its_message_needs(user: User) -> None:
    """Kind, recipient, facts and the token's text, which is nowhere in the row."""
    token_id = email_tokens.issue(purpose=Purpose.RESET_PASSWORD, user_id=user.pk)
    mail = taken(queued(token_id=token_id))
    assert mail.token == email_tokens.text(EmailToken.objects.get(pk=token_id))
    assert (mail.kind, mail.recipient, mail.tries, mail.facts) == (
        "reset_password",
        "mia@example.com",
        1,
        {"browser": "Firefox"},
    )
    assert mail.token not in str(OutgoingMail.objects.values().get())


def test_claiming_begins_the_life_of_the_token(user: User) -> None:
    """However long the message waited, its token is good when it is sent."""
    token_id = email_tokens.issue(purpose=Purpose.RESET_PASSWORD, user_id=user.pk)
    mail_id = queued(token_id=token_id)
    with clock.shifted(5 * 3_600):
        token = taken(mail_id).token
        assert token is not None
        assert email_tokens.find(token, Purpose.RESET_PASSWORD) is not None


@pytest.mark.parametrize("after_s", [0, LEASE_S - 1, LEASE_S])
def test_a_lease_excludes_others_until_it_ends(after_s: float) -> None:
    """Nobody else gets a message while its lease lasts; at its end anybody does, as a further try."""
    mail_id = queued()
    taken(mail_id)
    with clock.shifted(after_s):
        over = after_s == LEASE_S
        assert (outbox.due() == [mail_id]) == over
        again = outbox.claim(mail_id)
        assert (again is not None) == over
        assert again is None or again.tries == 2


def test_of_many_workers_at_once_one_gets_the_message() -> None:
    """Eight threads claim the same message at the same moment."""
    mail_id = queued()
    results = at_once(*[partial(outbox.claim, mail_id)] * 8)
    assert sorted(isinstance(result, Claimed) for result in results) == [False] * 7 + [True]
    assert results.count(None) == 7


def test_who_lost_the_lease_changes_nothing() -> None:
    """A worker that woke up late neither keeps, nor returns, nor gives up what another one is sending."""
    mail_id = queued()
    late = taken(mail_id)
    with clock.shifted(LEASE_S):
        now_theirs = taken(mail_id)
        before = OutgoingMail.objects.values().get()
        assert not outbox.keep(late)
        assert not outbox.failed(late)
        with clock.shifted(GIVE_UP_S):
            assert not outbox.failed(late)
        assert OutgoingMail.objects.values().get() == before
        assert outbox.keep(now_theirs)


def test_keeping_begins_the_lease_anew() -> None:
    """A message that takes long to send stays with its worker."""
    mail = taken(queued())
    with clock.shifted(LEASE_S - 1):
        assert outbox.keep(mail)
    with clock.shifted(2 * LEASE_S - 2):
        assert outbox.due() == []
    with clock.shifted(2 * LEASE_S):
        assert outbox.due() == [mail.id]


def test_a_failure_waits_longer_each_time() -> None:
    """15 seconds, doubled up to an hour, a fifth more or less; free for everybody afterwards, not before."""
    for tries, wait in ((1, 15), (2, 30), (3, 60), (8, 1_920), (9, 3_600), (30, 3_600), (10_000, 3_600)):
        waits = [retry_after(tries, first_s=FIRST_RETRY_S).total_seconds() for _ in range(200)]
        assert 0.8 * wait <= min(waits) < 0.9 * wait
        assert 1.1 * wait < max(waits) <= 1.2 * wait
    mail = taken(queued())
    assert not outbox.failed(mail)
    with clock.shifted(11.9):
        assert outbox.due() == []
    with clock.shifted(18.1):
        assert outbox.due() == [mail.id]


@pytest.mark.parametrize("age_s", [GIVE_UP_S - 1, GIVE_UP_S + 1])
def test_a_message_is_given_up_after_a_day_and_kept(age_s: float) -> None:
    """A failure within the day is tried again; one after it is the last, and the row stays to be seen."""
    mail_id = queued()
    with clock.shifted(age_s):
        given_up = outbox.failed(taken(mail_id))
    assert given_up == (age_s > GIVE_UP_S)
    row = OutgoingMail.objects.get()
    assert (row.failed_at is not None) == given_up
    with clock.shifted(age_s + 2 * 3_600):
        assert (outbox.due() == []) == given_up
        assert (outbox.claim(mail_id) is None) == given_up


def test_a_message_for_nobody_is_dropped_with_its_token(user: User) -> None:
    """A row without recipient is never handed to a sender."""
    token_id = email_tokens.issue(purpose=Purpose.RESET_PASSWORD, user_id=None)
    mail_id = queued(recipient="", token_id=token_id)
    queued()
    assert outbox.claim(mail_id) is None
    assert OutgoingMail.objects.count() == 1
    assert not EmailToken.objects.exists()


def test_a_message_goes_with_its_token_and_its_person(user: User) -> None:
    """A newer token, or a deleted account, takes what has not been sent yet along."""
    for _ in range(2):
        with transaction.atomic():
            queued(token_id=email_tokens.issue(purpose=Purpose.RESET_PASSWORD, user_id=user.pk))
    assert OutgoingMail.objects.count() == 1
    outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=user.email, user_id=user.pk)
    user.delete()
    assert not OutgoingMail.objects.exists()


def test_messages_given_up_are_purged_after_a_month() -> None:
    """They stay for thirty days; what is still to be sent stays in any case."""
    mail_id = queued()
    OutgoingMail.objects.filter(pk=mail_id).update(failed_at=clock.now())
    queued()
    with clock.shifted(timedelta(days=30).total_seconds() - 1):
        assert outbox.purge_failed(batch=10) == 0
    with clock.shifted(timedelta(days=30).total_seconds() + 1):
        assert outbox.purge_failed(batch=10) == 1
    assert OutgoingMail.objects.count() == 1
