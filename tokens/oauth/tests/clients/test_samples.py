"""What a client's page in the admin offers to copy: each sample does what it is for, on a live server."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from asgiref.sync import sync_to_async
from authlib.integrations.django_client import OAuth
from django.test import RequestFactory
from pytest_django import Settings

from tokens.admin.client_snippets import Snippets, snippets
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.clients.program import JAVASCRIPT, node
from tokens.oauth.tests.clients.provider import Provider
from tokens.oauth.tests.material import REDIRECT_URI
from tokens.protocol import GrantType

pytestmark = pytest.mark.django_db(transaction=True)

RUN_S = 30


async def offered(provider: Provider, settings: Settings, **fields: Any) -> tuple[Snippets, dict[str, str]]:
    """Return what the page of a new client shows, and the variable its samples need."""
    settings.IRONAUTH_ISSUER = provider.issuer
    told = await provider.client(**fields)
    row = await OAuthClient.objects.aget(pk=told["client_id"])
    return await sync_to_async(snippets)(row), {"CLIENT_SECRET": told.get("client_secret", "")}


def sample(shown: Snippets, title: str) -> str:
    """Return the text under a title that begins so."""
    return next(one.text for one in shown.samples if one.title.startswith(title))


@pytest.mark.skipif(not shutil.which("curl") and not os.environ.get("CI"), reason="curl is not installed")
async def test_samples(provider: Provider, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link and curl give tokens; openid-client and Authlib, configured so, lead to a sign-in that ends there."""
    for way in (OAuthClient.AuthMethod.SECRET, OAuthClient.AuthMethod.NONE):
        shown, secret = await offered(provider, settings, auth_method=way)
        answer = parse_qs(urlsplit(await provider.person.visit(shown.start)).query)
        got = await ran("sh", "-c", f"{sample(shown, 'curl')} -sS --fail-with-body", CODE=answer["code"][0], **secret)
        assert '"id_token"' in got

        program = f"{sample(shown, 'openid-client')}\nconsole.log(url.href);"
        url = await ran(node(), "--input-type=module", "--eval", program, **secret)
        assert (await provider.person.visit(url.strip())).startswith(f"{REDIRECT_URI}?code=")

        monkeypatch.setenv("CLIENT_SECRET", secret["CLIENT_SECRET"])
        monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
        oauth = OAuth()
        exec(sample(shown, "Authlib"), {"oauth": oauth, "os": os})  # noqa: S102 - our own sample, as it is copied
        request = RequestFactory().get("/")
        request.session = {}  # type: ignore[assignment]
        url = oauth.ironauth.authorize_redirect(request, REDIRECT_URI).url
        returned = RequestFactory().get(await provider.person.visit(url))
        returned.session = request.session
        assert oauth.ironauth.authorize_access_token(returned)["userinfo"]["sub"]

    gateway = {"grants": [GrantType.TOKEN_EXCHANGE.value], "scopes": ["openid"], "redirect_uris": []}
    shown, secret = await offered(provider, settings, **gateway)
    token = json.loads(got)["access_token"]
    assert '"issued_token_type"' in await ran("sh", "-c", f"{sample(shown, 'curl')} -sS", TOKEN=token, **secret)

    shown, secret = await offered(provider, settings, require_par=True)
    program = f"{sample(shown, 'openid-client')}\nconsole.log(url.href);"
    url = await ran(node(), "--input-type=module", "--eval", program, **secret)
    assert "request_uri=" in url
    assert (await provider.person.visit(url.strip())).startswith(f"{REDIRECT_URI}?code=")


async def ran(*command: str | Path, **variables: str) -> str:
    """Return what a command printed, run where the libraries of JavaScript are."""
    environment = {**os.environ, "NODE_NO_WARNINGS": "1", **variables}
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=JAVASCRIPT, env=environment, timeout=RUN_S, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout} {done.stderr}"
    return done.stdout
