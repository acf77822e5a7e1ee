"""The password meter without a script: a button judges what was typed; nothing is set, nothing else typed is lost."""

import re
from collections.abc import Awaitable, Callable

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import transaction
from pytest_django import Settings

from accounts.invitations import units as invitations
from accounts.invitations.models import Invitation
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken
from accounts.pages import meter
from accounts.users.models import User
from conftest import PASSWORD
from tokens.oauth.tests.walk import forms, send
from tokens.tests.browser import SAME_ORIGIN, Member, by_cookie

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]

WEAK, SHORT, GOOD = "aaaaaaaaaaaaaaaaab", "short one", "seven amber kites over Lyon"
CHECK = {"check_password": "1"}


@pytest.mark.parametrize(
    ("password", "level", "is_refused"),
    [
        ("", 0, True),
        ("x" * 14, 0, True),
        (WEAK, 1, False),
        ("passwordpassword", 1, True),
        ("abcdefgh kites lyon", 3, False),
        (GOOD, 4, False),
    ],
)
def test_how_good_it_looks(password: str, level: int, settings: Settings, *, is_refused: bool) -> None:
    """As the script says; never good where the policy refuses."""
    settings.IRONAUTH_PASSWORD_MIN_LENGTH = 15
    found = meter.judged(password)
    assert (found.level, bool(found.reasons)) == (level, is_refused)


def test_the_persons_own_name_and_address_are_weak() -> None:
    """What the page knows of the person counts."""
    typed = "margaret.hamilton1969"
    known = meter.judged(typed, email="margaret.hamilton@example.com", name="Margaret Hamilton")
    assert known.level <= 1
    assert known.reasons


async def at_sign_up(api: httpx.AsyncClient, member: Member) -> tuple[httpx.Response, dict[str, str], str]:
    typed = {"email": "new@example.com", "name": "Mia <M>", "terms_version": ""}
    return await api.get("/account/signup"), typed, "password"


async def at_invitation(api: httpx.AsyncClient, member: Member) -> tuple[httpx.Response, dict[str, str], str]:
    def link() -> str:
        root = User.objects.create_superuser("root@example.com")
        values = {"email": "ida@example.com", "name": "", "language": "", "roles": []}
        with transaction.atomic():
            made = invitations.invite(actor_id=root.pk, values=values)
        token = Invitation.objects.get(pk=made.id).token
        assert token is not None
        return email_tokens.text(token)

    page = await api.get("/account/invitation", params={"token": await sync_to_async(link)()})
    return page, {"name": "Ida"}, "password"


def _reset_token(member: Member) -> str:
    with transaction.atomic():
        token_id = email_tokens.issue(
            purpose=email_tokens.Purpose.RESET_PASSWORD, user_id=User.objects.get(pk=member["id"]).pk
        )
    return email_tokens.text(EmailToken.objects.get(pk=token_id))


async def at_reset(api: httpx.AsyncClient, member: Member) -> tuple[httpx.Response, dict[str, str], str]:
    token = await sync_to_async(_reset_token)(member)
    return await api.get("/password/reset", params={"token": token}), {}, "new_password"


async def at_oauth_reset(api: httpx.AsyncClient, member: Member) -> tuple[httpx.Response, dict[str, str], str]:
    token = await sync_to_async(_reset_token)(member)
    return await api.get("/oauth/reset", params={"token": token}), {}, "new_password"


async def at_account(api: httpx.AsyncClient, member: Member) -> tuple[httpx.Response, dict[str, str], str]:
    await by_cookie(api, member)
    api.headers.update(SAME_ORIGIN)
    return await api.get("/account/security/password"), {"current_password": "typed too"}, "new_password"


type Page = Callable[[httpx.AsyncClient, Member], Awaitable[tuple[httpx.Response, dict[str, str], str]]]
PAGES: list[Page] = [at_sign_up, at_invitation, at_reset, at_oauth_reset, at_account]


async def checked(api: httpx.AsyncClient, page: httpx.Response, path: str, **typed: str) -> httpx.Response:
    """Press the button of the page."""
    action, fields = _form(page.text)
    return await api.post(action or path, data={**fields, **typed, **CHECK}, headers=SAME_ORIGIN)


def _form(text: str) -> tuple[str, dict[str, str]]:
    for attributes, body in re.findall(r"<form([^>]*)>(.*?)</form>", text, re.DOTALL):
        if "check_password" in body:
            inputs = re.findall(r'<input[^>]*name="([^"]+)"(?:[^>]*value="([^"]*)")?', body)
            action = re.search(r'action="([^"]+)"', attributes)
            return action[1] if action else "", dict(inputs)
    raise AssertionError(text)


@pytest.mark.parametrize("at", PAGES, ids=lambda one: one.__name__)
async def test_every_page_with_a_new_password(
    api: httpx.AsyncClient, member: Member, settings: Settings, at: Page
) -> None:
    """It says how good it is and what would be better; the password is not in the page, the rest is; nothing is set."""
    settings.IRONAUTH_SIGN_UP = "invitation" if at is at_invitation else "open"
    page, typed, name = await at(api, member)
    assert page.status_code == 200, page.text
    assert '<meter id="strength"' in page.text
    assert re.search(r"<meter [^>]*hidden", page.text)
    people = await User.objects.acount()
    for password, words in ((GOOD, "Very good"), (SHORT, "Too short"), ("", "Too short")):
        answer = await checked(api, page, page.request.url.path, **typed, **{name: password})
        assert answer.status_code == 200, answer.text
        assert not re.search(r"<meter [^>]*hidden", answer.text)
        assert words in answer.text.split('id="strength-text"')[1].split("</p>")[0].split(">")[1]
        assert "Nothing was saved." in answer.text
        assert not password or password not in answer.text
        assert "typed too" not in answer.text
        assert ('class="reasons"' in answer.text) is (password != GOOD)
        if "name" in typed:
            assert typed["name"].replace("<", "&lt;").replace(">", "&gt;") in answer.text
        page_fields = _form(answer.text)[1]
        assert "email" not in typed or page_fields["email"] == typed["email"]
    assert await User.objects.acount() == people
    assert await (await User.objects.aget(pk=member["id"])).acheck_password(PASSWORD)


async def test_it_is_throttled(api: httpx.AsyncClient, throttled: None, settings: Settings) -> None:
    """The last that is allowed is judged, the next is not; what was typed is kept, and how long to wait is said."""
    settings.IRONAUTH_SIGN_UP, settings.IRONAUTH_THROTTLE_PASSKEYS = "open", 2
    page = await api.get("/account/signup")
    for _ in range(2):
        answer = await checked(api, page, "", email="new@example.com", password=GOOD)
        assert answer.status_code == 200
        assert "Very good" in answer.text.split('id="strength-text"')[1].split("</p>")[0].split(">")[1]
    answer = await checked(api, page, "", email="new@example.com", password=GOOD)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    assert 'value="new@example.com"' in answer.text
    assert "too many" in answer.text.lower()
    assert forms(answer)
    made = await send(api, answer, "/oauth/signup", email="new@example.com", password=GOOD)
    assert made.status_code in (200, 303)
