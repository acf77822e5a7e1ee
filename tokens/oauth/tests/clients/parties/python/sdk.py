"""The official SDK of Python: two protected servers, and a client that knows the address of one."""

import asyncio
from typing import Any

import httpx2
import jwt
from conversation import Browser, hear, passed, refused
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientMetadata
from serving import serve

given = hear()
issuer, scope = given["issuer"], given["scope"]


class Verifier:
    """Verifies access tokens for one server, by the published keys."""

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self.keys = jwt.PyJWKClient(f"{issuer}/.well-known/jwks.json")

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what the token says; None for one that is not for this server."""
        try:
            key = await asyncio.to_thread(self.keys.get_signing_key_from_jwt, token)
            said = jwt.decode(token, key.key, algorithms=["EdDSA"], audience=self.resource, issuer=issuer)
        except jwt.PyJWTError:
            return None
        return AccessToken(
            token=token, client_id=said["client_id"], scopes=said["scope"].split(), expires_at=said["exp"],
            resource=self.resource, subject=said["sub"],
        )  # fmt: skip


def server(port: int) -> str:
    """Serve a protected server; return its address."""
    resource = f"http://127.0.0.1:{port}/mcp"
    auth = AuthSettings(issuer_url=issuer, resource_server_url=resource, required_scopes=[scope])
    made = MCPServer("notes", token_verifier=Verifier(resource), auth=auth)

    @made.tool()
    def add(a: int, b: int) -> int:
        return a + b

    serve(made.streamable_http_app(), port)
    return resource


class Storage:
    """What the agent keeps."""

    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client: Any) -> None:
        self.client = client


async def main() -> None:
    """Call a tool, then try the token at the other server."""
    first, second = (server(port) for port in given["ports"])
    storage, browser = Storage(), Browser()
    metadata = OAuthClientMetadata(
        client_name="Agent", redirect_uris=["https://app.example.com/callback"], token_endpoint_auth_method="none",
        grant_types=["authorization_code", "refresh_token"], response_types=["code"],
    )  # fmt: skip
    document = given.get("document")
    auth = OAuthClientProvider(
        first, metadata, storage, browser.redirect, browser.callback, client_metadata_url=document
    )
    async with (
        httpx2.AsyncClient(auth=auth, timeout=30) as http,
        Client(streamable_http_client(first, http_client=http)) as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
        answer = await client.call_tool("add", {"a": 2, "b": 3})
        assert answer.content[0].text == "5"
        passed("reached")
    assert scope in storage.tokens.scope.split()
    assert document in (None, storage.client.client_id)
    await refused(second, storage.tokens.access_token)


if __name__ == "__main__":
    asyncio.run(main())
