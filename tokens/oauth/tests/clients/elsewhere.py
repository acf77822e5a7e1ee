"""A person's browser at another provider: it reads forms and links, and sends what the person types."""

import ssl
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urljoin

import httpx

ANN: Final = {"login": "ann", "password": "ann"}


class Page(HTMLParser):
    """The first form of a page, and the first link."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.link = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and self.action is None:
            self.action = given.get("action", "")
        elif tag in ("input", "textarea") and given.get("name"):
            self.fields[given["name"]] = given.get("value", "")
        elif tag == "a" and not self.link:
            self.link = given.get("href", "")


async def walked(url: str, stop: str, typed: Mapping[str, str] = ANN, tls: ssl.SSLContext | None = None) -> str:
    """Follow a provider's redirects and forms as a person's browser does, until it leads to ``stop``.

    Args:
        url: Where to begin.
        stop: How the address begins that is returned.
        typed: What the person types into fields of these names.
        tls: Which servers the browser believes, where one has a certificate of its own.
    """
    async with httpx.AsyncClient(timeout=30, verify=tls or True) as browser:
        answer = await browser.get(url)
        for _ in range(12):
            for cookie in browser.cookies.jar:
                cookie.secure = False  # a browser takes this machine for secure, httpx does not
            where: str = answer.headers.get("location", "")
            if where.startswith(stop):
                return where
            if where:
                answer = await browser.get(urljoin(str(answer.url), where))
                continue
            page = Page(answer.text)
            known = {name: value for name, value in typed.items() if name in page.fields}
            answer = await browser.post(urljoin(str(answer.url), page.action or ""), data=page.fields | known)
    raise AssertionError(f"The provider leads nowhere: {answer.status_code} {answer.text[:500]}")
