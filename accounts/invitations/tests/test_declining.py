"""An invitation that somebody without an account declines, on the page that its link opens."""

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.invitations.models import Invitation
from accounts.invitations.tests.conftest import INVITED, PAGE, Call, invited
from accounts.lockout import rate_limits
from accounts.organizations.models import Organization
from accounts.outbox.models import EmailToken
from accounts.users.models import User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


async def decline(api: httpx.AsyncClient, token: str, **fields: str) -> httpx.Response:
    """Press the button; nothing else of the form is filled in."""
    return await api.post(PAGE, data={"token": token, "name": "", "password": "", "answer": "decline", **fields})


async def test_the_link_opens_nothing_any_more(api: httpx.AsyncClient, as_inviter: Call, settings: Settings) -> None:
    """No account is made, whatever was typed; an event without a person is left, and staff may invite again."""
    settings.IRONAUTH_TERMS_VERSION, settings.IRONAUTH_TERMS_URL = "2026-11", "https://example.com/terms"
    token = await invited(as_inviter)
    page = await api.get(PAGE, params={"token": token})
    assert 'name="answer" value="decline"' in page.text
    assert not await AuditEvent.objects.filter(event="invitation_declined").aexists()
    done = await decline(api, token, password="seven amber kites over Lyon")
    assert (done.status_code, "You have declined" in done.text) == (200, True)
    assert 'href="/account/signin"' not in done.text
    row = await Invitation.objects.aget()
    assert (row.accepted_at, row.withdrawn_at is not None, row.token_id) == (None, True, None)
    assert not await EmailToken.objects.aexists()
    assert not await User.objects.filter(email_key="ida@example.com").aexists()
    event = await AuditEvent.objects.aget(event="invitation_declined")
    assert (event.actor_id, event.user_id, event.details) == (None, None, {"invitation": str(row.pk)})
    assert (await api.get(PAGE, params={"token": token})).status_code == 400
    assert await invited(as_inviter)


async def test_a_second_click_says_the_same(api: httpx.AsyncClient, as_inviter: Call) -> None:
    """A double click declines once; another request with the link is refused, to accept it as well."""
    token = await invited(as_inviter)
    first, second = await decline(api, token), await decline(api, token)
    assert (first.status_code, second.status_code) == (200, 200)
    assert "You have declined" in second.text
    assert await AuditEvent.objects.filter(event="invitation_declined").acount() == 1
    other = await decline(api, token, name="another form")
    accepted = await api.post(PAGE, data={"token": token, "name": "", "password": "seven amber kites over Lyon"})
    assert (other.status_code, accepted.status_code) == (400, 400)


@pytest.mark.parametrize("closed", [True, False])
async def test_also_where_it_could_not_be_accepted(
    api: httpx.AsyncClient, as_inviter: Call, make_user: MakeUser, settings: Settings, closed: bool
) -> None:
    """The form of a page that was opened before sign-up was closed, or before the address got an account."""
    token = await invited(as_inviter)
    if closed:
        settings.IRONAUTH_SIGN_UP = "closed"
    else:
        await sync_to_async(make_user)(email=INVITED)
    assert (await decline(api, token)).status_code == 200


async def test_one_of_an_organisation(api: httpx.AsyncClient, as_inviter: Call, settings: Settings) -> None:
    """Its event is the one that members have, without a person."""
    settings.IRONAUTH_ORGANIZATIONS = "anybody"
    token = await invited(as_inviter)
    acme = await Organization.objects.acreate(name="Acme", slug="acme")
    owner = await User.objects.aget(email="staff@example.com")
    await acme.memberships.acreate(user=owner, role="owner")
    await Invitation.objects.aupdate(organization=acme, organization_role="member")
    assert (await decline(api, token)).status_code == 200
    row = await Invitation.objects.aget()
    event = await AuditEvent.objects.aget(event="member_invitation_declined")
    assert (event.actor_id, event.user_id) == (None, None)
    assert event.details == {"organization": str(acme.pk), "invitation": str(row.pk)}
    assert not await AuditEvent.objects.filter(event="invitation_declined").aexists()


async def test_guesses_are_counted(api: httpx.AsyncClient, as_inviter: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token of no use counts against the network, as one that accepts does; a genuine one does not."""
    counted: list[object] = []

    async def admit(limit: object, **_: object) -> None:
        counted.append(limit)

    token = await invited(as_inviter)
    monkeypatch.setattr(rate_limits, "admit", admit)
    for guess in ("", "x", token[:-1] + ("A" if token[-1] != "A" else "B")):
        answer = await decline(api, guess)
        assert (answer.status_code, "This invitation is invalid" in answer.text) == (400, True)
    assert counted == [rate_limits.EMAIL_TOKEN] * 3
    assert (await decline(api, token)).status_code == 200
    assert counted == [rate_limits.EMAIL_TOKEN] * 3
