"""Forms of the pages of organisations that one double click sends twice: each is done once, and nothing is refused."""

import asyncio

import httpx
import pytest

from accounts.audit.models import AuditEvent
from accounts.invitations.models import Invitation
from accounts.organizations import rules
from accounts.organizations.models import Organization
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.second_clicks import WITHIN_S
from tokens.tests.test_organization_pages import HERE, ROW, after, ann, fields_of, invited_by_owner, made

__all__ = ["ann"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


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


@pytest.mark.parametrize("gap_ms", [0, 10])
async def test_two_at_once_make_one(api: httpx.AsyncClient, ann: User, gap_ms: int) -> None:
    """Also while the first request is under way; both lead to the organisation, and one event is left."""
    form = {**fields_of(await api.get(ROW, headers=HERE), "create"), "name": "Acme"}

    async def click(after_ms: int) -> httpx.Response:
        await asyncio.sleep(after_ms / 1_000)
        return await api.post(ROW, data=form, headers=HERE)

    first, second = await asyncio.gather(click(0), click(gap_ms))
    one = await Organization.objects.aget()
    assert first.headers["Location"] == second.headers["Location"] == f"{ROW}/{one.pk}?done=create"
    assert await AuditEvent.objects.filter(event="organization_created").acount() == 1


async def test_a_refused_one_can_be_made(api: httpx.AsyncClient, ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same form makes it at once, when what refused it is over."""
    form = {**fields_of(await api.get(ROW, headers=HERE), "create"), "name": "Acme"}
    with monkeypatch.context() as less:
        less.setattr(rules, "MOST_OWNED", 0)
        refused = await asyncio.gather(*(api.post(ROW, data=form, headers=HERE) for _ in range(2)))
        assert {one.status_code for one in refused} == {409}
    assert (await api.post(ROW, data=form, headers=HERE)).status_code == 303
    assert await Organization.objects.acount() == 1


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


@pytest.mark.parametrize("act", ["accept", "decline"])
async def test_one_answer_is_given(api: httpx.AsyncClient, ann: User, act: str) -> None:
    """Both clicks lead to the organisation that was joined, or stay at the list; one event is left."""
    await invited_by_owner(ann)
    organization = await Organization.objects.aget()
    form = fields_of(await api.get(ROW, headers=HERE), act)
    first, second = [await api.post(ROW, data=form, headers=HERE) for _ in range(2)]
    there = f"{ROW}/{organization.pk}" if act == "accept" else ROW
    assert first.headers["Location"] == second.headers["Location"] == f"{there}?done={act}"
    events = AuditEvent.objects.filter(event__in=["organization_joined", "member_invitation_declined"])
    assert await events.acount() == 1


async def test_another_form_is_refused(api: httpx.AsyncClient, ann: User) -> None:
    """The same address with another role is no second click: an invitation to it waits."""
    path = f"{ROW}/{(await made('owner', ann)).pk}"
    await twice(api, path, "invite", email="bob@example.com", role="member")
    form = {**fields_of(await api.get(path, headers=HERE), "invite"), "email": "bob@example.com", "role": "admin"}
    assert (await api.post(path, data=form, headers=HERE)).status_code == 409
