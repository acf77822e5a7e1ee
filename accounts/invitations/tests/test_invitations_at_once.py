"""Accepting, withdrawing and inviting at the same moment: one account at most, and each learns what became of it."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.hashers import make_password
from django.db import transaction

from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.email.tests.test_email_flows import delivered
from accounts.invitations import units
from accounts.invitations.models import Invitation
from accounts.invitations.tests.conftest import INVITED, NEW_PASSWORD, PAGE, RIGHTS, SIGNUP, Call, invited
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.tests.at_once import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
VALUES = {"email": INVITED, "name": "", "language": "", "roles": []}
AT_ONCE = 4


def outcomes_of(*acts: Callable[[], Any]) -> list[str]:
    """Return what each came to, of acts that may be refused and leave nothing."""
    return sorted(type(one).__name__ if isinstance(one, Exception) else "done" for one in at_once(*acts))


@pytest.fixture
def found(make_user: MakeUser) -> units.Invited:
    """An invitation, as its link has been found before the hash."""
    staff = make_user(*RIGHTS, email="staff@example.com")
    with transaction.atomic():
        made = units.invite(actor_id=staff.pk, values=VALUES)
    row = Invitation.objects.get(pk=made.id)
    assert row.token_id is not None
    return units.Invited(row.pk, row.token_id, row.email, row.name, taken=False)


def test_of_many_who_accept_one_has_the_account(found: units.Invited) -> None:
    """The others find the link used."""
    accept = partial(units.accept, invited=found, encoded=make_password(None), name="")
    assert outcomes_of(*[accept] * AT_ONCE) == ["InvalidInvitation"] * (AT_ONCE - 1) + ["done"]
    user = User.objects.get(email_key="ida@example.com")
    assert Invitation.objects.get().user_id == user.pk


def test_of_accepting_and_withdrawing_one_is_done(found: units.Invited) -> None:
    """There is an account, or the invitation is withdrawn."""
    staff = User.objects.get(email="staff@example.com")
    accept = partial(units.accept, invited=found, encoded=make_password(None), name="")
    withdraw = partial(units.withdraw, actor_id=staff.pk, invitation_id=found.id)
    outcomes = outcomes_of(accept, withdraw)
    made = User.objects.filter(email_key="ida@example.com").exists()
    assert outcomes == (["NotFound", "done"] if made else ["InvalidInvitation", "done"])
    row = Invitation.objects.get()
    assert (row.accepted_at is not None, row.withdrawn_at is None) == (made, made)


def test_of_accepting_and_declining_one_is_done(found: units.Invited) -> None:
    """There is an account, or the invitation is declined; never both, and one event says which."""
    token = email_tokens.text(EmailToken.objects.get())
    accept = partial(units.accept, invited=found, encoded=make_password(None), name="")
    assert outcomes_of(accept, partial(units.decline, token)) == ["InvalidInvitation", "done"]
    made = User.objects.filter(email_key="ida@example.com").exists()
    row = Invitation.objects.get()
    assert (row.accepted_at is not None, row.withdrawn_at is None) == (made, made)
    answered = AuditEvent.objects.filter(event__in=("invitation_accepted", "invitation_declined"))
    assert answered.get().event == ("invitation_accepted" if made else "invitation_declined")


def test_of_many_who_decline_one_does(found: units.Invited) -> None:
    """The others find the link of no use; one event is left."""
    decline = partial(units.decline, email_tokens.text(EmailToken.objects.get()))
    assert outcomes_of(*[decline] * AT_ONCE) == ["InvalidInvitation"] * (AT_ONCE - 1) + ["done"]
    assert AuditEvent.objects.filter(event="invitation_declined").count() == 1


def test_of_two_invitations_to_an_address_one_is_made(make_user: MakeUser) -> None:
    """The database refuses the other, which the API answers with 409."""
    staff = make_user(*RIGHTS)
    invite = partial(units.invite, actor_id=staff.pk, values=VALUES)
    assert outcomes_of(invite, invite) == ["IntegrityError", "done"]
    assert Invitation.objects.count() == 1


async def test_page_and_api_at_once_make_one_account(api: httpx.AsyncClient, as_inviter: Call) -> None:
    """Through HTTP, with the hashes between: one of four gets the account, the others a clear answer."""
    token = await invited(as_inviter)
    form = {"token": token, "password": NEW_PASSWORD}
    body = {"email": INVITED, "password": NEW_PASSWORD, "invitation": token}
    asked = [
        api.post(PAGE, data=form),
        api.post(SIGNUP, json=body),
        api.post(PAGE, data={**form, "name": "Ida"}),  # another tab: not the same form
        api.post(SIGNUP, json=body),
    ]
    statuses = sorted([answer.status_code for answer in await asyncio.gather(*asked)])
    assert statuses[0] in (200, 201)
    assert set(statuses[1:]) <= {400, 409}
    assert await User.objects.filter(email_key="ida@example.com").acount() == 1


async def test_an_address_that_is_taken_meanwhile(
    api: httpx.AsyncClient, as_inviter: Call, make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proved between the look and the hash's end: 409, and the invitation waits as before."""
    token = await invited(as_inviter)
    await sync_to_async(make_user)(email=INVITED, email_verified_at=clock.now())
    found = units.find

    def unaware(text: str) -> units.Invited | None:
        invitation = found(text)
        return invitation._replace(taken=False) if invitation else None

    monkeypatch.setattr(units, "find", unaware)
    answer = await api.post(SIGNUP, json={"email": INVITED, "password": NEW_PASSWORD, "invitation": token})
    assert (answer.status_code, answer.json()["code"]) == (409, "email_taken")
    row = await Invitation.objects.aget()
    assert (row.accepted_at, row.token_id is not None) == (None, True)
    assert await delivered() == []
