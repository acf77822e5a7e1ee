"""A browser without script that walks through our pages as its person would: it reads forms and sends them."""

import base64
import hashlib
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from conftest import PASSWORD
from tokens.oauth.tests.material import REDIRECT_URI

AUTHORIZE = "/oauth/authorize"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
ISSUER = "http://localhost:8000"


class Form:
    """A form of a page: where it leads, its fields, and what its named buttons say."""

    def __init__(self, action: str) -> None:
        self.action = action
        self.fields: dict[str, str] = {}
        self.buttons: dict[str, list[str]] = {}


class _Reader(HTMLParser):
    """Collects the forms of a page, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(found["action"]))
        elif tag == "input" and self.forms:
            self.forms[-1].fields[found["name"]] = found.get("value", "")
        elif tag == "button" and self.forms and "name" in found:
            self.forms[-1].buttons.setdefault(found["name"], []).append(found["value"])


def forms(page: httpx.Response) -> list[Form]:
    """Return the forms of a page."""
    assert page.headers["content-type"].startswith("text/html"), page.text
    reader = _Reader()
    reader.feed(page.text)
    return reader.forms


def form_to(page: httpx.Response, action: str) -> Form:
    """Return the page's form that leads there."""
    return next(form for form in forms(page) if form.action == action)


def request_of(client: Any, **changes: str | None) -> dict[str, str]:
    """Return the parameters of a good authorization request; a change to None removes one."""
    asked = {
        "client_id": str(client.pk),
        "redirect_uri": REDIRECT_URI,
        "response_type": "code",
        "scope": "openid profile",
        "state": "st&te=1 é",
        "nonce": "n-1",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **changes,
    }
    return {name: value for name, value in asked.items() if value is not None}


async def authorize(api: httpx.AsyncClient, client: Any, **changes: str | None) -> httpx.Response:
    """Follow a client's link."""
    return await api.get(AUTHORIZE, params=request_of(client, **changes))


async def send(api: httpx.AsyncClient, page: httpx.Response, action: str, **typed: str) -> httpx.Response:
    """Fill in the page's form that leads to ``action``, and send it."""
    return await api.post(action, data={**form_to(page, action).fields, **typed})


async def by_password(
    api: httpx.AsyncClient, page: httpx.Response, email: str, password: str = PASSWORD
) -> httpx.Response:
    """Sign in at the page."""
    return await send(api, page, "/oauth/signin", email=email, password=password)


async def say(api: httpx.AsyncClient, page: httpx.Response, decision: str) -> httpx.Response:
    """Press a button of the consent page, or of one that has it."""
    return await send(api, page, "/oauth/consent", decision=decision)


def answered(answer: httpx.Response, uri: str = REDIRECT_URI) -> dict[str, str]:
    """Return what the client is told by a redirect, each parameter once."""
    assert answer.status_code == 303, (answer.status_code, answer.text)
    where = urlsplit(answer.headers["location"])
    assert f"{where.scheme}://{where.netloc}{where.path}" == uri
    found = parse_qs(where.query, keep_blank_values=True, strict_parsing=True)
    assert all(len(values) == 1 for values in found.values())
    assert not where.fragment
    return {name: values[0] for name, values in found.items()}


def is_page(answer: httpx.Response, status: int, *words: str) -> bool:
    """Tell whether this is a page of that status which says that, leads nowhere by itself, and may not be framed."""
    headers = answer.headers
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert "location" not in headers
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    return all(word in answer.text for word in words)
