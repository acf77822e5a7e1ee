"""Types of authorization details over HTTP: by rights, judged, with one event an act."""

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from accounts.audit.models import AuditEvent
from conftest import bearer
from tokens.details.models import DetailType
from tokens.sign_in.tests.test_step_up import STEP_UP_REQUIRED, age
from tokens.tests.machine import make_machine
from tokens.tests.staff import staff
from tokens.tests.stage import Stage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

TYPES = "/api/v1/authorization-details-types"
NEW: dict[str, Any] = {
    "identifier": "payment", "words": "Pay {amount}", "members": {"amount": {"kind": "text", "required": True}},
}  # fmt: skip
RIGHTS = {"view": "GET", "add": "POST", "change": "PATCH", "delete": "DELETE"}


async def made(**fields: Any) -> DetailType:
    return await DetailType.objects.acreate(**{**NEW, **fields})


async def test_registered_changed_and_deleted(stage: Stage) -> None:
    """The identifier stays, a field that keeps its value is no change, and each act is one event."""
    root = bearer(stage.root_pair)
    answer = await stage.api.post(TYPES, json=NEW, headers=root)
    shown = answer.json()
    assert answer.status_code == 201, shown
    one = answer.headers["location"]
    assert one == f"{TYPES}/{shown['id']}"
    assert {name: shown[name] for name in NEW} == NEW
    assert (shown["unattended"], shown["active"]) == (False, True)
    assert (await stage.api.get(TYPES, headers=root)).json() == [shown]
    assert (await stage.api.get(one, headers=root)).json() == shown
    same = await stage.api.patch(one, json={"words": NEW["words"], "identifier": "other"}, headers=root)
    assert same.json() == shown
    changed = await stage.api.patch(one, json={"active": False, "words": "Pay what is owed"}, headers=root)
    assert changed.json() == {**shown, "active": False, "words": "Pay what is owed"}
    assert (await stage.api.delete(one, headers=root)).status_code == 204
    assert (await stage.api.get(one, headers=root)).status_code == 404
    events = [one async for one in AuditEvent.objects.filter(event__startswith="detail_type_").order_by("pk")]
    assert [one.event for one in events] == ["detail_type_created", "detail_type_changed", "detail_type_deleted"]
    assert {(one.actor_id, one.details["type"]) for one in events} == {(stage.root, NEW["identifier"])}
    assert events[1].details["fields"] == ["active", "words"]


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"identifier": "pay ment"}, ["identifier"]),
        ({"identifier": "x" * 101, "words": ""}, ["words"]),
        ({"words": "Pay {iban}"}, ["words"]),
        ({"words": "x" * 201, "members": {}}, ["words"]),
        ({"members": []}, ["members"]),
        ({"members": {"amount": {"kind": "number"}}}, ["members"]),
        ({"members": {"type": {"kind": "text"}}, "words": "Pay"}, ["members"]),
        ({"members": {"amount": {"kind": "text", "values": ["\x00"]}}, "words": "Pay"}, ["members"]),
        ({"unattended": "yes"}, ["unattended"]),
    ],
)
async def test_bad_fields_are_named(stage: Stage, changes: dict[str, Any], fields: list[str]) -> None:
    """And nothing is stored."""
    answer = await stage.api.post(TYPES, json={**NEW, **changes}, headers=bearer(stage.root_pair))
    assert (answer.status_code, [one["field"] for one in answer.json()["errors"]]) == (400, fields), answer.text
    assert not await DetailType.objects.aexists()


@pytest.mark.parametrize("right", RIGHTS)
async def test_each_act_needs_its_right(stage: Stage, right: str) -> None:
    """One right allows one method, and no other."""
    pair = await staff(stage.api, f"{right}_detailtype")
    other = await made(identifier="other")
    bodies: dict[str, Any] = {"POST": NEW, "PATCH": {"words": "Pay"}}
    for method in RIGHTS.values():
        path = TYPES if method == "POST" else f"{TYPES}/{other.pk}"
        answer = await stage.api.request(method, path, json=bodies.get(method), headers=bearer(pair))
        assert (answer.status_code < 300) is (method == RIGHTS[right]), (method, answer.text)
        assert answer.status_code in (200, 201, 204, 403)


async def test_a_recent_proof_is_asked_for(stage: Stage) -> None:
    """For acts, not for reading."""
    one = f"{TYPES}/{(await made()).pk}"
    await age(stage.root_pair, 601)
    for method, path in (("POST", TYPES), ("PATCH", one), ("DELETE", one)):
        body = {"POST": NEW, "PATCH": {}}.get(method)
        answer = await stage.api.request(method, path, json=body, headers=bearer(stage.root_pair))
        assert (answer.status_code, answer.json()["code"]) == STEP_UP_REQUIRED, answer.text
    assert (await stage.api.get(one, headers=bearer(stage.root_pair))).status_code == 200


async def test_a_machine_by_its_scopes(stage: Stage) -> None:
    """resources:read reads, resources:write registers, neither does the other's."""
    _, reads = await make_machine(stage.api, "resources:read")
    _, writes = await make_machine(stage.api, "resources:write")
    assert (await stage.api.post(TYPES, json=NEW, headers=reads)).status_code == 403
    assert (await stage.api.post(TYPES, json=NEW, headers=writes)).status_code == 201
    assert (await stage.api.get(TYPES, headers=writes)).status_code == 403
    assert len((await stage.api.get(TYPES, headers=reads)).json()) == 1


async def test_two_at_once_register_one(stage: Stage) -> None:
    """The other is told that the identifier is taken."""
    root = bearer(stage.root_pair)
    answers = await asyncio.gather(*(stage.api.post(TYPES, json=NEW, headers=root) for _ in range(4)))
    assert sorted(one.status_code for one in answers) == [201, 400, 400, 400]
    assert {one.json()["errors"][0]["code"] for one in answers if one.status_code == 400} == {"taken"}
    assert await DetailType.objects.acount() == 1


async def test_an_unknown_one(stage: Stage) -> None:
    """404 for all acts on it."""
    gone = await made()
    await sync_to_async(gone.delete)()
    for method in ("GET", "PATCH", "DELETE"):
        answer = await stage.api.request(method, f"{TYPES}/{gone.pk}", headers=bearer(stage.root_pair))
        assert answer.status_code == 404
