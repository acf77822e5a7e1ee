"""A browser of the person who has an account: it keeps cookies, and fills in what our pages ask for."""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx

from conftest import PASSWORD
from tokens.oauth.tests.openid.site import ISSUER, Site
from tokens.oauth.tests.walk import Form, forms

MOST_STEPS: Final = 8
AUTHORIZE: Final = "/oauth/authorize"


class Answer(NamedTuple):
    """What a client gets. ``mode``: ``query`` or ``form_post``; ``where``: the address, without its query."""

    mode: str
    where: str
    parameters: dict[str, str]


class Stopped(AssertionError):
    """The way ends at a page of ours: ``page``."""

    def __init__(self, page: httpx.Response) -> None:
        super().__init__(f"{page.url.path}: {page.status_code} {page.text[:1500]}")
        self.page = page


class Browser:
    """What the person has open. ``asked``: the forms that were filled in, by what they ask, in order."""

    def __init__(self, site: Site) -> None:
        self.http = site.new_http()
        self.asked: list[str] = []
        self._email = site.email

    def authorize(self, parameters: Mapping[str, str], *, post: bool = False, decision: str = "allow") -> Answer:
        """Follow a client's link, or send its form, through our pages.

        Args:
            parameters: Of the authorization request.
            post: Whether the client sends a form.
            decision: What the person says when asked for consent.

        Raises:
            Stopped: A page of ours leads nowhere.
        """
        return self.walk(self.open(parameters, post=post), decision=decision)

    def stopped(self, parameters: Mapping[str, str]) -> httpx.Response:
        """Return the page of ours at which a client's link ends."""
        try:
            answer = self.authorize(parameters)
        except Stopped as end:
            return end.page
        raise AssertionError(answer)

    def open(self, parameters: Mapping[str, str], *, post: bool = False) -> httpx.Response:
        """Return what a client's link, or its form, shows first."""
        if post:
            return self.http.post(AUTHORIZE, data=dict(parameters))
        return self.http.get(AUTHORIZE, params=dict(parameters))

    def walk(self, page: httpx.Response, *, decision: str = "allow") -> Answer:
        """Go on from a page until the client gets its answer, as ``authorize`` does."""
        for _ in range(MOST_STEPS):
            if (found := answer_in(page)) is not None:
                return found
            location = page.headers.get("location")
            page = self.http.get(location) if location else self._filled_in(page, decision)
        raise Stopped(page)

    def _filled_in(self, page: httpx.Response, decision: str) -> httpx.Response:
        if page.status_code != 200:
            raise Stopped(page)
        there = {form.action: form for form in forms(page)}
        for action, typed in (
            ("/oauth/signin", {"email": self._email, "password": PASSWORD}),
            ("/oauth/consent", {"decision": decision}),
        ):
            if action in there:
                self.asked.append(action.rpartition("/")[2])
                return self._sent(there[action], typed)
        raise Stopped(page)

    def _sent(self, form: Form, typed: dict[str, str]) -> httpx.Response:
        """Send a form as a browser does, which says where it comes from."""
        return self.http.post(form.action, data={**form.fields, **typed}, headers={"Origin": ISSUER})


def answer_in(page: httpx.Response) -> Answer | None:
    """Return the client's answer where the page is one: a redirect to another site, or a form that leads to one."""
    location = page.headers.get("location", "")
    if location:
        parts = urlsplit(location)
        if not parts.netloc or location.startswith(f"{ISSUER}/"):
            return None
        assert not parts.fragment, location
        return Answer("query", f"{parts.scheme}://{parts.netloc}{parts.path}", _once(parts.query))
    if page.status_code != 200 or not page.headers["content-type"].startswith("text/html"):
        return None
    leaving = [form for form in forms(page) if form.action.startswith("https://")]
    if not leaving:
        return None
    (form,) = leaving
    return Answer("form_post", form.action, dict(form.fields))


def _once(query: str) -> dict[str, str]:
    found = parse_qs(query, keep_blank_values=True, strict_parsing=bool(query))
    assert all(len(values) == 1 for values in found.values()), query
    return {name: values[0] for name, values in found.items()}
