"""The pages of organisations, with everything on them, and what each of their forms refuses."""

from typing import Final

from accounts.invitations.models import Invitation
from accounts.organizations.models import Membership, Organization
from accounts.organizations.roles import Role
from accounts.pages.organizations import SECTION
from accounts.users.models import User
from accounts.users.step_up import RECENT_S
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.tests.languages.walks import ADDRESSES, HOME, NAMES, WRONG, Browser, person
from tokens.tests.browser import SAME_ORIGIN

OWNER: Final = "chair@example.com"
GUEST: Final = "guest@example.com"
#: More than one page of members has.
MANY: Final = 51


async def organizations(browser: Browser) -> None:
    """An owner, and somebody who is invited, open each page, and press each button rightly and wrongly."""
    browser.settings.IRONAUTH_ORGANIZATIONS = "anybody"
    owner, guest = await person(OWNER), await person(GUEST)
    await browser.signed_in(OWNER)
    for name in ("", *NAMES, "Жуки"):
        await browser.press(SECTION, "create", name=name)
    made = await Organization.objects.aget(name="Жуки")
    home = str(made.pk)
    await browser.get(f"{HOME}/{SECTION}/{owner.pk}")
    await browser.post(f"{HOME}/{SECTION}/{home}", SAME_ORIGIN, form="x", act="leave")
    for act in ("nothing", "leave", "rename", "withdraw"):  # nobody else owns it, and nothing is sent along
        await browser.press(SECTION, act, home)
    await browser.press(SECTION, "rename", home, name="Птицы")
    for address in (*ADDRESSES, OWNER, GUEST, GUEST):
        await browser.press(SECTION, "invite", home, email=address, role="member" if address else "x")
    await browser.get(f"{HOME}/{SECTION}/{home}", done="invite")
    sent = await Invitation.objects.aget(organization=made)
    await browser.press(SECTION, "withdraw", home, item=str(owner.pk))
    await browser.press(SECTION, "withdraw", home, item=str(sent.pk))
    await browser.press(SECTION, "invite", home, email=GUEST, role="admin")
    await _guest(browser, await Invitation.objects.aget(organization=made, withdrawn_at=None), home, guest)
    await browser.signed_in(OWNER)
    for number in range(MANY):
        user = await person(f"singer{number}@example.com")
        await Membership.objects.acreate(organization=made, user=user, role=Role.MEMBER)
    await browser.get(f"{HOME}/{SECTION}/{home}")
    member = f"{home}/members/{guest.pk}"
    await browser.get(f"{HOME}/{SECTION}/{member}")
    await browser.get(f"{HOME}/{SECTION}/{home}/members/{owner.pk}")
    await browser.press(SECTION, "role", member, role="x")
    with clock.shifted(RECENT_S + 1):
        for act, item in (("role", member), ("remove", member), ("invite", home), ("delete", f"{home}/delete")):
            for proof in ({}, {"proof_password": WRONG}, {"proof_password": ""}):
                await browser.press(SECTION, act, item, role="member", email="new@example.com", **proof)
        await browser.press(SECTION, "role", member, role="member", proof_password=PASSWORD)
    await browser.press(SECTION, "remove", member)
    await browser.get(f"{HOME}/{SECTION}/{home}/delete")
    await browser.press(SECTION, "delete", f"{home}/delete")
    await browser.leave()


async def _guest(browser: Browser, sent: Invitation, home: str, guest: User) -> None:
    """Decline an invitation, and meet what others than members and owners may not do."""
    await browser.signed_in(GUEST)
    await browser.get(f"{HOME}/{SECTION}/{home}")
    await browser.press(SECTION, "accept", "", item=home)
    await browser.press(SECTION, "decline", "", item="x")
    await browser.press(SECTION, "decline", "", item=str(sent.pk))
    await Membership.objects.acreate(organization_id=home, user=guest, role=Role.ADMIN)
    await browser.get(f"{HOME}/{SECTION}/{home}", done="accept")
    await browser.get(f"{HOME}/{SECTION}/{home}/delete")
    await browser.press(SECTION, "delete", f"{home}/delete")
