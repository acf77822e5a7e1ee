"""Clients over HTTP: made by preset, changed, given secrets, disabled, deleted; by staff and by machines."""

import asyncio
import uuid
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from conftest import bearer
from ironauth.infrastructure.core import clock
from tokens.clients import units as client_units
from tokens.clients.models import EndingClient, OAuthClient, OAuthClientSecret
from tokens.oauth.tests.material import ED25519_JWK, REDIRECT_URI, make_client
from tokens.sign_in.tests.test_step_up import STEP_UP_REQUIRED, age
from tokens.tests.machine import TOKEN, make_machine
from tokens.tests.second_factor import said
from tokens.tests.staff import staff
from tokens.tests.stage import Stage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("rs256_key")]

CLIENTS = "/api/v1/clients"
LASTING = ["authorization_code", "refresh_token"]
NEW = {"preset": "web", "name": "Wiki", "redirect_uris": [REDIRECT_URI]}
RIGHTS = {"view_oauthclient": "GET", "add_oauthclient": "POST", "change_oauthclient": "PATCH",
          "delete_oauthclient": "DELETE"}  # fmt: skip


async def made(**fields: Any) -> OAuthClient:
    return (await sync_to_async(make_client)(**fields))[0]


async def told(event: str) -> AuditEvent:
    """Return the only event of this name."""
    return await AuditEvent.objects.aget(event=event)


def acts_on(client: OAuthClient) -> list[tuple[str, str, Any]]:
    """Return every act on a client, harmless where it is allowed."""
    one = f"{CLIENTS}/{client.pk}"
    return [
        ("PATCH", one, {"name": "Paint"}),
        ("POST", f"{one}/secret", {}),
        ("POST", f"{one}/disable", None),
        ("POST", f"{one}/enable", None),
        ("DELETE", one, None),
    ]


async def test_by_preset_a_name_and_an_address_are_enough(stage: Stage) -> None:
    """The secret is in this one answer, works at the token endpoint, and is in no other."""
    answer = await stage.api.post(CLIENTS, json={**NEW, "grants": ["client_credentials"], "redirect_uris": [],
                                                 "scopes": ["reports"]}, headers=bearer(stage.root_pair))  # fmt: skip
    shown = answer.json()
    assert answer.status_code == 201, shown
    assert answer.headers["location"] == f"{CLIENTS}/{shown['client_id']}"
    assert shown["auth_method"] == "secret"
    assert [one["hint"] for one in shown["secrets"]] == [shown["client_secret"][-4:]]
    got = await stage.api.post(
        TOKEN, data={"grant_type": "client_credentials"}, auth=(shown["client_id"], shown["client_secret"])
    )
    assert got.json()["scope"] == "reports"
    for path in (CLIENTS, f"{CLIENTS}/{shown['client_id']}"):
        text = (await stage.api.get(path, headers=bearer(stage.root_pair))).text
        assert shown["client_secret"] not in text
        assert "client_secret" not in text
    event = await told("client_created")
    assert event.actor_id == stage.root
    assert event.details["client"] == shown["client_id"]
    assert event.details["administers"] is False


@pytest.mark.parametrize(
    ("preset", "more", "expected"),
    [
        ("web", {"redirect_uris": [REDIRECT_URI]}, {"auth_method": "secret", "resource_server": False}),
        ("spa", {"redirect_uris": [REDIRECT_URI]}, {"auth_method": "none", "require_pkce": True, "grants": LASTING}),
        ("machine", {}, {"grants": ["client_credentials"], "scopes": []}),
        ("resource", {}, {"resource_server": True}),
        ("device", {}, {"auth_method": "none"}),
    ],
)
async def test_each_preset(stage: Stage, preset: str, more: dict[str, Any], expected: dict[str, Any]) -> None:
    """It fills in what is not sent; a public client has no secret."""
    body = {"preset": preset, "name": "App", **more}
    shown = await stage.send("POST", CLIENTS, 201, body, stage.root_pair)
    assert {name: shown[name] for name in expected} == expected
    assert (shown["client_secret"] is None) == (shown["auth_method"] == "none") == (shown["secrets"] == [])


async def test_without_a_preset_people_sign_in_with_it(stage: Stage) -> None:
    """As the command does: a secret, authorization_code and refresh_token."""
    shown = await stage.send("POST", CLIENTS, 201, {"name": "App", "redirect_uris": [REDIRECT_URI]}, stage.root_pair)
    assert shown["grants"] == LASTING
    assert shown["scopes"] == ["openid", "profile", "email", "offline_access"]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"redirect_uris": ["http://evil.example/"]}, "redirect_uris"),
        ({"redirect_uris": []}, "redirect_uris"),
        ({"redirect_uris": [REDIRECT_URI, REDIRECT_URI]}, "redirect_uris"),
        ({"redirect_uris": [12]}, "redirect_uris.0"),
        ({"name": ""}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"name": "\u202e"}, "name"),
        ({"scopes": ['a"b']}, "scopes"),
        ({"grants": []}, "grants"),
        ({"grants": ["password"]}, "grants.0"),
        ({"preset": "toaster"}, "preset"),
        ({"jwks": ED25519_JWK}, "jwks"),
        ({"jwks": "x"}, "jwks"),
        ({"jwks": {"keys": [{**ED25519_JWK, "d": "x"}]}, "auth_method": "private_key_jwt"}, "jwks"),
        ({"access_token_s": -1}, "access_token_s"),
        ({"access_token_s": 10**9}, "access_token_s"),
        ({"access_token_s": 10**30}, "access_token_s"),
        ({"administers": "yes"}, "administers"),
        ({"sector": "x", "subject_type": "public"}, "sector"),
        ({"id_token_alg": "ES256"}, "id_token_alg"),
        ({"backchannel_logout_uri": "\x00"}, "backchannel_logout_uri"),
        ({"auth_method": "none", "administers": True}, "administers"),
    ],
)
async def test_what_no_client_may_be(stage: Stage, more: dict[str, Any], field: str) -> None:
    """400 naming the field, for a new one and a change, and nothing is stored."""
    refused = await stage.send("POST", CLIENTS, 400, {**NEW, **more}, stage.root_pair)
    assert field in {error["field"] for error in refused["errors"]}
    assert not await OAuthClient.objects.aexists()
    if "preset" not in more:
        client = await made()
        refused = await stage.send("PATCH", f"{CLIENTS}/{client.pk}", 400, more, stage.root_pair)
        assert field in {error["field"] for error in refused["errors"]}
        assert (await OAuthClient.objects.aget()).name == "Wiki"


async def test_the_list(stage: Stage) -> None:
    """Newest first, by pages in both directions, by name, id and state; an unknown parameter is refused."""
    clients = [await made(name=f"Client {at}") for at in range(3)]
    await sync_to_async(client_units.disable)(clients[0].pk)
    pair, read = stage.root_pair, stage.send
    first = await read("GET", f"{CLIENTS}?page_size=2", 200, pair=pair)
    assert [one["name"] for one in first["results"]] == ["Client 2", "Client 1"]
    assert first["previous"] is None
    second = await read("GET", first["next"], 200, pair=pair)
    assert [one["name"] for one in second["results"]] == ["Client 0"]
    assert second["next"] is None
    back = await read("GET", second["previous"], 200, pair=pair)
    assert back["results"] == first["results"]
    for query, expected in {
        "search=client 1": ["Client 1"],
        f"search={clients[2].pk}": ["Client 2"],
        "search=nothing": [],
        "state=disabled": ["Client 0"],
        "state=enabled": ["Client 2", "Client 1"],
    }.items():
        found = await read("GET", f"{CLIENTS}?{query}", 200, pair=pair)
        assert [one["name"] for one in found["results"]] == expected, query
    for query, field in {
        "colour=red": "colour", "page_size=0": "page_size", "page_size=201": "page_size", "cursor=abc": "cursor",
        "state=asleep": "state", f"search={'x' * 81}": "search", "search=%00": "search",
    }.items():  # fmt: skip
        refused = await read("GET", f"{CLIENTS}?{query}", 400, pair=pair)
        assert [error["field"] for error in refused["errors"]] == [field]


async def test_a_change_touches_what_is_sent_alone(stage: Stage) -> None:
    """And is one event with the names of the fields; the same values again are none."""
    client = await made()
    path = f"{CLIENTS}/{client.pk}"
    shown = await stage.send("PATCH", path, 200, {"name": " Paint ", "trusted": True}, stage.root_pair)
    assert (shown["name"], shown["trusted"], shown["redirect_uris"]) == ("Paint", True, [REDIRECT_URI])
    assert shown["client_secret"] is None
    await stage.send("PATCH", path, 200, {"name": "Paint", "unknown": 1}, stage.root_pair)
    event = await told("client_changed")
    assert event.details == {"client": str(client.pk), "name": "Paint", "fields": ["name", "trusted"], "trusted": True}


async def test_a_change_of_the_proof_makes_or_ends_secrets(stage: Stage) -> None:
    """A client that signs loses its secret, and gets one, shown once, when it goes back."""
    client = await made()
    path = f"{CLIENTS}/{client.pk}"
    signs = {"auth_method": "private_key_jwt", "jwks": {"keys": [ED25519_JWK]}}
    assert (await stage.send("PATCH", path, 200, signs, stage.root_pair))["secrets"] == []
    shown = await stage.send("PATCH", path, 200, {"auth_method": "secret", "jwks": None}, stage.root_pair)
    assert shown["secrets"][0]["hint"] == shown["client_secret"][-4:]


async def test_another_secret(stage: Stage) -> None:
    """The one before works on for the seconds that are asked for; two works at most, and `newest` replaces it once."""
    client = await made()
    path = f"{CLIENTS}/{client.pk}/secret"
    first = await OAuthClientSecret.objects.aget()
    shown = await stage.send("POST", path, 200, {"newest": str(first.pk), "expire_old_in_s": 60}, stage.root_pair)
    assert [one["id"] == str(first.pk) for one in shown["secrets"]] == [False, True]
    assert shown["secrets"][1]["expires_at"] is not None
    again = await stage.send("POST", path, 409, {"newest": str(first.pk)}, stage.root_pair)
    assert again["code"] == "client_secret_replaced"
    assert await OAuthClientSecret.objects.acount() == 2
    shown = await stage.send("POST", path, 200, {"expire_old_in_s": 0}, stage.root_pair)
    assert len(shown["secrets"]) == 1
    for body in ({"expire_old_in_s": -1}, {"expire_old_in_s": 90 * 86_400 + 1}, {"newest": "x"}):
        await stage.send("POST", path, 400, body, stage.root_pair)
    await stage.send("POST", path, 200, {"expire_old_in_s": 90 * 86_400}, stage.root_pair)
    public = await made(auth_method="none")
    refused = await stage.send("POST", f"{CLIENTS}/{public.pk}/secret", 409, {}, stage.root_pair)
    assert refused["code"] == "client_has_no_secret"


async def test_disabled_enabled_and_deleted(stage: Stage) -> None:
    """Each is one event, and doing it twice is no error but for deleting."""
    client = await made()
    path = f"{CLIENTS}/{client.pk}"
    for _ in range(2):
        assert (await stage.send("POST", f"{path}/disable", 200, pair=stage.root_pair))["disabled_at"] is not None
    await told("client_disabled")
    for _ in range(2):
        assert (await stage.send("POST", f"{path}/enable", 200, pair=stage.root_pair))["disabled_at"] is None
    await told("client_enabled")
    await stage.send("DELETE", path, 204, pair=stage.root_pair)
    await told("client_deleted")
    for method, where, body in acts_on(client):
        assert (await stage.send(method, where, 404, body, stage.root_pair))["code"] == "not_found"
    await stage.send("GET", path, 404, pair=stage.root_pair)


async def test_one_whose_sessions_are_ending_is_not_enabled(stage: Stage) -> None:
    """It says how many have ended; when all have, it can be enabled."""
    client = await made()
    path = f"{CLIENTS}/{client.pk}"
    assert (await stage.send("POST", f"{path}/disable", 200, pair=stage.root_pair))["sessions_ending"] is None
    note = await EndingClient.objects.acreate(client_id=str(client.pk), ended=1_200)
    assert (await stage.send("GET", path, 200, pair=stage.root_pair))["sessions_ending"] == 1_200
    refused = await stage.send("POST", f"{path}/enable", 409, pair=stage.root_pair)
    assert refused["code"] == "client_sessions_ending"
    await note.adelete()
    assert (await stage.send("POST", f"{path}/enable", 200, pair=stage.root_pair))["sessions_ending"] is None


async def test_each_act_needs_its_right(stage: Stage) -> None:
    """With it alone staff may do that and nothing else; without any, nothing, and each refusal is in the trail."""
    client = await made()
    one = f"{CLIENTS}/{client.pk}"
    asked = [("GET", CLIENTS, None), ("GET", one, None), ("POST", CLIENTS, NEW), *acts_on(client)]
    needed = {("POST", CLIENTS): "add_oauthclient", "GET": "view_oauthclient", "DELETE": "delete_oauthclient"}
    for codename in (*RIGHTS, ""):
        headers = bearer(await staff(stage.api, codename))
        for method, path, body in asked:
            right = needed.get((method, path)) or needed.get(method, "change_oauthclient")
            answer = await stage.api.request(method, path, json=body, headers=headers)
            allowed = answer.status_code not in (401, 403)
            assert allowed == (right == codename), (codename, method, path, answer.text)
    await sync_to_async(audit.wait_until_written)()
    assert await AuditEvent.objects.filter(event="access_denied").aexists()
    for method, path, body in asked:
        assert (await stage.api.request(method, path, json=body)).status_code == 401


async def test_rights_go_before_what_is_wrong(stage: Stage) -> None:
    """Who lacks the right learns neither whether a client is there nor which fields are bad."""
    headers = bearer(await staff(stage.api, "view_user"))
    for method, path, body in (
        ("POST", CLIENTS, {"name": ""}),
        ("PATCH", f"{CLIENTS}/{uuid.uuid4()}", {"name": ""}),
        ("DELETE", f"{CLIENTS}/{uuid.uuid4()}", None),
        ("GET", f"{CLIENTS}?cursor=x", None),
    ):
        assert said(await stage.api.request(method, path, json=body, headers=headers)) == (403, "permission_denied")


async def test_every_change_needs_a_fresh_proof(stage: Stage) -> None:
    """At 601 seconds nothing is changed; at 590 everything may be."""
    client = await made()
    acts = [("POST", CLIENTS, NEW), *acts_on(client)]
    await age(stage.root_pair, 601)
    for method, path, body in acts:
        refused = await stage.api.request(method, path, json=body, headers=bearer(stage.root_pair))
        assert said(refused) == STEP_UP_REQUIRED, (method, path)
    await stage.send("GET", CLIENTS, 200, pair=stage.root_pair)
    await age(stage.root_pair, 590)  # not 600: a slow machine takes seconds for what follows
    for method, path, body in acts:
        answer = await stage.api.request(method, path, json=body, headers=bearer(stage.root_pair))
        assert answer.status_code < 300, answer.text


@pytest.mark.parametrize("more", [{"trusted": True}, {"scopes": ["account"]}, {"administers": True}])
async def test_what_acts_for_everybody_is_a_superusers(stage: Stage, more: dict[str, Any]) -> None:
    """Others make no such client, make none of one, and neither change it nor get its secret; they may stop it."""
    headers = bearer(await staff(stage.api, *RIGHTS))
    refused = await stage.api.post(CLIENTS, json={**NEW, **more}, headers=headers)
    assert said(refused) == (403, "permission_denied")
    plain = await made()
    refused = await stage.api.patch(f"{CLIENTS}/{plain.pk}", json=more, headers=headers)
    assert said(refused) == (403, "permission_denied")
    client = await made(**more)
    one = f"{CLIENTS}/{client.pk}"
    for method, path, body in (
        ("PATCH", one, {"name": "x"}),
        ("POST", f"{one}/secret", {}),
        ("POST", f"{one}/enable", {}),
    ):
        refused = await stage.api.request(method, path, json=body, headers=headers)
        assert said(refused) == (403, "permission_denied"), path
    assert (await stage.api.post(f"{one}/disable", headers=headers)).status_code == 200
    assert (await stage.api.post(CLIENTS, json=NEW, headers=headers)).status_code == 201
    shown = await stage.send("PATCH", one, 200, {"name": "Paint"}, stage.root_pair)
    assert shown["name"] == "Paint"


async def test_a_machine_does_what_its_scopes_say(api: httpx.AsyncClient, signing_key: str) -> None:
    """It reads with one, changes with the other, and the trail has its id as the actor."""
    client = await made()
    robot, headers = await make_machine(api, "clients:write")
    for method, path, body in (("POST", CLIENTS, NEW), *acts_on(client)):
        answer = await api.request(method, path, json=body, headers=headers)
        assert answer.status_code < 300, (method, path, answer.text)
    refused = await api.get(CLIENTS, headers=headers)
    assert said(refused) == (403, "insufficient_scope")
    assert refused.json()["scope"] == "clients:read"
    assert 'scope="clients:read"' in refused.headers["www-authenticate"]
    actors = {event.actor_id async for event in AuditEvent.objects.filter(event__startswith="client_")}
    assert actors == {robot.pk}
    _, reads = await make_machine(api, "clients:read")
    assert (await api.get(CLIENTS, headers=reads)).status_code == 200
    assert said(await api.post(CLIENTS, json=NEW, headers=reads)) == (403, "insufficient_scope")


async def test_a_machine_makes_nothing_like_itself(api: httpx.AsyncClient, signing_key: str) -> None:
    """It is no superuser: neither another machine, nor another secret of its own."""
    robot, headers = await make_machine(api, "clients:write")
    for more in ({"administers": True}, {"trusted": True}, {"scopes": ["account"]}):
        refused = await api.post(CLIENTS, json={**NEW, **more}, headers=headers)
        assert said(refused) == (403, "permission_denied"), more
    refused = await api.post(f"{CLIENTS}/{robot.pk}/secret", json={}, headers=headers)
    assert said(refused) == (403, "permission_denied")


async def test_a_machines_token_is_fresh_for_ten_minutes(
    api: httpx.AsyncClient, signing_key: str, settings: Settings
) -> None:
    """With it the client has proved who it is: after 601 seconds it reads, and changes nothing."""
    settings.IRONAUTH_ACCESS_TOKEN_S = 1_200
    _, headers = await make_machine(api, "clients:read", "clients:write")
    with clock.shifted(590):
        assert (await api.post(CLIENTS, json=NEW, headers=headers)).status_code == 201
    with clock.shifted(601):
        assert said(await api.post(CLIENTS, json=NEW, headers=headers)) == STEP_UP_REQUIRED
        assert (await api.get(CLIENTS, headers=headers)).status_code == 200


async def test_two_changes_at_once_undo_nothing_of_each_other(stage: Stage) -> None:
    """Each writes the fields that it was sent, whichever is first."""
    client = await made()
    path = f"{CLIENTS}/{client.pk}"
    bodies = [{"name": "Paint"}, {"require_par": True}, {"access_token_s": 60}, {"dpop": "off"}]
    await asyncio.gather(*(stage.send("PATCH", path, 200, body, stage.root_pair) for body in bodies))
    stored = await OAuthClient.objects.aget()
    assert (stored.name, stored.require_par, stored.access_token_s, stored.dpop) == ("Paint", True, 60, "off")


async def test_of_several_who_replace_one_secret_one_does(stage: Stage) -> None:
    """`newest` lets one through, however many send it at once."""
    client = await made()
    newest = {"newest": str((await OAuthClientSecret.objects.aget()).pk)}
    path = f"{CLIENTS}/{client.pk}/secret"
    answers = await asyncio.gather(
        *(stage.api.post(path, json=newest, headers=bearer(stage.root_pair)) for _ in range(5))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409, 409]
    assert await OAuthClientSecret.objects.acount() == 2


async def test_the_cost_of_each(stage: Stage, statements: list[str]) -> None:
    """Queries are counted: of a superuser's acts, and the list's are the same for any number of clients."""
    for at in range(3):
        await made(name=f"Client {at}")
    client = await made()
    one = f"{CLIENTS}/{client.pk}"
    expected = {
        "list": 3,
        "read": 3,
        "create": 10,
        "change": 11,
        "rotate": 13,
        "disable": 18,
        "enable": 17,
        "delete": 11,
    }
    counted = {}
    for act, method, path, body in (
        ("list", "GET", CLIENTS, None), ("read", "GET", one, None), ("create", "POST", CLIENTS, NEW),
        ("change", "PATCH", one, {"name": "Paint"}), ("rotate", "POST", f"{one}/secret", {}),
        ("disable", "POST", f"{one}/disable", None), ("enable", "POST", f"{one}/enable", None),
        ("delete", "DELETE", one, None),
    ):  # fmt: skip
        await stage.send("GET", CLIENTS, 200, pair=stage.root_pair)  # its session is known
        statements.clear()
        await stage.api.request(method, path, json=body, headers=bearer(stage.root_pair))
        counted[act] = len(statements)
    assert counted == expected, counted
