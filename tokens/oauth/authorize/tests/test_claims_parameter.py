"""The ``claims`` parameter (OpenID Connect Core §5.5): what is asked for by name, and what is malformed."""

import json
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from tokens.clients.errors import InvalidRequest
from tokens.oauth import claims, id_tokens
from tokens.oauth.claims import AskedClaims
from tokens.oauth.models import AuthorizationCode
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ({}, AskedClaims()),
        ({"userinfo": None, "other": 1}, AskedClaims()),
        ({"userinfo": {"name": {"essential": True}}}, AskedClaims(("profile",))),
        ({"id_token": {"email": None}}, AskedClaims(("email",), "email")),
        (
            {"id_token": {"zoneinfo": None, "given_name": None}, "userinfo": {"locale": None, "address": None}},
            AskedClaims(("profile",), "given_name zoneinfo"),
        ),
        (
            {"userinfo": {"roles": None}, "id_token": {"name": None, "email": None, "birthdate": None}},
            AskedClaims(("email", "profile", "roles"), "email name"),
        ),
        (
            {"id_token": {"acr": {"essential": True, "values": ["aal2", "aal1"]}}},
            AskedClaims(acr="aal2 aal1", needed_acr="aal2 aal1"),
        ),
        ({"id_token": {"acr": {"essential": False, "values": ["aal2", "aal1"]}}}, AskedClaims(acr="aal2 aal1")),
        ({"id_token": {"acr": {"essential": True}}}, AskedClaims()),
        ({"userinfo": {"acr": {"essential": True, "value": "aal2"}}}, AskedClaims()),
        ({"id_token": {"acr": {"value": "aal2"}}}, AskedClaims(acr="aal2")),
        ({"id_token": {"sub": {"value": "someone"}}}, AskedClaims(sub="someone")),
        ({"id_token": {"auth_time": {"essential": True}}}, AskedClaims()),
    ],
)
def test_what_it_means(said: dict[str, Any], means: AskedClaims) -> None:
    """Known claims stand for their scopes; those of the ID token are named; others are ignored."""
    assert claims.asked(json.dumps(said)) == means


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", "null", "1", '{"userinfo": 1}', '{"userinfo": []}', '{"id_token": {"name": 1}}',
     '{"id_token": {"name": "x"}}', '{"id_token": {"acr": {"values": [1]}}}', '{"id_token": {"acr": {"value": "a b"}}}',
     '{"id_token": {"acr": {"value": ""}}}', '{"id_token": {"sub": {"value": {}}}}', '{"a": 1, "a": 2}',
     '{"a": ' + "[" * 64 + "]" * 64 + "}"],
)  # fmt: skip
def test_what_is_malformed(text: str) -> None:
    """Whatever else it is, the client hears that it is no such object."""
    with pytest.raises(InvalidRequest):
        claims.asked(text)


async def test_asked_by_name(api: httpx.AsyncClient, signing_key: str, member: Member) -> None:
    """The scope of a claim is asked for with it; one that the client may not have is left out."""
    client, _ = await sync_to_async(make_client)(trusted=True, scopes=["openid", "profile", "email"])
    wanted = json.dumps({"id_token": {"email": {"essential": True}}, "userinfo": {"roles": None}})
    page = await authorize(api, client, scope="openid", claims=wanted)
    assert answered(await by_password(api, page, member["email"]))["code"]
    code = await AuthorizationCode.objects.aget()
    assert (code.scope, code.id_claims) == ("email openid", "email")


@pytest.mark.parametrize(("scope", "answer"), [("openid", "invalid_request"), ("profile", None)])
async def test_only_openid_connect_has_it(
    api: httpx.AsyncClient, member: Member, scope: str, answer: str | None
) -> None:
    """Without the scope openid the parameter is an unknown one, which is ignored (RFC 6749 §3.1)."""
    client, _ = await sync_to_async(make_client)(trusted=True)
    said = await authorize(api, client, scope=scope, claims="no object")
    if answer:
        assert answered(said)["error"] == answer
    else:
        assert said.status_code == 200


async def test_another_person_than_the_one_asked_for(api: httpx.AsyncClient, member: Member) -> None:
    """`sub` by value is the person the client wants, as an ID token hint is (§5.5.1)."""
    client, _ = await sync_to_async(make_client)(trusted=True)
    wanted = json.dumps({"id_token": {"sub": {"value": "01890000-0000-7000-8000-000000000000"}}})
    page = await authorize(api, client, scope="openid", claims=wanted)
    assert answered(await by_password(api, page, member["email"]))["error"] == "login_required"
    page = await authorize(
        api, client, scope="openid", claims=json.dumps({"id_token": {"sub": {"value": member["id"]}}})
    )
    assert answered(page)["code"]


async def test_a_strict_client(api: httpx.AsyncClient, member: Member) -> None:
    """The refusal names the scope; a claim whose scope it may not have is ignored as ever."""
    client, _ = await sync_to_async(make_client)(trusted=True, strict_scopes=True, scopes=["openid", "profile"])
    refused = answered(await authorize(api, client, scope="openid email"))
    assert refused["error"] == "invalid_scope"
    assert "email" in refused["error_description"]
    wanted = json.dumps({"userinfo": {"email": None}})
    page = await authorize(api, client, scope="openid", claims=wanted)
    assert page.status_code == 200


@pytest.mark.parametrize(
    ("wanted", "met"),
    [
        ({"essential": True, "values": ["aal1"]}, True),
        ({"essential": True, "values": ["aal2", "aal1"]}, True),
        ({"essential": True, "value": "aal2"}, False),
        ({"essential": True, "values": ["urn:mace:incommon:iap:silver"]}, False),
        ({"value": "aal2"}, True),
        ({"essential": False, "value": "aal2"}, True),
    ],
)
@pytest.mark.parametrize("silent", [False, True])
async def test_an_essential_level(
    api: httpx.AsyncClient, signing_key: str, member: Member, wanted: dict[str, Any], met: bool, silent: bool
) -> None:
    """Who cannot reach it has not signed in for this client (OpenID Connect Core §5.5.1.1); a wish is none."""
    client, _ = await sync_to_async(make_client)(trusted=True)
    claimed = json.dumps({"id_token": {"acr": wanted}})
    if silent:
        page = await authorize(api, client, scope="openid")
        await by_password(api, page, member["email"])
        await AuthorizationCode.objects.all().adelete()
        said = answered(await authorize(api, client, scope="openid", claims=claimed, prompt="none"))
    else:
        page = await authorize(api, client, scope="openid", claims=claimed)
        said = answered(await by_password(api, page, member["email"]))
    assert said.get("error") == (None if met else "unmet_authentication_requirements")
    assert await AuthorizationCode.objects.acount() == met


@pytest.mark.parametrize(
    ("amr", "needed", "met"),
    [
        (("pwd",), "", True),
        (("pwd",), "aal1", True),
        (("pwd",), "aal2", False),
        (("pwd", "otp", "mfa"), "aal2", True),
        (("pwd", "otp", "mfa"), "aal1", True),
        (("pwd", "otp", "mfa"), "aal3", False),
        ((), "aal1 aal2", True),
    ],
)
def test_the_levels(amr: tuple[str, ...], needed: str, met: bool) -> None:
    """Two factors are one factor, too; a level that is not known here is never reached."""
    assert id_tokens.meets(amr, needed) is met
