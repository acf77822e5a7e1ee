"""A person's identities at other providers: seen, connected, removed; never the last way in, never another's."""

import html
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.federation.models import Identity, UpstreamProvider
from accounts.users.models import User
from conftest import PASSWORD, bearer
from tokens.oauth.tests.walk import is_page
from tokens.sessions.models import Session
from tokens.tests.browser import Member, Pair
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.walk import back

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

IDENTITIES = "/api/v1/access/identities"


async def begun(api: httpx.AsyncClient, provider: FakeProvider, pair: Pair) -> dict[str, str]:
    """Ask to connect an identity; return what the provider is asked."""
    answer = await api.post(IDENTITIES, json={"provider": "acme"}, headers=bearer(pair))
    assert answer.status_code == 200, answer.text
    asked = {name: values[0] for name, values in parse_qs(urlsplit(answer.json()["url"]).query).items()}
    provider.nonce, provider.challenge = asked["nonce"], asked["code_challenge"]
    return asked


async def listed(api: httpx.AsyncClient, pair: Pair) -> Any:
    """Return what the person sees."""
    answer = await api.get(IDENTITIES, headers=bearer(pair))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_connected_and_removed(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider
) -> None:
    """What was connected is listed, and removed again; the provider is then offered again."""
    assert await listed(api, pair) == {"identities": [], "providers": [{"slug": "acme", "name": "Acme"}]}
    answer = await back(api, provider, await begun(api, provider, pair))
    assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/account/security/identities")
    assert "access_token" not in answer.cookies
    seen = await listed(api, pair)
    assert seen["providers"] == []
    (one,) = seen["identities"]
    assert (one["provider"]["slug"], one["email"]) == ("acme", "ann@example.com")
    removed = await api.delete(f"{IDENTITIES}/{one['id']}", headers=bearer(pair))
    assert removed.status_code == 204
    assert (await api.delete(f"{IDENTITIES}/{one['id']}", headers=bearer(pair))).status_code == 404
    assert (await listed(api, pair))["providers"]


async def test_connecting_again_changes_nothing(api: httpx.AsyncClient, pair: Pair, provider: FakeProvider) -> None:
    """The same identity twice is one; a second one of the provider is refused."""
    for _ in range(2):
        assert (await back(api, provider, await begun(api, provider, pair))).status_code == 303
    provider.claims = {"sub": "another"}
    assert is_page(await back(api, provider, await begun(api, provider, pair)), 409, "belongs to another account")
    assert await Identity.objects.acount() == 1


async def test_a_refusal_is_in_the_persons_trail(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider
) -> None:
    """What a provider does not confirm connects nothing; staff see whose it was, at which provider, and the cause."""
    asked = await begun(api, provider, pair)
    refused = await back(api, provider, asked, code=None, error="access_denied")
    assert is_page(refused, 401, "did not confirm who you are")
    assert not await Identity.objects.aexists()
    await sync_to_async(audit.wait_until_written)()
    event = await AuditEvent.objects.aget(event="identity_linked")
    owner = await User.objects.aget(email=member["email"])
    assert (event.outcome, event.user_id, event.actor_id) == ("failure", owner.pk, owner.pk)
    assert event.details == {"reason": "provider_refused", "provider": "acme", "cause": "refused_there"}


async def test_anothers_identity_is_not_taken(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider
) -> None:
    """Who has it keeps it."""
    owner = await sync_to_async(User.objects.create_user)("owner@example.com", PASSWORD)
    row = await UpstreamProvider.objects.aget()
    await Identity.objects.acreate(user=owner, provider=row, issuer=provider.issuer, subject="subject-1")
    assert is_page(await back(api, provider, await begun(api, provider, pair)), 409, "belongs to another account")
    assert (await Identity.objects.aget()).user_id == owner.pk


async def test_connecting_needs_the_browser_that_asked(
    api: httpx.AsyncClient, pair: Pair, provider: FakeProvider
) -> None:
    """An answer that another browser brings connects nothing."""
    asked = await begun(api, provider, pair)
    api.cookies.clear()
    assert is_page(await back(api, provider, asked), 400, "expired")
    assert not await Identity.objects.aexists()


async def test_both_need_a_recent_proof(api: httpx.AsyncClient, pair: Pair, provider: FakeProvider) -> None:
    """An old session sees its identities, and neither connects nor removes one."""
    assert (await back(api, provider, await begun(api, provider, pair))).status_code == 303
    (one,) = (await listed(api, pair))["identities"]
    await Session.objects.aupdate(authenticated_at="2024-01-01T00:00:00Z")
    stale = (await api.post("/api/v1/access/refresh", json={"refresh_token": pair["refresh_token"]})).json()
    for answer in (
        await api.post(IDENTITIES, json={"provider": "acme"}, headers=bearer(stale)),
        await api.delete(f"{IDENTITIES}/{one['id']}", headers=bearer(stale)),
    ):
        assert (answer.status_code, answer.json()["code"]) == (401, "step_up_required")
    assert len((await listed(api, stale))["identities"]) == 1


async def test_the_last_way_in_stays(api: httpx.AsyncClient, provider: FakeProvider, settings: Settings) -> None:
    """Without password, passkey and code by mail the identity cannot be removed; with any of them it can."""
    await UpstreamProvider.objects.aupdate(trusts_email=True)
    page = await api.get("/account/signin")
    found = re.search(r'name="request" value="([^"]+)"', page.text)
    assert found is not None
    leads = await api.post("/oauth/upstream", data={"request": html.unescape(found[1]), "provider": "acme"})
    address = re.search(r'<a href="([^"]+)">Continue', leads.text)
    assert address is not None
    asked = {name: values[0] for name, values in parse_qs(urlsplit(html.unescape(address[1])).query).items()}
    provider.nonce, provider.challenge = asked["nonce"], asked["code_challenge"]
    assert (await back(api, provider, asked)).status_code == 303
    pair = {"access_token": api.cookies["access_token"]}
    api.cookies.clear()
    assert (await api.get("/api/v1/access/mfa", headers=bearer(pair))).json()["has_password"] is False
    (one,) = (await listed(api, pair))["identities"]
    refused = await api.delete(f"{IDENTITIES}/{one['id']}", headers=bearer(pair))
    assert (refused.status_code, refused.json()["code"]) == (409, "last_way_in")
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    assert (await api.delete(f"{IDENTITIES}/{one['id']}", headers=bearer(pair))).status_code == 204


async def test_another_persons_identity_is_not_there(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider
) -> None:
    """It is 404, like one that does not exist; an unknown provider too."""
    owner = await sync_to_async(User.objects.create_user)("owner@example.com", PASSWORD)
    row = await UpstreamProvider.objects.aget()
    other = await Identity.objects.acreate(user=owner, provider=row, issuer=provider.issuer, subject="subject-1")
    assert (await api.delete(f"{IDENTITIES}/{other.pk}", headers=bearer(pair))).status_code == 404
    assert (await api.post(IDENTITIES, json={"provider": "nobody"}, headers=bearer(pair))).status_code == 404
    assert await Identity.objects.aexists()


@pytest.mark.parametrize("path", ["logout", "logout-all", "password"])
async def test_what_was_begun_ends_with_its_session(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider, path: str
) -> None:
    """An owner who signs a thief out, or changes the password, leaves no way in that the thief had begun to add."""
    asked = await begun(api, provider, pair)
    body = {"current_password": PASSWORD, "new_password": f"another {PASSWORD}"} if path == "password" else {}
    ended = await api.post(f"/api/v1/access/{path}", json=body, headers=bearer(pair))
    assert ended.status_code in (200, 204), ended.text
    assert is_page(await back(api, provider, asked), 401)
    assert not await Identity.objects.aexists()
