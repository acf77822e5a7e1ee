"""A client with more sessions than end at once: refused at once, ended by batches, enabled when all have ended."""

import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

from accounts.audit.models import AuditEvent
from accounts.users.outputs import Account
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.models import Invalidation
from tokens.clients import units as client_units
from tokens.clients.errors import SessionsEnding
from tokens.clients.models import EndingClient, OAuthClient
from tokens.clients.tests.test_client_units import access_token
from tokens.errors import InvalidToken
from tokens.oauth.tests.material import make_client
from tokens.purge import purge_expired
from tokens.sessions import units as sessions
from tokens.sessions.ends import batches, of_clients
from tokens.sessions.models import FIRST_PARTY_CLIENT, SSO_CLIENT, Session
from tokens.tests.browser import ME

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


def _fill(client: OAuthClient, account: Account, count: int) -> None:
    """Give a client that many sessions, all of one person."""
    one = sessions.store_first_party(account=account, context=ClientContext())
    row = Session.objects.filter(pk=one.session_id).values().get()
    row["client_id"] = str(client.pk)
    Session.objects.bulk_create([Session(**{**row, "id": uuid.uuid4()}) for _ in range(count)], batch_size=500)


def _live(client: OAuthClient) -> int:
    return Session.objects.filter(client_id=str(client.pk), revoked_at=None).count()


async def test_many_sessions_are_refused_at_once_and_end_later(
    api: httpx.AsyncClient, new_account: Callable[[], Account], signing_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warm and cold, though their rows live; a few rows tell every worker, however many sessions there are."""
    monkeypatch.setattr(of_clients, "BATCH", 1_000)
    told = {}
    for count in (0, 2_500):
        client, _ = await sync_to_async(make_client)(scopes=["account"], name=f"Client {count}")
        account = await sync_to_async(new_account)()
        await sync_to_async(_fill)(client, account, count)
        token = await access_token(client, account)  # its id is the last one
        assert (await api.get(ME, headers=token)).status_code == 200
        before = await Invalidation.objects.acount()
        ended = await sync_to_async(client_units.disable)(client.pk)
        told[count] = await Invalidation.objects.acount() - before
        for _ in range(2):
            assert (await api.get(ME, headers=token)).status_code == 401
            token_cache().clear()  # as a worker that has never seen it
    assert (ended, await sync_to_async(_live)(client)) == (500, 2_001)
    assert told == {0: 1, 2_500: 2}
    with pytest.raises(SessionsEnding):
        await sync_to_async(client_units.enable)(client.pk)
    await sync_to_async(purge_expired)()
    assert await sync_to_async(_live)(client) == 0
    assert await sync_to_async(client_units.enable)(client.pk)
    assert (await api.get(ME, headers=token)).status_code == 401


def test_a_batch_and_where_it_ended_are_one_transaction(
    new_account: Callable[[], Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies in a batch has done nothing; the next one goes on where the last batch ended."""
    monkeypatch.setattr(of_clients, "AT_ONCE", 10)
    monkeypatch.setattr(of_clients, "BATCH", 10)
    client, _ = make_client()
    spared, _ = make_client(name="Shop")
    account = new_account()
    _fill(client, account, 35)
    _fill(spared, account, 1)
    assert client_units.disable(client.pk) == 10
    assert (client.sessions_ending, EndingClient.objects.get().ended) == (None, 10)
    client.refresh_from_db()
    assert client.sessions_ending == 10
    with transaction.atomic():
        assert of_clients.end_batch()
        transaction.set_rollback(True)  # as when the process dies
    assert (_live(client), client.sessions_ending) == (25, 10)
    for left, ended in ((15, 20), (5, 30), (0, None)):
        with transaction.atomic():
            assert of_clients.end_batch()
        assert (_live(client), client.sessions_ending) == (left, ended)
    with transaction.atomic():
        assert not of_clients.end_batch()
    assert _live(spared) == 1
    (event,) = AuditEvent.objects.filter(event="client_disabled")
    assert (event.details["sessions"], event.details["complete"]) == (10, False)


def test_as_many_as_end_at_once_leave_nothing_to_do(
    new_account: Callable[[], Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more does."""
    monkeypatch.setattr(of_clients, "AT_ONCE", 10)
    client, _ = make_client()
    _fill(client, new_account(), 10)
    assert client_units.disable(client.pk) == 10
    assert not EndingClient.objects.exists()
    assert client_units.enable(client.pk)
    _fill(client, new_account(), 11)
    assert client_units.disable(client.pk) == 10
    assert EndingClient.objects.exists()


def test_the_sessions_of_a_deleted_client_end_too(
    new_account: Callable[[], Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the client is left but the note that says where to go on."""
    monkeypatch.setattr(of_clients, "AT_ONCE", 10)
    client, _ = make_client()
    name = str(client.pk)
    _fill(client, new_account(), 25)
    client_units.delete(client)
    assert Session.objects.filter(client_id=name, revoked_at=None).count() == 15
    batches.end_all()
    assert not Session.objects.filter(client_id=name, revoked_at=None).exists()
    assert not EndingClient.objects.exists()


async def test_a_server_ends_them_by_itself(
    new_account: Callable[[], Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is woken by the act, and looks when it starts."""
    monkeypatch.setattr(of_clients, "AT_ONCE", 10)
    monkeypatch.setattr(of_clients, "BATCH", 10)
    monkeypatch.setattr(batches, "REST_S", 0)
    account = await sync_to_async(new_account)()
    ending = batches._Ending()
    for number in range(2):
        client, _ = await sync_to_async(make_client)(name=f"Client {number}")
        await sync_to_async(_fill)(client, account, 35)
        if number:
            await ending.start()
        await sync_to_async(client_units.disable)(client.pk)
        if not number:
            await ending.start()
        await _until_none_ends()
        assert await sync_to_async(_live)(client) == 0
        await ending.stop()


async def _until_none_ends() -> None:
    began = clock.now()
    while await EndingClient.objects.aexists():
        assert (clock.now() - began).total_seconds() < 10
        await sync_to_async(bool)(1)


async def test_a_token_got_for_one_of_a_client_ends_with_that_client(db: None) -> None:
    """Another client holds it; the session it lives by may have a row for some minutes yet."""

    class Claims:
        holders = ("other",)

    claims: Any = Claims()
    client, _ = await sync_to_async(make_client)()
    name = str(client.pk)
    for session_of in (name, "other", FIRST_PARTY_CLIENT, SSO_CLIENT):
        await of_clients.require_client(session_of, claims)
    await sync_to_async(client_units.disable)(client.pk)
    with pytest.raises(InvalidToken):
        await of_clients.require_client(name, claims)
    await of_clients.require_client("other", claims)
