"""The pages for people without a product front end: nothing of anybody in them, nothing they could be made to run."""

import re
from pathlib import Path

import httpx
import pytest
from django.contrib.staticfiles import finders
from django.template.loader import get_template
from django.urls import resolve
from django.utils.html import escape
from pytest_django import Settings

from accounts.email import services as email_services
from accounts.outbox.models import OutgoingMail
from accounts.pages import account as account_pages
from accounts.users.inputs import DeleteAccountInput
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core.errors import Unavailable

PAGES = ("/account/security",)
FORGOT, AGAIN = "/account/forgot", "/account/verify-again"


@pytest.fixture
def user(transactional_db: None) -> User:
    """Make one person, whose address is not proved."""
    return User.objects.create_user("mia@example.com", PASSWORD)


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_the_same_for_everybody(api: httpx.AsyncClient, path: str) -> None:
    """It needs no session, asks no database, and says nothing of its address or its cookies."""
    plain = await api.get(path)
    other = await api.get(f"{path}?next=<script>alert(1)</script>", headers={"Cookie": "access_token=x"})
    assert (plain.status_code, other.status_code) == (200, 200)
    assert plain.content == other.content
    assert plain.headers["content-type"] == "text/html; charset=utf-8"
    assert plain.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "status"), [("/account", 302), ("/account/", 302), ("/account/x", 404), ("/accoun", 404)]
)
async def test_the_address_people_guess_leads_on(api: httpx.AsyncClient, path: str, status: int) -> None:
    """Anybody who types the beginning of the pages' address gets to them; what else is not there is not there."""
    answer = await api.get(path)
    assert answer.status_code == status
    assert answer.headers.get("location") == ("/account/security" if status == 302 else None)


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_runs_this_sites_files_alone(api: httpx.AsyncClient, path: str) -> None:
    """No inline script or style, no handler in markup, nothing from elsewhere: it is forbidden, and nothing tries."""
    answer = await api.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|javascript:|https?://", answer.text)
    files = re.findall(r'(?:src|href)="/static/([^"]+)"', answer.text)
    assert len(files) == 3
    assert all(finders.find(file) for file in files)


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_says_what_is_missing_without_javascript(api: httpx.AsyncClient, path: str) -> None:
    """Everything but that is hidden until its script has begun."""
    text = (await api.get(path)).text
    assert re.search(r"<noscript>.*JavaScript.*</noscript>", text)
    assert "<main hidden" in text


@pytest.mark.parametrize("path", PAGES)
async def test_every_field_has_a_label(api: httpx.AsyncClient, path: str) -> None:
    """Whatever is typed into is named for who cannot see it; what is hidden is for password managers."""
    text = (await api.get(path)).text
    fields = {match[1] for match in re.finditer(r'<input id="([^"]+)"(?![^>]*\shidden)', text)}
    assert fields
    assert fields <= set(re.findall(r'<label for="([^"]+)"', text))


def test_scripts_find_what_they_look_for() -> None:
    """Each id that a script asks for is in its page, and no script writes markup."""
    scripts = {"security": "security"}
    for page, script in scripts.items():
        html = get_template(f"accounts/pages/{page}.html").render()
        code = _script(script) + _shared()
        assert set(re.findall(r'\$\("([\w-]+)"\)', code)) <= set(re.findall(r'id="([\w-]+)"', html))
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|setTimeout\(", code)


@pytest.mark.parametrize(("page", "kind"), [(FORGOT, "reset_password"), (AGAIN, "verify_email")])
async def test_a_message_is_asked_for_without_a_script(
    api: httpx.AsyncClient, user: User, page: str, kind: str
) -> None:
    """One answer, no matter who has an account; the message goes to who has."""
    answers = [await api.post(page, data={"email": email}) for email in (user.email, "nobody@example.com")]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    assert "is on its way" in answers[0].text
    assert "<script" not in answers[0].text
    sent = [(mail.recipient, mail.kind) async for mail in OutgoingMail.objects.exclude(recipient="")]
    assert sent == [(user.email, kind)]


@pytest.mark.parametrize("page", [FORGOT, AGAIN])
async def test_what_is_wrong_is_said_and_nothing_is_lost(
    api: httpx.AsyncClient, transactional_db: None, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No address, one that is none, one with markup, another site's form, too many, and a database that is away."""
    for email, status in (("", 400), ("nobody", 400), ('"><script>@example.com', 400)):
        answer = await api.post(page, data={"email": email})
        assert answer.status_code == status
        assert f'value="{escape(email)}"' in answer.text
        assert 'role="alert"' in answer.text
        assert "<script>@" not in answer.text
    mine = {"email": "mia@example.com"}
    answer = await api.post(page, data=mine, headers={"Sec-Fetch-Site": "cross-site"})
    assert (answer.status_code, 'value="mia@example.com"' in answer.text) == (403, True)

    async def away(**_: object) -> None:
        raise Unavailable

    monkeypatch.setattr(email_services, "request_password_reset", away)
    monkeypatch.setattr(email_services, "resend_verification", away)
    answer = await api.post(page, data=mine)
    assert (answer.status_code, 'value="mia@example.com"' in answer.text) == (503, True)
    assert not await OutgoingMail.objects.aexists()


async def test_signing_in_says_what_comes_first(
    api: httpx.AsyncClient, transactional_db: None, settings: Settings
) -> None:
    """Where addresses have to be proved, the page says it before anything is typed; elsewhere it does not."""
    for mode, said in (("required", True), ("optional", False), ("off", False)):
        settings.IRONAUTH_EMAIL_VERIFICATION = mode
        text = (await api.get("/account/signin")).text
        assert ('<a href="/account/verify-again">ask for another message</a>' in text) == said


@pytest.mark.parametrize(("page", "forms"), [("security", 7)])
def test_a_problem_stands_beside_the_fields_it_is_about(page: str, forms: int) -> None:
    """In the form, or in its card, so that a screen reader and the eye find it where the fields are."""
    html = get_template(f"accounts/pages/{page}.html").render()
    parts = re.findall(r"<(?:section|details|dialog)\b.*?</(?:section|details|dialog)>", html, re.DOTALL)
    with_form = [part for part in parts if "<form" in part]
    assert len(with_form) == forms
    assert all('role="alert"' in part for part in with_form)
    code = _script("passkeys")
    assert all(f'setAttribute("{name}"' in code for name in ("aria-invalid", "aria-describedby"))
    assert ".focus()" in code


@pytest.mark.parametrize(
    ("form", "path", "fields"),
    [
        ("password", "password", {"current_password", "new_password"}),
        ("email", "email", {"new_email", "password"}),
    ],
)
def test_the_account_is_changed_by_the_apis_calls(form: str, path: str, fields: set[str]) -> None:
    """Each form's fields are those the call takes, by the path the script posts to."""
    html = get_template("accounts/pages/security.html").render()
    (own,) = re.findall(rf'<form id="{form}-form".*?</form>', html, re.DOTALL)
    assert set(re.findall(r' name="(\w+)"', own)) == fields
    called = dict(re.findall(r'change\("(\w+)", "([/\w]+)"', _script("security")))
    assert resolve(f"/api/v1/access{called[form]}").url_name == path


def test_what_is_held_is_downloaded_by_the_apis_call() -> None:
    """The button asks for a recent sign-in where the call wants one; the file has its name from what came."""
    html = get_template("accounts/pages/security.html").render()
    assert re.search(r'<button id="export" type="button">', html)
    (asked,) = re.findall(r'recently\(\(\) => call\("GET", "(/me/\w+)"\)\)', _script("security"))
    assert resolve(f"/api/v1/access{asked}").url_name == "me-export"


def test_the_account_is_deleted_by_the_apis_call() -> None:
    """The form has the field that the call takes; a recent sign-in is asked for where the call wants one."""
    html = get_template("accounts/pages/security.html").render()
    (own,) = re.findall(r'<form id="delete-form".*?</form>', html, re.DOTALL)
    assert set(re.findall(r' name="(\w+)"', own)) == set(DeleteAccountInput().fields)
    assert 'recently(() => call("DELETE", "/me", { password: $("delete-password").value }))' in _script("security")


@pytest.mark.parametrize(("days", "said"), [(0, "at once and for good"), (1, "For 1 day you"), (30, "For 30 days you")])
async def test_a_deletion_says_how_long_it_can_be_taken_back(
    api: httpx.AsyncClient, settings: Settings, days: int, said: str
) -> None:
    """Before, in the card of the form, and after; without days of grace nobody is promised any."""
    settings.IRONAUTH_DELETION_GRACE_DAYS = days
    text = (await api.get("/account/security")).text
    assert said in text
    assert ("take that back by the link" in text, "A message to you has the link" in text) == (days > 0,) * 2


def _shared() -> str:
    return "".join(_script(name) for name in ("account", "passkeys"))


def _script(name: str) -> str:
    return Path(str(finders.find(f"accounts/{name}.js"))).read_text()


async def test_a_deployment_brings_its_own_page(api: httpx.AsyncClient, settings: Settings, tmp_path: Path) -> None:
    """A template of the same name in the deployment's folder takes the place of ours, under the same policy."""
    folder = tmp_path / "accounts" / "pages"
    folder.mkdir(parents=True)
    (folder / "forgot.html").write_text("<title>Ours</title>")
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]
    answer = await api.get("/account/forgot")
    assert answer.text == "<title>Ours</title>"
    assert answer.headers["content-security-policy"] == account_pages.FORM_HEADERS["Content-Security-Policy"]
