"""What becomes of a client's tokens and sessions when staff act on it."""

import dataclasses
from collections.abc import Callable

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.audit.models import AuditEvent
from accounts.users.outputs import Account
from conftest import bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.clients import registry as clients
from tokens.clients import units as client_units
from tokens.clients.models import OAuthClient
from tokens.keys.store import key_store
from tokens.oauth.codes import PresentedCode, Redemption, redeem
from tokens.oauth.tests.flow import VERIFIER, approve
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.sessions import queries as session_queries
from tokens.sessions import units as sessions
from tokens.sessions.access_tokens import token_pair
from tokens.sessions.models import Session
from tokens.tests.browser import ME

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


def test_how_far_a_client_is_trusted_is_recorded_with_its_value(db: None) -> None:
    """Others rely on it: that people are not asked for consent, and that it may ask about everybody's tokens."""
    client = OAuthClient(name="Wiki", redirect_uris=[REDIRECT_URI], trusted=True)
    client_units.create(client)
    client.trusted, client.resource_server, client.name = False, True, "Paint"
    client_units.change(client, fields=["trusted", "resource_server", "name"])
    client_units.change(client, fields=["name"])
    about = {"client": str(client.pk), "name": "Paint"}
    trail = list(AuditEvent.objects.order_by("id").values_list("details", flat=True))
    assert trail == [
        {
            **about,
            "name": "Wiki",
            "auth_method": "secret",
            "administers": False,
            "resource_server": False,
            "trusted": True,
        },
        {**about, "fields": ["name", "resource_server", "trusted"], "resource_server": True, "trusted": False},
        {**about, "fields": ["name"]},
    ]


async def access_token(client: OAuthClient, account: Account) -> dict[str, str]:
    """Return a request header with a token that the client got for this person's account."""

    def opened() -> session_queries.OpenedSession:
        opened_session = sessions.store_first_party(account=account, context=ClientContext(), scope="account")
        Session.objects.filter(pk=opened_session.session_id).update(client_id=str(client.pk))
        return dataclasses.replace(opened_session, client_id=str(client.pk))

    opened_session = await sync_to_async(opened)()
    pair = token_pair(opened_session, await key_store().signing())
    return bearer({"access_token": pair.access_token})


async def test_a_disabled_clients_tokens_are_refused_at_once(
    api: httpx.AsyncClient, new_account: Callable[[], Account], signing_key: str
) -> None:
    """Warm as they are; after it is enabled again they stay refused, because their sessions are over."""
    client, _ = await sync_to_async(make_client)(scopes=["account"])
    other, _ = await sync_to_async(make_client)(scopes=["account"], name="Shop")
    account = await sync_to_async(new_account)()
    token, spared = await access_token(client, account), await access_token(other, account)
    for _ in range(2):
        assert (await api.get(ME, headers=token)).status_code == 200
    assert await sync_to_async(client_units.disable)(client.pk) == 1
    assert (await api.get(ME, headers=token)).status_code == 401
    assert await clients.find(str(client.pk)) is None
    assert await sync_to_async(client_units.enable)(client.pk)
    assert await clients.find(str(client.pk)) is not None
    assert (await api.get(ME, headers=token)).status_code == 401
    assert (await api.get(ME, headers=spared)).status_code == 200


async def test_what_was_opened_while_a_client_was_disabled_ends(
    api: httpx.AsyncClient, new_account: Callable[[], Account], signing_key: str
) -> None:
    """A code redeemed in the instant of disabling opens nothing for later; one redeemed after enabling does."""
    client, _ = await sync_to_async(make_client)(scopes=["account"])
    account = await sync_to_async(new_account)()
    known = await clients.find(str(client.pk))
    assert known is not None
    codes = [await sync_to_async(approve)(client, account.id, scope="account") for _ in range(2)]
    await sync_to_async(client_units.disable)(client.pk)

    async def redeemed(code: str) -> Redemption:
        presented = PresentedCode(code, REDIRECT_URI, VERIFIER)
        return await database().write(redeem, presented=presented, client=known, context=ClientContext())

    assert (await redeemed(codes[0])).opened is None  # codes go with it
    token = await access_token(client, account)  # of a redemption that had read its code before
    kept = await sync_to_async(approve)(client, account.id, scope="account")
    assert (await api.get(ME, headers=token)).status_code == 401
    assert await sync_to_async(client_units.enable)(client.pk)
    assert (await api.get(ME, headers=token)).status_code == 401
    assert (await Session.objects.aget()).revoked_at is not None
    assert (await redeemed(kept)).opened is None
    fresh = await access_token(client, account)
    assert (await api.get(ME, headers=fresh)).status_code == 200
    assert not await sync_to_async(client_units.enable)(client.pk)  # nothing is ended where nothing was disabled
    assert (await api.get(ME, headers=fresh)).status_code == 200


async def test_a_deleted_clients_tokens_are_refused_at_once(
    api: httpx.AsyncClient, new_account: Callable[[], Account], signing_key: str
) -> None:
    """No session outlives the application it belongs to."""
    client, _ = await sync_to_async(make_client)(scopes=["account"])
    token = await access_token(client, await sync_to_async(new_account)())
    assert (await api.get(ME, headers=token)).status_code == 200
    await sync_to_async(client_units.delete)(client)
    assert (await api.get(ME, headers=token)).status_code == 401
    assert (await Session.objects.aget()).revoked_at is not None


def test_a_change_does_not_enable_again() -> None:
    """Who saves a page that was read before a colleague disabled the client does not undo that."""
    client, _ = make_client()
    client_units.disable(OAuthClient.objects.get().pk)
    client.name = "Encyclopaedia"
    assert client_units.change(client, fields=["name"]) == ""
    stored = OAuthClient.objects.get()
    assert (stored.name, stored.disabled_at is not None) == ("Encyclopaedia", True)


async def test_a_new_secret_is_known_at_once() -> None:
    """A client that was looked up before has both secrets after a rotation, and one when the other's time is over."""
    client, _ = await sync_to_async(make_client)()

    async def known() -> int:
        found = await clients.find(str(client.pk))
        assert found is not None
        return len(found.secrets)

    assert await known() == 1
    await sync_to_async(client_units.rotate_secret)(client.pk, expire_old_in_s=60)
    assert await known() == 2
    with clock.shifted(600):
        assert await known() == 1
