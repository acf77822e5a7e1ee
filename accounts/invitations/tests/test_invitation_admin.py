"""Invitations in the admin: made, sent again and withdrawn by who may, and never changed."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.invitations.models import Invitation
from accounts.invitations.tests.conftest import RIGHTS
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.users.models import User
from ironauth.infrastructure.core import clock

pytestmark = [pytest.mark.django_db, pytest.mark.storage]
LIST = "/admin/accounts/invitation/"


@pytest.fixture
def inviter(make_user: MakeUser, client: Client) -> User:
    """A member of staff who may do everything with invitations, and give roles."""
    user = make_user(*RIGHTS, "accounts.add_user", email="staff@example.com", is_staff=True)
    client.force_login(user)
    return user


def add(client: Client, **fields: Any) -> Any:
    """Send the form."""
    return client.post(f"{LIST}add/", {"email": "ida@example.com", "name": "Ida", "language": "fr", **fields})


def act(client: Client, action: str) -> str:
    """Carry out an action on all invitations, and return the list as it is shown then."""
    keys = [str(pk) for pk in Invitation.objects.values_list("pk", flat=True)]
    answer = client.post(LIST, {"action": action, "_selected_action": keys}, follow=True)
    assert answer.status_code == 200
    return str(answer.content.decode())


def events() -> list[str]:
    """Return what the trail has of invitations, the oldest first."""
    assert audit.wait_until_written()
    return list(
        AuditEvent.objects.filter(event__startswith="invitation_").order_by("id").values_list("event", flat=True)
    )


def test_staff_invite(client: Client, inviter: User, make_role: Callable[..., Group]) -> None:
    """The message is queued in the person's language, with the roles that the caller may give; others are no choice."""
    readers, admins = make_role("readers"), make_role("admins", "accounts.delete_user")
    page = client.get(f"{LIST}add/").content.decode()
    assert re.findall(r'<input type="submit" value="([^"]+)"', page.split('id="invitation_form"')[-1]) == ["Invite"]
    assert "no roles yet" not in page
    assert "readers" in page
    assert "admins" not in page
    refused = add(client, roles=[admins.pk])
    assert (refused.status_code, Invitation.objects.exists()) == (200, False)
    assert add(client, roles=[readers.pk]).status_code == 302
    row, message = Invitation.objects.get(), OutgoingMail.objects.get()
    assert (row.email, row.name, row.roles, row.invited_by_id) == ("ida@example.com", "Ida", ["readers"], inviter.pk)
    assert (message.recipient, message.kind, message.facts["language"]) == ("ida@example.com", "invitation", "fr")
    assert events() == ["invitation_made"]
    shown = client.get(f"{LIST}{row.pk}/change/").content.decode()
    assert "staff@example.com" in shown
    assert 'name="_save"' not in shown


@pytest.mark.parametrize(
    "fields", [{"email": "no address"}, {"email": ""}, {"name": "a\x07b"}, {"language": "xx"}, {"roles": ["7777"]}]
)
def test_what_is_wrong_is_said_in_the_form(client: Client, inviter: User, fields: dict[str, Any]) -> None:
    """Nobody is invited, and the form says why."""
    answer = add(client, **fields)
    assert (answer.status_code, "errorlist" in answer.content.decode()) == (200, True)
    assert not Invitation.objects.exists()


def test_one_at_a_time(client: Client, inviter: User) -> None:
    """A second to the address is refused in the form while the first waits; an expired one is replaced."""
    add(client)
    assert "waits for an answer" in add(client, email="IDA@example.com").content.decode()
    Invitation.objects.update(expires_at=clock.now())
    assert add(client).status_code == 302
    assert sorted(row.state_at(clock.now()) for row in Invitation.objects.all()) == ["waiting", "withdrawn"]


def test_closed_sign_up_invites_nobody(client: Client, inviter: User, settings: Settings) -> None:
    """The form says that the link would open nothing."""
    settings.IRONAUTH_SIGN_UP = "closed"
    assert "would open nothing" in add(client).content.decode()
    assert not Invitation.objects.exists()


def test_sent_again_and_withdrawn(client: Client, inviter: User, settings: Settings) -> None:
    """A new link and a new message take the place of the old ones, also after its end; withdrawn, none is left."""
    add(client)
    before = Invitation.objects.get()
    Invitation.objects.update(expires_at=clock.now())
    assert "Sent again: 1 of 1." in act(client, "send_again")
    row = Invitation.objects.get()
    assert row.token_id not in (None, before.token_id)
    assert row.expires_at > clock.now()
    assert (EmailToken.objects.count(), OutgoingMail.objects.count()) == (1, 1)
    settings.IRONAUTH_SIGN_UP = "closed"
    assert "Sent again: 0 of 1." in act(client, "send_again")
    assert "Withdrawn: 1 of 1." in act(client, "withdraw")
    assert (EmailToken.objects.count(), OutgoingMail.objects.count()) == (0, 0)
    assert "Withdrawn: 0 of 1." in act(client, "withdraw")
    assert events() == ["invitation_made", "invitation_sent_again", "invitation_withdrawn"]


def _buttons(client: Client, row: Invitation) -> list[str]:
    """Return what an invitation's page offers."""
    page = client.get(f"{LIST}{row.pk}/change/").content.decode()
    return re.findall(r'name="action" value="(\w+)"', page)


def test_the_page_of_an_invitation_sends_again_and_withdraws(
    client: Client, inviter: User, make_user: MakeUser
) -> None:
    """By who may do each, while nobody has answered; one is back on the page then, which offers nothing more."""
    add(client)
    row = Invitation.objects.get()
    page = f"{LIST}{row.pk}/change/"
    assert _buttons(client, row) == ["send_again", "withdraw"]
    for action, told in (("send_again", "Sent again: 1 of 1."), ("withdraw", "Withdrawn: 1 of 1.")):
        sent = {"action": action, "page": "yes", "_selected_action": [str(row.pk)]}
        answer = client.post(LIST, sent, follow=True)
        assert answer.redirect_chain == [(page, 302)]
        assert told in answer.content.decode()
    assert _buttons(client, row) == []
    for number, answered in enumerate(({"accepted_at": clock.now()}, {"expires_at": clock.now()})):
        add(client, email=f"n{number}@example.com")
        Invitation.objects.filter(email=f"n{number}@example.com").update(**answered)
        offered = _buttons(client, Invitation.objects.get(email=f"n{number}@example.com"))
        assert offered == ([] if "accepted_at" in answered else ["send_again", "withdraw"])
    Invitation.objects.filter(pk=row.pk).update(withdrawn_at=None)
    client.force_login(make_user("accounts.view_invitation", is_staff=True))
    assert _buttons(client, row) == []
    client.force_login(make_user("accounts.view_invitation", "accounts.delete_invitation", is_staff=True))
    assert _buttons(client, row) == ["withdraw"]


def test_no_role_to_give_is_said(client: Client, inviter: User, make_role: Callable[..., Group]) -> None:
    """Where there is none, or none that the caller may give, the field is not empty."""
    none = "There are no roles yet that you may give."
    assert none in client.get(f"{LIST}add/").content.decode()
    make_role("admins", "accounts.delete_user")
    assert none in client.get(f"{LIST}add/").content.decode()
    make_role("readers")
    assert none not in client.get(f"{LIST}add/").content.decode()


@pytest.mark.each_case
@pytest.mark.parametrize("state", ["waiting", "accepted", "withdrawn", "expired"])
def test_the_list_is_filtered_by_state(client: Client, inviter: User, state: str) -> None:
    """Each state has the invitations of that state alone."""
    now = clock.now()
    for name, values in {
        "waiting": {},
        "accepted": {"accepted_at": now},
        "withdrawn": {"withdrawn_at": now},
        "expired": {"expires_at": now},
    }.items():
        address = f"{name}-one@example.com"
        base = {"email": address, "email_key": address, "expires_at": now.replace(year=now.year + 1)}
        Invitation.objects.create(**(base | values))
    page = client.get(LIST, {"state": state}).content.decode().replace("<wbr>", "")
    assert [name for name in ("waiting", "accepted", "withdrawn", "expired") if f"{name}-one@" in page] == [state]


@pytest.mark.parametrize("right", [None, *RIGHTS])
def test_each_right_opens_its_own(client: Client, make_user: MakeUser, right: str | None) -> None:
    """Seeing opens the list, adding the form; without any there is neither."""
    rights = ("accounts.view_user", *([right] if right else []))
    client.force_login(make_user(*rights, is_staff=True))
    expected = {"accounts.view_invitation": (200, 403), "accounts.add_invitation": (403, 200)}
    found = (client.get(LIST).status_code, client.get(f"{LIST}add/").status_code)
    assert found == expected.get(right or "", (403, 403))
