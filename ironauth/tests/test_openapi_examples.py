"""The examples of the OpenAPI document: one for every body, valid, and as a live server answers."""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema  # type: ignore[import-untyped]  # no stubs among the requirements
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group

from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth import pages
from ironauth.config.openapi import EXAMPLES_FILE
from ironauth.infrastructure.core import clock
from tokens.oauth.codes import challenge_of
from tokens.oauth.tests.flow import VERIFIER, basic
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.protocol import GrantType, Scope
from tokens.tests.second_factor import App

type Json = dict[str, Any]

ACCESS = "/api/v1/access"
#: Bodies without a schema worth an example: text, pages, and documents that others describe.
WITHOUT = {
    "get /api/v1/audit/export", "get /ping", "get /api/docs", "get /api/openapi.json",
    "get /oauth/authorize", "get /oauth/logout",
    "get /.well-known/openid-configuration", "get /.well-known/oauth-authorization-server",
    "get /.well-known/oauth-protected-resource",
    # the metadata of RFC 7591, an object as open as its registry
    "post /oauth/register", "get /oauth/register/{client_id}", "put /oauth/register/{client_id}",
}  # fmt: skip
#: Answers that take an authenticator, another provider or a setting; their values are made up and their shape is valid.
NOT_WALKED = {
    "AddedPasskey",
    "IdentitiesOut",
    "IdentityOut",
    "ConnectOut",
    "KeptDeviceOut",
    "MessageOut",
    "AskedCode",
    "ConsentOut",
    "PasskeyOut",
    "TrialOut",
    "UpstreamTokenOut",
    "RegistrationTokenOut",
    "RegistrationTokenShown",
}


@pytest.fixture(scope="module")
def document() -> Json:
    """Return the document as it is served."""
    return dict(json.loads(pages.OPENAPI_FILE.read_bytes()))


def bodies(document: Json) -> Iterator[tuple[str, Json]]:
    """Yield every body of every request and answer, with its operation."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for body in (operation.get("requestBody", {}), *operation["responses"].values()):
                for media in body.get("content", {}).values():
                    yield f"{method} {path}", media


def shown(document: Json, media: Json) -> Any:
    """Return the example of a body, or of its component; None where neither has one."""
    name = media["schema"].get("$ref", "").rpartition("/")[2]
    component = document["components"]["schemas"].get(name, {})
    return media.get("example", next(iter(component.get("examples", ())), None))


def test_every_body_has_an_example_that_fits(document: Json) -> None:
    """Each request, answer and error shows a value, which its own schema accepts."""
    missing, count = [], 0
    for operation, media in bodies(document):
        found = shown(document, media)
        if found is None:
            missing.append(operation)
            continue
        schema = {**media["schema"], "components": document["components"]}
        jsonschema.validate(found, schema, format_checker=jsonschema.FormatChecker())
        count += 1
    assert set(missing) <= WITHOUT
    assert count > 500


def test_no_example_is_left_over(document: Json) -> None:
    """Each example of the file is of a component that is a body."""
    used = {media["schema"].get("items", media["schema"]).get("$ref", "") for _, media in bodies(document)}
    assert set(json.loads(EXAMPLES_FILE.read_bytes())) <= {name.rpartition("/")[2] for name in used}


class Walk:
    """Requests with the examples as bodies, and the answers by the name of their component."""

    def __init__(self, api: httpx.AsyncClient, document: Json) -> None:
        self.api = api
        self.document = document
        self.examples: Json = json.loads(EXAMPLES_FILE.read_bytes())
        self.answers: Json = {}
        self.headers: dict[str, str] = {}

    async def send(self, method: str, path: str, /, *, route: str = "", **changed: Any) -> Any:
        """Send the example of an operation, with these values changed; keep what it answers under its component."""
        operation = self.document["paths"][route or path][method]
        given: Json = {}
        for kind, media in operation.get("requestBody", {}).get("content", {}).items():
            given = {"json" if kind == "application/json" else "data": {**media["example"], **changed}}
            break
        answer = await self.api.request(method.upper(), path, headers=self.headers, **given)
        assert answer.is_success, (path, answer.text)
        content = operation["responses"][str(answer.status_code)].get("content", {})
        for media in content.values():
            schema = media["schema"]
            name = schema.get("items", schema).get("$ref", "").rpartition("/")[2]
            told = answer.json()
            self.answers[name] = told[0] if schema.get("type") == "array" else told
        return answer.json() if answer.content else None

    async def as_person(self) -> None:
        """Sign up, sign in, and do what people do."""
        await self.send("post", f"{ACCESS}/signup")
        pair = await self.send("post", f"{ACCESS}/signin")
        self.headers = bearer(pair)
        await self.send("patch", f"{ACCESS}/me")
        await self.send("put", f"{ACCESS}/me/language")
        await self.send("get", f"{ACCESS}/sessions")
        await self.send("get", f"{ACCESS}/me/export")
        await self.send("post", f"{ACCESS}/signin/passkey/options")
        app = App((await self.send("post", f"{ACCESS}/mfa/totp"))["secret"])
        await self.send("post", f"{ACCESS}/mfa/totp/confirm", code=app.code())
        await self.send("get", f"{ACCESS}/mfa")
        await self.send("get", f"{ACCESS}/me")
        await User.objects.aupdate(email_verified_at=clock.now())  # as the link of the message does
        made = await self.send("post", "/api/v1/organizations")
        await self.send("get", "/api/v1/organizations")
        for part in ("members", "invitations"):
            route, path = (f"/api/v1/organizations/{one}/{part}" for one in ("{organization_id}", made["id"]))
            if part == "invitations":
                await self.send("post", path, route=route)
            await self.send("get", path, route=route)
        await self.send("post", f"{ACCESS}/refresh", refresh_token=pair["refresh_token"])

    async def as_staff(self) -> None:
        """Sign in as somebody who may do everything, and look after people, clients and keys."""
        self.headers = {}
        given = {"email": "root@example.com", "password": PASSWORD}
        self.headers = bearer((await self.api.post(f"{ACCESS}/signin", json=given)).json())
        await self.send("post", "/api/v1/roles")
        made = await self.send("post", "/api/v1/users")
        await self.send("post", "/api/v1/users/invitations")
        await self.send("post", "/api/v1/staff/organizations", owner=made["id"])
        await self.send("get", "/api/v1/staff/organizations")
        for path in ("users", "users/invitations", "roles", "audit", "clients", "keys"):
            await self.send("get", f"/api/v1/{path}")
        route = "/api/v1/users/{user_id}"
        await self.send("patch", route.format(user_id=made["id"]), route=route)
        route = "/api/v1/users/{user_id}/verdict"
        await self.send("get", route.format(user_id=made["id"]), route=route)
        await self.send("post", "/api/v1/providers")
        await self.send("post", "/api/v1/resources")
        await self.send("post", "/api/v1/authorization-details-types")
        await self.send("post", "/api/v1/clients")
        route = "/api/v1/clients/{client_id}"
        listed = (await self.api.get("/api/v1/clients", headers=self.headers)).json()["results"][0]
        await self.send("get", route.format(client_id=listed.get("client_id") or listed["id"]), route=route)

    async def as_client(self) -> None:
        """Do what applications do, with a secret."""
        grants = ["authorization_code", "client_credentials", GrantType.DEVICE_CODE.value]
        client, secret = await sync_to_async(make_client)(grants=grants, scopes=[Scope.OPENID.value])
        self.headers = basic(str(client.pk), secret)
        pushed = {"redirect_uri": REDIRECT_URI, "scope": "openid", "code_challenge": challenge_of(VERIFIER)}
        await self.send("post", "/oauth/par", **pushed)
        await self.send("post", "/oauth/device_authorization")
        token = await self.send("post", "/oauth/token", scope="")
        await self.send("post", "/oauth/introspect", token=token["access_token"])
        self.headers = {}
        for path in ("/health", "/health/live", "/.well-known/jwks.json"):
            await self.send("get", path)


def shape(value: Any) -> Any:
    """Return the names of a value's members, and those of the first of a list, without their values."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value and isinstance(value[0], dict) else []
    return None


def presentable(value: Any) -> Any:
    """Return a value with what is long cut, for the file."""
    if isinstance(value, dict):
        return {name: presentable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [presentable(inner) for inner in value[:2]]
    if isinstance(value, str) and len(value) > 60 and not re.match("https?:|otpauth:", value):
        return f"{value[:57]}..."
    return value


@pytest.mark.django_db(transaction=True)
async def test_examples_are_what_a_server_takes_and_answers(
    api: httpx.AsyncClient, document: Json, signing_key: str, rs256_key: str
) -> None:
    """Sent as they stand, requests succeed, and each answer has the members of its example.

    With ``IRONAUTH_TEST_EXAMPLES=1`` the answers are written to the file: run ``make openapi`` after it.
    """
    await sync_to_async(User.objects.create_superuser)("root@example.com", PASSWORD)
    walk = Walk(api, document)
    for part in (walk.as_person, walk.as_staff, walk.as_client):
        await part()
    if os.environ.get("IRONAUTH_TEST_EXAMPLES"):
        found = {**walk.examples, **{name: presentable(value) for name, value in walk.answers.items()}}
        EXAMPLES_FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
        return
    # Of some, members name what there is; and a version is for this machine only.
    for name in walk.answers.keys() - {"ExportOut", "AuditPage", "Health", "Live"}:
        answered = walk.answers[name]
        assert shape(presentable(answered)) == shape(walk.examples[name]), name
    answers = {name for name in walk.examples if not name.endswith("Request")}
    assert answers - walk.answers.keys() <= NOT_WALKED | {"UserInfo"}
    assert len(walk.answers) > 25
    assert await sync_to_async(Group.objects.filter(name="editors").exists)()
