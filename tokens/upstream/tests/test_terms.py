"""Consent to the terms where an account is made: by page, by API, by invitation and with another provider."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.email.tests.test_email_flows import delivered
from accounts.federation.models import Identity, UpstreamSignIn
from accounts.invitations import units as invitations
from accounts.privacy import export
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from tokens.oauth.tests.walk import form_to, is_page, send
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.walk import is_in, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]
API, SIGNUP, TERMS, INVITATION = "/api/v1/access/signup", "/oauth/signup", "/oauth/terms", "/account/invitation"
EMAIL, VERSION = "ann@example.com", "2026-11-01"


@pytest.fixture(autouse=True)
def _terms(settings: Settings) -> None:
    settings.IRONAUTH_TERMS_VERSION, settings.IRONAUTH_TERMS_URL = VERSION, "https://example.com/terms"
    settings.IRONAUTH_PRIVACY_URL = "https://example.com/privacy"


async def accepted() -> tuple[str, bool]:
    """Return what is kept of Ann's consent: the version, and whether there is a time."""
    user = await User.objects.aget(email_key=EMAIL)
    return user.terms_version, user.terms_accepted_at is not None


async def nobody() -> bool:
    """Tell whether no account was made."""
    return not await User.objects.filter(email_key=EMAIL).aexists()


@pytest.mark.parametrize("verification", ["off", "optional", "required"])
async def test_by_api(api: httpx.AsyncClient, settings: Settings, verification: str) -> None:
    """A missing or other version is 400 with its own code; the right one is kept with its time, and in the export."""
    settings.IRONAUTH_EMAIL_VERIFICATION = verification
    body: dict[str, Any] = {"email": EMAIL, "password": PASSWORD}
    for given, code in (({}, "terms_required"), ({"terms_version": "2025"}, "other_terms")):
        refused = await api.post(API, json=body | given)
        assert (refused.status_code, refused.json()["errors"]) == (
            400,
            [{**refused.json()["errors"][0], "field": "terms_version", "code": code}],
        )
    assert await nobody()
    made = await api.post(API, json=body | {"terms_version": VERSION})
    assert made.status_code == (202 if verification == "required" else 201)
    assert "terms_version" not in made.text
    assert await accepted() == (VERSION, True)
    user = await User.objects.aget(email_key=EMAIL)
    (account,) = (await database().read(export.collect, user.pk)).sections["account"]
    assert (account["terms_version"], account["terms_accepted_at"]) == (VERSION, user.terms_accepted_at)


async def test_nobody_is_asked_without_a_version(api: httpx.AsyncClient, settings: Settings) -> None:
    """Then a version that is sent is not looked at, and none is kept; no page has the box."""
    settings.IRONAUTH_TERMS_VERSION, settings.IRONAUTH_EMAIL_VERIFICATION = "", "off"
    assert "terms_version" not in (await api.get("/account/signup")).text
    assert (await api.post(API, json={"email": EMAIL, "password": PASSWORD, "terms_version": "x"})).status_code == 201
    assert await accepted() == ("", False)


async def test_by_page(api: httpx.AsyncClient, settings: Settings) -> None:
    """The box is required and has its links; without it, or with the box of an older page, the page says what to do."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "off"
    page = await api.get("/account/signup")
    for shown in ('type="checkbox"', 'href="https://example.com/terms"', 'href="https://example.com/privacy"', VERSION):
        assert shown in page.text
    typed = {"email": EMAIL, "password": PASSWORD}
    page = await send(api, page, SIGNUP, **typed, terms_version="")
    assert is_page(page, 400, "Accept the terms to create an account.", 'id="terms_version-problem"')
    page = await send(api, page, SIGNUP, **typed, terms_version="2025")
    assert is_page(page, 400, "The terms have changed meanwhile")
    assert " checked" not in page.text
    page = await send(api, page, SIGNUP, email=EMAIL, password="short")
    assert is_page(page, 400, " checked")  # nothing that was typed is lost
    assert await nobody()
    assert is_in(await send(api, page, SIGNUP, **typed))
    assert await accepted() == (VERSION, True)


async def test_by_invitation(api: httpx.AsyncClient, settings: Settings) -> None:
    """The page of an invitation has the box too, and the link still works after a refusal."""
    settings.IRONAUTH_SIGN_UP = "invitation"
    root = await sync_to_async(User.objects.create_superuser)("root@example.com")
    values = {"email": EMAIL, "name": "", "language": "", "roles": []}
    await database().write(invitations.invite, actor_id=root.pk, values=values)
    ((_, _, token),) = await delivered()
    page = await api.get(INVITATION, params={"token": token})
    assert is_page(page, 200, 'type="checkbox"', VERSION)
    form = {"token": token or "", "password": PASSWORD}
    assert is_page(await api.post(INVITATION, data=form), 400, "Accept the terms to create an account.")
    assert is_page(await api.post(INVITATION, data=form | {"terms_version": "2025"}), 400, "The terms have changed")
    assert await nobody()
    assert is_page(await api.post(INVITATION, data=form | {"terms_version": VERSION}), 200, "Your account is ready")
    assert await accepted() == (VERSION, True)


# ---------------------------------------------------------------- with another provider
async def test_with_another_provider(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """A page asks before the account is made; a refusal shows it again, and then there is account and identity."""
    provider.claims = {"given_name": "Ann"}
    page = await through(api, provider)
    assert is_page(page, 200, "One step is left", VERSION)
    assert await nobody()
    page = await send(api, page, TERMS, terms_version="")
    assert is_page(page, 400, "Accept the terms to create an account.")
    assert await nobody()
    assert is_in(await send(api, page, TERMS))
    assert await accepted() == (VERSION, True)
    user = await User.objects.aget(email_key=EMAIL)
    identity = await Identity.objects.aget()
    assert (user.name, user.email_verified_at is not None, identity.user_id) == ("Ann", True, user.pk)
    assert user.given_name == "Ann"
    assert not await UpstreamSignIn.objects.aexists()
    assert is_in(await through(api, provider))  # nobody is asked twice


async def test_the_page_works_once(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """Sent again it makes nothing: the identity does not wait any more."""
    page = await through(api, provider)
    assert is_in(await send(api, page, TERMS))
    assert is_page(await send(api, page, TERMS), 400)
    assert (await User.objects.acount(), await Identity.objects.acount()) == (1, 1)


async def test_in_another_browser_it_is_no_page(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """The state in it belongs to the browser that came back from the provider."""
    page = await through(api, provider)
    api.cookies.clear()
    assert (await send(api, page, TERMS)).status_code == 400
    assert await nobody()


async def test_consent_makes_no_unverified_account(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """An identity that waits for something else is made no account of, whatever form its page is sent to."""
    provider.claims = {"email_verified": False}
    page = await through(api, provider)
    assert is_page(page, 200, "Create an account")
    signed = form_to(page, SIGNUP).fields["request"]
    answer = await api.post(TERMS, data={"request": signed, "terms_version": VERSION})
    assert answer.status_code == 400
    assert await nobody()


async def test_sign_up_closed_meanwhile(api: httpx.AsyncClient, provider: FakeProvider, settings: Settings) -> None:
    """The rules are asked again when the page is sent."""
    page = await through(api, provider)
    settings.IRONAUTH_SIGN_UP = "closed"
    assert is_page(await send(api, page, TERMS), 200, "Sign in")
    assert await nobody()


async def test_an_hour_later_it_is_over(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """What waits has an end."""
    page = await through(api, provider)
    with clock.shifted(7_200):
        assert (await send(api, page, TERMS)).status_code == 400
    assert await nobody()
