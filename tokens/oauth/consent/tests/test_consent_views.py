"""The applications a person has let in, over HTTP."""

import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.audit.models import AuditEvent
from accounts.users.outputs import Account
from accounts.users.services import account_snapshot
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.clients.models import OAuthClient
from tokens.oauth.codes import AuthorizationCodeData, issue
from tokens.oauth.consent import units as consent_units
from tokens.oauth.models import AuthorizationCode, Consent
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.sessions import units as sessions
from tokens.sessions.models import Session
from tokens.tests.browser import ME, Member, Pair

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

CONSENTS = "/api/v1/access/consents"


def let_in(user_id: Any, client: OAuthClient, scope: str = "email openid") -> Session:
    """Store a person's consent, a code under way, and a session of the client; return the session."""
    account = account_snapshot(uuid.UUID(str(user_id)))
    assert account is not None
    Consent.objects.create(user_id=account.id, client=client, scope=scope)
    issue(
        AuthorizationCodeData(
            client_id=client.pk, user_id=account.id, epoch=account.session_epoch, scope=scope,
            redirect_uri=REDIRECT_URI, code_challenge="", nonce="", dpop_jkt="", authenticated_at=clock.now(),
            amr="pwd", sso_session_id=None,
        )
    )  # fmt: skip
    opened_session = sessions.store_first_party(account=account, context=ClientContext(), scope=scope)
    Session.objects.filter(pk=opened_session.session_id).update(client_id=str(client.pk))
    return Session.objects.get(pk=opened_session.session_id)


@pytest.fixture
async def wiki(member: Member) -> OAuthClient:
    """An application that the member has let in."""
    client, _ = await sync_to_async(make_client)()
    await sync_to_async(let_in)(member["id"], client)
    return client


async def test_list(api: httpx.AsyncClient, member: Member, pair: Pair, wiki: OAuthClient) -> None:
    """Each application with its name, what it may have, and since when; the newest first."""
    other, _ = await sync_to_async(make_client)(name="Shop")
    with clock.shifted(60):
        await sync_to_async(let_in)(member["id"], other, "openid")
    answer = await api.get(CONSENTS, headers=bearer(pair))
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    listed = answer.json()
    assert [(row["client_id"], row["name"], row["scope"]) for row in listed] == [
        (str(other.pk), "Shop", "openid"),
        (str(wiki.pk), "Wiki", "email openid"),
    ]
    assert list(listed[0]) == [
        "client_id",
        "name",
        "scope",
        "since",
        "unverified",
        "document",
        "resources",
        "resource_names",
    ]
    assert listed[0]["since"].endswith("Z")


async def test_a_list_is_one_query(
    api: httpx.AsyncClient, member: Member, pair: Pair, wiki: OAuthClient, statements: list[str]
) -> None:
    """However many there are; the token is known from the request before."""
    await api.get(CONSENTS, headers=bearer(pair))
    for expected in (1, 2):
        statements.clear()
        assert len((await api.get(CONSENTS, headers=bearer(pair))).json()) == expected
        assert len(statements) == 1
        other, _ = await sync_to_async(make_client)()
        await sync_to_async(let_in)(member["id"], other)


async def test_revoke(api: httpx.AsyncClient, member: Member, pair: Pair, wiki: OAuthClient) -> None:
    """The consent, the application's sessions with the person, and codes under way are gone; the person stays."""
    answer = await api.delete(f"{CONSENTS}/{wiki.pk}", headers=bearer(pair))
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await api.get(CONSENTS, headers=bearer(pair))).json() == []
    session = await Session.objects.aget(client_id=str(wiki.pk))
    assert (session.revoke_reason, session.revoked_at is not None) == ("ended_by_user", True)
    assert not await AuthorizationCode.objects.aexists()
    assert (await api.get(ME, headers=bearer(pair))).status_code == 200
    event = await AuditEvent.objects.aget(event="consent_revoked")
    assert (event.actor_id, event.user_id) == (uuid.UUID(member["id"]), uuid.UUID(member["id"]))
    assert event.details == {"client": str(wiki.pk), "name": "Wiki", "sessions": 1}
    assert (await api.delete(f"{CONSENTS}/{wiki.pk}", headers=bearer(pair))).status_code == 404


async def test_other_people_and_applications_keep_theirs(
    api: httpx.AsyncClient, member: Member, pair: Pair, wiki: OAuthClient, new_email: Callable[[], str]
) -> None:
    """Who has allowed nothing gets 404, like for a client that does not exist; nobody else's is touched."""
    email = new_email()
    await api.post("/api/v1/access/signup", json={"email": email, "password": PASSWORD})
    other = (await api.post("/api/v1/access/signin", json={"email": email, "password": PASSWORD})).json()
    bodies = []
    for client_id in (wiki.pk, uuid.uuid4()):
        answer = await api.delete(f"{CONSENTS}/{client_id}", headers=bearer(other))
        assert answer.status_code == 404
        bodies.append({k: v for k, v in answer.json().items() if k != "request_id"})
    assert bodies[0] == bodies[1]
    assert (await api.get(CONSENTS, headers=bearer(other))).json() == []
    shop, _ = await sync_to_async(make_client)(name="Shop")
    await sync_to_async(let_in)(member["id"], shop)
    await api.delete(f"{CONSENTS}/{shop.pk}", headers=bearer(pair))
    assert [row["name"] for row in (await api.get(CONSENTS, headers=bearer(pair))).json()] == ["Wiki"]
    assert (await Session.objects.aget(client_id=str(wiki.pk))).revoked_at is None


async def test_needs_a_credential(api: httpx.AsyncClient, pair: Pair, wiki: OAuthClient) -> None:
    """Without one both are 401; by cookie from another site, and for what is no id, nothing is taken back."""
    assert (await api.get(CONSENTS)).status_code == 401
    assert (await api.delete(f"{CONSENTS}/{wiki.pk}")).status_code == 401
    cookie = {"Cookie": f"access_token={pair['access_token']}", "Origin": "https://evil.example"}
    assert (await api.delete(f"{CONSENTS}/{wiki.pk}", headers=cookie)).status_code == 403
    assert (await api.delete(f"{CONSENTS}/wiki", headers=bearer(pair))).status_code == 404
    assert await Consent.objects.aexists()


def test_a_consent_without_sessions(new_account: Callable[[], Account]) -> None:
    """There is nothing to end, and taking back what was taken back meanwhile is no error."""
    account, (client, _) = new_account(), make_client()
    consent = Consent.objects.create(user_id=account.id, client=client, scope="openid")
    for _ in range(2):
        consent_units.revoke_each([consent], actor_id=account.id, reason=Session.RevokeReason.ENDED_BY_STAFF)
    assert not Consent.objects.exists()
    assert AuditEvent.objects.get().details["sessions"] == 0
