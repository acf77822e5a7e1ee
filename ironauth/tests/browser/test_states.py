"""The pages in states that no journey passes: refused forms, empty lists and full ones, names that are far too long."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission
from playwright.async_api import Locator, expect

from accounts.admin.tests.second_step import Enrolled
from accounts.federation.models import Identity, KeptTokens, UpstreamProvider
from accounts.federation.secrets import seal_into
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.mfa.passkeys.models import Passkey
from accounts.tests.mail_files import LINK
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.tests.browser import watched
from ironauth.tests.browser.conftest import OpenPage, OpenSite, Site
from ironauth.tests.browser.keyboard import faults_by_keyboard
from ironauth.tests.browser.test_oauth import link
from ironauth.tests.browser.watched import PICTURES, Watched
from tokens.clients.models import OAuthClient
from tokens.oauth.models import Consent
from tokens.oauth.tests.material import make_client
from tokens.protocol import GrantType
from tokens.sessions.models import LONG_AGO, Session

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

#: German has the longest words; the others are shown where somebody looks at the pictures.
LANGUAGES: Final = ["de", "en", "fr", "es"] if PICTURES else ["de"]
EMAIL: Final = "maximiliane.von-und-zu-donaudampfschifffahrt@verwaltung.tochtergesellschaft.example.com"
NAME: Final = "Maximiliane Donaudampfschifffahrtsgesellschaftskapitänswitwe von der Lindenau-Hohenschwangau"
CLIENT: Final = "Betriebsfeuerwehrfahrzeugersatzteilverwaltung der Region Südwest und Umgebung"
AGENT: Final = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
WEAK: Final = "password password"
BAD_NAME: Final = "Mia \u202e"  # that is read as another one
WRONG: Final = "not the password at all"
SCOPES: Final = "openid profile email roles offline_access account inventory:write"


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "VIEWS", ((320, 640, "dark"), (1280, 900, "light")))


def site_of(open_site: OpenSite) -> Site:
    """Return a server with all that pages can show."""
    return open_site(
        IRONAUTH_BRAND_NAME="Donaudampfschifffahrtsgesellschaft Süd-West",
        IRONAUTH_BRAND_ACCENT="#ffd400",
        IRONAUTH_SUPPORT_URL="https://example.com/help",
        IRONAUTH_TERMS_URL="https://example.com/terms",
        IRONAUTH_PRIVACY_URL="https://example.com/privacy",
        IRONAUTH_TERMS_VERSION="2026-11",
        IRONAUTH_EMAIL_VERIFICATION="required",
        IRONAUTH_SIGN_IN_BY_EMAIL="1",
        IRONAUTH_KEEP_DEVICE_DAYS="30",
        IRONAUTH_SIGN_IN_AS="1",
    )


def form(shown: Watched, field: str) -> Locator:
    """Return the form that has the field."""
    return shown.page.locator("form", has=shown.page.locator(f"[name={field}]:visible")).first


async def send(shown: Watched, status: int, **typed: str) -> None:
    """Fill in the fields of a form by their names, and send it, whatever the browser thinks of it."""
    found = form(shown, next(iter(typed)))
    await found.evaluate("form => { form.noValidate = true; }")
    for name, text in typed.items():
        await found.locator(f"[name={name}]").fill(text)
    with shown.refusing(status) if status >= 400 else nullcontext():
        async with shown.page.expect_navigation():
            await found.locator("button[type=submit]:visible").first.click()


async def refused(shown: Watched, name: str, *, in_view: bool = True) -> None:
    """See that what is wrong is said where it is seen, and look at the page."""
    said = shown.page.locator(".reasons:visible, [role=alert]:visible").first
    await expect(said).not_to_be_empty()
    if in_view:
        await expect(said).to_be_in_viewport()
    await shown.look(name)


async def looked(shown: Watched, name: str) -> None:
    """Look at a page that somebody acts on, and go through it by keyboard, on the smallest phone and a desktop."""
    await shown.look(name)
    for width, height in ((320, 640), (1280, 900)):
        await shown.page.set_viewport_size({"width": width, "height": height})
        assert await faults_by_keyboard(shown.page) == [], f"{name} at {width} px"


async def person(**fields: object) -> User:
    """Make the person with the long name."""
    made = User.objects.create_user
    return await sync_to_async(made)(EMAIL, PASSWORD, name=NAME, email_verified_at=clock.now(), **fields)


def elsewhere(user: User) -> None:
    """Let the person have two identities at other providers; for the first one, access there is kept."""
    scope = " ".join(
        f"https://www.provider.example/auth/{name}" for name in ("calendar.events.readonly", "drive.metadata")
    )
    for name, slug in ((CLIENT, "kept"), ("Acme", "acme")):
        row = UpstreamProvider(slug=slug, name=name, kind="oidc", issuer=f"https://{slug}.example", client_id="us")
        row.keep_tokens = slug == "kept"
        seal_into(row, "secret")
        row.save()
        one = Identity.objects.create(user=user, provider=row, issuer=row.issuer, subject="1", email=user.email)
        if row.keep_tokens:
            KeptTokens.objects.create(
                identity=one, provider=row, sealed=b"sealed", master_key_id="1", scope=scope, can_refresh=True,
                kept_at=clock.now(),
            )  # fmt: skip


async def sign_in(shown: Watched) -> None:
    """Be signed in on the pages."""
    body = {"email": EMAIL, "password": PASSWORD, "transport": "cookie"}
    assert (await shown.page.context.request.post(f"{shown.origin}/api/v1/access/signin", data=body)).ok


@asynccontextmanager
async def long_ago(shown: Watched) -> AsyncIterator[None]:
    """Have the browser's last proof be older than ten minutes; its next page gets a token of that age."""
    await Session.objects.all().aupdate(authenticated_at=LONG_AGO)
    await shown.page.context.clear_cookies(name="access_token")
    yield


@pytest.mark.parametrize("language", LANGUAGES)
async def test_ways_in(language: str, open_site: OpenSite, open_page: OpenPage) -> None:
    """Signing in and up, codes and links: what is refused, what was sent, what is of no use any more."""
    site = site_of(open_site)
    shown = await open_page(site, locale=language)
    page = shown.page
    await shown.go("/account/signup")
    await send(shown, 400, email="x", name=BAD_NAME, password="short")
    await refused(shown, f"state-sign-up-refused-{language}")
    await shown.go("/account/signup")
    await page.locator("#password").fill("several words that do not belong together")
    await expect(page.locator("#strength-text")).not_to_be_empty()
    await shown.look(f"state-sign-up-strength-{language}")
    await page.locator("[name=terms_version]").check()
    await send(shown, 200, email="new@example.com", name="", password=PASSWORD)
    await shown.look(f"state-sign-up-code-{language}")
    await send(shown, 401, code="000000")
    await refused(shown, f"state-sign-up-code-refused-{language}")

    await person()
    await shown.go("/account/signin")
    await send(shown, 401, email=EMAIL, password=WRONG)
    await refused(shown, f"state-sign-in-refused-{language}")
    await page.locator("form[action$='/oauth/forgot'] button").click()
    await send(shown, 400, email="x")
    await refused(shown, f"state-forgot-refused-{language}")
    await send(shown, 200, email=EMAIL)
    await shown.look(f"state-forgot-sent-{language}")
    await shown.go("/account/signin")
    await page.locator("form[action$='/oauth/signin/email'] button").click()
    await send(shown, 400, email="x")
    await refused(shown, f"state-email-code-address-refused-{language}")
    await send(shown, 200, email=EMAIL)
    await send(shown, 401, code="1")
    await refused(shown, f"state-email-code-refused-{language}")
    await shown.go("/account/verify-again")
    await send(shown, 400, email="x")
    await refused(shown, f"state-verify-again-refused-{language}")
    await send(shown, 200, email=EMAIL)
    await shown.look(f"state-verify-again-sent-{language}")
    for path in ("/password/reset", "/oauth/reset", "/email/verify", "/account/restore", "/account/invitation"):
        with shown.refusing(400):
            await shown.go(f"{path}?token=x")
        await refused(shown, f"state-stale{path.replace('/', '-')}-{language}")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_password_by_a_link(language: str, open_site: OpenSite, open_page: OpenPage) -> None:
    """Rules before anything is typed, the meter while it is, what the server says afterwards, and that it is done."""
    site = site_of(open_site)
    await person()
    shown = await open_page(site, locale=language)
    page = shown.page
    async with httpx.AsyncClient(base_url=site.origin, timeout=30) as api:
        assert (await api.post("/api/v1/access/password/reset", json={"email": EMAIL})).status_code == 202
    address = LINK.findall(site.mail.take(EMAIL, "Choose a new password"))[0]
    await shown.go(address)
    await looked(shown, f"state-reset-{language}")
    await page.locator("#new_password").fill(WEAK)
    await expect(page.locator("#strength")).to_be_visible()
    await shown.look(f"state-reset-strength-{language}")
    await send(shown, 400, new_password=WEAK)
    await refused(shown, f"state-reset-refused-{language}")
    await send(shown, 200, new_password="seven amber kites over Lyon")
    await shown.look(f"state-reset-done-{language}")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_an_account_full_of_long_names(language: str, open_site: OpenSite, open_page: OpenPage) -> None:
    """Each list with entries, each form refused, and what asks for another proof after ten minutes."""
    site = site_of(open_site)
    user = await person()
    client, _ = await sync_to_async(make_client)(name=CLIENT)
    await Consent.objects.acreate(user=user, client=client, scope=SCOPES)
    await KeptDevice.objects.acreate(
        user=user, digest="a" * 64, epoch=user.session_epoch, user_agent=AGENT,
        expires_at=clock.now() + timedelta(days=30),
    )  # fmt: skip
    shown = await open_page(site, locale=language)
    page = shown.page
    await sync_to_async(elsewhere)(user)
    async with httpx.AsyncClient(base_url=site.origin, timeout=30, headers={"User-Agent": AGENT}) as api:
        body = {"email": EMAIL, "password": PASSWORD}
        assert (await api.post("/api/v1/access/signin", json=body)).status_code == 200
    await sign_in(shown)
    for row in ("", "/applications", "/devices", "/identities", "/sessions", "/name", "/email"):
        await shown.go(f"/account/security{row}")
        await looked(shown, f"state-full-account{row.replace('/', '-')}-{language}")
    await shown.go("/account/security/name")
    await send(shown, 400, name=BAD_NAME)
    await refused(shown, f"state-name-refused-{language}")
    await shown.go("/account/security/email")
    await send(shown, 400, new_email="x", password=PASSWORD)
    await refused(shown, f"state-email-refused-{language}")
    await shown.go("/account/security/password")
    await page.locator("#new_password").fill("several words that do not belong together")
    await expect(page.locator("#strength")).to_be_visible()
    await shown.look(f"state-password-strength-{language}")
    await send(shown, 400, current_password=PASSWORD, new_password=WEAK)
    await refused(shown, f"state-password-refused-{language}")
    await send(shown, 401, current_password=WRONG, new_password="seven amber kites over Lyon")
    await refused(shown, f"state-password-wrong-{language}")
    await shown.go("/account/security/delete")
    await send(shown, 401, password=WRONG)
    await refused(shown, f"state-delete-refused-{language}")
    with shown.refusing(404):
        await shown.go("/account/security/no-such-row")
    await refused(shown, f"state-no-row-{language}")

    async with long_ago(shown):
        await shown.go("/account/security/data")
        await shown.look(f"state-proof-by-password-{language}")
        await send(shown, 401, proof_password=WRONG)
        await refused(shown, f"state-proof-by-password-refused-{language}")
    await sync_to_async(Enrolled)(user)
    await Passkey.objects.acreate(
        user=user, credential_id=b"c", public_key=b"k", sign_count=0, name=NAME, backup_eligible=False,
        backed_up=False, aaguid="00000000-0000-0000-0000-000000000000",
    )  # fmt: skip
    async with long_ago(shown):
        for row in ("passkeys", "codes", "recovery", "email", "password", "delete", "data"):
            await shown.go(f"/account/security/{row}")
            await looked(shown, f"state-proof-{row}-{language}")
        await shown.go("/account/security/passkeys")
        await page.locator(".list li > a").click()
        await looked(shown, f"state-one-passkey-{language}")
        await shown.go("/account/security/data")
        await send(shown, 401, proof_code="000000")
        await refused(shown, f"state-proof-code-refused-{language}")
        await page.locator("summary").click()
        await send(shown, 401, proof_recovery_code="aaaa-bbbb-cccc-dddd")
        await refused(shown, f"state-proof-recovery-refused-{language}")

    await page.context.clear_cookies()
    await shown.go("/account/signin")
    await send(shown, 200, email=EMAIL, password=PASSWORD)
    await looked(shown, f"state-second-factor-{language}")
    await send(shown, 401, code="000000")
    await refused(shown, f"state-second-factor-refused-{language}")
    await page.locator("button[name=recovery]").click()
    await looked(shown, f"state-second-factor-recovery-{language}")
    await send(shown, 401, code="aaaa-bbbb-cccc-dddd")
    await refused(shown, f"state-second-factor-recovery-refused-{language}")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_on_the_way_to_a_client(language: str, open_site: OpenSite, open_page: OpenPage) -> None:
    """Consent, choice, device, errors, sign-out, for an application and a person with long names."""
    site = site_of(open_site)
    await person()
    grants = [GrantType.AUTHORIZATION_CODE.value, GrantType.REFRESH_TOKEN.value, GrantType.DEVICE_CODE.value]
    client, secret = await sync_to_async(make_client)(name=CLIENT, grants=grants, scopes=SCOPES.split())
    shown = await open_page(site, locale=language)
    page = shown.page
    await asked(shown, client, "sign-in", language)
    await send(shown, 200, email=EMAIL, password=PASSWORD)
    await looked(shown, f"state-consent-{language}")
    await asked(shown, client, "choice", language, prompt="select_account")
    await asked(shown, client, "sign-up", language, prompt="create")
    with shown.refusing(400):
        await shown.go(link(client, client_id="nobody"))
    await refused(shown, f"state-oauth-error-{language}")
    with shown.refusing(405):
        await shown.go("/oauth/signin")
    await refused(shown, f"state-oauth-form-{language}")
    await shown.go("/oauth/device")
    await send(shown, 400, user_code="WRONG")
    await refused(shown, f"state-device-refused-{language}")
    async with httpx.AsyncClient(base_url=site.origin, timeout=30) as api:
        whose: dict[str, Any] = {"data": {"scope": "openid profile email"}, "auth": (str(client.pk), secret)}
        begun = [await api.post("/oauth/device_authorization", **whose) for _ in range(2)]
    codes = [one.json()["user_code"] for one in begun]
    for code, decision in zip(codes, ("allow", "deny"), strict=True):
        await shown.go("/oauth/device")
        await send(shown, 200, user_code=code)
        await looked(shown, f"state-device-{decision}-{language}")
        await page.locator(f"button[value={decision}]").first.click()
        await expect(page.locator("[role=status]")).to_be_visible()
        await shown.look(f"state-device-{decision}-done-{language}")
    await shown.go(f"/oauth/logout?{urlencode({'client_id': str(client.pk)})}")
    await looked(shown, f"state-sign-out-{language}")
    await page.locator("form[action$='/oauth/logout'] button").click()
    await expect(page.locator("[role=status]")).to_be_visible()
    await shown.look(f"state-signed-out-{language}")


async def asked(shown: Watched, client: OAuthClient, name: str, language: str, **changes: str) -> None:
    """Look at the page that the client's request leads to."""
    await shown.go(link(client, scope=SCOPES, **changes))
    await looked(shown, f"state-oauth-{name}-{language}")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_banner_of_acting_staff(language: str, open_site: OpenSite, open_page: OpenPage) -> None:
    """With long names, above a page of the account, one on the way to a client and an error page; nothing is hidden."""
    site = site_of(open_site)
    user = await person()
    made = sync_to_async(User.objects.create_user)
    helper = await made(f"helper.{EMAIL}", PASSWORD, name=f"Dr. {NAME}", is_staff=True, email_verified_at=clock.now())
    wanted = Permission.objects.filter(codename__in=("view_user", "sign_in_as"))
    await helper.user_permissions.aadd(*[one async for one in wanted])
    enrolled = await sync_to_async(Enrolled)(helper)
    shown = await open_page(site, locale=language)
    page = shown.page
    await shown.go("/admin/")
    await page.locator("[name=username]").fill(helper.email)
    await page.locator("[name=password]").fill(PASSWORD)
    await page.locator("[type=submit]").click()
    await page.locator("[name=code]").fill(enrolled.code())
    await page.locator("[type=submit]").click()
    await shown.go(f"/admin/accounts/user/{user.pk}/sign-in-as/")
    await page.locator("[name=reason]").fill("ticket 7")
    await page.locator("main [type=submit], #content [type=submit]").first.click()
    await expect(page.locator(".acting")).to_be_visible()
    for path in ("/account/security", "/account/security/password", "/oauth/device", "/"):
        await shown.go(path)
        await expect(page.locator(".acting")).to_have_count(1)
        await looked(shown, f"state-acting{path.replace('/', '-')}-{language}")
    with shown.refusing(404):
        await shown.go("/no-such-page")
    await expect(page.locator(".acting")).to_be_visible()
    await looked(shown, f"state-acting-nothing-{language}")
