"""Using up what has no row: the first one wins, wherever and whenever the others come."""

import uuid
from collections import Counter
from functools import partial

import pytest
from django.db import transaction

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db import single_use
from ironauth.infrastructure.models import UsedOnce
from ironauth.tests.at_once import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


def test_once() -> None:
    """A second use is refused; another id, and the same id for another purpose, are other things."""
    token, other = uuid.uuid4(), uuid.uuid4()
    assert not single_use.is_used("mfa", token)
    assert [single_use.consume("mfa", token, 9) for _ in range(3)] == [True, False, False]
    assert single_use.is_used("mfa", token)
    assert single_use.consume("mfa", other, 9)
    assert single_use.consume("passkey", token, 9)


def test_a_rollback_gives_it_back() -> None:
    """What failed together with its use has not used it up."""
    token = uuid.uuid4()
    with transaction.atomic():
        assert single_use.consume("mfa", token, 9)
        transaction.set_rollback(True)
    assert single_use.consume("mfa", token, 9)


def test_of_many_at_once_one_wins() -> None:
    """Eight threads use the same token at the same moment."""
    token = uuid.uuid4()
    assert Counter(at_once(*[partial(single_use.consume, "mfa", token, 9)] * 8)) == {True: 1, False: 7}


@pytest.mark.parametrize(("after_s", "left"), [(3_599, 3), (3_600, 0)])
def test_rows_stay_an_hour_longer_than_their_tokens(after_s: int, left: int) -> None:
    """So that a worker whose clock is behind still finds them; then the purge takes them, in batches."""
    now = int(clock.unix())
    for _ in range(3):
        single_use.consume("mfa", uuid.uuid4(), now)
    single_use.consume("mfa", uuid.uuid4(), now + 600)
    with clock.shifted(now - clock.unix() + after_s + 0.5):
        while single_use.purge(batch=2):
            pass
    assert UsedOnce.objects.count() == left + 1
