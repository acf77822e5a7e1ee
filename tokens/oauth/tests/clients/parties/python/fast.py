"""FastMCP: two protected servers by its own verifier, and its client that knows the address of one."""

import asyncio

from conversation import Browser, hear, passed, refused
from fastmcp import Client, FastMCP
from fastmcp.client.auth import OAuth
from fastmcp.server.auth import RemoteAuthProvider
from fastmcp.server.auth.providers.jwt import JWTVerifier
from serving import serve

given = hear()
issuer, scope = given["issuer"], given["scope"]


def server(port: int) -> str:
    """Serve a protected server; return its address."""
    origin = f"http://127.0.0.1:{port}"
    verifier = JWTVerifier(
        jwks_uri=f"{issuer}/.well-known/jwks.json", issuer=issuer, audience=f"{origin}/mcp", algorithm="EdDSA",
        required_scopes=[scope],
    )  # fmt: skip
    made = FastMCP(
        "notes", auth=RemoteAuthProvider(token_verifier=verifier, authorization_servers=[issuer], base_url=origin)
    )

    @made.tool
    def add(a: int, b: int) -> int:
        return a + b

    serve(made.http_app(path="/mcp"), port)
    return f"{origin}/mcp"


class Agent(OAuth):
    """Its helper, whose browser is the person's."""

    browser = Browser()

    async def redirect_handler(self, authorization_url: str) -> None:
        await self.browser.redirect(authorization_url)

    async def callback_handler(self):
        return await self.browser.callback()


async def main() -> None:
    """Call a tool, then try the token at the other server."""
    first, second = (server(port) for port in given["ports"])
    agent = Agent(
        first, scopes=[scope], client_name="Agent", additional_client_metadata={"token_endpoint_auth_method": "none"}
    )
    async with Client(first, auth=agent) as client:
        assert [tool.name for tool in await client.list_tools()] == ["add"]
        assert (await client.call_tool("add", {"a": 2, "b": 3})).data == 5
        passed("reached")
    await refused(second, agent.context.current_tokens.access_token)


if __name__ == "__main__":
    asyncio.run(main())
