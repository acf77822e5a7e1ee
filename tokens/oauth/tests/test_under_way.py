"""What a person has under way for clients, and has no session yet, ends with the sessions that are thrown out."""

from uuid import UUID

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import Q
from django.test import Client
from django.urls import reverse

from accounts.users.models import User
from conftest import bearer
from ironauth.infrastructure.core import clock
from tokens.oauth.device.tests.test_device import SCOPE, ask, confirmed, tv
from tokens.oauth.device.tests.test_device import begin as begin_device
from tokens.oauth.tests.flow import TOKEN, Party
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.oauth.tests.walk import VERIFIER, answered, authorize, by_password
from tokens.sessions import units as sessions
from tokens.sessions.ends import queries as session_ends
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.tests.browser import Member, Pair

__all__ = ["tv"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

SESSIONS = "/api/v1/access/sessions"


async def throw_out(act: str, api: httpx.AsyncClient, pair: Pair) -> None:
    """End the SSO session, or do something else."""
    sso = await Session.objects.aget(client_id=SSO_CLIENT)
    headers = {**bearer(pair), "Cookie": ""}
    if act == "in the list":
        assert (await api.delete(f"{SESSIONS}/{sso.pk}", headers=headers)).status_code == 204
    elif act == "everywhere else":
        assert (await api.delete(SESSIONS, headers=headers)).status_code == 204
    elif act == "by staff":
        await sync_to_async(by_staff)(sso)
    elif act == "with its way in":
        await sync_to_async(all_matching)(sso.user_id)
    elif act == "another":
        other = await sync_to_async(bare_session)(sso.user_id)
        assert (await api.delete(f"{SESSIONS}/{other.pk}", headers=headers)).status_code == 204


def by_staff(sso: Session) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root@example.com"))
    sent = {"action": "end_sessions", "confirmed": "yes", "_selected_action": [str(sso.pk)]}
    assert client.post(reverse("admin:tokens_session_changelist"), sent).status_code == 302


@transaction.atomic
def all_matching(user_id: UUID) -> None:
    session_ends.end_matching(Q(client_id=SSO_CLIENT), user_id=user_id, actor_id=None, keep=None, details={})


def bare_session(user_id: UUID) -> Session:
    return Session.objects.create(
        user_id=user_id, epoch=0, master_key_id="1", idle_expires_at="2100-01-01T00:00:00Z",
        absolute_expires_at="2100-01-01T00:00:00Z",
    )  # fmt: skip


ACTS = [
    ("in the list", False), ("everywhere else", False), ("by staff", False), ("with its way in", False),
    ("another", True), ("", True),
]  # fmt: skip


@pytest.mark.parametrize(("act", "goes_on"), ACTS)
async def test_a_code(api: httpx.AsyncClient, member: Member, pair: Pair, act: str, goes_on: bool) -> None:
    """Also one that lets the client work offline, whose session would outlive the SSO session."""
    client, secret = await sync_to_async(make_client)(trusted=True)
    page = await authorize(api, client, scope="openid offline_access")
    code = answered(await by_password(api, page, member["email"]))["code"]
    await throw_out(act, api, pair)
    asked = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI, "code_verifier": VERIFIER}
    answer = await api.post(TOKEN, data=asked, auth=(str(client.pk), secret))
    assert answer.status_code == (200 if goes_on else 400), answer.text


@pytest.mark.parametrize(("act", "goes_on"), ACTS)
async def test_a_device(tv: Party, api: httpx.AsyncClient, member: Member, pair: Pair, act: str, goes_on: bool) -> None:
    """That was let in, and has not asked since."""
    begun = await begin_device(tv, SCOPE)
    await confirmed(api, begun, member)
    await throw_out(act, api, pair)
    await ask(tv, begun, "" if goes_on else "invalid_grant")


async def test_also_where_the_sso_session_is_over(
    tv: Party, api: httpx.AsyncClient, member: Member, pair: Pair
) -> None:
    """Who signs out after letting the device in hides nothing from who removes the way in."""
    begun = await begin_device(tv, SCOPE)
    await confirmed(api, begun, member)
    sso = await Session.objects.aget(client_id=SSO_CLIENT)
    await sync_to_async(transaction.atomic(sessions.end_session))(
        session_id=sso.pk, reason=Session.RevokeReason.SIGNED_OUT
    )
    await sync_to_async(all_matching)(sso.user_id)
    await ask(tv, begun, "invalid_grant")


@pytest.mark.parametrize(("of_client", "status"), [(True, 200), (False, 400)])
async def test_what_began_in_the_browser_that_asks(
    api: httpx.AsyncClient, member: Member, pair: Pair, of_client: bool, status: int
) -> None:
    """A code of the SSO session goes on where a client has asked in it; that of the account's pages ends."""
    client, secret = await sync_to_async(make_client)(trusted=True)
    code = answered(await by_password(api, await authorize(api, client), member["email"]))["code"]
    sso = await Session.objects.aget(client_id=SSO_CLIENT)
    mine = await sync_to_async(bare_session)(sso.user_id)
    whose = str(client.pk) if of_client else mine.client_id
    await Session.objects.filter(pk=mine.pk).aupdate(parent_id=sso.pk, client_id=whose)

    @transaction.atomic
    def end_others() -> None:
        session_ends.end_matching(Q(), user_id=sso.user_id, actor_id=sso.user_id, keep=mine.pk, details={})

    await sync_to_async(end_others)()
    asked = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI, "code_verifier": VERIFIER}
    assert (await api.post(TOKEN, data=asked, auth=(str(client.pk), secret))).status_code == status


@pytest.mark.parametrize(
    ("reason", "goes_on"), [("ended_by_user", False), ("ended_by_staff", False), ("signed_out", True), ("", True)]
)
async def test_a_code_of_this_moment(
    api: httpx.AsyncClient, member: Member, pair: Pair, reason: str, goes_on: bool
) -> None:
    """One that is issued while its SSO session is thrown out opens nothing; after a sign-out offline access does."""
    client, secret = await sync_to_async(make_client)(trusted=True)
    page = await authorize(api, client, scope="openid offline_access")
    code = answered(await by_password(api, page, member["email"]))["code"]
    if reason:
        sso = Session.objects.filter(client_id=SSO_CLIENT)
        await sso.aupdate(revoked_at=clock.now(), revoke_reason=reason)
    asked = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI, "code_verifier": VERIFIER}
    answer = await api.post(TOKEN, data=asked, auth=(str(client.pk), secret))
    assert answer.status_code == (200 if goes_on else 400), answer.text
