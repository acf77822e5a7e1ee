"""Where an access token may be in a request, and every way to get that wrong."""

from contextlib import nullcontext
from io import BytesIO
from typing import Any

import httpx
import pytest
from django.http import HttpRequest

from conftest import bearer
from ironauth.infrastructure.core.errors import DomainError
from ironauth.infrastructure.http.fast_request import LeanRequest
from ironauth.tests.asgi_conversation import Conversation
from tokens.access.credentials import Credential, access_credential, refuse_login_csrf
from tokens.errors import CrossOrigin

ME = "/api/v1/access/me"
CHALLENGE = 'Bearer realm="ironauth", resource_metadata="http://localhost:8000/.well-known/oauth-protected-resource"'


def request(method: str = "GET", path: str = "/", **meta: str) -> HttpRequest:
    """Return a request with these headers."""
    conversation = Conversation(path, method)
    fields = {"host": "testserver", **{name.replace("_", "-"): value for name, value in meta.items()}}
    conversation.scope["headers"] = [(name.encode(), value.encode("latin1")) for name, value in fields.items()]
    return LeanRequest(conversation.scope, BytesIO())


def refused(built: HttpRequest) -> tuple[int, str]:
    """Return status and code of the refusal."""
    with pytest.raises(DomainError) as caught:
        access_credential(built)
    return caught.value.status, caught.value.code


def test_none() -> None:
    """A request without credential has none; other cookies and another scheme are not ours."""
    assert access_credential(request()) is None
    assert access_credential(request(cookie="sessionid=x; access_token_old=y")) is None
    assert access_credential(request(cookie="access_token=")) is None
    assert access_credential(request(authorization="Basic Zm9vOmJhcg==")) is None


@pytest.mark.parametrize(
    "header", ["Bearer a.b-c._~+/==", "bearer a.b-c._~+/==", "BEARER  a.b-c._~+/==", "Bearer a.b-c._~+/== "]
)
def test_header(header: str) -> None:
    """The scheme is case-insensitive and the token is RFC 6750's b64token."""
    assert access_credential(request(authorization=header)) == Credential("a.b-c._~+/==", from_cookie=False)


def test_cookie() -> None:
    """The cookie is read on its own, also behind another scheme in the header."""
    assert access_credential(request(cookie="a=b; access_token=t.o.k")) == Credential("t.o.k", from_cookie=True)
    both = request(authorization="Basic Zm9vOmJhcg==", cookie="access_token=t.o.k")
    assert access_credential(both) == Credential("t.o.k", from_cookie=True)


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer ", "bearer", "Bearer a b", "Bearer a,b", "Bearer a, Bearer b", "Basic x, Bearer b", "Bearer ä",
     "Bearer a=b", 'Bearer token="a"', "Bearer\ta", "Bearer <a>", "to.k.en"],
)  # fmt: skip
def test_malformed_header(header: str) -> None:
    """A Bearer header that is not RFC 6750 §2.1's, or several headers joined, is 400 invalid_request."""
    assert refused(request(authorization=header)) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("headers", "let_in"),
    [
        ({}, True),  # no browser
        ({"sec_fetch_site": "none"}, True),  # a person's own doing: an address typed, a bookmark
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "same-site"}, False),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"origin": "http://testserver"}, True),  # a browser without Fetch Metadata
        ({"origin": "https://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "https://evil.example", "sec_fetch_site": "none"}, False),
    ],
)
def test_who_may_sign_a_browser_in(headers: dict[str, str], let_in: bool) -> None:
    """Another site's page signs nobody in under an account of its choice; what is no browser, and our pages, may."""
    with nullcontext() if let_in else pytest.raises(CrossOrigin):
        refuse_login_csrf(request("POST", **headers))


def test_two_credentials() -> None:
    """Header and cookie together are 400, even when equal; so is the cookie twice."""
    assert refused(request(authorization="Bearer a.b.c", cookie="access_token=a.b.c")) == (400, "two_credentials")
    assert refused(request(cookie="access_token=a.b.c; x=y; access_token=d.e.f")) == (400, "two_credentials")


def test_size() -> None:
    """4,096 characters are looked at, 4,097 are 401, in header and cookie."""
    assert access_credential(request(authorization=f"Bearer {'a' * 4_096}")) is not None
    assert refused(request(authorization=f"Bearer {'a' * 4_097}")) == (401, "invalid_token")
    assert refused(request(cookie=f"access_token={'a' * 4_097}")) == (401, "invalid_token")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_cookie_on_an_unsafe_method(method: str) -> None:
    """A cookie alone does not authenticate a change: the browser must say that this site made the request."""
    assert refused(request(method, cookie="access_token=a.b.c")) == (403, "cross_origin")
    assert refused(request(method, cookie="access_token=a.b.c", origin="https://evil.example")) == (403, "cross_origin")
    own = request(method, cookie="access_token=a.b.c", sec_fetch_site="same-origin")
    assert access_credential(own) is not None
    assert access_credential(request(method, authorization="Bearer a.b.c", origin="https://evil.example")) is not None


def test_trusted_origin(settings: Any) -> None:
    """An origin in IRONAUTH_TRUSTED_ORIGINS may use the cookie."""
    settings.IRONAUTH_TRUSTED_ORIGINS = ["https://app.example"]
    built = request("POST", cookie="access_token=a.b.c", origin="https://app.example", sec_fetch_site="cross-site")
    assert access_credential(built) is not None


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_cookie_on_a_safe_method(method: str) -> None:
    """Reading by cookie needs no origin: the answer cannot be read by another site."""
    assert access_credential(request(method, cookie="access_token=a.b.c", origin="https://evil.example")) is not None


@pytest.mark.django_db(transaction=True)
async def test_query_string_is_never_read(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """A token in the URL is no credential (RFC 6750 §5.3)."""
    for name in ("access_token", "token", "bearer_token"):
        answer = await api.get(f"{ME}?{name}={pair['access_token']}")
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, CHALLENGE)


@pytest.mark.django_db(transaction=True)
async def test_answers(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """Over HTTP each mistake has its status, its challenge and a problem document (RFC 6750 §3.1)."""
    token = pair["access_token"]
    good = bearer(pair)["Authorization"]
    cases: list[tuple[list[tuple[str, str]], int, str]] = [
        ([], 401, CHALLENGE),
        ([("Authorization", "Bearer a.b.c")], 401, f'{CHALLENGE}, error="invalid_token"'),
        ([("Authorization", f"{good}x")], 401, f'{CHALLENGE}, error="invalid_token"'),
        ([("Authorization", "Bearer")], 400, 'Bearer realm="ironauth", error="invalid_request"'),
        ([("Authorization", good), ("Authorization", good)], 400, 'Bearer realm="ironauth", error="invalid_request"'),
        (
            [("Authorization", good), ("Cookie", f"access_token={token}")],
            400,
            'Bearer realm="ironauth", error="invalid_request"',
        ),
        ([("Authorization", "Basic Zm9vOmJhcg==")], 401, CHALLENGE),
    ]
    for headers, status, challenge in cases:
        answer = await api.get(ME, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (status, challenge), headers
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["cache-control"] == "no-store"
    huge = await api.get(ME, headers={"Authorization": f"Bearer {'a' * 8_000}"})
    assert huge.status_code == 401
