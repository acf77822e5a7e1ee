"""Who may use a scope of the administration: clients that administer, by themselves or for a person with the right."""

import dataclasses
import uuid
from typing import Any

import httpx
import msgspec
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, Permission
from pytest_django import Settings

from accounts.access import scopes
from accounts.access.scopes import CHANGE_PROVIDERS, SCOPES, SEE_PROVIDERS, USE_PROVIDER_TOKENS
from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.users.models import User
from accounts.users.services import account_snapshot
from conftest import bearer
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.access.codec import AccessClaims, Actor
from tokens.clients import units as client_units
from tokens.clients.administration import machines
from tokens.clients.models import OAuthClient
from tokens.keys.store import key_store
from tokens.oauth.tests.flow import basic
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.proofs import new_key, proof, shown
from tokens.protocol import GrantType
from tokens.sessions import units as sessions
from tokens.sessions.access_tokens import token_pair
from tokens.sessions.models import Session
from tokens.tests.browser import ME, Member
from tokens.tests.machine import Headers, make_machine, token_of
from tokens.tests.second_factor import said

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

USERS, CLIENTS = "/api/v1/users", "/api/v1/clients"


def test_each_right_has_one_scope_and_can_be_given_or_is_a_superusers(db: None) -> None:
    """A typing error would be a scope that opens nothing, or a right that no token reaches."""
    covered = [permission for permissions in SCOPES.values() for permission in permissions]
    assert len(covered) == len(set(covered))
    given = {
        f"{one.content_type.app_label}.{one.codename}" for one in Permission.objects.select_related("content_type")
    }
    assert set(covered) - given == {SEE_PROVIDERS, CHANGE_PROVIDERS, USE_PROVIDER_TOKENS}
    assert all(scopes.scope_of(permission) in SCOPES for permission in covered)
    assert scopes.covered_by(["openid", "keys:read"]) == {"tokens.view_signingkey"}


async def test_nobody_administers_by_a_scope_alone(api: httpx.AsyncClient, signing_key: str) -> None:
    """Whose own API has a scope of the same name gains nothing here, until a superuser lets the client administer."""
    client, headers = await make_machine(api, "users:read", administers=False)
    refused = await api.get(USERS, headers=headers)
    assert said(refused) == (403, "client_does_not_administer")
    client.administers = True
    await sync_to_async(client_units.change)(client, fields=["administers"])
    assert (await api.get(USERS, headers=headers)).status_code == 200
    event = await AuditEvent.objects.aget(event="client_changed")
    assert event.details["administers"] is True


async def test_a_machine_is_nobody_elsewhere(api: httpx.AsyncClient, signing_key: str) -> None:
    """Its token opens what acts of staff have declared, and no account, with any scope."""
    _, headers = await make_machine(api, *SCOPES)
    for method, path in (("GET", ME), ("DELETE", ME), ("GET", "/api/v1/access/sessions"), ("GET", "/oauth/userinfo")):
        answer = await api.request(method, path, headers=headers)
        assert answer.status_code == 401, (path, answer.text)
    assert (await api.get("/api/v1/access/verify", headers=headers)).status_code == 401


async def test_all_that_is_taken_away_is_gone_at_once(api: httpx.AsyncClient, signing_key: str) -> None:
    """A scope, the permission to administer, the grant, and the client: its token of before opens nothing more."""

    async def change(client: OAuthClient, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(client, name, value)
        await sync_to_async(client_units.change)(client, fields=list(fields))

    client, headers = await make_machine(api, "users:read", "clients:read")
    assert (await api.get(USERS, headers=headers)).status_code == 200
    await change(client, scopes=["clients:read"])
    assert said(await api.get(USERS, headers=headers)) == (403, "insufficient_scope")
    assert (await api.get(CLIENTS, headers=headers)).status_code == 200
    await change(client, administers=False)
    assert said(await api.get(CLIENTS, headers=headers)) == (403, "client_does_not_administer")
    await change(client, administers=True)
    assert (await api.get(CLIENTS, headers=headers)).status_code == 200
    await sync_to_async(client_units.disable)(client.pk)
    assert said(await api.get(CLIENTS, headers=headers)) == (401, "invalid_token")
    await sync_to_async(client_units.enable)(client.pk)
    await change(client, grants=[GrantType.TOKEN_EXCHANGE.value])
    assert said(await api.get(CLIENTS, headers=headers))[0] == 401


async def test_the_tokens_own_scope_bounds_it(api: httpx.AsyncClient, signing_key: str) -> None:
    """A client that asks for less gets less."""
    given = {"grants": [GrantType.CLIENT_CREDENTIALS.value], "redirect_uris": [], "administers": True}
    client, secret = await sync_to_async(make_client)(scopes=["users:read", "clients:read"], **given)
    headers = await token_of(api, client, secret, scope="users:read")
    assert (await api.get(USERS, headers=headers)).status_code == 200
    assert said(await api.get(CLIENTS, headers=headers)) == (403, "insufficient_scope")


async def test_a_machine_reaches_nobody_above_it(api: httpx.AsyncClient, member: Member) -> None:
    """No superuser and nobody with a right it has not; others it changes, and it makes nobody staff."""
    client, headers = await make_machine(api, "users:write")
    path = f"{USERS}/{member['id']}"
    assert (await api.patch(path, json={"email": "other@example.com"}, headers=headers)).status_code == 200
    refused = await api.patch(path, json={"is_staff": True}, headers=headers)
    assert said(refused) == (403, "permission_denied")

    def give() -> None:
        User.objects.get(pk=member["id"]).user_permissions.add(Permission.objects.get(codename="delete_user"))

    await sync_to_async(give)()
    refused = await api.patch(path, json={"email": "third@example.com"}, headers=headers)
    assert said(refused) == (403, "permission_denied")
    await User.objects.filter(pk=member["id"]).aupdate(is_superuser=True)
    refused = await api.patch(path, json={"name": "x"}, headers=headers)
    assert said(refused) == (403, "permission_denied")
    await sync_to_async(audit.wait_until_written)()
    events = [event async for event in AuditEvent.objects.filter(actor_id=client.pk).order_by("id")]
    assert [(event.event, event.outcome, event.session_id) for event in events] == [
        ("user_changed", "success", None), *[("access_denied", "refused", None)] * 3,
    ]  # fmt: skip


async def test_a_machine_needs_no_second_factor(api: httpx.AsyncClient, signing_key: str, settings: Settings) -> None:
    """Where staff need one: who has let it administer has said so."""
    settings.IRONAUTH_STAFF_MFA = "required"
    _, headers = await make_machine(api, "users:read")
    assert (await api.get(USERS, headers=headers)).status_code == 200


async def test_a_machines_token_in_a_cookie_is_refused(api: httpx.AsyncClient, signing_key: str) -> None:
    """Nobody but a person's browser sends cookies."""
    _, headers = await make_machine(api, "users:read")
    token = headers["Authorization"].removeprefix("Bearer ")
    answer = await api.get(USERS, headers={"Cookie": f"access_token={token}"})
    assert said(answer)[0] == 401


async def signed_in(member: Member, client: OAuthClient, scope: str) -> Headers:
    """Return the header of a token that a client got for a person."""

    def opened() -> Any:
        account = account_snapshot(uuid.UUID(member["id"]))
        assert account is not None
        found = sessions.store_first_party(account=account, context=ClientContext(), scope=scope)
        Session.objects.filter(pk=found.session_id).update(client_id=str(client.pk))
        return found

    found = await sync_to_async(opened)()
    found = dataclasses.replace(found, client_id=str(client.pk))
    pair = token_pair(found, await key_store().signing())
    return bearer({"access_token": pair.access_token})


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize(
    ("right", "scope", "administers", "expected"),
    [
        (True, "users:read", True, 200),
        (False, "users:read", True, 403),
        (True, "openid", True, 403),
        (True, "users:write", True, 403),
        (True, "users:read", False, 403),
        (True, "account", False, 200),
        (False, "account", False, 403),
    ],
)
async def test_a_person_needs_the_right_and_the_scope(
    api: httpx.AsyncClient, member: Member, right: bool, scope: str, administers: bool, expected: int, warm: bool
) -> None:
    """Both, by a client that administers; a token with the scope account has all scopes."""

    def prepare() -> OAuthClient:
        if right:
            User.objects.get(pk=member["id"]).user_permissions.add(Permission.objects.get(codename="view_user"))
        return make_client(scopes=[scope], administers=administers)[0]

    client = await sync_to_async(prepare)()
    headers = await signed_in(member, client, scope)
    for _ in range(2):
        answer = await api.get(USERS, headers=headers)
        assert answer.status_code == expected, answer.text
        if not warm:
            token_cache().clear()
    if scope != "account":
        assert said(await api.get(ME, headers=headers)) == (403, "insufficient_scope")


async def test_what_is_taken_from_the_client_is_taken_from_its_people(api: httpx.AsyncClient, member: Member) -> None:
    """A scope that the client has no more opens nothing, with a token that was used before."""

    def prepare() -> OAuthClient:
        User.objects.get(pk=member["id"]).user_permissions.add(Permission.objects.get(codename="view_user"))
        return make_client(scopes=["users:read"], administers=True)[0]

    client = await sync_to_async(prepare)()
    headers = await signed_in(member, client, "users:read")
    assert (await api.get(USERS, headers=headers)).status_code == 200
    client.administers = False
    await sync_to_async(client_units.change)(client, fields=["administers"])
    assert said(await api.get(USERS, headers=headers)) == (403, "insufficient_scope")


async def test_a_machine_reaches_everything_that_has_a_scope(api: httpx.AsyncClient, member: Member) -> None:
    """Every list and act of staff takes its token, those on people who hold no right too."""
    robot, headers = await make_machine(api, *SCOPES)
    await Group.objects.acreate(name="support")
    one = f"{USERS}/{member['id']}"
    for path in (
        USERS, one, f"{one}/verdict", f"{one}/sessions", "/api/v1/roles", "/api/v1/audit", f"{USERS}/invitations",
        "/api/v1/audit/export?format=csv", CLIENTS, f"{CLIENTS}/{robot.pk}", "/api/v1/keys", "/api/v1/providers",
    ):  # fmt: skip
        answer = await api.get(path, headers=headers)
        assert answer.status_code == 200, (path, answer.text)
        assert (await api.head(path, headers=headers)).status_code == 200
    acts: list[tuple[str, str, Any]] = [
        ("POST", USERS, {"email": "new@example.com"}),
        ("PATCH", one, {"email_verified": True}),
        ("PUT", f"{one}/roles/support", None),
        ("DELETE", f"{one}/roles/support", None),
        ("DELETE", f"{one}/sessions", None),
        ("DELETE", f"{one}/failures", None),
        ("DELETE", f"{one}/mfa", None),
        ("PATCH", one, {"is_active": False}),
        ("POST", f"{USERS}/invitations", {"email": "ida@example.com"}),
        ("POST", "/api/v1/roles", {"name": "readers", "permissions": ["accounts.view_user"]}),
        ("DELETE", one, None),
    ]
    for method, path, body in acts:
        answer = await api.request(method, path, json=body, headers=headers)
        assert answer.status_code < 300, (method, path, answer.text)
    refused = await api.post(
        "/api/v1/roles", json={"name": "more", "permissions": ["auth.change_permission"]}, headers=headers
    )
    assert said(refused) == (403, "permission_denied")


async def test_a_bound_token_needs_a_proof_of_its_key(api: httpx.AsyncClient, signing_key: str) -> None:
    """Made for this very request, once; a token that is bound to none takes none."""
    given = {"grants": [GrantType.CLIENT_CREDENTIALS.value], "redirect_uris": [], "administers": True}
    client, secret = await sync_to_async(make_client)(scopes=["users:read"], **given)
    key = new_key()
    asked = {"DPoP": proof(key, "POST", "/oauth/token"), **basic(str(client.pk), secret)}
    got = (await api.post("/oauth/token", data={"grant_type": "client_credentials"}, headers=asked)).json()
    assert got["token_type"] == "DPoP"
    token = got["access_token"]
    assert said(await api.get(USERS, headers={"Authorization": f"Bearer {token}"}))[0] == 401
    good = shown(token, key, "GET", USERS)
    assert (await api.get(USERS, headers=good)).status_code == 200
    assert said(await api.get(USERS, headers=good)) == (401, "invalid_dpop_proof")  # used
    for bad in (shown(token, new_key(), "GET", USERS), shown(token, key, "POST", USERS)):
        assert said(await api.get(USERS, headers=bad))[0] == 401
    free = (await token_of(api, client, secret))["Authorization"].removeprefix("Bearer ")
    assert said(await api.get(USERS, headers=shown(free, key, "GET", USERS)))[0] == 401


async def test_a_token_got_in_exchange_administers_nothing(db: None) -> None:
    """Whatever scope it has: what it may do ends with the exchange."""
    client, _ = await sync_to_async(make_client)(scopes=["users:read"], administers=True)
    common: dict[str, Any] = {
        "iss": "i",
        "sub": uuid.uuid4(),
        "aud": "a",
        "client_id": str(client.pk),
        "iat": 0,
        "exp": 1,
        "jti": "j",
    }
    claims = AccessClaims(**common, scope="openid users:read", epoch=0, roles=(), sid=uuid.uuid4())
    assert await machines.administration_of(claims) == {"users:read"}
    exchanged = msgspec.structs.replace(claims, act=Actor(sub=str(client.pk)))
    assert await machines.administration_of(exchanged) == frozenset()


async def test_what_a_machine_costs(api: httpx.AsyncClient, signing_key: str, statements: list[str]) -> None:
    """One query more than a superuser, for its scopes; none to verify its token once its client is known."""
    _, headers = await make_machine(api, "clients:read")
    assert (await api.get(CLIENTS, headers=headers)).status_code == 200
    statements.clear()
    assert (await api.get(CLIENTS, headers=headers)).status_code == 200
    assert len(statements) == 4, statements
