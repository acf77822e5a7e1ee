"""Forms of the pages of organisations that one double click sends twice: each is done once, and nothing is refused."""

import httpx
import pytest

from accounts.audit.models import AuditEvent
from accounts.invitations.models import Invitation
from accounts.organizations.models import Organization
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.second_clicks import WITHIN_S
from tokens.tests.test_organization_pages import HERE, ROW, after, ann, fields_of, made

__all__ = ["ann"]
pytestmark = [pytest.mark.django_db(transaction=True)]


async def twice(api: httpx.AsyncClient, path: str, act: str, **typed: str) -> list[httpx.Response]:
    """Send the form of the act twice, and return the pages that the answers lead to."""
    form = {**fields_of(await api.get(path, headers=HERE), act), **typed}
    return [await after(api, await api.post(path, data=form, headers=HERE)) for _ in range(2)]


async def test_one_organisation_is_made(api: httpx.AsyncClient, ann: User) -> None:
    """Both clicks lead to it; another name, or the same one later, makes another one."""
    first, second = await twice(api, ROW, "create", name="Acme")
    assert first.url == second.url
    assert await Organization.objects.acount() == 1
    await twice(api, ROW, "create", name="Acme & Sons")
    assert await Organization.objects.acount() == 2
    with clock.shifted(WITHIN_S + 1):
        await twice(api, ROW, "create", name="Acme")
    assert await Organization.objects.acount() == 3


async def test_one_invitation_is_sent_and_withdrawn(api: httpx.AsyncClient, ann: User) -> None:
    """The second click says what the first one said; one event is left of each."""
    path = f"{ROW}/{(await made('owner', ann)).pk}"
    for page in await twice(api, path, "invite", email="bob@example.com", role="member"):
        assert "The invitation is on its way." in page.text
    sent = await Invitation.objects.aget()
    for page in await twice(api, path, "withdraw", item=str(sent.pk)):
        assert "bob@example.com" not in page.text
    events = AuditEvent.objects.filter(event__startswith="member_invit").order_by("pk")
    assert [one.event async for one in events] == ["member_invited", "member_invitation_withdrawn"]


async def test_another_form_is_refused(api: httpx.AsyncClient, ann: User) -> None:
    """The same address with another role is no second click: an invitation to it waits."""
    path = f"{ROW}/{(await made('owner', ann)).pk}"
    await twice(api, path, "invite", email="bob@example.com", role="member")
    form = {**fields_of(await api.get(path, headers=HERE), "invite"), "email": "bob@example.com", "role": "admin"}
    assert (await api.post(path, data=form, headers=HERE)).status_code == 409
