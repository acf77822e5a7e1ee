"""Access tokens in a Starlette application, asked through its ASGI interface."""

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ironauth_client import AsyncClient, metadata
from ironauth_client.testing import FakeHolder, FakeIssuer

if "CI" not in os.environ:  # there every test must run
    pytest.importorskip("starlette", reason="Starlette is not installed: make test does")

from ironauth_client.starlette import Accepts, metadata_route
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

README = Path(__file__).parents[1] / "README.md"
URL = "https://api.example.com/orders"


@pytest.fixture
def issuer() -> FakeIssuer:
    return FakeIssuer()


@pytest.fixture
async def api(issuer: FakeIssuer) -> AsyncIterator[httpx.AsyncClient]:
    verifier = AsyncClient(issuer.config(), transport=issuer.transport)
    accepts = Accepts(verifier, "read", revocation=True)

    async def orders(request: Request) -> JSONResponse:
        return JSONResponse({"sub": (await accepts(request)).subject})

    app: Any = Starlette(routes=[Route("/orders", orders)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://api.example.com") as client:
        yield client
    await verifier.aclose()


async def test_a_request_with_a_token_is_let_in(issuer: FakeIssuer, api: httpx.AsyncClient) -> None:
    """Bearer and DPoP; a proof that is sent twice is refused, and so are two proofs."""
    bearer = {"Authorization": f"Bearer {issuer.access_token()}"}
    assert (await api.get("/orders", headers=bearer)).json() == {"sub": "person-1"}
    holder = FakeHolder()
    token = issuer.access_token(cnf={"jkt": holder.thumbprint})
    headers = [("Authorization", f"DPoP {token}"), ("DPoP", holder.proof(token, "GET", URL))]
    assert (await api.get("/orders?page=2", headers=headers)).status_code == 200
    again = await api.get("/orders", headers=headers)
    assert (again.status_code, again.headers["www-authenticate"]) == (401, 'DPoP error="invalid_dpop_proof"')
    two = [*headers[:1], *(("DPoP", holder.proof(token, "GET", URL)) for _ in range(2))]
    assert (await api.get("/orders", headers=two)).status_code == 401


async def test_each_refusal_has_its_status_and_challenge(
    issuer: FakeIssuer, api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No token, another audience's, a revoked one, without the scope, and a server that is away (the log says why)."""
    revoked = issuer.access_token()
    issuer.revoked.add(revoked)
    for token, expected in (
        ("", (401, "Bearer")),
        (issuer.access_token(aud="x"), (401, 'Bearer error="invalid_token"')),
        (revoked, (401, 'Bearer error="invalid_token"')),
        (issuer.access_token(scope="write"), (403, 'Bearer error="insufficient_scope"')),
    ):
        answer = await api.get("/orders", headers={"Authorization": f"Bearer {token}"} if token else {})
        assert (answer.status_code, answer.headers["www-authenticate"]) == expected
    token = issuer.access_token()
    monkeypatch.setattr(issuer, "answer", lambda _: httpx.Response(500))
    answer = await api.get("/orders", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, "www-authenticate" in answer.headers) == (503, False)
    assert "a token could not be checked: the server answered 500" in caplog.text


@pytest.mark.parametrize(("given", "may"), [({}, True), ({"client_id": ""}, False), ({"client_secret": ""}, False)])
def test_revocation_needs_a_client_that_may_ask(issuer: FakeIssuer, given: dict[str, str], may: bool) -> None:
    """``Accepts`` refuses to be made without one, instead of answering every request with 503."""
    config = issuer.config(**given)
    assert config.may_ask == may
    client = AsyncClient(config, transport=issuer.transport)
    Accepts(client, "read")
    if may:
        Accepts(client, "read", revocation=True)
        return
    with pytest.raises(ValueError, match="--resource-server"):
        Accepts(client, "read", revocation=True)


async def test_the_block_of_the_page_is_an_application() -> None:
    """It refuses a request without a token, and asks nobody to do so."""
    (block,) = re.findall(r"^```python\n(# application.py\n.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    made: dict[str, Any] = {}
    exec(compile(block, "application.py", "exec"), made)  # noqa: S102 - our own page
    async with httpx.AsyncClient(transport=httpx.ASGITransport(made["app"]), base_url="https://api.test") as client:
        answer = await client.get("/orders")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


async def test_an_api_names_its_metadata(issuer: FakeIssuer) -> None:
    """Its refusals say where they are (RFC 9728 §5.1), and what is there names the API and its server."""
    config = issuer.config(audience="https://api.example.com/orders", publishes_metadata=True)
    verifier = AsyncClient(config, transport=issuer.transport)
    accepts = Accepts(verifier, "read")

    async def orders(request: Request) -> JSONResponse:
        return JSONResponse({"sub": (await accepts(request)).subject})

    route = metadata_route(config, scopes=["read"], name="Orders")
    app: Any = Starlette(routes=[Route("/orders", orders), route])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://api.example.com") as client:
        address = "https://api.example.com/.well-known/oauth-protected-resource/orders"
        for headers, error in (
            ({}, ""),
            ({"Authorization": f"Bearer {issuer.access_token()}"}, 'error="invalid_token", '),
        ):
            answer = await client.get("/orders", headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == f'Bearer {error}resource_metadata="{address}"'
        answer = await client.get(address)
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.json() == {
            "resource": "https://api.example.com/orders",
            "authorization_servers": [issuer.issuer],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["read"],
            "resource_name": "Orders",
        }
        several = issuer.access_token(aud=["https://mail.example.com", "https://api.example.com/orders"])
        assert (await client.get("/orders", headers={"Authorization": f"Bearer {several}"})).status_code == 200
    await verifier.aclose()


@pytest.mark.parametrize(("audience", "path"), [
    ("https://api.example.com", ""), ("https://api.example.com/", ""), ("https://api.example.com:8443/a/b", "/a/b"),
])  # fmt: skip
def test_where_the_metadata_are(issuer: FakeIssuer, audience: str, path: str) -> None:
    """Between the host and the path of the identifier (§3.1)."""
    assert metadata.path_of(issuer.config(audience=audience)) == f"/.well-known/oauth-protected-resource{path}"


def test_an_audience_that_is_no_address_has_no_metadata(issuer: FakeIssuer) -> None:
    """Nobody could find them."""
    with pytest.raises(ValueError, match="an address as audience"):
        metadata.document(issuer.config(audience="urn:orders"))
