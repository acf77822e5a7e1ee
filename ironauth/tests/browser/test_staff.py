"""What staff do in the admin, in a browser: the way in, the start page, a person with every action, the lists."""

import httpx
import pytest
from django.contrib.auth.models import Group, Permission
from playwright.async_api import expect

from accounts.acts.changes import ACTIVATE, CHANGES
from accounts.admin.tests.second_step import Enrolled
from accounts.outbox.models import OutgoingMail
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.tests.browser.conftest import OpenPage, OpenSite, Site
from ironauth.tests.browser.watched import Watched
from tokens.clients.models import OAuthClient
from tokens.oauth.models import Consent
from tokens.oauth.tests.material import make_client
from tokens.protocol import GrantType
from tokens.tests.second_factor import App

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

ROOT, READER, MIA = "root@example.com", "reader@example.com", "mia@example.com"
#: How many pixels of a list are beyond its edge, to be scrolled to.
BEYOND_OF = "(list) => (list => list.scrollWidth - list.clientWidth)(document.querySelector(list))"
BEYOND = f"() => ({BEYOND_OF})('#changelist .results')"

#: Waits until the resize event was heard, by two frames: a policy without eval forbids to wait for a condition.
RESIZED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
#: In how many lines the dates of a list are, and the dates with their times: the most that any of them takes.
LINES = """() => {
    const lines = (cell, end) => {
        const range = document.createRange();
        range.setStart(cell.firstChild, 0);
        range.setEnd(cell.firstChild, end);
        return new Set([...range.getClientRects()].map((part) => Math.round(part.top))).size;
    };
    const cells = [...document.querySelectorAll("#result_list td")].filter((one) => /^[0-9]{4}-/.test(one.textContent));
    return [10, 16].map((end) => Math.max(...cells.map((cell) => lines(cell, end))));
}"""


@pytest.fixture
def site(open_site: OpenSite) -> Site:
    """A server whose staff need a second factor."""
    return open_site(IRONAUTH_STAFF_MFA="required")


@pytest.fixture
def mia(site: Site) -> User:
    """Somebody staff look after: signed in, with an app, and with a message that nobody accepted."""
    user = User.objects.create_user(MIA, PASSWORD, name="Mia")
    answer = httpx.post(f"{site.origin}/api/v1/access/signin", json={"email": MIA, "password": PASSWORD}, timeout=30)
    assert answer.status_code == 200, answer.text
    Enrolled(user)
    OutgoingMail.objects.create(kind="password_changed", recipient=MIA, user=user, tries=9, failed_at=clock.now())
    portal = make_client(name="The portal of everything", trusted=True, grants=[one.value for one in GrantType])[0]
    make_client(name="Wiki", disabled_at=clock.now())
    scope = "email offline_access openid profile"
    Consent.objects.create(user=user, client=portal, scope=scope, created_at=clock.now(), updated_at=clock.now())
    return user


@pytest.fixture
def root(mia: User) -> User:
    """A superuser who has no second factor yet."""
    Group.objects.create(name="editors")
    return User.objects.create_superuser(ROOT, PASSWORD, email_verified_at=clock.now())


@pytest.fixture
def reader(mia: User) -> Enrolled:
    """A member of staff who may see people and nothing else, and has an app."""
    user = User.objects.create_user(READER, PASSWORD, is_staff=True, email_verified_at=clock.now())
    user.user_permissions.set([Permission.objects.get(content_type__app_label="accounts", codename="view_user")])
    return Enrolled(user)


async def heading(shown: Watched, text: str) -> None:
    """Wait until the page has this heading."""
    await expect(shown.page.get_by_role("heading", level=1, name=text, exact=True)).to_be_visible()


async def give_password(shown: Watched, email: str, password: str = PASSWORD) -> None:
    """Fill in Django's form."""
    await shown.page.get_by_label("E-mail address:").fill(email)
    await shown.page.get_by_label("Password:").fill(password)
    await shown.page.get_by_role("button", name="Sign in").click()


async def set_up_app(shown: Watched) -> App:
    """Come as far as the first page asks, set up the factor it requires, and go on."""
    page = shown.page
    await shown.go("/admin/")
    await give_password(shown, ROOT, "not the password at all")
    await expect(page.locator(".errornote")).to_be_visible()
    await shown.look("admin-sign-in")
    await give_password(shown, ROOT)
    await expect(page.get_by_text("This admin asks for a second factor")).to_be_visible()
    await shown.look("admin-set-up")
    app = App((await page.locator(".key code").inner_text()).replace(" ", ""))
    await page.get_by_label("Code from the app").fill(app.code())
    await page.get_by_role("button", name="Confirm").click()
    await expect(page.locator(".codes li")).to_have_count(10)
    await shown.look("admin-recovery-codes")
    await page.get_by_role("link", name="I have saved them: continue").click()
    return app


async def person(shown: Watched, mia: User) -> None:
    """Find a person, read their page, and carry out every action that there is."""
    page = shown.page
    await page.get_by_role("link", name="Users", exact=True).first.click()
    await page.locator("#searchbar").fill("mia")
    await page.locator("#searchbar").press("Enter")
    await expect(page.locator("#result_list tbody tr")).to_have_count(1)
    await shown.look("admin-users")
    await page.locator("#result_list").get_by_role("link", name=MIA).click()
    await expect(page.get_by_text("Authenticator app, 10 recovery codes left")).to_be_visible()
    await expect(page.get_by_text("0 waiting, 1 given up")).to_be_visible()
    await expect(page.get_by_role("heading", name="Live sessions")).to_be_visible()
    await expect(page.locator(".field-ip").get_by_text("127.0.0.1")).to_be_visible()
    await expect(page.get_by_role("region", name="Audit trail").get_by_text("Sign-in").first).to_be_visible()
    await shown.look("admin-user")
    await page.set_viewport_size({"width": 390, "height": 844})
    assert await page.evaluate(BEYOND_OF, ".inline-group .wrapper") == 0  # a card for each session
    opened = page.locator(".inline-group .field-opened")
    assert await opened.evaluate("one => getComputedStyle(one, '::before').content") == '"Opened"'
    await page.set_viewport_size({"width": 1280, "height": 900})
    for change in CHANGES:
        await page.get_by_role("group", name="Actions").get_by_role("button", name=change.title, exact=True).click()
        if change is not ACTIVATE:
            await expect(page.get_by_text(change.warning)).to_be_visible()
            if change is CHANGES[0]:
                await shown.look("admin-confirm")
            await page.get_by_role("button", name=change.title, exact=True).click()
        await expect(page.locator(".messagelist")).to_contain_text(f"{change.done}: 1 user.")
        assert page.url.endswith(f"/user/{mia.pk}/change/")
    await expect(page.locator(".field-second_factor").get_by_text("None")).to_be_visible()


async def on_a_phone(shown: Watched) -> None:
    """Look at the widest lists: no value is beyond the edge, each has its heading, and the filters are behind a switch.

    At a desktop's width they are tables beside their filters, on a small one below a switch for these.
    """
    page = shown.page
    for name, heading in (("user", "Roles"), ("auditevent", "Outcome")):
        await shown.go(f"/admin/accounts/{name}/")
        rows, filters = page.locator("#changelist .as-rows"), page.locator("#changelist-filter")
        await expect(rows).to_have_count(0)
        await expect(filters).to_be_visible()
        await expect(page.locator("#filters-switch")).to_be_hidden()
        await page.set_viewport_size({"width": 390, "height": 844})
        await expect(rows).to_have_count(1)
        assert await page.evaluate(BEYOND) == 0, name
        if name == "user":
            box = await page.locator("#action-toggle").bounding_box()
            assert box is not None
            assert box["x"] + box["width"] < 390, "all are chosen by a box in view"
        headings = "cells => cells.map((cell) => getComputedStyle(cell, '::before').content)"
        told = await rows.locator("tbody tr").first.locator("[data-heading]").evaluate_all(headings)
        assert f'"{heading}"' in told
        await expect(filters).to_be_hidden()
        await page.get_by_label("Show filters").check()
        await expect(filters).to_be_visible()
        for width in (1024, 1100, 1200):
            await page.set_viewport_size({"width": width, "height": 900})
            await page.evaluate(RESIZED)
            assert await page.evaluate(BEYOND) == 0, (name, width)
            await expect(filters).to_be_visible()  # asked for, or beside the list
        await expect(rows).to_have_count(0)
        if name == "user":
            await page.get_by_label("Show filters").uncheck()
            await expect(filters).to_be_hidden()
            await page.locator("#toggle-nav-sidebar").click()  # closed: there is room for both
            await expect(filters).to_be_visible()
            await expect(page.locator("#filters-switch")).to_be_hidden()
            await page.locator("#toggle-nav-sidebar").click()
            await expect(filters).to_be_hidden()
        await page.set_viewport_size({"width": 1280, "height": 900})


async def on_a_small_desktop(shown: Watched) -> None:
    """Look at the widest lists with the sidebar open: they are tables, in which no date is cut, in two lines at most.

    With the room of a large screen the time is beside its date; with too little for a table there are rows.
    """
    page = shown.page
    rows = page.locator("#changelist .as-rows")
    for name in ("accounts/user", "tokens/session", "tokens/signingkey"):
        await shown.go(f"/admin/{name}/")
        for width in (1280, 1024, 1009):  # the last: 1024 less a scrollbar
            await page.set_viewport_size({"width": width, "height": 900})
            await page.evaluate(RESIZED)
            assert await page.evaluate(BEYOND) == 0, (name, width)
            await expect(rows).to_have_count(0)
            if name != "accounts/user":
                date, moment = await page.evaluate(LINES)
                assert (date, moment) in {(1, 1), (1, 2)}, (name, width)
        await page.set_viewport_size({"width": 800, "height": 900})
        await expect(rows).to_have_count(1)
        await page.set_viewport_size({"width": 1425, "height": 900})
        await expect(rows).to_have_count(0)
        if name != "accounts/user":
            assert await page.evaluate(LINES) == [1, 1], name
    await page.set_viewport_size({"width": 1280, "height": 900})


async def lists(shown: Watched, site: Site) -> None:
    """Filter the trail, have a message tried again, and look at what else there is."""
    page = shown.page
    await shown.go("/admin/accounts/auditevent/")
    shown_filter = page.locator("#changelist-filter")
    await shown_filter.get_by_text("Second factors", exact=True).click()
    await shown_filter.get_by_role("link", name="All second factors removed", exact=True).click()
    await expect(page.locator("#result_list tbody tr")).to_have_count(1)
    await expect(page.locator("#result_list tbody")).to_contain_text(MIA)
    await shown.look("admin-trail")
    await shown.go("/admin/accounts/outgoingmail/?state=given_up")
    await shown.look("admin-mail")
    await page.locator("#result_list .action-select").check()
    await page.locator("select[name=action]").select_option("try_again")
    await page.locator(".actions button").click()
    await page.get_by_role("button", name="Try again now").click()
    await expect(page.locator(".messagelist")).to_contain_text("1 message will be tried again")
    site.mail.take(MIA, "Your password was changed")
    for name in ("accounts/role", "tokens/session", "tokens/signingkey"):
        await shown.go(f"/admin/{name}/")
        await expect(page.locator("#result_list tbody tr").first).to_be_visible()
        await shown.look(f"admin-{name.partition('/')[2]}s")
    for name in ("oauthclient", "consent"):
        await shown.go(f"/admin/tokens/{name}/")
        await shown.look(f"admin-{name}s")
        await page.set_viewport_size({"width": 390, "height": 844})
        await expect(page.locator("#changelist .as-rows")).to_have_count(1)
        assert await page.evaluate(BEYOND) == 0, name
    await page.set_viewport_size({"width": 1280, "height": 900})
    await on_a_phone(shown)
    await on_a_small_desktop(shown)
    await shown.go("/admin/accounts/user/add/")
    await shown.look("admin-user-add")
    await shown.go("/admin/accounts/invitation/add/")
    await shown.look("admin-invitation-add")
    await page.get_by_label("E-mail address:").fill("new@example.com")
    await page.get_by_role("button", name="Invite", exact=True).click()
    await expect(page.locator("#result_list tbody")).to_contain_text("new@example.com")
    await page.locator("#result_list tbody th a").click()
    await expect(page.get_by_role("button", name="Send again")).to_be_visible()
    await shown.look("admin-invitation")
    site.mail.take("new@example.com", "You are invited: create your account")
    await shown.go("/admin/tokens/oauthclient/add/")
    await shown.look("admin-oauthclient-add")
    await shown.go(f"/admin/tokens/oauthclient/{(await OAuthClient.objects.aget(name='Wiki')).pk}/change/")
    await shown.look("admin-oauthclient")
    await shown.go("/admin/tokens/oauthclient/add/?preset=machine")
    await shown.look("admin-oauthclient-preset")
    await page.get_by_label("Name:").fill("Robot")
    await page.get_by_role("button", name="Save", exact=True).click()
    secret = await page.locator("[data-copied=client_secret]").inner_text()
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Copy client_secret").click()
    await expect(page.get_by_role("status").filter(has_text="Copied.")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == secret
    await shown.look("admin-oauthclient-secret")
    await registration_tokens(shown)


async def registration_tokens(shown: Watched) -> None:
    """Make a token with which applications register themselves, copy it, see what came of it, and end it."""
    page = shown.page
    await shown.go("/admin/tokens/registrationtoken/add/")
    await shown.look("admin-registrationtoken-add")
    await page.get_by_label("For:").fill("Agents of the sales team")
    await page.get_by_role("button", name="Make the token").click()
    token = await page.locator("[data-copied=token]").inner_text()
    await page.get_by_role("button", name="Copy token").click()
    assert await page.evaluate("navigator.clipboard.readText()") == token
    await shown.look("admin-registrationtoken-shown")
    await page.get_by_role("link", name="I have saved it: continue").click()
    await expect(page.locator("#content")).not_to_contain_text(token)
    await shown.look("admin-registrationtoken")
    await shown.go("/admin/tokens/registrationtoken/")
    await shown.look("admin-registrationtokens")
    await page.locator("#result_list tbody th a").click()
    await page.get_by_role("button", name="End", exact=True).click()
    await shown.look("admin-registrationtoken-end")
    await page.get_by_role("button", name="End", exact=True).click()
    await expect(page.locator(".messagelist")).to_contain_text("1 token ended.")


async def test_a_superuser_walks_through_the_admin(site: Site, root: User, mia: User, open_page: OpenPage) -> None:
    """The second factor is set up on the way in, every action is carried out, and each page fits and is clean."""
    shown = await open_page(site)
    page = shown.page
    app = await set_up_app(shown)
    await heading(shown, "Start")
    await expect(page.locator(".figures svg").first).to_be_visible()
    assert await page.locator(".figures svg").count() == await page.locator(".figures li").count() > 3
    await shown.look("admin-start")
    await person(shown, mia)
    await lists(shown, site)
    await page.get_by_role("button", name="Log out").click()
    await shown.go("/admin/")
    await give_password(shown, ROOT)
    await shown.look("admin-second-step")
    await page.get_by_label("Code", exact=True).fill(app.code(1))
    await page.get_by_role("button", name="Sign in").click()
    await heading(shown, "Start")


async def test_staff_see_what_they_may(site: Site, reader: Enrolled, mia: User, open_page: OpenPage) -> None:
    """Who may see people sees them, and no button, trail, role or session; what is forbidden is explained."""
    shown = await open_page(site)
    page = shown.page
    await shown.go("/admin/")
    await give_password(shown, READER)
    await page.get_by_label("Code", exact=True).fill(reader.code())
    await page.get_by_role("button", name="Sign in").click()
    await heading(shown, "Start")
    assert await page.locator("#content-main th a").all_inner_texts() == ["Outgoing mails", "Users"]
    await shown.go(f"/admin/accounts/user/{mia.pk}/change/")
    await expect(page.get_by_text(MIA).first).to_be_visible()
    await expect(page.get_by_role("group", name="Actions")).to_have_count(0)
    await expect(page.get_by_role("region", name="Audit trail")).to_have_count(0)
    await expect(page.get_by_role("heading", name="Live sessions")).to_have_count(0)
    await shown.look("reader-user")
    with shown.refusing(403):
        await shown.go("/admin/accounts/auditevent/")
    await shown.look("reader-forbidden")
