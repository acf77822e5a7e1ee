"""A live server of two workers as client libraries see it, and a person whose browser they send there."""

import json
import re
import shlex
from dataclasses import dataclass
from http import HTTPStatus
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.management import call_command

from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.oauth.tests.walk import by_password, forms, say, send

GONE = "https://app.example.com/signed-out"
MOST_STEPS = 8  # of one state through our pages; more is a loop
#: The line of the README that makes a client, from the command's name on.
CREATE = re.compile(r"^\.venv/bin/python manage\.py (oauth_client create .*)$", re.MULTILINE)
ENDS = re.compile(
    r"https://(app|shop)\.example\.com/|com\.example\.shop:/|http://(127\.0\.0\.1|localhost):[0-9]+/callback\?"
)


@dataclass
class Person:
    """Somebody who has an account, and a browser that keeps cookies."""

    browser: httpx.AsyncClient
    email: str

    async def visit(self, url: str, decision: str = "allow", ends: re.Pattern[str] = ENDS) -> str:
        """Follow a client's link through every page of ours; return the address at the client it ends at.

        A device's link ends at a page of ours that asks nothing more.

        Args:
            url: The link.
            decision: What the person says when asked for consent.
            ends: How the client's addresses begin.
        """
        page = await self.browser.get(url)
        for _ in range(MOST_STEPS):
            location = page.headers.get("location", "")
            if ends.match(location):
                return str(location)
            if location:
                page = await self.browser.get(urljoin(str(page.url), location))
                continue
            if "/oauth/device" in url and page.status_code == HTTPStatus.OK and not forms(page):
                return str(page.url)
            page = await self._filled_in(page, decision)
        raise AssertionError(f"no way out of {page.url}: {page.status_code} {page.text[:2000]}")

    async def sign_out(self) -> None:
        """Sign out here, where the person confirms it."""
        page = await self.browser.get("/oauth/logout")
        ended = await send(self.browser, page, "/oauth/logout")
        assert ended.status_code == HTTPStatus.OK, ended.text

    async def _filled_in(self, page: httpx.Response, decision: str) -> httpx.Response:
        """Send the form that a person would send."""
        there = {form.action for form in forms(page)}
        if "/oauth/signin" in there:
            return await by_password(self.browser, page, self.email)
        if "/oauth/consent" in there:
            return await say(self.browser, page, decision)
        if "/oauth/device" in there:
            return await send(self.browser, page, "/oauth/device", decision=decision)
        raise AssertionError(f"{page.url}: {page.status_code} {page.text[:2000]}")


@dataclass
class Provider:
    """The server, at its issuer's address."""

    issuer: str
    person: Person

    async def client(self, **fields: Any) -> dict[str, Any]:
        """Store a client; return what its developer is told: client_id, and client_secret of one that has it."""
        given = {"name": "Wiki", "redirect_uris": [REDIRECT_URI], "post_logout_redirect_uris": [GONE], **fields}
        row, secret = await sync_to_async(make_client)(**given)
        told = {"client_id": str(row.pk)}
        return {**told, "client_secret": secret} if secret else told

    async def default_client(self, redirect_uri: str = REDIRECT_URI, *more: str) -> dict[str, str]:
        """Make a client by the line of the README, for an address; return what the line's reader copies from it.

        Args:
            redirect_uri: The address.
            more: What is added to the line: addresses for signing out.
        """
        told = await sync_to_async(_by_readme)(redirect_uri, *more)
        return {name: told[name] for name in ("client_id", "client_secret")}

    async def public_client(self, **fields: Any) -> dict[str, Any]:
        """Store a client without a secret."""
        return await self.client(auth_method=OAuthClient.AuthMethod.NONE, **fields)


def _by_readme(redirect_uri: str, *more: str) -> dict[str, Any]:
    (line,) = CREATE.findall((Path(settings.BASE_DIR) / "README.md").read_text(encoding="utf-8"))
    command, *arguments = shlex.split(line)
    (place,) = [at for at, argument in enumerate(arguments) if argument.startswith("https://")]
    arguments[place] = redirect_uri
    said = StringIO()
    call_command(command, *arguments, *more, stdout=said, stderr=StringIO())
    told: dict[str, Any] = json.loads(said.getvalue())
    return told
