"""How many sessions a person may have: which one ends for another, who hears of it, and what happens at once."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.db import connection, transaction
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.users.outputs import Account
from conftest import PASSWORD, ServeProcess, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.sessions import units as sessions
from tokens.sessions.ends import of_everybody
from tokens.sessions.models import Session
from tokens.sign_in import units as sign_in_units
from tokens.sign_in.proofs import ByPassword
from tokens.tests.browser import ME, REFRESH, SIGNIN, Member, Pair, me

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

MOST = 5


@pytest.fixture(autouse=True)
def _few(settings: Settings) -> None:
    """Five sessions for everybody."""
    settings.IRONAUTH_MAX_SESSIONS_PER_USER = MOST


async def sign_in(api: httpx.AsyncClient, member: Member) -> Pair:
    """Open one more session."""
    answer = await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})
    pair: Pair = answer.raise_for_status().json()
    return pair


def live(user_id: str | UUID) -> set[UUID]:
    """Return the person's live sessions."""
    return set(Session.objects.filter(user_id=user_id).live(clock.now()).values_list("pk", flat=True))


def ended(user_id: str | UUID) -> list[tuple[UUID | None, str]]:
    """Return the sessions whose end the trail explains by their number."""
    assert audit.wait_until_written()
    found = AuditEvent.objects.filter(user_id=user_id, event="session_ended").order_by("at", "pk")
    return [(session_id, details["reason"]) for session_id, details in found.values_list("session_id", "details")]


async def test_the_one_not_used_for_longest_ends_for_another(api: httpx.AsyncClient, member: Member) -> None:
    """Five live beside each other; the sixth ends the one whose last use is oldest, whose tokens end with it."""
    pairs = []
    for minute in range(MOST):
        with clock.shifted(120 * minute):
            pairs.append(await sign_in(api, member))
    assert [await me(api, pair) for pair in pairs] == [200] * MOST
    with clock.shifted(120 * MOST):  # the first is used, so the second is the oldest
        renewed = await api.post(REFRESH, json={"refresh_token": pairs[0]["refresh_token"]})
        assert renewed.status_code == 200
    with clock.shifted(120 * MOST + 60):
        sixth = await sign_in(api, member)
        statuses = [await me(api, pair) for pair in (renewed.json(), *pairs[1:], sixth)]
        assert statuses == [200, 401, 200, 200, 200, 200]
        refresh = await api.post(REFRESH, json={"refresh_token": pairs[1]["refresh_token"]})
        assert refresh.status_code == 401
    gone = UUID(pairs[1]["session_id"])
    row = await Session.objects.aget(pk=gone)
    assert row.revoke_reason == Session.RevokeReason.TOO_MANY
    assert await database().read(ended, member["id"]) == [(gone, "too_many")]


async def test_nobody_elses_session_counts(
    api: httpx.AsyncClient, member: Member, pair: Pair, new_email: Callable[[], str]
) -> None:
    """Somebody with six sessions takes none from a person with one."""
    email = new_email()
    await api.post("/api/v1/access/signup", json={"email": email, "password": PASSWORD})
    for _ in range(MOST + 1):
        await sign_in(api, {"email": email})
    assert await me(api, pair) == 200
    assert await database().read(ended, member["id"]) == []


async def test_what_is_dead_takes_no_place(api: httpx.AsyncClient, member: Member) -> None:
    """Sessions that were ended all at once, or expired, count for nothing and are out of the count from then on."""
    for _ in range(MOST):
        pair = await sign_in(api, member)
    assert (await api.post("/api/v1/access/logout-all", headers=bearer(pair))).is_success
    for _ in range(MOST):
        await sign_in(api, member)
    assert len(await database().read(live, member["id"])) == MOST
    assert await database().read(ended, member["id"]) == []
    assert await Session.objects.filter(user_id=member["id"], revoked_at=None).acount() == MOST


def opened(account: Account, client_id: str, minute: int) -> UUID:
    """Store a session of the person, last used in this minute."""
    with clock.shifted(60 * minute):
        session_id = sessions.store_first_party(account=account, context=ClientContext()).session_id
    Session.objects.filter(pk=session_id).update(client_id=client_id)
    return session_id


def open_one(account: Account) -> UUID:
    """Do what a sign-in does in the database."""
    who = ByPassword(account.id, account.session_epoch)
    opened_session = sign_in_units.open_session(who, context=ClientContext())
    assert opened_session is not None
    return opened_session.session_id


def test_an_application_ends_its_own(new_account: Callable[[], Account]) -> None:
    """Of the client that has most sessions the oldest ends, although another client's was not used for longer."""
    account = new_account()
    phone = opened(account, "ironauth", 0)
    greedy = [opened(account, "0" * 32, minute) for minute in range(1, MOST)]
    with clock.shifted(3_600):
        new = open_one(account)
        assert live(account.id) == {phone, *greedy[1:], new}


def test_a_lower_limit_ends_as_many_as_it_takes(settings: Settings, new_account: Callable[[], Account]) -> None:
    """With twice as many as there may be, one sign-in leaves as many as there may be, and each end is in the trail."""
    account = new_account()
    settings.IRONAUTH_MAX_SESSIONS_PER_USER = 2 * MOST
    before = [opened(account, "ironauth", minute) for minute in range(2 * MOST)]
    settings.IRONAUTH_MAX_SESSIONS_PER_USER = MOST
    with clock.shifted(3_600):
        new = open_one(account)
        assert live(account.id) == {*before[MOST + 1 :], new}
    assert sorted(ended(account.id)) == sorted((one, "too_many") for one in before[: MOST + 1])


@pytest.mark.parametrize("with_all", [False, True])
def test_what_ended_with_everybodys_takes_no_room(new_account: Callable[[], Account], with_all: bool) -> None:
    """Also before its row is written, which is left to that: its applications have to be told."""
    account = new_account()
    old = [opened(account, f"{number:032}", -60) for number in range(2)]
    if with_all:
        of_everybody.begin(actor_id=None)
    greedy = [opened(account, "1" * 32, minute) for minute in range(1, MOST - 1)]
    with clock.shifted(3_600):
        new = open_one(account)
        assert live(account.id) == ({*greedy, new} if with_all else {*old, *greedy[1:], new})
    assert len(ended(account.id)) == (0 if with_all else 1)
    assert Session.objects.filter(pk__in=old, revoked_at=None).count() == 2


@pytest.mark.parametrize("how", ["expired", "another epoch"])
def test_what_ended_with_everybodys_and_is_over_by_now(new_account: Callable[[], Account], how: str) -> None:
    """It is left to the batch all the same, which counts it; what is over without that end is marked at once."""
    account = new_account()
    old = opened(account, "0" * 32, -60)
    end = of_everybody.begin(actor_id=None)
    dead, *_ = [opened(account, "1" * 32, minute) for minute in range(1, MOST + 1)]
    change: dict[str, Any] = {"epoch": 7} if how == "another epoch" else {"idle_expires_at": clock.now()}
    Session.objects.filter(pk__in=[old, dead]).update(**change)
    with clock.shifted(3_600):
        open_one(account)
    over = Session.objects.filter(pk__in=[old, dead], revoked_at__isnull=False)
    assert list(over.values_list("pk", "revoke_reason")) == [(dead, "")]
    with transaction.atomic():
        of_everybody.end_batch()
    row = Session.objects.get(pk=old)
    assert (row.revoke_reason, row.revoked_at) == (Session.RevokeReason.ENDED_BY_STAFF, end.at)


async def test_sessions_opened_at_once_end_each_other_once(new_account: Callable[[], Account]) -> None:
    """Forty sign-ins of one person: every session but five ends exactly once, and the trail has each end once."""
    account = await database().write(new_account)
    await asyncio.gather(*(database().write(open_one, account) for _ in range(40)))
    last = await database().write(open_one, account)
    alive = await database().read(live, account.id)
    assert last in alive
    assert len(alive) <= MOST
    stories = Counter(await database().read(ended, account.id))
    assert set(stories.values()) == {1}
    assert {session_id for session_id, _ in stories}.isdisjoint(alive)
    assert len(stories) + len(alive) == 41


@pytest.mark.live
def test_processes_hold_the_limit_together(
    serve_process: ServeProcess, signing_key: str, new_email: Callable[[], str]
) -> None:
    """Two workers sign one person in thirty times at once: after one more at most five live, the others are told."""
    server = serve_process("--workers", "2", IRONAUTH_MAX_SESSIONS_PER_USER=str(MOST), IRONAUTH_THROTTLE="0")
    person = {"email": new_email(), "password": PASSWORD}
    user_id = httpx.post(f"{server}/api/v1/access/signup", json=person, timeout=30).raise_for_status().json()["id"]
    statuses: list[int] = []

    def sign_in_at_once(_: int) -> None:
        answer = httpx.post(f"{server}{SIGNIN}", json=person, timeout=30)
        statuses.append(answer.status_code)

    with ThreadPoolExecutor(10) as threads:
        list(threads.map(sign_in_at_once, range(30)))
    last: dict[str, Any] = httpx.post(f"{server}{SIGNIN}", json=person, timeout=30).raise_for_status().json()
    assert set(statuses) <= {200, 503}
    alive = live(user_id)
    assert UUID(last["session_id"]) in alive
    assert len(alive) <= MOST
    expected = statuses.count(200) + 1 - len(alive)
    deadline = time.monotonic() + 30  # the workers write the trail after they have answered
    while len(told := ended(user_id)) < expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(told) == len(set(told)) == expected
    assert httpx.get(f"{server}{ME}", headers=bearer(last)).status_code == 200


def test_the_count_walks_what_lives_alone(new_account: Callable[[], Account]) -> None:
    """The question is answered from the index of sessions that nothing has ended, however many have ended."""
    account = new_account()
    for minute in range(MOST):
        opened(account, "ironauth", minute)
    with transaction.atomic():
        if connection.vendor == "postgresql":  # so few rows are read without an index
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL enable_seqscan = off")
        plan = sessions._held_by(account.id).explain()
    assert "tokens_session_held" in plan
