"""What ends when an identity is linked: the account's other sessions and a pending change of address, nothing else."""

import re
from uuid import UUID

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

from accounts.audit.models import AuditEvent
from accounts.federation.models import Identity, UpstreamProvider
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.users.models import User
from conftest import PASSWORD, bearer
from tokens.oauth.tests.walk import by_password, is_page
from tokens.sessions.models import FIRST_PARTY_CLIENT, SSO_CLIENT, Session
from tokens.tests.browser import SAME_ORIGIN, SIGNIN, Member, Pair
from tokens.upstream import units
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.test_identities import begun
from tokens.upstream.tests.walk import back, is_in, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

Purpose = email_tokens.Purpose
SIGNUP = "/api/v1/access/signup"


async def strangers(api: httpx.AsyncClient, member: Member) -> Pair:
    """Open another session of the person, as a thief does who has the password."""
    answer = await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})
    assert answer.status_code == 200, answer.text
    api.cookies.clear()
    found: Pair = answer.json()
    return found


def mailed(member: Member) -> None:
    """Have a change of address wait for its confirmation, and a link for a new password for its use."""
    user_id = UUID(member["id"])
    with transaction.atomic():
        for purpose in (Purpose.CHANGE_EMAIL, Purpose.RESET_PASSWORD):
            token_id = email_tokens.issue(purpose=purpose, user_id=user_id, new_email="thief@example.com")
            outbox.enqueue(Kind(purpose.value), recipient="thief@example.com", user_id=user_id, token_id=token_id)


async def purposes() -> set[str]:
    """Return what the links that were mailed are good for, each with its message."""
    found = {
        one async for one in EmailToken.objects.exclude(purpose=Purpose.VERIFY_EMAIL).values_list("purpose", flat=True)
    }
    waits = OutgoingMail.objects.exclude(token=None).exclude(token__purpose=Purpose.VERIFY_EMAIL)
    assert {one async for one in waits.values_list("token__purpose", flat=True)} == found
    return found


async def lives(api: httpx.AsyncClient, pair: Pair) -> bool:
    """Tell whether a session is good for anything: its access token, and its refresh token."""
    seen = await api.get("/api/v1/access/me", headers=bearer(pair))
    renewed = await api.post("/api/v1/access/refresh", json={"refresh_token": pair["refresh_token"]})
    assert (seen.status_code == 200) is (renewed.status_code == 200)
    return seen.status_code == 200


async def test_connecting_ends_the_others(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider
) -> None:
    """The session that asked stays, and so does the link that the owner's own mailbox has; the trail has each end."""
    thief = await strangers(api, member)
    await sync_to_async(mailed)(member)
    asked = await begun(api, provider, pair)
    assert await purposes() == {"change_email", "reset_password"}
    assert (await back(api, provider, asked)).status_code == 303
    assert not await lives(api, thief)
    assert await lives(api, pair)
    assert await purposes() == {"reset_password"}
    (ended,) = [one async for one in AuditEvent.objects.filter(event="session_ended")]
    assert (ended.details["reason"], ended.details["provider"]) == ("identity_linked", "acme")
    mail = await OutgoingMail.objects.aget(kind="identity_linked")
    assert mail.recipient == member["email"]


async def test_what_is_not_linked_ends_nothing(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider
) -> None:
    """Neither one that is the person's already, nor somebody else's, nor what the provider does not confirm."""
    assert (await back(api, provider, await begun(api, provider, pair))).status_code == 303
    other = await strangers(api, member)
    await sync_to_async(mailed)(member)
    assert (await back(api, provider, await begun(api, provider, pair))).status_code == 303
    provider.claims = {"sub": "another"}
    assert is_page(await back(api, provider, await begun(api, provider, pair)), 409, "belongs to another account")
    assert is_page(await back(api, provider, await begun(api, provider, pair), error="access_denied"), 401)
    assert await lives(api, other)
    assert await purposes() == {"change_email", "reset_password"}


async def test_signing_in_first_ends_the_others(api: httpx.AsyncClient, member: Member, provider: FakeProvider) -> None:
    """The session of the sign-in that linked it stays; another sign-in with the identity ends nothing."""
    thief = await strangers(api, member)
    await sync_to_async(mailed)(member)
    provider.claims = {"email": member["email"]}
    page = await through(api, provider)
    assert await lives(api, thief)
    assert is_in(await by_password(api, page, member["email"]))
    assert (await api.get("/api/v1/access/me")).status_code == 200
    api.cookies.clear()
    assert not await lives(api, thief)
    assert await purposes() == {"reset_password"}
    other = await strangers(api, member)
    await sync_to_async(mailed)(member)
    assert is_in(await through(api, provider))
    api.cookies.clear()
    assert await lives(api, other)
    assert await purposes() == {"change_email", "reset_password"}


async def said(api: httpx.AsyncClient, address: str, pair: Pair) -> str:
    """Return what the page says above its list, to who has this session."""
    cookies = {"access_token": pair["access_token"], "refresh_token": pair["refresh_token"]}
    browser = httpx.AsyncClient(transport=api._transport, base_url="http://testserver", cookies=cookies)
    page = await browser.get(address, headers=SAME_ORIGIN)
    assert page.status_code == 200, page.text
    found = re.search(r'<div role="status" class="done">(.*?)</div>', page.text, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", found[1]).split()) if found else ""


async def test_the_page_says_what_ended(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider
) -> None:
    """That it is connected, how many sessions were ended, where and why; to this person, as we have written it."""
    body = {"email": member["email"], "password": PASSWORD}
    firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
    for _ in range(2):
        await api.post(SIGNIN, json=body, headers={"User-Agent": firefox})
    there = (await back(api, provider, await begun(api, provider, pair))).headers["location"]
    told = await said(api, there, pair)
    assert told.startswith("Acme is connected: it signs you in here from now on. 2 other sessions of yours were ended")
    assert told.endswith("Sign in again there: Firefox, Linux.")
    assert not await said(api, there.replace("Firefox", "Ff"), pair)
    assert not await said(api, there.replace("made=", "made=A"), pair)
    other = (await api.post(SIGNUP, json={"email": "other@example.com", "password": PASSWORD})).json()
    signed = (await api.post(SIGNIN, json={"email": "other@example.com", "password": PASSWORD})).json()
    assert other
    assert not await said(api, there, signed)


async def test_the_page_says_that_nothing_ended(api: httpx.AsyncClient, pair: Pair, provider: FakeProvider) -> None:
    """Nothing is said of sessions where there was none."""
    there = (await back(api, provider, await begun(api, provider, pair))).headers["location"]
    assert await said(api, there, pair) == "Acme is connected: it signs you in here from now on."


async def test_the_page_after_signing_in_first(api: httpx.AsyncClient, member: Member, provider: FakeProvider) -> None:
    """It says the same; a sign-in with the identity afterwards says nothing."""
    await strangers(api, member)
    provider.claims = {"email": member["email"]}
    answer = await by_password(api, await through(api, provider), member["email"])
    page = await api.get(answer.headers["location"], headers=SAME_ORIGIN)
    assert is_page(page, 200, f"Acme ({member['email']}) is connected", "1 other session of yours was ended")
    api.cookies.clear()
    assert (await through(api, provider)).headers["location"] == "/account/security"


async def test_an_identity_that_is_taken_ends_nothing(
    api: httpx.AsyncClient, member: Member, provider: FakeProvider
) -> None:
    """Who signs in while another identity of the provider is theirs keeps the sessions they have."""
    user, row = await User.objects.aget(pk=member["id"]), await UpstreamProvider.objects.aget()
    await Identity.objects.acreate(user=user, provider=row, issuer=provider.issuer, subject="the first one")
    other = await strangers(api, member)
    provider.claims = {"email": member["email"]}
    assert is_in(await by_password(api, await through(api, provider), member["email"]))
    api.cookies.clear()
    assert await lives(api, other)
    assert await Identity.objects.acount() == 1


async def test_the_authority_of_a_domain_ends_the_others(
    api: httpx.AsyncClient, member: Member, provider: FakeProvider
) -> None:
    """Nobody has signed in here yet: every session of before ends, and the one that is opened lives."""
    await UpstreamProvider.objects.aupdate(domains=[member["email"].rpartition("@")[2]])
    await User.objects.aupdate(email_verified_at="2024-01-01T00:00:00Z")
    thief = await strangers(api, member)
    await sync_to_async(mailed)(member)
    provider.claims = {"email": member["email"]}
    assert is_in(await through(api, provider))
    assert (await api.get("/api/v1/access/me")).status_code == 200
    api.cookies.clear()
    assert not await lives(api, thief)
    assert await purposes() == {"reset_password"}
    again = await strangers(api, member)
    assert is_in(await through(api, provider))
    api.cookies.clear()
    assert await lives(api, again)


def test_what_belongs_to_the_session_stays(member: Member) -> None:
    """The SSO session it began in, and what else began there or in it; another browser's SSO session does not."""
    user = User.objects.get(pk=member["id"])
    Session.objects.all().delete()

    def opened(parent: Session | None = None, client_id: str = str(UUID(int=1))) -> Session:
        return Session.objects.create(
            user=user,
            epoch=user.session_epoch,
            parent_id=parent.pk if parent else None,
            client_id=client_id,
            master_key_id="1",
            idle_expires_at="2100-01-01T00:00:00Z",
            absolute_expires_at="2100-01-01T00:00:00Z",
        )

    here, elsewhere = opened(client_id=SSO_CLIENT), opened(client_id=SSO_CLIENT)
    asked, beside, gone = opened(here), opened(here), [elsewhere, opened(elsewhere), opened()]
    pages = opened(here, FIRST_PARTY_CLIENT)  # the account's pages, which go on from the single sign-on
    gone += [opened(elsewhere, FIRST_PARTY_CLIENT), opened(client_id=FIRST_PARTY_CLIENT)]
    kept = {here.pk, asked.pk, beside.pk, pages.pk}
    for session_id in (pages.pk, asked.pk, here.pk):
        with transaction.atomic():
            units._linked(user_id=user.pk, session_id=session_id, slug="acme")
        assert set(Session.objects.filter(revoked_at=None).values_list("pk", flat=True)) == kept
        assert Session.objects.get(pk=pages.pk).parent_id == here.pk
    assert AuditEvent.objects.filter(event="session_ended").count() == len(gone)
