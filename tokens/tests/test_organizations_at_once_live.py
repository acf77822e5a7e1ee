"""Organisations deleted while people join them, by requests to two server processes: nobody waits in a circle."""

import asyncio
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction

from accounts.invitations.models import Invitation
from accounts.organizations import units
from accounts.organizations.models import Membership, Organization
from accounts.outbox import tokens as email_tokens
from accounts.users.models import User
from conftest import PASSWORD, ServeProcess, bearer
from ironauth.infrastructure.core import clock
from tokens.tests.browser import SIGNIN

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.live,
    pytest.mark.usefixtures("signing_key"),
]

ORGANIZATIONS = "/api/v1/organizations"
WORKERS, AT_ONCE = 2, 12


def deadlocks() -> int:
    """Return how many transactions PostgreSQL has ended to let another pass, or 0 elsewhere."""
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def invited() -> list[tuple[str, str]]:
    """Make organisations of one owner that one person is invited to; return their ids with the tokens of the links."""
    known: dict[str, Any] = {"password": PASSWORD, "email_verified_at": clock.now()}
    owner, _ida = (User.objects.create_user(email=f"{name}@example.com", **known) for name in ("owner", "ida"))
    User.objects.create_superuser(email="root@example.com", password=PASSWORD)
    made = []
    for number in range(AT_ONCE):
        with transaction.atomic():
            one = units.create_organization(user_id=owner.pk, name=f"Number {number}").organization_id
            row = units.invite(actor_id=owner.pk, organization_id=one, address="ida@example.com", role="member")
        token = Invitation.objects.select_related("token").get(pk=row.id).token
        assert token is not None
        made.append((str(one), email_tokens.text(token)))
    return made


@pytest.mark.parametrize("by_staff", [False, True])
async def test_people_join_what_is_deleted(serve_process: ServeProcess, by_staff: bool) -> None:
    """Each is deleted, by its owner or by staff; the person was a member for a moment, or is told the link is stale."""
    made, before = await sync_to_async(invited)(), await sync_to_async(deadlocks)()
    base = await asyncio.to_thread(serve_process, "--workers", str(WORKERS))
    async with httpx.AsyncClient(base_url=base, limits=httpx.Limits(max_connections=2 * AT_ONCE), timeout=30) as api:

        async def headers(name: str) -> dict[str, str]:
            signed_in = await api.post(SIGNIN, json={"email": f"{name}@example.com", "password": PASSWORD})
            return bearer(signed_in.json())

        ida, who = await headers("ida"), await headers("root" if by_staff else "owner")
        there = "/api/v1/staff/organizations" if by_staff else ORGANIZATIONS
        accept = [api.post(f"{ORGANIZATIONS}/invitations/accept", json={"token": one}, headers=ida) for _, one in made]
        delete = [api.delete(f"{there}/{one}", headers=who) for one, _ in made]
        answers = await asyncio.gather(*(act for pair in zip(accept, delete, strict=True) for act in pair))
    assert {one.status_code for one in answers[1::2]} == {204}
    assert {one.status_code for one in answers[0::2]} <= {200, 400}
    assert await Organization.objects.acount() == await Membership.objects.acount() == 0
    assert await sync_to_async(deadlocks)() == before
