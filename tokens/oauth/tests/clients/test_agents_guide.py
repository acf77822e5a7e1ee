"""The guide for agents, as its reader pastes it: from the setting to a token for one API."""

import asyncio
import json
import secrets
from pathlib import Path

import httpx
import pytest
from asgiref.sync import sync_to_async

from ironauth.tests.docs.blocks import Guide
from ironauth.tests.docs.shell import commands, found, shell
from tokens.access import codec
from tokens.oauth.tests.clients.provider import Provider
from tokens.oauth.tests.walk import answered, by_password, is_page, say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.live]

CALLBACK = "http://127.0.0.1:41234/callback"
NOTES = "https://api.example.com/notes"


@pytest.fixture
def server_settings() -> dict[str, str]:
    """What the page puts into the environment."""
    lines = Guide("docs/guides/agents.md").block("IRONAUTH_CLIENT_DOCUMENTS=1").splitlines()
    return dict(line.split("=", 1) for line in lines)


async def test_the_guide_can_be_pasted(provider: Provider, tmp_path: Path) -> None:
    """The agent registers once with the token of staff, the person is asked, and the token is for the API."""
    found("openssl")

    async def ran(script: str) -> str:
        """Run blocks of one shell beside the event loop, which has a server to answer."""
        return await asyncio.to_thread(shell, script, tmp_path)

    with Guide("docs/guides/agents.md", ("https://id.example.com", provider.issuer)) as guide:
        await sync_to_async(commands)(guide.block(".venv/bin/python manage.py api_resource"), tmp_path)
        await sync_to_async(commands)(guide.block(".venv/bin/python manage.py oauth_client"), tmp_path)
        made, register = guide.block("value()"), guide.block('curl -sS -H "Authorization: Bearer $(value token')
        value = made.splitlines()[0]
        await ran(made + register)
        agent = json.loads((tmp_path / "agent.json").read_text())
        shown = json.loads(guide.block('{"client_id"'))
        told = {"client_id", "client_id_issued_at", "registration_access_token", "registration_client_uri"}
        assert agent.keys() == shown.keys()
        assert {name: agent[name] for name in agent.keys() - told} == {
            name: shown[name] for name in shown.keys() - told
        }
        once = f"{value}\n{register.replace('agent.json', 'second.json')}"
        await ran(once)  # curl ends well: the refusal is the answer
        assert json.loads((tmp_path / "second.json").read_text())["error"] == "invalid_token"
        verifier = secrets.token_hex(32)
        asking = guide.block("VERIFIER=").replace("$(openssl rand -hex 32)", verifier)
        address = (await ran(f"{value}\n{asking}")).strip()
        browser = provider.person.browser
        page = await by_password(browser, await browser.get(address), provider.person.email)
        assert is_page(page, 200, "Note taker", "unverified application", "Notes", "notes:read")
        answer = answered(await say(browser, page, "allow"), CALLBACK)
        assert (answer["state"], answer["iss"]) == ("s-1", provider.issuer)
        redeem = guide.block("curl -sS -d grant_type=authorization_code")
        await ran(f"{value}\nCODE={answer['code']} VERIFIER={verifier}\n{redeem}")
    tokens = json.loads((tmp_path / "tokens.json").read_text())
    said = codec.payload_of(tokens["access_token"])
    assert (said["aud"], said["client_id"]) == (NOTES, agent["client_id"])
    assert set(said["scope"].split()) == {"openid", "offline_access", "notes:read"}
    assert "refresh_token" in tokens
    own = {"Authorization": f"Bearer {agent['registration_access_token']}"}
    async with httpx.AsyncClient(timeout=30) as client:
        assert (await client.get(agent["registration_client_uri"], headers=own)).status_code == 200
        assert (await client.delete(agent["registration_client_uri"], headers=own)).status_code == 204
        assert (await client.get(agent["registration_client_uri"], headers=own)).status_code == 401
