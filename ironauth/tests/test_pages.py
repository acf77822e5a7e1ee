"""The pages people open: complete by themselves, strict about scripts, and usable."""

import re
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from django.contrib.staticfiles import finders
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from ironauth import pages
from ironauth.config import addresses
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http import error_pages
from ironauth.infrastructure.telemetry import logs


class _Page(HTMLParser):
    """What a page loads, and the script and style written into it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.assets: list[str] = []
        self.links: list[str] = []
        self.inline: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self._inside = tag
        source = values.get("src") or (values.get("href") if tag == "link" else None)
        if source:
            self.assets.append(source)
        if tag == "a":
            self.links.append(values["href"] or "")
        self.inline += [f"{name}={value}" for name, value in attrs if name.startswith("on") or name == "style"]

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style") and data.strip():
            self.inline.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


@pytest.mark.parametrize("path", ["/", "/api/docs", "/api/docs/"])
async def test_nothing_comes_from_outside(api: httpx.AsyncClient, path: str) -> None:
    """Every asset is a file of this server that exists, no script or style is inline, and the policy says the same."""
    answer = await api.get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    page = _Page(answer.text)
    assert page.inline == []
    assert page.assets
    for asset in page.assets:
        assert asset.startswith("/static/")
        assert finders.find(asset.removeprefix("/static/")), asset
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert not re.search(r"script-src[^;]*unsafe", policy)
    assert "http" not in policy


async def test_home_leads_everywhere(api: httpx.AsyncClient, settings: Settings) -> None:
    """It names the product and links to the account pages, the documentation, the admin and the health report."""
    answer = await api.get("/")
    assert f"<h1>{settings.IRONAUTH_BRAND_NAME}</h1>" in answer.text
    links = {"/account/signin", "/api/docs", "/admin/", "/health", "/.well-known/jwks.json"}
    assert links <= set(_Page(answer.text).links)


@pytest.mark.parametrize(
    ("setting", "value"), [("NAME", "Acme"), ("LOGO", "ironauth/icon.svg"), ("ACCENT", "#0a7f5a")], ids=str.lower
)
async def test_a_branded_page_does_not_lead_customers_to_staff(
    api: httpx.AsyncClient, settings: Settings, setting: str, value: str
) -> None:
    """Start page and error page have no link to the admin then, as they have without a brand."""
    plain = (await api.get("/no-such-page", headers={"Accept": "text/html"})).text
    assert 'href="/admin/"' in plain
    setattr(settings, f"IRONAUTH_BRAND_{setting}", value)
    pages._page.cache_clear()
    try:
        for path in ("/", "/no-such-page"):
            text = (await api.get(path, headers={"Accept": "text/html"})).text
            links = set(_Page(text).links)
            assert not links & {"/admin/", "/health"}
            assert any(link.startswith("/account/") for link in links)
            assert setting != "LOGO" or f'src="/static/{value}"' in text
    finally:
        pages._page.cache_clear()


async def test_home_is_accessible(api: httpx.AsyncClient) -> None:
    """It names its language, fits a phone, has one heading and a labelled navigation."""
    text = (await api.get("/")).text
    assert '<html lang="en">' in text
    assert 'name="viewport"' in text
    assert text.count("<h1>") == 1
    assert "<nav aria-label=" in text
    assert 'alt=""' in text


def test_documentation_asks_no_other_host() -> None:
    """The script of the documentation page reads this server's document and no outside validator."""
    script = finders.find("ironauth/docs.js")
    assert isinstance(script, str)
    text = Path(script).read_text(encoding="utf-8")
    assert 'url: "/api/openapi.json"' in text
    assert "validatorUrl: null" in text
    assert "https://" not in text


@pytest.mark.parametrize("path", ["/", "/api/docs", "/api/openapi.json", "/ping"])
async def test_pages_are_read_only(api: httpx.AsyncClient, path: str) -> None:
    """HEAD follows GET, OPTIONS names the methods, and anything else is a 405 problem."""
    assert (await api.head(path)).status_code == 200
    options = await api.options(path)
    assert (options.status_code, options.headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
    for method in ("POST", "DELETE"):
        refused = await api.request(method, path)
        assert refused.status_code == 405
        assert refused.headers["Allow"] == "GET, HEAD, OPTIONS"
        assert refused.json()["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["/", "/api/docs"])
async def test_pages_carry_the_security_headers(api: httpx.AsyncClient, path: str) -> None:
    """A page is never framed, sniffed, named to other sites or reached by a window of theirs."""
    headers = (await api.get(path)).headers
    assert (headers["X-Frame-Options"], headers["X-Content-Type-Options"]) == ("DENY", "nosniff")
    assert (headers["Referrer-Policy"], headers["Cross-Origin-Opener-Policy"]) == ("no-referrer", "same-origin")


@pytest.mark.parametrize("path", ["/nope", "/api", "//api/v1/access/me", "/administrator", "/static", "/favicon.png"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_paths_nobody_serves_are_problems(api: httpx.AsyncClient, method: str, path: str) -> None:
    """A path outside the admin that nobody serves is a 404 problem document, whatever the method."""
    answer = await api.request(method, f"http://testserver{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer.headers["Content-Type"] == "application/problem+json"


#: What browsers send when somebody opens an address.
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize("path", ["/nope", "/account/signin/", "/administrator", "/apis", "/favicon.png"])
async def test_people_get_a_page_where_nobody_serves(api: httpx.AsyncClient, path: str) -> None:
    """Complete by itself and strict about scripts, with ways on; nothing of the address is in it."""
    answer = await api.get(f"{path}?q=<b>", headers={"Accept": BROWSER})
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == error_pages.PAGE_POLICY
    assert (answer.headers["Cache-Control"], answer.headers["X-Frame-Options"]) == ("no-store", "DENY")
    assert answer.headers["X-Request-ID"]
    page = _Page(answer.text)
    assert page.inline == []
    assert page.assets
    assert all(finders.find(asset.removeprefix("/static/")) for asset in page.assets)
    assert {"/", "/account/security"} <= set(page.links)
    assert re.search(r"<main>.*<h1>Nothing here</h1>", answer.text, re.DOTALL)
    assert (path in answer.text, "<b>" in answer.text) == (False, False)


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        *((path, BROWSER) for path in ("/api", "/api/v1/nope", "/oauth/nope", "/.well-known/nope")),
        *(
            ("/nope", accept)
            for accept in ("*/*", "application/json", "application/json, text/html", "", "text", "a/b")
        ),
        ("/nope", "text/html;q=0.1, application/problem+json"),
        ("/nope", f"{BROWSER},{'x' * error_pages.LONGEST_ACCEPT}"),
    ],
)
async def test_programs_get_the_problem_where_nobody_serves(api: httpx.AsyncClient, path: str, accept: str) -> None:
    """Byte for byte what is answered without saying what is accepted, below the paths of programs in any case."""
    known = {"X-Request-ID": "0" * 32}
    del api.headers["Accept"]
    plain = await api.get(path, headers=known)
    answer = await api.get(path, headers={**known, "Accept": accept})
    assert (answer.status_code, answer.content) == (404, plain.content)
    assert answer.headers == plain.headers
    assert answer.json()["code"] == "not_found"


@pytest.mark.parametrize(("text", "status"), [("<title>Ours</title>", 404), ("{% nothing %}", 500)])
async def test_a_deployment_brings_its_own_page_for_that(
    api: httpx.AsyncClient, settings: Settings, tmp_path: Path, text: str, status: int
) -> None:
    """A template of the same name takes the place of ours; one that is broken is a problem in the log, not silence."""
    (tmp_path / "404.html").write_text(text)
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]
    answer = await api.get("/nope", headers={"Accept": BROWSER})
    assert (answer.status_code, answer.text == text) == (status, status == 404)


@pytest.mark.parametrize("path", ["/", "/admin/", "/static/ironauth/pages.css", "/api/docs"])
async def test_a_foreign_host_gets_a_problem(
    api: httpx.AsyncClient, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the lane, a Host that is not ours is a 400 problem and one line of the log, without a traceback."""
    answer = await api.get(path, headers={"Host": "evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_host")
    logs.flush()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "suspicious_request" in lines[0]
    assert "Traceback" not in lines[0]


async def test_pages_may_be_kept(api: httpx.AsyncClient) -> None:
    """What is the same for everybody may be cached for the stated time."""
    for path in ("/", "/api/docs", "/api/openapi.json"):
        assert (await api.get(path)).headers["Cache-Control"] == f"public, max-age={pages.PUBLIC_FOR_S}"


@pytest.mark.django_db(transaction=True)
async def test_the_admin_carries_the_name(api: httpx.AsyncClient) -> None:
    """The admin's sign-in page is branded and still has Django's form."""
    answer = await api.get("/admin/login/")
    assert answer.status_code == 200
    assert "IronAuth" in answer.text
    assert "Django administration" not in answer.text
    assert 'name="csrfmiddlewaretoken"' in answer.text


async def test_a_password_manager_finds_the_page(api: httpx.AsyncClient) -> None:
    """/.well-known/change-password leads to where people change their password."""
    answer = await api.get("/.well-known/change-password")
    assert (answer.status_code, answer.headers["location"]) == (302, "/account/security/password")


async def test_security_txt_is_what_the_operator_says(api: httpx.AsyncClient, settings: Settings) -> None:
    """With contacts it names them and expires within a year (RFC 9116); without there is no such file."""
    assert (await api.get("/.well-known/security.txt")).status_code == 404
    settings.IRONAUTH_SECURITY_CONTACT = ["mailto:security@example.com", "https://example.com/report"]
    answer = await api.get("/.well-known/security.txt")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    lines = answer.text.splitlines()
    assert lines[:2] == ["Contact: mailto:security@example.com", "Contact: https://example.com/report"]
    expires = datetime.fromisoformat(lines[2].removeprefix("Expires: "))
    assert timedelta(days=30) < expires - clock.now() < timedelta(days=365)


@pytest.mark.parametrize("value", ["security@example.com", "http://example.com", "mailto:a b@example.com"])
def test_a_contact_that_nobody_can_use_stops_the_start(value: str) -> None:
    """The message names the setting and what to write."""
    with pytest.raises(ImproperlyConfigured, match=r"IRONAUTH_SECURITY_CONTACT.*mailto:"):
        addresses.contacts([value], "IRONAUTH_SECURITY_CONTACT")
