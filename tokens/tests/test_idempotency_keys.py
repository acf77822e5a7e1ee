"""Requests that create something, sent again with their Idempotency-Key: done once, and answered as before."""

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db.models import Model
from pytest_django import Settings

from accounts.access.permissions import StaffView
from accounts.audit.models import AuditEvent
from accounts.federation.models import UpstreamProvider
from accounts.invitations.models import Invitation
from accounts.organizations.models import Organization
from accounts.users.models import User
from conftest import PASSWORD, ServeProcess, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto.sealing import unseal
from ironauth.infrastructure.db import idempotency as store
from ironauth.infrastructure.db.idempotency import Keyed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.cross_origin import ALLOWED, EXPOSED
from ironauth.infrastructure.models import IdempotencyKey
from tokens.clients.dynamic.models import RegistrationToken
from tokens.clients.models import OAuthClient, OAuthClientSecret
from tokens.details.models import DetailType
from tokens.keys.models import SigningKey
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.resources.models import ApiResource
from tokens.tests.browser import SIGNIN
from tokens.tests.machine import make_machine
from tokens.tests.staff import staff
from tokens.tests.stage import Stage

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.usefixtures("signing_key", "rs256_key"),
]

KEY = "8e03978e-40d5-43e8-bc93-6894a57f9324"
AT_ONCE = 12
WORKERS = 2
ROUNDS = 3
REPLAYED = "idempotency-replayed"


class Act(NamedTuple):
    """One operation: the view, its path, a body by number, and the table of what it makes."""

    view: str
    path: str
    body: Callable[[int], Any]
    table: type[Model]
    has_secret: bool = False


USERS = Act("UsersView", "/api/v1/users", lambda number: {"email": f"new{number}@example.com"}, User)
ACTS = [
    USERS,
    Act("RolesView", "/api/v1/roles", lambda number: {"name": f"role {number}", "permissions": []}, Group),
    Act("InvitationsView", "/api/v1/users/invitations", lambda number: {"email": f"to{number}@example.com"},
        Invitation),
    Act("ClientsView", "/api/v1/clients", lambda number: {"preset": "spa", "name": f"App {number}",
        "redirect_uris": [REDIRECT_URI]}, OAuthClient),
    Act("ClientsView", "/api/v1/clients", lambda number: {"preset": "web", "name": f"App {number}",
        "redirect_uris": [REDIRECT_URI]}, OAuthClient, has_secret=True),
    Act("ProvidersView", "/api/v1/providers", lambda number: {"slug": f"p{number}", "name": "P", "kind": "oidc",
        "issuer": f"https://p{number}.example", "client_id": "us", "secret": f"given to us, {number}"},
        UpstreamProvider),
    Act("ResourcesView", "/api/v1/resources", lambda number: {"name": "A", "identifier": f"https://a{number}.example"},
        ApiResource),
    Act("DetailTypesView", "/api/v1/authorization-details-types",
        lambda number: {"identifier": f"type{number}", "words": "Pay"}, DetailType),
    Act("TokensView", "/api/v1/clients/registration-tokens", lambda number: {"name": f"Token {number}"},
        RegistrationToken, has_secret=True),
    Act("KeysView", "/api/v1/keys", lambda number: {"family": ["ES256", "ed25519"][number]}, SigningKey),
]  # fmt: skip
every_act = pytest.mark.parametrize("act", ACTS, ids=[f"{one.view}{'-secret' * one.has_secret}" for one in ACTS])


async def post(
    stage: Stage, act: Act | str, number: int = 0, key: str | None = KEY, body: Any = None, **headers: str
) -> httpx.Response:
    """Send a request of the superuser, with a key unless it is None."""
    path, json_body = (act, body) if isinstance(act, str) else (act.path, act.body(number))
    sent = {**bearer(stage.root_pair), **({} if key is None else {"Idempotency-Key": key}), **headers}
    return await stage.api.post(path, json=json_body, headers=sent)


def refused(answer: httpx.Response, status: int, code: str) -> None:
    """Check that it is a problem with this code."""
    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text
    assert REPLAYED not in answer.headers


def test_every_view_that_creates_is_tried_here() -> None:
    """A view that declares what it creates is in the table, or has a test of its own below."""

    def below(kind: type[Any]) -> set[type[Any]]:
        return {kind}.union(*(below(one) for one in kind.__subclasses__()))

    declared = {one.__name__ for one in below(StaffView) if one.creates is not None}
    assert declared == {one.view for one in ACTS} | {"ClientSecretView", "KeyRotationView", "StaffOrganizationsView"}


@every_act
async def test_it_is_done_once_and_answered_as_before(stage: Stage, act: Act) -> None:
    """Status, body and Location are those of the first answer; the trail has one event more for all of them."""
    first = await post(stage, act)
    assert first.is_success, first.text
    assert REPLAYED not in first.headers
    rows, events = await act.table._default_manager.acount(), await AuditEvent.objects.acount()
    for _ in range(2):
        again = await post(stage, act)
        if act.has_secret:
            refused(again, 409, "idempotency_answer_not_repeated")
            shown = first.json()
            assert shown.get("client_secret", shown.get("token")) not in again.text
        else:
            assert (again.status_code, again.content) == (first.status_code, first.content)
            assert again.headers[REPLAYED] == "true"
            assert again.headers["content-type"] == first.headers["content-type"]
        assert again.headers.get("location") == first.headers.get("location")
        assert again.headers["cache-control"] == "no-store"
    assert await act.table._default_manager.acount() == rows
    assert await AuditEvent.objects.acount() == events
    if first.status_code == 201:
        assert first.headers["location"].startswith(f"{act.path}/")


@every_act
async def test_another_request_with_the_key_is_refused(stage: Stage, act: Act) -> None:
    """Another body, other bytes of the same body, or another path: 422, and nothing is made."""
    assert (await post(stage, act)).is_success
    rows = await act.table._default_manager.acount()
    refused(await post(stage, act, 1), 422, "idempotency_key_reused")
    spaced = json.dumps(act.body(0), indent=7).encode()
    typed = {**bearer(stage.root_pair), "Idempotency-Key": KEY, "Content-Type": "application/json"}
    refused(await stage.api.post(act.path, content=spaced, headers=typed), 422, "idempotency_key_reused")
    other = "/api/v1/roles" if act.view != "RolesView" else "/api/v1/users"
    refused(await post(stage, other, body={"name": "x", "email": "x@example.com"}), 422, "idempotency_key_reused")
    assert await act.table._default_manager.acount() == rows
    assert (await post(stage, act, 1, key="another")).is_success


@every_act
async def test_what_failed_can_be_sent_again(stage: Stage, act: Act) -> None:
    """An error makes nothing, so that its key is free: the next request with it is carried out."""
    assert (await post(stage, act.path, body={"family": "none"})).status_code == 400
    assert not await IdempotencyKey.objects.aexists()
    answer = await post(stage, act)
    assert answer.is_success
    assert REPLAYED not in answer.headers
    assert await IdempotencyKey.objects.acount() == 1


async def test_a_secret_is_replaced_once(stage: Stage) -> None:
    """The request is not done again, and its answer is not repeated: the secret is nowhere."""
    client = (await sync_to_async(make_client)())[0]
    path = f"/api/v1/clients/{client.pk}/secret"
    first = await post(stage, path, body={})
    secrets = await OAuthClientSecret.objects.acount()
    assert first.status_code == 200, first.text
    refused(await post(stage, path, body={}), 409, "idempotency_answer_not_repeated")
    assert await OAuthClientSecret.objects.acount() == secrets


async def test_a_key_is_rotated_once(stage: Stage) -> None:
    """A request that is sent twice retires one signing key."""
    long_ago = clock.now() - timedelta(days=30)
    shown = []
    for key in (KEY, KEY, "another"):
        await SigningKey.objects.filter(state="next").aupdate(created_at=long_ago)  # it may be rotated
        shown.append(await post(stage, "/api/v1/keys/rotate", body={}, key=key))
    assert [answer.status_code for answer in shown] == [200] * 3
    first, again, another = (answer.json()["kid"] for answer in shown)
    assert first == again != another
    assert await AuditEvent.objects.filter(event="key_rotated").acount() == 2


async def test_keys_of_different_callers_never_meet(stage: Stage) -> None:
    """Another person, and two machines, make something of their own with the key."""
    assert (await post(stage, USERS, 0)).status_code == 201
    pair = await staff(stage.api, "add_user")
    headers = {"Idempotency-Key": KEY}
    answer = await stage.api.post(USERS.path, json=USERS.body(1), headers={**headers, **bearer(pair)})
    assert answer.status_code == 201
    machines = [await make_machine(stage.api, "users:write") for _ in range(2)]
    for number, (_, token) in enumerate(machines, start=2):
        answer = await stage.api.post(USERS.path, json=USERS.body(number), headers={**headers, **token})
        assert answer.status_code == 201, answer.text
        assert REPLAYED not in answer.headers
    again = await stage.api.post(USERS.path, json=USERS.body(2), headers={**headers, **machines[0][1]})
    assert (again.status_code, again.headers[REPLAYED]) == (201, "true")
    assert await IdempotencyKey.objects.acount() == 4


async def test_an_answer_is_repeated_to_those_who_have_the_right(stage: Stage) -> None:
    """Who lost it since is refused, and without a credential nothing is looked up."""
    pair = await staff(stage.api, "add_user")
    headers = {**bearer(pair), "Idempotency-Key": KEY}
    assert (await stage.api.post(USERS.path, json=USERS.body(0), headers=headers)).status_code == 201
    await sync_to_async(User.user_permissions.through.objects.all().delete)()
    refused(await stage.api.post(USERS.path, json=USERS.body(0), headers=headers), 403, "permission_denied")
    assert (await stage.api.post(USERS.path, json=USERS.body(0), headers={"Idempotency-Key": KEY})).status_code == 401
    lacking = {**bearer(await staff(stage.api)), "Idempotency-Key": "new"}
    refused(await stage.api.post(USERS.path, json=USERS.body(1), headers=lacking), 403, "permission_denied")
    assert await IdempotencyKey.objects.acount() == 1


@pytest.mark.parametrize("after_s", [store.KEEP_S - 1, store.KEEP_S])
async def test_answers_are_kept_a_day(stage: Stage, after_s: int) -> None:
    """A second before its end the row is there, also after a purge; at its end the key is free."""
    with clock.shifted(0):
        assert (await post(stage, USERS)).status_code == 201
    row = await IdempotencyKey.objects.aget()
    is_over = after_s == store.KEEP_S
    await IdempotencyKey.objects.aupdate(expires_at=int(clock.unix()) + (0 if is_over else 1_000))
    assert row.expires_at - int(clock.unix()) in range(store.KEEP_S - 60, store.KEEP_S + 1)
    assert await sync_to_async(store.purge)(batch=10) == is_over
    answer = await post(stage, USERS)
    assert (answer.status_code, answer.headers.get(REPLAYED)) == ((409, None) if is_over else (201, "true"))


@pytest.mark.parametrize(
    ("sent", "is_read"),
    [
        ("a", True), ("k" * 255, True), ("k" * 256, False), ('"a key, quoted; with \\"this\\""', True), ("", False),
        ('"' + "k" * 255 + '"', True), ('"' + "k" * 256 + '"', False), ("a b", False), ("a,b", False), ('"a', False),
        ('""', False), ('"a";b=1', False), ("käse", False), ('"a\\b"', False), (f"{KEY}, {KEY}", False),
    ],
)  # fmt: skip
async def test_a_key_is_one_text(stage: Stage, sent: str, is_read: bool) -> None:
    """A string of RFC 9651 or the same without quotes, up to 255 characters; anything else is 400."""
    headers = [*bearer(stage.root_pair).items(), ("Idempotency-Key", sent.encode("latin-1"))]
    answer = await stage.api.post(USERS.path, json=USERS.body(0), headers=headers)  # type: ignore[arg-type] # bytes
    if is_read:
        assert answer.status_code == 201, answer.text
    else:
        refused(answer, 400, "idempotency_key_invalid")
        assert not await User.objects.filter(email="new0@example.com").aexists()


async def test_with_and_without_quotes_it_is_the_same_key(stage: Stage) -> None:
    """As the draft writes it, and as most clients do."""
    assert (await post(stage, USERS)).status_code == 201
    assert (await post(stage, USERS, key=f'"{KEY}"')).headers[REPLAYED] == "true"


async def test_without_a_key_nothing_is_kept(stage: Stage) -> None:
    """The second request is a second request."""
    assert (await post(stage, USERS, key=None)).status_code == 201
    assert (await post(stage, USERS, key=None)).status_code == 409
    assert not await IdempotencyKey.objects.aexists()


async def test_nothing_is_stored_in_clear(stage: Stage) -> None:
    """Neither the key, nor what was sent, nor what was answered is in the row; no secret is in it sealed either."""
    body = {"email": "kept@example.com", "name": "Kept", "password": PASSWORD}
    assert (await post(stage, USERS.path, body=body)).status_code == 201
    secret = (await post(stage, ACTS[4], key="other")).json()["client_secret"]
    for row in [one async for one in IdempotencyKey.objects.all()]:
        raw = f"{row.key} {row.claim}".encode() + bytes(row.fingerprint) + bytes(row.answer or b"")
        for text in (KEY, "kept@example.com", "Kept", PASSWORD, secret):
            assert text.encode() not in raw
        opened = unseal(row.master_key_id, bytes(row.answer or b""), store._ANSWER, row.key.encode())
        assert secret.encode() not in opened
        assert PASSWORD.encode() not in opened


async def test_a_new_master_key_does_not_carry_anything_out_twice(stage: Stage, settings: Settings) -> None:
    """Under a newer one the answer is repeated; when the one it is sealed under is gone, it is not, and is not done."""
    first = await post(stage, USERS)
    old = settings.IRONAUTH_MASTER_KEYS
    settings.IRONAUTH_MASTER_KEYS = {"newer": b"n" * 32, **old}
    assert (await post(stage, USERS)).content == first.content
    key = Keyed(caller="c", key="k", request=b"r", claim=uuid.uuid4())
    other = Keyed(caller="c", key="k", request=b"r", claim=uuid.uuid4())
    await database().write(store.claim, key)
    await IdempotencyKey.objects.filter(pk=key.row).aupdate(master_key_id="gone")
    with pytest.raises(store.IdempotencyInFlight):
        await database().write(store.claim, other)
    await database().write(store.record, key, store.Answer(201, "", b"{}"))
    await IdempotencyKey.objects.filter(pk=key.row).aupdate(master_key_id="gone")
    with pytest.raises(store.AnswerNotRepeated):
        await database().write(store.claim, other)


async def test_a_claim_of_a_process_that_died_ends(stage: Stage) -> None:
    """For a minute the key is in flight, then somebody else's; a slow first one is rolled back, not done twice."""
    slow = Keyed(caller="c", key="k", request=b"r", claim=uuid.uuid4())
    other = Keyed(caller="c", key="k", request=b"r", claim=uuid.uuid4())
    assert await database().write(store.claim, slow) is None
    with clock.shifted(store.LEASE_S - 2), pytest.raises(store.IdempotencyInFlight):
        await database().write(store.claim, other)
    with clock.shifted(store.LEASE_S + 1):
        assert await database().write(store.claim, other) is None
        with pytest.raises(store.IdempotencyInFlight):
            await database().write(store.record, slow, store.Answer(201, "", b"{}"))
        await database().write(store.give_back, slow)
        await database().write(store.record, other, store.Answer(201, "", b"{}"))
        with pytest.raises(store.IdempotencyKeyReused):
            await database().write(store.claim, Keyed(caller="c", key="k", request=b"other", claim=uuid.uuid4()))


@pytest.mark.live
@pytest.mark.parametrize("act", [USERS, ACTS[3]], ids=["people", "clients"])
async def test_of_many_at_once_one_is_carried_out(act: Act, serve_process: ServeProcess, rs256_key: object) -> None:
    """Two processes get the same request many times: one thing is made, and every answer is the first one or 409.

    Afterwards each is repeated, by the other process too, and after a restart.
    """
    del rs256_key
    await sync_to_async(User.objects.create_superuser)(email="root@example.com", password=PASSWORD)
    base = await asyncio.to_thread(serve_process, "--workers", str(WORKERS))
    limits = httpx.Limits(max_connections=AT_ONCE)
    async with httpx.AsyncClient(base_url=base, limits=limits, timeout=30) as api:
        headers = bearer((await api.post(SIGNIN, json={"email": "root@example.com", "password": PASSWORD})).json())
        for number in range(ROUNDS):
            rows = await act.table._default_manager.acount()
            keyed = {**headers, "Idempotency-Key": f"round-{number}"}
            asked = (api.post(act.path, json=act.body(number), headers=keyed) for _ in range(AT_ONCE))
            answers = await asyncio.gather(*asked)
            found = Counter(answer.status_code for answer in answers)
            assert found[201] + found[409] == AT_ONCE, found
            codes = {answer.json()["code"] for answer in answers if answer.status_code == 409}
            assert codes <= {"idempotency_in_flight"}
            firsts = [one for one in answers if one.status_code == 201 and REPLAYED not in one.headers]
            assert len(firsts) == 1
            assert {one.content for one in answers if one.status_code == 201} == {firsts[0].content}
            assert await act.table._default_manager.acount() == rows + 1
    later = await asyncio.to_thread(serve_process)
    async with httpx.AsyncClient(base_url=later, timeout=30) as api:
        again = await api.post(act.path, json=act.body(ROUNDS - 1), headers=keyed)
        assert (again.status_code, again.content, again.headers[REPLAYED]) == (201, firsts[0].content, "true")


def test_pages_of_other_origins_may_send_keys_and_read_that_it_is_a_repetition() -> None:
    """The preflight lists the field, and answers expose the other."""
    assert b"Idempotency-Key" in ALLOWED.split(b", ")
    assert b"Idempotency-Replayed" in EXPOSED.split(b", ")


async def test_an_organization_is_made_once(stage: Stage) -> None:
    """Its first owner is a person of the scene; another owner under the same key is refused."""
    path, body = "/api/v1/staff/organizations", {"name": "Acme", "owner": str(stage.member)}
    first, again = [await post(stage, path, body=body) for _ in range(2)]
    assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
    assert again.headers[REPLAYED] == "true"
    refused(await post(stage, path, body={**body, "owner": str(stage.root)}), 422, "idempotency_key_reused")
    assert await Organization.objects.acount() == 1
