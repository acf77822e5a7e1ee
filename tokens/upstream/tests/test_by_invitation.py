"""First sign-ins with another provider where sign-up is by invitation: only for an invited, verified address."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.federation.models import Identity, UpstreamProvider
from accounts.invitations import queries as invitations
from accounts.invitations import units
from accounts.invitations.models import Invitation
from accounts.organizations import units as organizations
from accounts.organizations.models import Membership, Organization
from accounts.outbox.models import EmailToken
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from tokens.oauth.tests.walk import is_page
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.walk import is_in, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]
ANN = "Ann@Example.com"


@pytest.fixture(autouse=True)
def _by_invitation(settings: Settings) -> None:
    settings.IRONAUTH_SIGN_UP = "invitation"


async def invite(email: str = ANN) -> Invitation:
    """Invite an address, with a role, as a superuser who is not the provider's person."""
    await Group.objects.aget_or_create(name="readers")
    root = await sync_to_async(User.objects.create_superuser)("root@example.com")
    values = {"email": email, "name": "", "language": "", "roles": ["readers"]}
    made = await database().write(units.invite, actor_id=root.pk, values=values)
    return await Invitation.objects.aget(pk=made.id)


async def test_an_invited_address_gets_its_account(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """With the identity and the roles; the link is used up, and the next sign-in finds the account."""
    await invite()
    assert is_in(await through(api, provider))
    user = await User.objects.aget(email_key="ann@example.com")
    assert [role.name async for role in user.groups.all()] == ["readers"]
    row = await Invitation.objects.aget()
    assert (row.user_id, row.accepted_at is not None, row.token_id) == (user.pk, True, None)
    assert not await EmailToken.objects.aexists()
    events = AuditEvent.objects.filter(event__in=("sign_up", "invitation_accepted"))
    (event,) = [one async for one in events]
    assert (event.event, event.details["provider"], event.details["roles"]) == (
        "invitation_accepted",
        "acme",
        ["readers"],
    )
    assert is_in(await through(api, provider))
    assert await Identity.objects.acount() == 1


@pytest.mark.parametrize(
    "why", ["nobody invited", "another address", "unverified", "untrusted", "expired", "withdrawn", "makes no accounts"]
)
async def test_nobody_else_gets_one(api: httpx.AsyncClient, provider: FakeProvider, why: str) -> None:
    """They are asked for an account here, and no page offers to make one."""
    if why != "nobody invited":
        row = await invite("bob@example.com" if why == "another address" else ANN)
    match why:
        case "unverified":
            provider.claims = {"email_verified": False}
        case "untrusted":
            await UpstreamProvider.objects.aupdate(trusts_email=False)
        case "expired":
            await Invitation.objects.aupdate(expires_at=clock.now())
        case "withdrawn":
            actor: Any = row.invited_by_id
            await database().write(units.withdraw, actor_id=actor, invitation_id=row.pk)
        case "makes no accounts":
            await UpstreamProvider.objects.aupdate(creates_accounts=False)
    page = await through(api, provider)
    assert is_page(page, 200, "Sign in to your account here once")
    assert "/oauth/signup" not in page.text
    assert not await User.objects.filter(email_key="ann@example.com").aexists()
    assert not await Identity.objects.aexists()


async def test_an_invitation_used_in_this_moment(
    api: httpx.AsyncClient, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the account: refused, and nothing is made."""
    await invite()
    monkeypatch.setattr(invitations, "waits_for", lambda _: True)
    await Invitation.objects.aupdate(withdrawn_at=clock.now())
    assert (await through(api, provider)).status_code == 401
    assert not await User.objects.filter(email_key="ann@example.com").aexists()
    assert not await Identity.objects.aexists()


async def test_an_open_service_uses_the_invitation_too(
    api: httpx.AsyncClient, provider: FakeProvider, settings: Settings
) -> None:
    """Its roles come with the account; without one, signing up is as it was."""
    settings.IRONAUTH_SIGN_UP = "open"
    await invite()
    assert is_in(await through(api, provider))
    user = await User.objects.aget(email_key="ann@example.com")
    assert [role.name async for role in user.groups.all()] == ["readers"]
    assert not await sync_to_async(invitations.waits_for)("ann@example.com")


async def _of_organization(name: str) -> tuple[Organization, User]:
    """Return an organisation that has invited the person, and who has done it."""
    made = await Organization.objects.acreate(name=name, slug=name.lower())
    email = f"{made.slug}@example.com"
    owner = await User.objects.acreate(email=email, email_key=email, password="", email_verified_at=clock.now())
    await Membership.objects.acreate(organization=made, user=owner, role="owner")
    given: Any = {"actor_id": owner.pk, "organization_id": made.pk, "address": ANN, "role": "member"}
    await database().write(organizations.invite, **given)
    return made, owner


async def test_one_that_stands_no_more_holds_nobody_up(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """Of an organisation whose inviting person is gone: another one's makes the account, and alone it makes none."""
    _old, gone = await _of_organization("Old")
    await User.objects.filter(pk=gone.pk).aupdate(is_active=False)
    assert is_page(await through(api, provider), 200, "Sign in to your account here once")
    new, _owner = await _of_organization("New")
    assert is_in(await through(api, provider))
    user = await User.objects.aget(email_key="ann@example.com")
    assert [one.organization_id async for one in user.memberships.all()] == [new.pk]
