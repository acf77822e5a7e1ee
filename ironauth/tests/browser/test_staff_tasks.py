"""What staff are asked daily, in a browser: why somebody cannot sign in, what happened, and how each page looks."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest
from asgiref.sync import sync_to_async
from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group
from playwright.async_api import expect

from accounts.admin.tests.second_step import Enrolled
from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.federation.models import Identity, UpstreamProvider
from accounts.federation.secrets import seal_into
from accounts.invitations.models import Invitation
from accounts.lockout import throttling
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.organizations.models import Membership, Organization
from accounts.outbox.models import OutgoingMail
from accounts.privacy.models import PendingDeletion
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.models import ThrottleFailures
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.test_staff import give_password, heading
from ironauth.tests.browser.watched import VIEWS, Watched
from ironauth.tests.cost_hooks import ALL_CASES
from tokens.clients.dynamic.models import RegistrationToken
from tokens.details.models import DetailType
from tokens.oauth.models import Consent
from tokens.oauth.tests.material import make_client
from tokens.resources.models import ApiResource
from tokens.sessions.ends import of_everybody
from tokens.sessions.models import Session

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

ROOT: Final = "root@example.com"
#: What is on the page of somebody who cannot sign in, by their address.
SIX: Final = {
    "deactivated@example.com": "deactivated",
    "unconfirmed@example.com": "not confirmed",
    "forgetful@example.com": "has to choose another password",
    "guessed@example.com": "12 wrong passwords",
    "codeless@example.com": "12 wrong codes of the second factor",
    "wayless@example.com": "Cannot sign in",
}
MOST_CLICKS: Final = 3


async def signed_in(open_page: OpenPage, site: Any) -> Watched:
    """Return a page of a superuser's on the start page."""
    await sync_to_async(User.objects.create_superuser)(ROOT, PASSWORD, email_verified_at=clock.now())
    shown = await open_page(site)
    await shown.go("/admin/")
    await give_password(shown, ROOT)
    await heading(shown, "Start")
    return shown


def wait_for(key: str) -> None:
    """Have a count of failures that lets nobody in for a while."""
    now = int(clock.unix())
    ThrottleFailures.objects.create(key=key, failures=12, retry_at=now + 3_600, known_until=0, expires_at=now + 7_200)


def six() -> None:
    """Make the people, each kept out by another cause."""
    made = {email: User.objects.create_user(email, PASSWORD, email_verified_at=clock.now()) for email in SIX}
    changes: dict[str, dict[str, Any]] = {
        "deactivated": {"is_active": False},
        "unconfirmed": {"email_verified_at": None},
        "forgetful": {"must_change_password": True},
        "wayless": {"password": "!"},
    }
    for name, fields in changes.items():
        User.objects.filter(email=f"{name}@example.com").update(**fields)
    Enrolled(made["codeless@example.com"])
    wait_for(throttling.sign_in_keys("guessed@example.com", throttling.UNKNOWN).account.key)
    wait_for(throttling.second_factor_keys(made["codeless@example.com"].pk).account.key)


async def test_six_causes_are_found_in_three_clicks(open_site: OpenSite, open_page: OpenPage) -> None:
    """From the start page: *Users*, part of the address and Enter, the person. The first line says the cause."""
    site = open_site(IRONAUTH_EMAIL_VERIFICATION="required")
    shown = await signed_in(open_page, site)
    await sync_to_async(six)()
    page = shown.page
    for email, words in SIX.items():
        await shown.go("/admin/")
        clicks = 0

        async def click(target: Any) -> None:
            nonlocal clicks
            clicks += 1
            await target.click()

        await click(page.get_by_role("link", name="Users", exact=True).first)
        await page.locator("#searchbar").fill(email.partition("@")[0][2:])  # any part of it
        await page.locator("#searchbar").press("Enter")
        await click(page.locator("#result_list").get_by_role("link", name=email))
        await expect(page.locator(".verdict")).to_contain_text(words)
        box = await page.locator(".verdict").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 600, "the cause is in view without scrolling"
        assert clicks <= MOST_CLICKS


def trail(pia: User, client_id: str) -> None:
    """Record what the filters are to tell apart; each line differs from the first in one thing."""
    wrong = {"reason": "wrong_password"}
    audit.record(Event.SIGN_IN, outcome=Outcome.FAILURE, user_id=pia.pk, details=wrong)
    audit.record(Event.SIGN_IN, outcome=Outcome.FAILURE, user_id=pia.pk, details={"reason": "wrong_code"})
    audit.record(Event.SIGN_IN, actor_id=pia.pk, user_id=pia.pk)
    audit.record(Event.PASSWORD_CHANGED, actor_id=pia.pk, user_id=pia.pk)
    audit.record(Event.CLIENT_SIGN_IN, actor_id=pia.pk, user_id=pia.pk, details={"client": client_id})


async def test_the_trail_is_filtered_and_exported(open_site: OpenSite, open_page: OpenPage) -> None:
    """By person, event, cause, outcome, client, network and dates, with the mouse; the files have what is shown."""
    shown = await signed_in(open_page, open_site())
    page = shown.page
    pia = await sync_to_async(User.objects.create_user)("pia@example.com", PASSWORD, name="Pia Lund")
    client, _ = await sync_to_async(make_client)(name="Wiki")
    await sync_to_async(trail)(pia, str(client.pk))
    today = clock.now().date()
    rows, asked = page.locator("#result_list tbody tr"), page.locator(".asked")

    async def opened() -> None:
        await shown.go(f"/admin/accounts/auditevent/?q={pia.pk}")
        await expect(rows).to_have_count(5)

    async def given(label: str, value: str) -> None:
        await opened()
        field = asked.get_by_label(label)
        if await field.evaluate("one => one.localName") == "select":
            await field.select_option(value)
        else:
            await field.fill(value)
        await asked.get_by_role("button").click()

    await shown.go("/admin/accounts/auditevent/")
    for part in ("ia@exam", "lund"):
        await page.locator("#searchbar").fill(part)
        await page.locator("#searchbar").press("Enter")
        await expect(rows).to_have_count(5)
    await given("Cause of a failure", "wrong_password")
    await expect(rows).to_have_count(1)
    await given("Client (its client_id)", str(client.pk))
    await expect(rows).to_have_count(1)
    await given("Address or network", "192.0.2.0/24")
    await expect(rows).to_have_count(0)
    await given("From this day (UTC)", f"{today - timedelta(days=1)}")
    await expect(rows).to_have_count(5)
    await given("To this day, inclusive", f"{today - timedelta(days=2)}")
    await expect(rows).to_have_count(0)
    await opened()
    await page.locator("#changelist-filter").get_by_role("link", name="Failure", exact=True).click()
    await expect(rows).to_have_count(2)
    await shown.look("admin-trail-filtered")
    for name, count in (("Export as CSV", 3), ("Export as JSON lines", 2)):
        async with page.expect_download() as waiting:
            await page.get_by_role("link", name=name).click()
        text = (await (await waiting.value).path()).read_text()
        assert len(text.splitlines()) == count, text
        assert "wrong_code" in text
        assert "password_changed" not in text


def everything(root: User) -> None:
    """Make a row of everything that the admin has a page for."""
    Group.objects.create(name="editors")
    row = UpstreamProvider(slug="acme", name="Acme", kind="oidc", issuer="https://acme.example", client_id="us")
    seal_into(row, "secret")
    row.save()
    pia = User.objects.create_user("pia.with.a.long.name@mail.example.com", PASSWORD, name="Pia Lund")
    Identity.objects.create(user=pia, provider=row, issuer=row.issuer, subject="1", email=pia.email)
    leaving = User.objects.create_user("leaving@example.com", PASSWORD, is_active=False)
    PendingDeletion.objects.create(user=leaving, email=leaving.email, due_at=clock.now() + timedelta(days=9))
    later = clock.now() + timedelta(days=1)
    KeptDevice.objects.create(user=pia, digest="0" * 64, epoch=0, user_agent="Firefox/140.0", expires_at=later)
    Invitation.objects.create(email="new@example.com", email_key="new@example.com", invited_by=root, expires_at=later)
    acme = Organization.objects.create(name="Acme", slug="acme")
    Membership.objects.create(organization=acme, user=pia, role="owner")
    OutgoingMail.objects.create(kind="password_changed", recipient=pia.email, user=pia, tries=9, failed_at=clock.now())
    client = make_client(name="The portal of everything")[0]
    ApiResource.objects.create(identifier="https://api.example.com/reports", name="Reports", scopes=["reports:read"])
    members = {"amount": {"kind": "text", "required": True}}
    DetailType.objects.create(identifier="payment_initiation", words="Pay {amount}", members=members)
    RegistrationToken.objects.create(label="Agents of the library", digest="0" * 64, left=3, expires_at=later)
    now = clock.now()
    Consent.objects.create(user=pia, client=client, scope="openid", created_at=now, updated_at=now)
    Session.objects.create(
        user=pia, epoch=0, amr="pwd", master_key_id="1", idle_expires_at=later, absolute_expires_at=later
    )
    audit.record(Event.SIGN_IN, actor_id=pia.pk, user_id=pia.pk)
    _ = [
        LogEntry.objects.log_actions(user_id=pia.pk, queryset=[row], action_flag=CHANGE, change_message=said)
        for said in ([{"changed": {"fields": ["Redirect URIs", "Post-logout redirect URIs", "Scopes"]}}], "Disabled.")
        for row in (client, leaving)
    ]


def pages() -> dict[str, str]:
    """Return the address of each page of each model that the site has, by a name for its picture."""
    found = {"start": "/admin/", "password": "/admin/password_change/"}
    for model, model_admin in admin.site._registry.items():
        name = model._meta.model_name or ""
        base = f"/admin/{model._meta.app_label}/{name}/"
        first: Any = model_admin.model._default_manager.order_by("-pk").first()
        found[f"{name}-list"] = base
        found[f"{name}-add"] = f"{base}add/"
        for page in ("change", "history", "delete"):
            found[f"{name}-{page}"] = f"{base}{first.pk}/{page}/"
    pia = f"/admin/accounts/user/{User.objects.get(name='Pia Lund').pk}"
    found |= {f"person-{tab}": f"{pia}/change/?tab={tab}" for tab in ("overview", "profile", "rights", "record")}
    found |= {"person-password": f"{pia}/password/"}
    provider = f"/admin/accounts/upstreamprovider/{UpstreamProvider.objects.get().pk}"
    return found | {"provider-try": f"{provider}/try/"}


async def test_every_page_of_the_admin(open_site: OpenSite, open_page: OpenPage) -> None:
    """List, add, change, history and deletion of everything: accessible, and nothing sticks out, on a phone too.

    The first page of a kind is judged on both, and the others, which have its style and its template, by turns.
    """
    shown = await signed_in(open_page, open_site())
    await sync_to_async(everything)(await User.objects.aget(email=ROOT))
    every = await sync_to_async(pages)()
    seen: list[str] = []
    kinds: set[str] = set()
    for name, path in every.items():
        with shown.maybe_refusing(403):
            answer = await shown.page.goto(f"{shown.origin}{path}")
        assert answer is not None
        assert answer.status in (200, 403), (name, answer.status)
        if answer.status == 200:
            kind = name.rpartition("-")[2]
            shown.judges_in = (VIEWS[len(seen) % len(VIEWS)],) if kind in kinds and not ALL_CASES else ()
            kinds.add(kind)
            seen.append(name)
            await shown.look(f"all-{name}")
    models = {model._meta.model_name for model in admin.site._registry}
    assert {f"{model}-{page}" for model in models for page in ("list", "change", "history")} <= set(seen)
    assert {"user-add", "user-delete", "oauthclient-delete", "upstreamprovider-add", "role-delete"} <= set(seen)


async def test_everybodys_sessions_are_ended(open_site: OpenSite, open_page: OpenPage) -> None:
    """From the list of sessions: what it does is said, a phrase is typed, and this session goes on."""
    shown = await signed_in(open_page, open_site())
    page = shown.page
    pia = await User.objects.acreate(email="pia@example.com", email_key="pia@example.com", name="Pia Lund")
    later = clock.now() + timedelta(days=1)
    await Session.objects.acreate(
        user=pia, epoch=0, amr="pwd", master_key_id="1", idle_expires_at=later, absolute_expires_at=later
    )
    await shown.go("/admin/tokens/session/")
    await page.get_by_role("button", name="End everybody's sessions").click()
    await heading(shown, "End everybody's sessions?")
    await shown.look("admin-end-everybody")
    await page.get_by_role("textbox").fill("something else")
    await page.get_by_role("button", name="End everybody's sessions").click()
    await expect(page.locator(".errornote, .errorlist").first).to_be_visible()
    await shown.look("admin-end-everybody-refused")
    assert await Session.objects.live(clock.now()).aexists()
    await page.get_by_role("textbox").fill(of_everybody.PHRASE)
    await page.get_by_role("button", name="End everybody's sessions").click()
    await expect(page.locator(".messagelist")).to_contain_text("Everybody's sessions have ended.")
    await shown.look("admin-end-everybody-done")
    assert not await Session.objects.live(clock.now()).aexists()


async def test_tabs_by_keyboard_and_without_scripts(open_site: OpenSite, open_page: OpenPage) -> None:
    """A tab is a link with its name, reached by Tab and opened by Enter; the one that is shown is current."""
    site = open_site()
    await sync_to_async(User.objects.create_superuser)(ROOT, PASSWORD, email_verified_at=clock.now())
    shown = await open_page(site, scripts=False)
    page = shown.page
    await shown.go("/admin/")
    await give_password(shown, ROOT)
    root = await User.objects.aget(email=ROOT)
    await shown.go(f"/admin/accounts/user/{root.pk}/change/")
    tabs = page.get_by_role("navigation", name="Parts of this person's page")
    await tabs.get_by_role("link", name="Overview").focus()
    for _ in range(2):
        await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(r"tab=rights$"))
    current: Callable[..., Any] = tabs.get_by_role("link", name="Rights").get_attribute
    assert await current("aria-current") == "page"
    await expect(page.get_by_label("Superuser")).to_be_visible()
    await tabs.get_by_role("link", name="Name, address, password").click()
    await page.get_by_label("Name:", exact=True).fill("Rut")
    await page.get_by_role("button", name="Save and continue editing").click()
    await expect(page.locator(".messagelist")).to_be_visible()
    assert (await User.objects.aget(pk=root.pk)).is_superuser
    await expect(page.get_by_label("Name:", exact=True)).to_have_value("Rut")
