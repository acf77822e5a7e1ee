"""The sessions of everybody end: at once, by a few invalidations, and row by row afterwards."""

import io
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session as AdminSession
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import Client
from django.urls import reverse

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from accounts.users.outputs import Account
from conftest import PASSWORD
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.models import Invalidation
from tokens.purge import purge_expired
from tokens.sessions import queries as session_queries
from tokens.sessions import refresh_token, sso_session
from tokens.sessions import units as sessions
from tokens.sessions.ends import batches, of_everybody
from tokens.sessions.models import SSO_CLIENT, EverybodysEnd, Session
from tokens.sessions.refresh import units as refresh_units
from tokens.sessions.refresh.queries import Outcome
from tokens.tests.browser import ME, REFRESH, SIGNIN, Member, Pair, me

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

LIST = "admin:tokens_session_changelist"
ACT = "admin:tokens_session_end_everybody"


def _fill(account: Account, count: int) -> uuid.UUID:
    """Give somebody one session and that many like it; return the one."""
    one = sessions.store_first_party(account=account, context=ClientContext()).session_id
    row = Session.objects.filter(pk=one).values().get()
    Session.objects.bulk_create([Session(**{**row, "id": uuid.uuid4()}) for _ in range(count)], batch_size=500)
    return one


def _unwritten() -> int:
    return Session.objects.filter(revoked_at=None).count()


def _batch() -> bool:
    with transaction.atomic():
        return of_everybody.end_batch()


async def test_all_are_refused_at_once_and_a_new_one_is_not(
    api: httpx.AsyncClient, pair: Pair, member: Member, new_account: Callable[[], Account]
) -> None:
    """Warm and cold tokens, refresh tokens and the list, while no row is written; few invalidations for 600 sessions.

    Who signs in afterwards is in, also when the rows of before are written.
    """
    await sync_to_async(_fill)(await sync_to_async(new_account)(), 600)
    assert await me(api, pair) == 200
    before = await Invalidation.objects.acount()
    await sync_to_async(of_everybody.begin)(actor_id=None)
    told = await Invalidation.objects.acount() - before
    assert told <= 4  # a tag of each signing key, and one that wakes
    for _ in range(2):
        assert await me(api, pair) == 401
        token_cache().clear()
    answer = await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]})
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_refresh_token")
    assert await sync_to_async(_unwritten)() == 602
    new = (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).json()
    for _ in range(2):
        assert await me(api, new) == 200
        token_cache().clear()
    await sync_to_async(purge_expired)()
    assert await sync_to_async(_unwritten)() == 1
    assert await me(api, new) == 200
    assert (await api.post(REFRESH, json={"refresh_token": new["refresh_token"]})).status_code == 200
    assert (await api.get(ME, headers={"Authorization": "Bearer x"})).status_code == 401


@pytest.mark.parametrize(("opened_us", "lives"), [(-1, False), (0, False), (1, True)])
def test_what_was_opened_at_the_very_moment_is_over(
    new_account: Callable[[], Account], opened_us: int, lives: bool
) -> None:
    """A microsecond later is not, by every way in which a session is judged."""
    account = new_account()
    session_id = _fill(account, 0)
    end = of_everybody.begin(actor_id=None)
    Session.objects.update(created_at=end.at + timedelta(microseconds=opened_us))
    now = clock.now()
    found = session_queries.find(session_id)
    assert found is not None
    assert found.is_over(now) is not lives
    live = session_queries.find_live(session_id=session_id, user_id=account.id, epoch=account.session_epoch, now=now)
    assert (live is not None) is lives
    assert Session.objects.live(now).exists() is lives
    assert bool(session_queries.live_sessions(user_id=account.id)) is lives
    assert not _batch()
    assert Session.objects.filter(revoked_at=None).exists() is lives


def test_the_predecessor_of_a_refresh_token_gives_nothing(new_account: Callable[[], Account]) -> None:
    """Within the grace it is answered without a write: the moment is judged all the same."""
    opened = sessions.store_first_party(account=new_account(), context=ClientContext())
    parsed = refresh_token.parse(opened.refresh_token)
    assert parsed is not None
    assert refresh_units.rotate(parsed=parsed).outcome is Outcome.ROTATED
    assert refresh_units.rotate(parsed=parsed).outcome is Outcome.GRACE
    of_everybody.begin(actor_id=None)
    assert refresh_units.rotate(parsed=parsed).outcome is Outcome.REVOKED


def test_single_sign_on_is_over_too(new_account: Callable[[], Account]) -> None:
    """The browser's session of all applications signs nobody in."""
    session_id = _fill(new_account(), 0)
    Session.objects.update(client_id=SSO_CLIENT)
    assert sso_session.opened_just_now(session_id) is not None
    of_everybody.begin(actor_id=None)
    assert sso_session.opened_just_now(session_id) is None


def test_a_batch_and_where_it_ended_are_one_transaction(
    new_account: Callable[[], Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies in a batch has done nothing; the next one goes on. An end during an end has all rows."""
    monkeypatch.setattr(of_everybody, "BATCH", 10)
    _fill(new_account(), 34)
    of_everybody.begin(actor_id=None)
    with transaction.atomic():
        assert of_everybody.end_batch()
        transaction.set_rollback(True)  # as when the process dies
    assert _unwritten() == 35
    assert _batch()
    assert _unwritten() == 25
    assert "10 are written" in of_everybody.progress()
    of_everybody.begin(actor_id=None)
    assert [_batch() for _ in range(4)] == [True, True, True, False]
    assert not _batch()
    assert _unwritten() == 0
    assert of_everybody.progress().endswith(": 25 of them.")
    assert EverybodysEnd.objects.filter(finished_at=None).count() == 0
    assert list(AuditEvent.objects.values_list("event", flat=True)).count("everybodys_sessions_ended") == 2


async def test_a_server_writes_the_rows_by_itself(
    new_account: Callable[[], Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is woken by the act."""
    monkeypatch.setattr(of_everybody, "BATCH", 10)
    monkeypatch.setattr(batches, "REST_S", 0)
    await sync_to_async(_fill)(await sync_to_async(new_account)(), 34)
    ending = batches._Ending()
    await ending.start()
    await sync_to_async(bool)(1)
    await sync_to_async(of_everybody.begin)(actor_id=None)
    began = clock.now()
    while await EverybodysEnd.objects.filter(finished_at=None).aexists():
        assert (clock.now() - began).total_seconds() < 10
        await sync_to_async(bool)(1)
    assert await sync_to_async(_unwritten)() == 0
    await ending.stop()


def test_the_command_wants_the_phrase(new_account: Callable[[], Account]) -> None:
    """Without it nothing ends; with it all do, and it says how many."""
    _fill(new_account(), 2)
    for arguments in ((), ("--confirm", "yes")):
        with pytest.raises(CommandError, match="Nothing was done"):
            call_command("end_everybodys_sessions", *arguments)
    said = io.StringIO()
    call_command("end_everybodys_sessions", "--status", stdout=said)
    assert (said.getvalue(), _unwritten()) == ("Everybody's sessions were never ended.\n", 3)
    call_command("end_everybodys_sessions", "--confirm", of_everybody.PHRASE, stdout=said)
    assert said.getvalue().endswith(": 3 of them.\n")
    assert _unwritten() == 0


def test_the_button_of_the_admin(
    client: Client, new_account: Callable[[], Account], new_email: Callable[[], str]
) -> None:
    """A superuser types the phrase; another one's session of the admin goes, their own stays. Staff may not at all."""
    session_id = _fill(new_account(), 0)
    people: dict[str, Any] = {"staff": {}, "other": {"is_superuser": True}, "root": {"is_superuser": True}}
    browsers = {}
    for name, rights in people.items():
        browsers[name] = Client()
        browsers[name].force_login(User.objects.create_user(email=new_email(), is_staff=True, **rights))
    url, root = reverse(ACT), browsers["root"]
    assert browsers["staff"].post(url, {"confirmed": "yes", "typed": of_everybody.PHRASE}).status_code == 403
    assert "End everybody" in root.get(reverse(LIST)).content.decode()
    assert root.get(url).status_code == 302
    for answer in ({}, {"confirmed": "yes"}, {"confirmed": "yes", "typed": "end"}, {"typed": of_everybody.PHRASE}):
        page = root.post(url, answer)
        assert (page.status_code, of_everybody.PHRASE.split("'")[0] in page.content.decode()) == (200, True)
        assert ("Nothing was done" in page.content.decode()) is ("confirmed" in answer)
    session = root.session
    fresh, session["ironauth_proved_at"] = session["ironauth_proved_at"], 0
    session.save()
    asked = root.post(url, {"confirmed": "yes", "typed": of_everybody.PHRASE})
    assert (asked.status_code, "/confirm/" in asked["Location"]) == (302, True)
    assert not EverybodysEnd.objects.exists()
    session["ironauth_proved_at"] = fresh
    session.save()
    assert root.post(url, {"confirmed": "yes", "typed": f" {of_everybody.PHRASE} "}).status_code == 302
    listed = root.get(reverse(LIST)).content.decode()
    assert "0 are written as ended so far" in listed
    assert "Ended with everybody" in listed
    assert browsers["other"].get(reverse(LIST)).status_code == 302
    assert AdminSession.objects.count() <= 2  # theirs, and the one that the other browser was given to sign in
    event = AuditEvent.objects.get(event="everybodys_sessions_ended")
    assert event.actor_id == User.objects.get(pk=root.session["_auth_user_id"]).pk
    assert session_queries.find(session_id) is not None
