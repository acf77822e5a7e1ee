"""Signing keys over HTTP: listed, made, rotated with the guards of the command, dropped; by staff and by machines."""

import asyncio
import base64
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.conf import settings as conf

from accounts.audit.models import AuditEvent
from conftest import bearer
from ironauth.infrastructure.core import clock
from tokens.keys.models import SigningKey
from tokens.keys.units import PUBLISHED_BY_ALL_S
from tokens.sign_in.tests.test_step_up import STEP_UP_REQUIRED, age
from tokens.tests.browser import ME
from tokens.tests.machine import make_machine
from tokens.tests.second_factor import said
from tokens.tests.staff import staff
from tokens.tests.stage import Stage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

KEYS, ROTATE = "/api/v1/keys", "/api/v1/keys/rotate"


async def publish_for(seconds: float) -> None:
    """Have the next keys published for so long."""
    await SigningKey.objects.filter(state="next").aupdate(created_at=clock.now() - timedelta(seconds=seconds))


async def test_the_list_has_no_private_part(stage: Stage) -> None:
    """The newest first, by family and state; an unknown parameter is refused."""
    listed = await stage.send("GET", KEYS, 200, pair=stage.root_pair)
    assert sorted(key["state"] for key in listed) == ["active", "next"]
    text = str(listed)
    async for key in SigningKey.objects.all():
        assert key.kid in text
        assert "d" not in key.public_jwk
        assert base64.b64encode(bytes(key.private_encrypted)).decode() not in text
    assert {name for key in listed for name in key} == {
        "kid", "state", "family", "alg", "public_jwk", "master_key_id", "created_at", "activated_at", "retired_at",
        "not_after",
    }  # fmt: skip
    for query, count in (("state=active", 1), ("family=ed25519", 2), ("family=RS256", 0), ("state=dropped", 0)):
        assert len(await stage.send("GET", f"{KEYS}?{query}", 200, pair=stage.root_pair)) == count
    for query in ("colour=red", "state=asleep", "family=RS1"):
        refused = await stage.send("GET", f"{KEYS}?{query}", 400, pair=stage.root_pair)
        assert [error["field"] for error in refused["errors"]] == [query.partition("=")[0]]


async def test_a_family_gets_keys_once(stage: Stage) -> None:
    """Those there are stay; who made them is in the trail once."""
    for _ in range(2):
        made = await stage.send("POST", KEYS, 200, {"family": "ES256"}, stage.root_pair)
        assert sorted(key["state"] for key in made) == ["active", "next"]
    event = await AuditEvent.objects.aget(event="keys_created", actor_id=stage.root)
    assert event.details["family"] == "ES256"
    before = await stage.send("GET", f"{KEYS}?family=ed25519", 200, pair=stage.root_pair)
    assert await stage.send("POST", KEYS, 200, {}, stage.root_pair) == before
    await stage.send("POST", KEYS, 400, {"family": "RS1"}, stage.root_pair)


async def test_of_several_who_make_the_first_keys_one_does(stage: Stage) -> None:
    """And all are told of the same ones."""
    headers = bearer(stage.root_pair)
    answers = await asyncio.gather(*(stage.api.post(KEYS, json={"family": "ES256"}, headers=headers) for _ in range(4)))
    assert [answer.status_code for answer in answers] == [200] * 4
    assert await SigningKey.objects.filter(family="ES256").acount() == 2
    assert await AuditEvent.objects.filter(event="keys_created", actor_id=stage.root).acount() == 1


async def test_a_rotation_waits_until_clients_know_the_next_key(stage: Stage) -> None:
    """As the command without --now: refused a second too early, with the wait, and done when it is over."""
    wait = conf.IRONAUTH_JWKS_MAX_AGE_S + PUBLISHED_BY_ALL_S
    upcoming = await SigningKey.objects.aget(state="next")
    await publish_for(wait - 60)
    refused = await stage.send("POST", ROTATE, 409, {}, stage.root_pair)
    assert refused["code"] == "rotation_refused"
    assert "try again in" in refused["detail"]
    await publish_for(wait)
    active = await stage.send("POST", ROTATE, 200, {}, stage.root_pair)
    assert (active["kid"], active["state"]) == (upcoming.kid, "active")
    event = await AuditEvent.objects.aget(event="key_rotated")
    assert event.actor_id == stage.root
    assert event.details == {"active": upcoming.kid, "at_once": False}
    await stage.send("GET", ME, 200, pair=stage.pair)  # nobody is signed out
    assert (await stage.send("POST", ROTATE, 409, {}, stage.root_pair))["code"] == "rotation_refused"
    refused = await stage.send("POST", ROTATE, 409, {"family": "RS256"}, stage.root_pair)
    assert "create_signing_key --alg RS256" in refused["detail"]


async def test_a_dropped_key_opens_nothing(stage: Stage) -> None:
    """Its tokens are refused at once, the next key signs, and a second time there is nothing to drop."""
    active = await SigningKey.objects.aget(state="active")
    upcoming = await SigningKey.objects.aget(state="next")
    shown = await stage.send("POST", f"{KEYS}/{active.kid}/drop", 200, pair=stage.root_pair)
    assert (shown["kid"], shown["state"]) == (upcoming.kid, "active")
    await stage.send("GET", ME, 401, pair=stage.pair)
    await active.arefresh_from_db()
    assert (active.state, bytes(active.private_encrypted)) == ("dropped", b"")
    event = await AuditEvent.objects.aget(event="key_dropped")
    assert (event.actor_id, event.details) == (stage.root, {"dropped": active.kid, "active": upcoming.kid})


async def test_each_act_needs_its_right_and_scope(stage: Stage) -> None:
    """To see is one, to change another; without either nothing is told."""
    unknown = f"{KEYS}/{'x' * 43}/drop"
    asked: list[tuple[str, str, Any, str]] = [
        ("GET", KEYS, None, "view_signingkey"),
        ("POST", KEYS, {}, "change_signingkey"),
        ("POST", ROTATE, {}, "change_signingkey"),
        ("POST", unknown, None, "change_signingkey"),
    ]
    scopes = {"view_signingkey": "keys:read", "change_signingkey": "keys:write"}
    for codename in ("view_signingkey", "change_signingkey", "view_user"):
        person = bearer(await staff(stage.api, codename))
        _, machine = await make_machine(stage.api, scopes.get(codename, "users:read"))
        for method, path, body, right in asked:
            for headers, code in ((person, "permission_denied"), (machine, "insufficient_scope")):
                answer = await stage.api.request(method, path, json=body, headers=headers)
                if right == codename:
                    assert answer.status_code in (200, 409), answer.text
                else:
                    assert said(answer) == (403, code)
    for method, path, body, _ in asked:
        assert (await stage.api.request(method, path, json=body)).status_code == 401


async def test_every_change_needs_a_fresh_proof(stage: Stage) -> None:
    """At 601 seconds nothing is changed, at 590 it may be."""
    acts: list[tuple[str, Any, int]] = [(KEYS, {}, 200), (ROTATE, {}, 409), (f"{KEYS}/unknown/drop", None, 409)]
    await age(stage.root_pair, 601)
    for path, body, _ in acts:
        refused = await stage.api.post(path, json=body, headers=bearer(stage.root_pair))
        assert said(refused) == STEP_UP_REQUIRED, path
    await age(stage.root_pair, 590)
    for path, body, status in acts:
        await stage.send("POST", path, status, body, stage.root_pair)


async def test_a_machine_rotates(api: httpx.AsyncClient, signing_key: str) -> None:
    """By itself, from a timer for instance; the trail has its id as the actor."""
    robot, headers = await make_machine(api, "keys:write")
    await publish_for(conf.IRONAUTH_JWKS_MAX_AGE_S + PUBLISHED_BY_ALL_S)
    assert (await api.post(ROTATE, json={}, headers=headers)).status_code == 200
    assert (await AuditEvent.objects.aget(event="key_rotated")).actor_id == robot.pk


async def test_the_cost_of_each(stage: Stage, statements: list[str]) -> None:
    """Queries are counted, of a superuser's acts."""
    await stage.send("GET", KEYS, 200, pair=stage.root_pair)  # its session is known
    counted = {}
    for act, method, path in (("list", "GET", KEYS), ("create", "POST", KEYS), ("rotate", "POST", ROTATE)):
        await publish_for(conf.IRONAUTH_JWKS_MAX_AGE_S + PUBLISHED_BY_ALL_S)
        statements.clear()
        await stage.api.request(method, path, json={} if method == "POST" else None, headers=bearer(stage.root_pair))
        counted[act] = len(statements)
    assert counted == {"list": 2, "create": 8, "rotate": 14}, counted
