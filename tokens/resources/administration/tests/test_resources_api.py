"""Registered APIs over HTTP and in the admin: by rights, judged, with one event an act."""

import asyncio
from io import StringIO
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from conftest import bearer
from tokens.registered import changes
from tokens.resources.models import ApiResource
from tokens.sign_in.tests.test_step_up import STEP_UP_REQUIRED, age
from tokens.tests.machine import make_machine
from tokens.tests.staff import staff
from tokens.tests.stage import Stage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

RESOURCES = "/api/v1/resources"
NEW = {"identifier": "https://api.example.com/orders", "name": "Orders", "scopes": ["orders:read"]}
RIGHTS = {"view": "GET", "add": "POST", "change": "PATCH", "delete": "DELETE"}


async def made(**fields: Any) -> ApiResource:
    return await ApiResource.objects.acreate(**{**NEW, **fields})


async def test_registered_changed_and_deleted(stage: Stage) -> None:
    """The identifier stays, a field that keeps its value is no change, and each act is one event."""
    root = bearer(stage.root_pair)
    answer = await stage.api.post(RESOURCES, json=NEW, headers=root)
    shown = answer.json()
    assert answer.status_code == 201, shown
    one = answer.headers["location"]
    assert one == f"{RESOURCES}/{shown['id']}"
    assert {name: shown[name] for name in NEW} == NEW
    assert (shown["signing_alg"], shown["access_token_s"], shown["active"]) == ("ed25519", None, True)
    assert (await stage.api.get(RESOURCES, headers=root)).json() == [shown]
    assert (await stage.api.get(one, headers=root)).json() == shown
    same = await stage.api.patch(one, json={"name": " Orders ", "identifier": "https://other.example"}, headers=root)
    assert same.json() == shown
    changed = await stage.api.patch(one, json={"active": False, "access_token_s": 120}, headers=root)
    assert changed.json() == {**shown, "active": False, "access_token_s": 120}
    assert (await stage.api.delete(one, headers=root)).status_code == 204
    assert (await stage.api.get(one, headers=root)).status_code == 404
    events = [one async for one in AuditEvent.objects.filter(event__startswith="resource_").order_by("pk")]
    assert [one.event for one in events] == ["resource_created", "resource_changed", "resource_deleted"]
    assert {(one.actor_id, one.details["resource"]) for one in events} == {(stage.root, NEW["identifier"])}
    assert events[1].details["fields"] == ["access_token_s", "active"]


@pytest.mark.parametrize(
    ("bad", "fields"),
    [
        ({"identifier": "orders"}, ["identifier"]),
        ({"identifier": "https://a.example/#x", "name": ""}, ["name"]),
        ({"name": "x" * 81, "scopes": ["account"]}, ["name", "scopes"]),
        ({"signing_alg": "none"}, ["signing_alg"]),
        ({"signing_alg": "ES256"}, ["signing_alg"]),
        ({"access_token_s": 10**9}, ["access_token_s"]),
        ({"scopes": "orders:read"}, ["scopes"]),
    ],
)
async def test_bad_fields_are_named(stage: Stage, bad: dict[str, Any], fields: list[str]) -> None:
    """And nothing is stored."""
    answer = await stage.api.post(RESOURCES, json={**NEW, **bad}, headers=bearer(stage.root_pair))
    assert (answer.status_code, [one["field"] for one in answer.json()["errors"]]) == (400, fields), answer.text
    assert not await ApiResource.objects.aexists()


@pytest.mark.parametrize("right", RIGHTS)
async def test_each_act_needs_its_right(stage: Stage, right: str) -> None:
    """One right allows one method, and no other."""
    pair = await staff(stage.api, f"{right}_apiresource")
    other = await made(identifier="https://other.example")
    bodies: dict[str, Any] = {"POST": NEW, "PATCH": {"name": "Others"}}
    for method in RIGHTS.values():
        path = RESOURCES if method == "POST" else f"{RESOURCES}/{other.pk}"
        answer = await stage.api.request(method, path, json=bodies.get(method), headers=bearer(pair))
        assert (answer.status_code < 300) is (method == RIGHTS[right]), (method, answer.text)
        assert answer.status_code in (200, 201, 204, 403)


async def test_a_recent_proof_is_asked_for(stage: Stage) -> None:
    """For acts, not for reading."""
    one = f"{RESOURCES}/{(await made()).pk}"
    await age(stage.root_pair, 601)
    for method, path in (("POST", RESOURCES), ("PATCH", one), ("DELETE", one)):
        body = {"POST": NEW, "PATCH": {}}.get(method)
        answer = await stage.api.request(method, path, json=body, headers=bearer(stage.root_pair))
        assert (answer.status_code, answer.json()["code"]) == STEP_UP_REQUIRED, answer.text
    assert (await stage.api.get(one, headers=bearer(stage.root_pair))).status_code == 200


async def test_a_machine_by_its_scopes(stage: Stage) -> None:
    """resources:read reads, resources:write registers, neither does the other's."""
    _, reads = await make_machine(stage.api, "resources:read")
    _, writes = await make_machine(stage.api, "resources:write")
    assert (await stage.api.post(RESOURCES, json=NEW, headers=reads)).status_code == 403
    assert (await stage.api.post(RESOURCES, json=NEW, headers=writes)).status_code == 201
    assert (await stage.api.get(RESOURCES, headers=writes)).status_code == 403
    assert len((await stage.api.get(RESOURCES, headers=reads)).json()) == 1


async def test_two_at_once_register_one(stage: Stage) -> None:
    """The other is told that the identifier is taken."""
    root = bearer(stage.root_pair)
    answers = await asyncio.gather(*(stage.api.post(RESOURCES, json=NEW, headers=root) for _ in range(4)))
    assert sorted(one.status_code for one in answers) == [201, 400, 400, 400]
    assert {one.json()["errors"][0]["code"] for one in answers if one.status_code == 400} == {"taken"}
    assert await ApiResource.objects.acount() == 1


async def test_an_unknown_one(stage: Stage) -> None:
    """404 for all acts on it."""
    gone = await made()
    await sync_to_async(gone.delete)()
    for method in ("GET", "PATCH", "DELETE"):
        answer = await stage.api.request(method, f"{RESOURCES}/{gone.pk}", headers=bearer(stage.root_pair))
        assert answer.status_code == 404


@pytest.mark.parametrize("by", ["admin", "command"])
async def test_what_somebody_else_changes_meanwhile_stays(
    stage: Stage, client: Client, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """A page of the admin, and the command, store what they change alone: a PATCH since they read the row goes on."""
    row = await made()
    root = await User.objects.aget(pk=stage.root)
    change = changes.change

    def late(kind: Any, changed: ApiResource, **said: Any) -> None:
        """Change the row as after somebody else's act."""
        assert ApiResource.objects.filter(pk=row.pk).update(scopes=["orders:write"], name="Renamed") == 1
        change(kind, changed, **said)

    monkeypatch.setattr(changes, "change", late)

    def act() -> None:
        if by == "command":
            call_command("api_resource", "disable", NEW["identifier"], stdout=StringIO())
            return
        client.force_login(root)
        form = {"name": NEW["name"], "scopes": "orders:read", "signing_alg": "ed25519", "access_token_s": ""}
        answer = client.post(reverse("admin:tokens_apiresource_change", args=[row.pk]), form)
        assert answer.status_code == 302, answer.content

    await sync_to_async(act)()
    stored = await ApiResource.objects.aget()
    assert (stored.name, stored.scopes, stored.active) == ("Renamed", ["orders:write"], False)
    event = await AuditEvent.objects.aget(event="resource_changed")
    assert event.details["fields"] == ["active"]
    assert event.details["active"] is False
