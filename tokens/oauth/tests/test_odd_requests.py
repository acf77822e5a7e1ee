"""Requests that nobody sends who has read the specifications: what each is answered, with its paragraph."""

import ast
import re
import uuid
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings

from tokens.clients import errors
from tokens.clients.errors import OAuthError
from tokens.oauth.models import AuthorizationCode
from tokens.oauth.tests.flow import TOKEN, Party, approve, basic
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.oauth.tests.proofs import new_key, proof, shown
from tokens.oauth.tests.walk import AUTHORIZE, answered, authorize, by_password, is_page, request_of
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True)]

FORM: Final = "application/x-www-form-urlencoded"
USERINFO: Final = "/oauth/userinfo"
QUERY: Final = "https://app.example.com/cb?x=1&y=%20"
LOOPBACK: Final = "http://127.0.0.1/cb"
#: RFC 6749 §4.1.2.1, §5.2: what an error_description is made of.
PLAIN: Final = re.compile(r"[\x20-\x21\x23-\x5b\x5d-\x7e]+")
#: What is asked at /oauth/authorize, changed so; the error; where it is said.
ASKED: Final = [
    ({"prompt": "none"}, "login_required", "OIDC Core 3.1.2.1"),
    ({"prompt": "none login"}, "invalid_request", "OIDC Core 3.1.2.1"),
    ({"prompt": "NONE"}, "invalid_request", "OIDC Core 3.1.2.1: values are case sensitive"),
    ({"prompt": "anything"}, "invalid_request", "Initiating User Registration 1.0, 4.1"),
    ({"response_mode": "fragment"}, "invalid_request", "OAuth 2.1, 4.1.3: no mode that leaks a code"),
    ({"response_mode": "QUERY"}, "invalid_request", "Multiple Response Types 2.1"),
    ({"response_mode": "fragment.jwt"}, "invalid_request", "JARM 2.3.2"),
    ({"response_type": "token"}, "unsupported_response_type", "RFC 9700 2.1.2"),
    ({"response_type": "code token"}, "unsupported_response_type", "RFC 9700 2.1.2"),
    ({"response_type": "code code"}, "unsupported_response_type", "RFC 6749 3.1.1"),
    ({"response_type": None}, "invalid_request", "RFC 6749 4.1.2.1"),
    ({"max_age": "-1"}, "invalid_request", "OIDC Core 3.1.2.1"),
    ({"max_age": "\u0663"}, "invalid_request", "OIDC Core 3.1.2.1: digits of ASCII"),
    ({"max_age": "1e3"}, "invalid_request", "OIDC Core 3.1.2.1"),
    ({"scope": ""}, "invalid_scope", "RFC 6749 3.3: a default, or this"),
    ({"scope": "openid  profile"}, "invalid_scope", "RFC 6749 3.3"),
    ({"scope": " openid"}, "invalid_scope", "RFC 6749 3.3"),
    ({"scope": 'openid "x"'}, "invalid_scope", "RFC 6749 3.3"),
    ({"scope": "openid\tprofile"}, "invalid_request", "RFC 6749 A.4"),
    ({"code_challenge_method": "plain"}, "invalid_request", "RFC 9700 2.1.1"),
    ({"code_challenge_method": "s256"}, "invalid_request", "RFC 7636 4.3"),
    ({"code_challenge_method": None}, "invalid_request", "RFC 7636 4.3: it would be plain"),
    ({"code_challenge": "a" * 42 + "="}, "invalid_request", "RFC 7636 4.2"),
    ({"code_challenge": None}, "invalid_request", "OAuth 2.1, 4.1.1: a downgrade"),
    ({"id_token_hint": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0."}, "invalid_request", "OIDC Core 3.1.2.2"),
    ({"id_token_hint": "x"}, "invalid_request", "OIDC Core 3.1.2.2"),
    ({"request": "x.y.z"}, "request_not_supported", "OIDC Core 3.1.2.6"),
    ({"request_uri": "https://app.example.com/r"}, "request_uri_not_supported", "OIDC Core 3.1.2.6"),
    ({"registration": "{}"}, "registration_not_supported", "OIDC Core 3.1.2.6"),
    ({"claims": "[]"}, "invalid_request", "OIDC Core 5.5"),
    ({"claims": '{"id_token": {"acr": {"values": "a b"}}}'}, "invalid_request", "OIDC Core 5.5.1"),
    ({"resource": "https://api.example.com/#x"}, "invalid_target", "RFC 8707 2"),
    ({"resource": "api"}, "invalid_target", "RFC 8707 2"),
    ({"authorization_details": "x"}, "invalid_authorization_details", "RFC 9396 5"),
    ({"authorization_details": "{}"}, "invalid_authorization_details", "RFC 9396 2"),
    ({"authorization_details": '[{"type": "x", "a": {"b": 1}}]'}, "invalid_authorization_details", "RFC 9396 5"),
    ({"dpop_jkt": "x"}, "invalid_request", "RFC 9449 10"),
]  # fmt: skip
#: Addresses that look like a registered one: a page, and no redirect (RFC 6749 §4.1.2.1, RFC 9700 §2.1, §4.1.3).
ADDRESSES: Final = [
    "https://*.example.com/callback", "HTTPS://app.example.com/callback", "https://APP.example.com/callback",
    "https://app.example.com@evil.example/callback", "https://app.example.com/x/../callback",
    "https://app.example.com:443/callback", f"{REDIRECT_URI}?x=1", f"{REDIRECT_URI}#x", f"{REDIRECT_URI}/",
    "https://app.example.com/cb?y=%20&x=1", "https://app.example.com/cb?x=1&y=+", "http://127.0.0.1:80@evil.example/cb",
    "http://127.0.0.1:99999/cb", "http://[::1]:80/cb", "http://localhost/cb", "http://127.1/cb",
]  # fmt: skip


@pytest.fixture
async def told(api: httpx.AsyncClient, signing_key: str) -> Party:
    """A client that nobody is asked about."""
    uris = [REDIRECT_URI, QUERY, LOOPBACK]
    return Party(api, *await sync_to_async(make_client)(name="Odd", trusted=True, redirect_uris=uris))


@pytest.mark.parametrize(("changes", "error", "paragraph"), ASKED, ids=lambda value: str(value)[:40])
async def test_authorize(told: Party, changes: dict[str, Any], error: str, paragraph: str) -> None:
    """The client hears of it at its own address, with its state and the issuer, in the characters that there may be."""
    said = answered(await authorize(told.api, told.client, **changes))
    assert said.pop("error") == error, paragraph
    assert PLAIN.fullmatch(said.pop("error_description")), paragraph
    assert said == {"state": "st&te=1 é", "iss": settings.IRONAUTH_ISSUER}  # RFC 9207 §2


@pytest.mark.parametrize("name", ["state", "nonce", "prompt", "scope", "response_mode", "unknown"])
async def test_twice(told: Party, name: str) -> None:
    """A parameter that is there twice means nothing, one that nobody knows too (RFC 6749 §3.1); state least of all."""
    query = urlencode(request_of(told.client, **{name: "a"}))
    said = answered(await told.api.get(f"{AUTHORIZE}?{query}&{name}=b"))
    assert said["error"] == "invalid_request"
    assert ("state" in said) is (name != "state")


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
async def test_twice_where_the_answer_would_go(told: Party, name: str) -> None:
    """Which of two would count is a guess: a page (RFC 6749 §4.1.2.1). So it is for names in capitals."""
    query = urlencode(request_of(told.client))
    for odd in (f"{query}&{name}=https://evil.example", query.replace(name, name.upper()), query.replace("&", ";")):
        assert is_page(await told.api.get(f"{AUTHORIZE}?{odd}"), 400)


@pytest.mark.parametrize("uri", ADDRESSES)
async def test_addresses(told: Party, uri: str) -> None:
    """Character by character, but for the port of a loopback address."""
    assert is_page(await authorize(told.api, told.client, redirect_uri=uri), 400)


@pytest.mark.parametrize("uri", [QUERY, "http://127.0.0.1:8080/cb", LOOPBACK])
async def test_addresses_that_are_registered(told: Party, uri: str) -> None:
    """A query stays as it is, and the answer comes after it (RFC 6749 §3.1.2); a port is free (RFC 8252 §7.3)."""
    answer = await authorize(told.api, told.client, redirect_uri=uri, prompt="none")
    assert answer.headers["location"].startswith(f"{uri}{'&' if '?' in uri else '?'}error=login_required&")


async def test_texts_of_a_page(told: Party) -> None:
    """What chooses how a page looks is no command: unknown languages, displays and levels mean nothing (§3.1.2.1)."""
    odd = {"ui_locales": "../../etc xx " + "de " * 500, "display": 'wap"><script>', "acr_values": "urn:x", "foo": "<b>"}
    page = await authorize(told.api, told.client, **odd)
    assert page.status_code == HTTPStatus.OK
    assert "<script>" not in page.text.replace("<script ", "")
    french = await authorize(told.api, told.client, ui_locales="xx fr-CA de")
    assert '<html lang="fr"' in french.text


async def test_somebody_is_there(told: Party, member: Member) -> None:
    """max_age=0 asks again (§3.1.2.1), another person's sub gets nothing (§5.5.1), and form_post escapes its state."""
    page = await authorize(told.api, told.client)
    assert "code" in answered(await by_password(told.api, page, member["email"]))
    silent = {"prompt": "none"}
    assert "code" in answered(await authorize(told.api, told.client, **silent))
    assert answered(await authorize(told.api, told.client, **silent, max_age="0"))["error"] == "login_required"
    page = await authorize(told.api, told.client, max_age="0")
    assert "code" in answered(await by_password(told.api, page, member["email"]))
    other = f'{{"id_token": {{"sub": {{"value": "{uuid.uuid4()}"}}}}}}'
    assert answered(await authorize(told.api, told.client, **silent, claims=other))["error"] == "login_required"
    assert "state" not in answered(await authorize(told.api, told.client, **silent, state=None))
    await AuthorizationCode.objects.all().adelete()
    posted = await authorize(told.api, told.client, **silent, response_mode="form_post", state='"><script>x</script>')
    assert "<script>x" not in posted.text
    assert await AuthorizationCode.objects.acount() == 1


@pytest.mark.parametrize(
    ("charset", "body"),
    [("utf-16", "utf-16"), ("foo", "ascii"), ("zlib_codec", "ascii"), ("idna", "ascii"), ("utf-7", "ascii")],
)
@pytest.mark.parametrize("path", [TOKEN, "/oauth/par", "/oauth/introspect", "/oauth/revoke", USERINFO])
async def test_charsets(wiki: Party, path: str, charset: str, body: str) -> None:
    """A form is UTF-8 (RFC 6749, appendix B): what says something else is refused, and runs no codec."""
    content = urlencode({**wiki.credentials(), "token": "x", "access_token": "x"}).encode(body)
    answer = await wiki.api.post(path, content=content, headers={"content-type": f"{FORM}; charset={charset}"})
    assert answer.status_code in (400, 401), answer.text
    assert answer.json()["error"] in ("invalid_request", "invalid_token")


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({}, "invalid_request"),
        ({"grant_type": ""}, "invalid_request"),
        ({"GRANT_TYPE": "client_credentials"}, "invalid_request"),
        ({"grant_type": "Client_Credentials"}, "unsupported_grant_type"),
        ({"grant_type": "password", "username": "a", "password": "b"}, "unsupported_grant_type"),  # OAuth 2.1, 10.1
        ({"grant_type": "implicit"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials", "scope": " "}, "invalid_scope"),
        ({"grant_type": "client_credentials", "scope": "reports  reports"}, "invalid_scope"),
        ({"grant_type": "client_credentials", "scope": "reports\n"}, "invalid_scope"),
        ({"grant_type": "client_credentials", "scope": "openid"}, "invalid_scope"),
        ({"grant_type": "client_credentials", "scope": "reports reports"}, None),
        ({"grant_type": "client_credentials", "scope": ""}, None),  # §3.2: as if it was not sent
        ({"grant_type": "client_credentials", "unknown": "x"}, None),  # §3.2: ignored
    ],
)
async def test_token(robot: Party, form: dict[str, str], error: str | None) -> None:
    """Names and values are case sensitive, and a scope has one space between two (RFC 6749 §3.3, §5.2)."""
    answer = await robot.post(TOKEN, **form)
    assert answer.json().get("error") == error, answer.text
    assert answer.headers["cache-control"] == "no-store"


async def test_scopes_of_later_requests(wiki: Party, member: Member) -> None:
    """A malformed scope is refused with a refresh token, too, which is not used up by it."""
    code = await sync_to_async(approve)(wiki.client, uuid.UUID(member["id"]))
    token = (await wiki.redeem(code)).json()["refresh_token"]
    for scope in ("openid  profile", " ", "openid profile "):
        assert (await wiki.refresh(token, scope=scope)).json()["error"] == "invalid_scope"
    assert (await wiki.refresh(token, scope="openid profile")).json()["scope"] == "openid profile"


async def test_userinfo(wiki: Party, member: Member) -> None:
    """One token, in the header or in a form, never in the address; each refusal says how (RFC 6750 §2, §3)."""
    code = await sync_to_async(approve)(wiki.client, uuid.UUID(member["id"]))
    tokens = (await wiki.redeem(code)).json()
    token, api = tokens["access_token"], wiki.api
    form, headers = {"content-type": FORM}, {"Authorization": f"bEaReR {token}"}
    twice = f"access_token={token}&access_token={token}".encode()
    for answer, status in (
        (await api.get(USERINFO, headers=headers), 200),
        (await api.post(USERINFO, headers=headers), 200),
        (await api.post(USERINFO, data={"access_token": token}), 200),
        (await api.post(USERINFO, content=b"x", headers={**headers, "content-type": "text/plain"}), 200),
        (await api.get(USERINFO, params={"access_token": token}), 401),
        (await api.post(USERINFO, params={"access_token": token}), 401),
        (await api.request("GET", USERINFO, content=f"access_token={token}".encode(), headers=form), 401),
        (await api.post(USERINFO, json={"access_token": token}), 401),
        (await api.post(USERINFO, data={"access_token": token}, headers=headers), 400),
        (await api.post(USERINFO, content=twice, headers=form), 400),
        (await api.get(USERINFO, headers=[("Authorization", f"Bearer {token}")] * 2), 400),
        (await api.get(USERINFO, headers={"Authorization": f"Bearer {token}="}), 401),
        (await api.get(USERINFO, headers={"Authorization": f"Bearer {tokens['id_token']}"}), 401),
        (await api.get(USERINFO, headers={"Authorization": f"Bearer {tokens['refresh_token']}"}), 401),
        (await api.get(USERINFO, headers=basic(str(wiki.client.pk), wiki.secret)), 401),
        (await api.get(USERINFO, headers=shown(token, new_key(), "GET", USERINFO)), 401),
    ):
        assert answer.status_code == status, (answer.request, answer.text)
        assert ("www-authenticate" in answer.headers) is (status != HTTPStatus.OK), answer.request
        assert answer.headers["cache-control"] == "no-store"


async def test_a_proof_twice(told: Party, member: Member) -> None:
    """Two headers, and one proof for two requests, are none (RFC 9449 §4.3, §11.1); the code is still good."""
    code = await sync_to_async(approve)(told.client, uuid.UUID(member["id"]))
    key = new_key()
    made = proof(key, "POST", TOKEN)
    form = {**told.credentials(), "grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI,
            "code_verifier": "v" * 43}  # fmt: skip
    both = await told.api.post(TOKEN, data=form, headers=[("DPoP", made), ("DPoP", made)])
    assert both.json()["error"] == "invalid_dpop_proof"
    told.headers = {"DPoP": made}
    tokens = (await told.redeem(code)).json()
    assert tokens["token_type"] == "DPoP"
    assert (await told.refresh(tokens["refresh_token"])).json()["error"] == "invalid_dpop_proof"
    bearer = await told.api.get(USERINFO, headers={"Authorization": f"Bearer {tokens['access_token']}"})
    assert (bearer.status_code, bearer.headers["www-authenticate"][:4]) == (401, "DPoP")


async def test_a_client_that_is_deleted(api: httpx.AsyncClient, rs256_key: str, settings: Any) -> None:
    """Its registration access token opens nothing any more, by no method (RFC 7592 §2.3)."""
    settings.IRONAUTH_REGISTRATION = "open"
    told = (await api.post("/oauth/register", json={"redirect_uris": [REDIRECT_URI]})).json()
    where, headers = told["registration_client_uri"], {"Authorization": f"Bearer {told['registration_access_token']}"}
    assert (await api.delete(where, headers=headers)).status_code == HTTPStatus.NO_CONTENT
    for method in ("GET", "PUT", "DELETE"):
        answer = await api.request(method, where, headers=headers, json=told if method == "PUT" else None)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")
    asked = {"client_id": told["client_id"], "redirect_uri": REDIRECT_URI, "response_type": "code"}
    assert is_page(await api.get(AUTHORIZE, params=asked), 400)


async def test_pushed(told: Party, wiki: Party) -> None:
    """A handle is its client's, and beside it nothing counts (RFC 9126 §2.1, §4)."""
    uri = (await told.post("/oauth/par", **request_of(told.client))).json()["request_uri"]
    for asked in ({"client_id": str(wiki.client.pk), "request_uri": uri}, {"request_uri": uri}):
        assert is_page(await told.api.get(AUTHORIZE, params=asked), 400)
    evil = {"client_id": str(told.client.pk), "request_uri": uri, "redirect_uri": "https://evil.example", "state": "x"}
    page = await told.api.get(AUTHORIZE, params={**evil, "prompt": "none", "response_mode": "form_post"})
    assert page.status_code == HTTPStatus.OK  # the sign-in: nothing of it was heard
    other = {**request_of(told.client), "client_id": str(wiki.client.pk)}
    headers = basic(str(told.client.pk), told.secret)
    assert (await told.api.post("/oauth/par", data=other, headers=headers)).json()["error"] == "invalid_request"
    again = await told.post("/oauth/par", **request_of(told.client), request_uri=uri)
    assert again.json()["error"] == "invalid_request"


def texts_of(given: ast.expr | None, constants: dict[str, ast.expr | None]) -> list[str]:
    """Return the texts that an argument is made of, as far as they stand there."""
    match given:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return [text for part in parts for text in texts_of(part, constants)]
        case ast.Name(id=name) if name in constants:
            return texts_of(constants[name], {})
        case ast.Call(func=ast.Name(id="_"), args=[text]):  # what a page translates
            return texts_of(text, constants)
    return []


def test_descriptions() -> None:
    """Each text of an error is made of the characters that one may have (RFC 6749 §5.2)."""
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, OAuthError)}
    said = [getattr(errors, name).detail for name in kinds]
    for file in Path(settings.BASE_DIR, "tokens").rglob("*.py"):
        if "tests" in file.parts:
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in kinds:
                said += [text for argument in call.args for text in texts_of(argument, constants)]
    assert not [text for text in said if not PLAIN.fullmatch(text)]
    assert len(said) > len(kinds) + 70
