"""The pages for people without a product front end: nothing of anybody in them, nothing they could be made to run."""

from pathlib import Path

import httpx
import pytest
from django.utils.html import escape
from pytest_django import Settings

from accounts.email import services as email_services
from accounts.outbox.models import OutgoingMail
from accounts.pages import account as account_pages
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core.errors import Unavailable

FORGOT, AGAIN = "/account/forgot", "/account/verify-again"


@pytest.fixture
def user(transactional_db: None) -> User:
    """Make one person, whose address is not proved."""
    return User.objects.create_user("mia@example.com", PASSWORD)


@pytest.mark.parametrize(
    ("path", "status"), [("/account", 302), ("/account/", 302), ("/account/x", 404), ("/accoun", 404)]
)
async def test_the_address_people_guess_leads_on(api: httpx.AsyncClient, path: str, status: int) -> None:
    """Anybody who types the beginning of the pages' address gets to them; what else is not there is not there."""
    answer = await api.get(path)
    assert answer.status_code == status
    assert answer.headers.get("location") == ("/account/security" if status == 302 else None)


@pytest.mark.parametrize(("page", "kind"), [(FORGOT, "reset_password"), (AGAIN, "verify_email")])
async def test_a_message_is_asked_for_without_a_script(
    api: httpx.AsyncClient, user: User, page: str, kind: str
) -> None:
    """One answer, no matter who has an account; the message goes to who has."""
    asked = (user.email, "nobody@example.com")
    answers = [await api.post(page, data={"email": email}) for email in asked]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert [f"<strong>{email}</strong>" in one.text for email, one in zip(asked, answers, strict=True)] == [True, True]
    texts = [one.text.replace(email, "") for email, one in zip(asked, answers, strict=True)]
    assert texts[0] == texts[1]
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
        assert ("Ask for a message</button>" in text) == said


async def test_a_deployment_brings_its_own_page(api: httpx.AsyncClient, settings: Settings, tmp_path: Path) -> None:
    """A template of the same name in the deployment's folder takes the place of ours, under the same policy."""
    folder = tmp_path / "accounts" / "pages"
    folder.mkdir(parents=True)
    (folder / "forgot.html").write_text("<title>Ours</title>")
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]
    answer = await api.get("/account/forgot")
    assert answer.text == "<title>Ours</title>"
    assert answer.headers["content-security-policy"] == account_pages.FORM_HEADERS["Content-Security-Policy"]
