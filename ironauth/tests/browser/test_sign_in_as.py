"""A member of staff signs in as a person, looks, and ends it, in a browser; the person sees them while they look."""

import httpx
import pytest
from django.contrib.auth.models import Permission
from playwright.async_api import expect

from accounts.admin.tests.second_step import Enrolled
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.tests.browser.conftest import OpenPage, OpenSite, Site

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

HELPER, MIA = "helper@example.com", "mia@example.com"


@pytest.fixture
def site(open_site: OpenSite) -> Site:
    """A server that lets staff sign in as people."""
    return open_site(IRONAUTH_SIGN_IN_AS="1")


@pytest.fixture
def mia(site: Site) -> User:
    """Who has asked for help, signed in on a device."""
    user = User.objects.create_user(MIA, PASSWORD, name="Mia")
    answer = httpx.post(f"{site.origin}/api/v1/access/signin", json={"email": MIA, "password": PASSWORD}, timeout=30)
    assert answer.status_code == 200, answer.text
    return user


@pytest.fixture
def helper(site: Site) -> Enrolled:
    """A member of staff who may see people, read the trail and sign in as people, and has an app."""
    user = User.objects.create_user(HELPER, PASSWORD, name="Hedy", is_staff=True, email_verified_at=clock.now())
    user.user_permissions.set(Permission.objects.filter(codename__in=("view_user", "sign_in_as", "view_auditevent")))
    return Enrolled(user)


async def test_staff_look_as_a_person(site: Site, mia: User, helper: Enrolled, open_page: OpenPage) -> None:
    """From the person's page by a reason to their account's page with its banner, and back by *End*."""
    shown = await open_page(site)
    page = shown.page
    await shown.go("/admin/")
    await page.get_by_label("E-mail address:").fill(HELPER)
    await page.get_by_label("Password:").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_label("Code", exact=True).fill(helper.code())
    await page.get_by_role("button", name="Sign in").click()
    await shown.go(f"/admin/accounts/user/{mia.pk}/change/")
    await shown.look("sign-in-as-person")
    await page.get_by_role("link", name="Sign in as…").click()
    await expect(page.get_by_role("heading", level=1, name=f"Sign in as {MIA}?")).to_be_visible()
    await shown.look("sign-in-as-reason")
    await page.get_by_label("Reason:").fill("Ticket 7: sees no invoices")
    await page.get_by_role("button", name="Sign in as this person").click()
    banner = page.get_by_role("complementary", name="Signed in for support")
    await expect(banner).to_contain_text(f"Support: Hedy ({HELPER}) is signed in as {MIA}, to look only, until ")
    await expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
    await shown.look("sign-in-as-account")
    await page.get_by_role("link", name="Where you are signed in").click()
    await expect(page.get_by_text("Support: Hedy,")).to_be_visible()
    await expect(banner).to_be_visible()
    for button in await page.locator("main button").all():
        await expect(button).to_be_disabled()
    await shown.look("sign-in-as-sessions")
    await shown.go("/account/security/password")
    await expect(page.get_by_label("New password")).to_be_disabled()
    await expect(banner).to_be_visible()
    await shown.look("sign-in-as-password")
    await page.get_by_role("button", name="End", exact=True).first.click()
    await expect(page.get_by_role("heading", level=1, name="User")).to_be_visible()
    assert page.url.endswith(f"/admin/accounts/user/{mia.pk}/change/")
    trail = page.get_by_role("region", name="Audit trail")
    await expect(trail.get_by_text("Ticket 7: sees no invoices")).to_be_visible()
    await expect(trail.get_by_text("Signed in as a person, ended")).to_be_visible()
    await shown.go("/account/security")  # nobody is signed in there any more
    await expect(page).to_have_url(f"{site.origin}/account/signin?next=%2Faccount%2Fsecurity")
