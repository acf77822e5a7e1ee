"""Sign-in providers over HTTP: listed, added, changed, tried, switched off, deleted; by superusers and machines."""

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.hashers import make_password
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.federation.models import Identity, UpstreamProvider
from accounts.federation.secrets import unsealed
from accounts.users.models import User
from conftest import bearer
from ironauth.infrastructure.core import clock
from tokens.sign_in.tests.test_step_up import STEP_UP_REQUIRED, age
from tokens.tests.machine import make_machine
from tokens.tests.second_factor import said
from tokens.tests.staff import staff
from tokens.tests.stage import Stage
from tokens.upstream import discovery, exchange
from tokens.upstream.tests.provider import FakeProvider, served
from tokens.upstream.tests.walk import stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

PROVIDERS = "/api/v1/providers"
SECRET = "a secret that the provider has made"
NEW = {"slug": "acme", "name": "Acme", "kind": "oidc", "issuer": "https://id.acme.example", "client_id": "us",
       "secret": SECRET}  # fmt: skip


async def make(slug: str = "acme", **fields: Any) -> UpstreamProvider:
    issuer = "https://github.com" if fields.get("kind") == "github" else f"https://{slug}.example"
    return await sync_to_async(stored)(slug, issuer, **fields)


def acts(one: str) -> list[tuple[str, str, Any]]:
    """Return every change, harmless where it is allowed."""
    return [
        ("POST", PROVIDERS, {**NEW, "slug": "other"}),
        ("PATCH", one, {"name": "Acme & Co"}),
        ("DELETE", one, None),
    ]


async def test_one_is_added_and_its_secret_is_in_no_answer(stage: Stage) -> None:
    """It is sealed; one event has the short name and no value."""
    answer = await stage.api.post(PROVIDERS, json=NEW, headers=bearer(stage.root_pair))
    shown = answer.json()
    assert answer.status_code == 201, shown
    assert answer.headers["location"] == f"{PROVIDERS}/acme"
    assert shown["redirect_uri"].endswith("/oauth/upstream/acme")
    assert (shown["enabled"], shown["creates_accounts"], shown["trusts_email"]) == (True, True, False)
    assert await sync_to_async(unsealed)(await UpstreamProvider.objects.aget()) == SECRET
    for path in (PROVIDERS, f"{PROVIDERS}/acme"):
        text = (await stage.api.get(path, headers=bearer(stage.root_pair))).text
        assert "Acme" in text
        assert SECRET not in text
        assert "secret" not in text
    event = await AuditEvent.objects.aget(event="provider_changed")
    assert (event.actor_id, event.details) == (stage.root, {"provider": "acme", "act": "added", "fields": []})


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"slug": "Acme!"}, "slug"),
        ({"slug": "x" * 33}, "slug"),
        ({"slug": "taken"}, "slug"),
        ({"name": ""}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "\x00"}, "name"),
        ({"kind": "toaster"}, "kind"),
        ({"issuer": "http://id.acme.example"}, "issuer"),
        ({"issuer": ""}, "issuer"),
        ({"client_id": ""}, "client_id"),
        ({"secret": ""}, "secret"),
        ({"secret": "x" * 1_025}, "secret"),
        ({"kind": "apple"}, "secret"),
        ({"domains": ["localhost"]}, "domains"),
        ({"domains": ["a.example\nb.example"]}, "domains.0"),
        ({"domains": "a.example"}, "domains"),
        ({"second_factors": [1]}, "second_factors.0"),
        ({"enabled": "yes"}, "enabled"),
    ],
)
async def test_what_no_provider_may_be(stage: Stage, more: dict[str, Any], field: str) -> None:
    """400 naming the field, for a new one and a change, and nothing is stored."""
    await make("taken")
    refused = await stage.send("POST", PROVIDERS, 400, {**NEW, **more}, stage.root_pair)
    assert field in {error["field"] for error in refused["errors"]}
    assert await UpstreamProvider.objects.acount() == 1
    if field != "slug" and more != {"secret": ""}:
        refused = await stage.send("PATCH", f"{PROVIDERS}/taken", 400, more, stage.root_pair)
        assert field in {error["field"] for error in refused["errors"]}
    assert not await AuditEvent.objects.filter(event="provider_changed").aexists()


async def test_a_change_touches_what_is_sent_alone(stage: Stage) -> None:
    """One event with the names of the fields; the same values again are none; the short name stays."""
    row = await make(domains=["a.example"], second_factors=["mfa"])
    body = {"name": "Acme & Co", "slug": "other", "updates_name": True}
    shown = await stage.send("PATCH", f"{PROVIDERS}/acme", 200, body, stage.root_pair)
    assert (shown["slug"], shown["name"], shown["updates_name"]) == ("acme", "Acme & Co", True)
    assert (shown["domains"], shown["second_factors"], shown["trusts_email"]) == (["a.example"], ["mfa"], True)
    await stage.send("PATCH", f"{PROVIDERS}/acme", 200, body, stage.root_pair)
    event = await AuditEvent.objects.aget(event="provider_changed")
    assert event.details == {"provider": "acme", "act": "changed", "fields": ["name", "updates_name"]}
    before = bytes(row.sealed_secret)
    await row.arefresh_from_db()
    assert bytes(row.sealed_secret) == before
    await stage.send("PATCH", f"{PROVIDERS}/acme", 200, {"secret": SECRET}, stage.root_pair)
    assert await sync_to_async(unsealed)(await UpstreamProvider.objects.aget()) == SECRET


async def test_two_changes_at_once_undo_nothing_of_each_other(stage: Stage) -> None:
    """Each writes the fields that it was sent, whichever is first."""
    await make()
    bodies = [{"name": "Other"}, {"updates_name": True}, {"domains": ["a.example"]}]
    await asyncio.gather(*(stage.send("PATCH", f"{PROVIDERS}/acme", 200, body, stage.root_pair) for body in bodies))
    row = await UpstreamProvider.objects.aget()
    assert (row.name, row.updates_name, row.domains) == ("Other", True, ["a.example"])


async def test_who_is_left_without_a_way_in_is_told_first(stage: Stage, settings: Settings) -> None:
    """Switching off is refused with their number, as in the admin, until it is said that it is meant."""
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = False
    row = await make()
    await Identity.objects.acreate(user_id=stage.member, provider=row, issuer=row.issuer, subject="mia")
    await User.objects.filter(pk=stage.member).aupdate(password=make_password(None), email_verified_at=clock.now())
    off = {"enabled": False}
    refused = await stage.send("PATCH", f"{PROVIDERS}/acme", 400, off, stage.root_pair)
    (error,) = refused["errors"]
    assert error["field"] == "leave_without_way_in"
    assert "1 person has no other way to sign in" in error["message"]
    assert (await UpstreamProvider.objects.aget()).enabled
    shown = await stage.send("PATCH", f"{PROVIDERS}/acme", 200, {**off, "leave_without_way_in": True}, stage.root_pair)
    assert shown["enabled"] is False
    event = await AuditEvent.objects.aget(event="provider_changed")
    assert event.details["fields"] == ["enabled"]


async def test_one_is_switched_off_before_it_is_deleted(stage: Stage) -> None:
    """409 while people may sign in with it."""
    await make()
    refused = await stage.send("DELETE", f"{PROVIDERS}/acme", 409, pair=stage.root_pair)
    assert refused["code"] == "provider_enabled"
    await stage.send("PATCH", f"{PROVIDERS}/acme", 200, {"enabled": False}, stage.root_pair)
    await stage.send("DELETE", f"{PROVIDERS}/acme", 204, pair=stage.root_pair)
    assert not await UpstreamProvider.objects.aexists()
    assert await AuditEvent.objects.filter(event="provider_changed", details__act="deleted").acount() == 1
    for method, path, body in (*acts(f"{PROVIDERS}/acme")[1:], ("GET", f"{PROVIDERS}/acme", None)):
        await stage.send(method, path, 404, body, stage.root_pair)
    await stage.send("POST", f"{PROVIDERS}/acme/try", 404, pair=stage.root_pair)


async def test_it_is_tried(stage: Stage, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers with its keys; one that does not is no error of ours; a kind without a document is told apart."""
    monkeypatch.setattr(exchange, "LIMIT_S", 60.0)
    settings.DEBUG = True  # http on this machine
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    discovery.forget()
    with served(FakeProvider) as server:
        await sync_to_async(stored)("acme", server.issuer, enabled=False)
        tried = await stage.send("POST", f"{PROVIDERS}/acme/try", 200, pair=stage.root_pair)
        assert (tried["answers"], tried["keys"]) == (True, 1)
        assert "/oauth/upstream/acme" in tried["detail"]
        server.document = {"issuer": "https://other.example"}
        tried = await stage.send("POST", f"{PROVIDERS}/acme/try", 200, pair=stage.root_pair)
        assert (tried["answers"], tried["keys"]) == (False, 0)
    await make("hub", kind="github")
    assert (await stage.send("POST", f"{PROVIDERS}/hub/try", 200, pair=stage.root_pair))["answers"] is None
    assert not await AuditEvent.objects.filter(event="provider_changed").aexists()


async def test_trying_is_bounded(stage: Stage, throttled: None, settings: Settings) -> None:
    """As sign-ins with a provider are: the one after the last is 429."""
    settings.IRONAUTH_THROTTLE_PASSKEYS = 2
    await make("hub", kind="github")
    for status in (200, 200, 429):
        await stage.send("POST", f"{PROVIDERS}/hub/try", status, pair=stage.root_pair)


async def test_they_are_a_superusers_or_a_machines_with_the_scope(stage: Stage) -> None:
    """Staff with other rights see nothing; a machine reads with one scope and changes with the other."""
    row = await make(enabled=False)
    one = f"{PROVIDERS}/{row.slug}"
    reads = [("GET", PROVIDERS, None), ("GET", one, None)]
    changes = [("POST", f"{one}/try", None), *acts(one)]
    person = bearer(await staff(stage.api, "change_user", "change_oauthclient"))
    _, reader = await make_machine(stage.api, "providers:read")
    robot, writer = await make_machine(stage.api, "providers:write")
    await UpstreamProvider.objects.aupdate(kind="github", issuer="https://github.com")  # tried without a network
    for method, path, body in reads + changes:
        assert (await stage.api.request(method, path, json=body)).status_code == 401
        refused = await stage.api.request(method, path, json=body, headers=person)
        assert said(refused) == (403, "permission_denied")
        answer = await stage.api.request(method, path, json=body, headers=reader)
        assert answer.status_code == (200 if method == "GET" else 403), answer.text
        answer = await stage.api.request(method, path, json=body, headers=writer)
        assert (answer.status_code < 300) == (method != "GET"), answer.text
    actors = {event.actor_id async for event in AuditEvent.objects.filter(event="provider_changed")}
    assert actors == {robot.pk}


async def test_every_change_needs_a_fresh_proof(stage: Stage) -> None:
    """At 601 seconds nothing is changed, and trying is allowed; at 590 everything is."""
    await make(enabled=False, kind="github")
    one = f"{PROVIDERS}/acme"
    await age(stage.root_pair, 601)
    for method, path, body in acts(one):
        refused = await stage.api.request(method, path, json=body, headers=bearer(stage.root_pair))
        assert said(refused) == STEP_UP_REQUIRED, (method, path)
    await stage.send("POST", f"{one}/try", 200, pair=stage.root_pair)
    await age(stage.root_pair, 590)
    for method, path, body in acts(one):
        answer = await stage.api.request(method, path, json=body, headers=bearer(stage.root_pair))
        assert answer.status_code < 300, answer.text


async def test_an_unknown_parameter_is_refused(stage: Stage) -> None:
    """The list is not filtered."""
    refused = await stage.send("GET", f"{PROVIDERS}?kind=oidc", 400, pair=stage.root_pair)
    assert [error["field"] for error in refused["errors"]] == ["kind"]


async def test_the_cost_of_each(stage: Stage, statements: list[str]) -> None:
    """Queries are counted, of a superuser's acts."""
    await make(enabled=False)
    await stage.send("GET", PROVIDERS, 200, pair=stage.root_pair)  # its session is known
    counted = {}
    for act, method, path, body in (
        ("list", "GET", PROVIDERS, None), ("change", "PATCH", f"{PROVIDERS}/acme", {"name": "Other"}),
        ("delete", "DELETE", f"{PROVIDERS}/acme", None),
    ):  # fmt: skip
        statements.clear()
        await stage.api.request(method, path, json=body, headers=bearer(stage.root_pair))
        counted[act] = len(statements)
    assert counted == {"list": 2, "change": 10, "delete": 7}, counted
