"""Staff take a lost passkey away, and a provider is switched off, in a browser."""

import pytest
from playwright.async_api import expect

from accounts.admin.tests.second_step import Enrolled
from accounts.federation.models import Identity, UpstreamProvider
from accounts.federation.secrets import seal_into
from accounts.federation.tests.test_last_way_in import passkey_of, take_password
from accounts.mfa.passkeys.models import Passkey
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.tests.browser.conftest import OpenPage, OpenSite, Site

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

ROOT, MIA = "root@example.com", "mia@example.com"


@pytest.fixture
def site(open_site: OpenSite) -> Site:
    """A server."""
    return open_site()


@pytest.fixture
def provider(site: Site) -> UpstreamProvider:
    """A provider with which Mia signs in."""
    row = UpstreamProvider(slug="acme", name="Acme", kind="oidc", issuer="https://acme.example", client_id="us")
    seal_into(row, "s3cret of a provider")
    row.save()
    return row


@pytest.fixture
def mia(provider: UpstreamProvider) -> User:
    """Somebody without a password, who has lost the passkey."""
    user = User.objects.create_user(MIA, PASSWORD, name="Mia", email_verified_at=clock.now())
    passkey_of(user)
    Identity.objects.create(
        user=user, provider=provider, issuer=provider.issuer, subject="mia", email="mia@acme.example"
    )
    take_password(user)
    return user


@pytest.fixture
def root(site: Site) -> Enrolled:
    """A superuser with an app."""
    return Enrolled(User.objects.create_superuser(ROOT, PASSWORD))


async def test_a_lost_passkey_and_a_provider(
    site: Site, mia: User, root: Enrolled, provider: UpstreamProvider, open_page: OpenPage
) -> None:
    """From the person's page to the list, one goes; then the provider is asked about, for it is the last way in."""
    shown = await open_page(site)
    page = shown.page
    await shown.go("/admin/")
    await page.get_by_label("E-mail address:").fill(ROOT)
    await page.get_by_label("Password:").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_label("Code", exact=True).fill(root.code())
    await page.get_by_role("button", name="Sign in").click()
    await shown.go(f"/admin/accounts/user/{mia.pk}/change/")
    await page.get_by_role("link", name="Ways in…").click()
    await expect(page.get_by_role("heading", level=1, name=f"Ways in of {MIA}")).to_be_visible()
    await expect(page.get_by_text("This person has no password")).to_be_visible()
    await shown.look("ways-in")
    await page.get_by_role("button", name="Remove Passkey Key").click()
    await expect(page.get_by_text("Removed: Passkey Key.")).to_be_visible()
    await shown.look("ways-in-removed")
    assert not await Passkey.objects.aexists()
    await shown.go(f"/admin/accounts/upstreamprovider/{provider.pk}/change/")
    await page.get_by_label("Enabled", exact=True).uncheck()
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(
        page.get_by_text("1 person has no other way to sign in, and no password. They can ask")
    ).to_be_visible()
    await shown.look("provider-off-asked")
    await page.get_by_label("Leave people without a way in").check()
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_text("was changed successfully")).to_be_visible()
    await provider.arefresh_from_db()
    assert not provider.enabled
