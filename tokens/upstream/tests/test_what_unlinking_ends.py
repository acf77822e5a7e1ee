"""What ends when an identity is removed: the sessions that began with it, wherever they are; nothing else."""

from typing import Any
from uuid import UUID

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import transaction
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.errors import InvalidCredentials
from accounts.federation import removal
from accounts.federation.models import Identity, UpstreamProvider, UpstreamSignIn
from accounts.users.models import User
from conftest import bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.oauth.tests.walk import VERIFIER, answered, authorize, send
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.sign_in import units as sign_ins
from tokens.sign_in.proofs import ByUpstream
from tokens.tests.browser import Member, Pair
from tokens.tests.second_factor import enrol
from tokens.upstream import discovery
from tokens.upstream.models import UpstreamSession
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.test_identities import IDENTITIES
from tokens.upstream.tests.test_what_linking_ends import lives, strangers
from tokens.upstream.tests.walk import back, is_in, sent, stored, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]


@pytest.fixture
async def identity(member: Member, provider: FakeProvider) -> Identity:
    """The member's identity at the provider."""
    user, row = await User.objects.aget(pk=member["id"]), await UpstreamProvider.objects.aget()
    return await Identity.objects.acreate(user=user, provider=row, issuer=provider.issuer, subject="subject-1")


async def by_identity(api: httpx.AsyncClient, provider: FakeProvider) -> Pair:
    """Sign in with the provider; return the session's tokens, which the browser has no more."""
    assert is_in(await through(api, provider))
    found: Any = {name: api.cookies[name] for name in ("access_token", "refresh_token")}
    api.cookies.clear()
    return found  # type: ignore[no-any-return] # made here


async def removed(api: httpx.AsyncClient, identity: Identity, pair: Pair) -> None:
    """Take the identity away."""
    answer = await api.delete(f"{IDENTITIES}/{identity.pk}", headers=bearer(pair))
    assert answer.status_code == 204, answer.text


@pytest.mark.parametrize("tells_logout", [True, False])
async def test_what_it_began_ends(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider, identity: Identity, tells_logout: bool
) -> None:
    """Whether the provider announces sign-outs or not; sessions that began with the password stay."""
    provider.document = {"backchannel_logout_supported": tells_logout}
    discovery.forget()
    thief, phone = await by_identity(api, provider), await strangers(api, member)
    assert await UpstreamSession.objects.aexists() is tells_logout
    assert await lives(api, thief)
    await removed(api, identity, pair)
    assert not await lives(api, thief)
    assert await lives(api, phone)
    assert (await api.get("/api/v1/access/me", headers=bearer(pair))).status_code == 200
    (ended,) = [one async for one in AuditEvent.objects.filter(event="session_ended")]
    assert (ended.details["reason"], ended.details["provider"]) == ("identity_unlinked", "acme")


async def test_the_session_that_removes_it_stays(
    api: httpx.AsyncClient, member: Member, provider: FakeProvider, identity: Identity
) -> None:
    """Though it began with the identity; another one that did ends."""
    mine, thief = await by_identity(api, provider), await by_identity(api, provider)
    await removed(api, identity, mine)
    assert await lives(api, mine)
    assert not await lives(api, thief)


async def test_what_is_not_removed_ends_nothing(
    api: httpx.AsyncClient, provider: FakeProvider, identity: Identity, settings: Settings
) -> None:
    """The last way in stays, and so do the sessions that began with it."""
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = False
    await User.objects.aupdate(password="!")
    mine, thief = await by_identity(api, provider), await by_identity(api, provider)
    answer = await api.delete(f"{IDENTITIES}/{identity.pk}", headers=bearer(mine))
    assert (answer.status_code, answer.json()["code"]) == (409, "last_way_in")
    assert await lives(api, thief)


@pytest.mark.parametrize("is_removed", [True, False])
async def test_applications_signed_in_by_it(
    api: httpx.AsyncClient, pair: Pair, provider: FakeProvider, identity: Identity, is_removed: bool
) -> None:
    """The SSO session ends, and the code that waits in it opens nothing."""
    client, secret = await sync_to_async(make_client)(trusted=True)
    found = answered(await through(api, provider, await authorize(api, client)))
    api.cookies.clear()
    if is_removed:
        await removed(api, identity, pair)
    assert await Session.objects.filter(client_id=SSO_CLIENT, revoked_at=None).aexists() is not is_removed
    asked = {"grant_type": "authorization_code", "code": found["code"], "redirect_uri": REDIRECT_URI,
             "code_verifier": VERIFIER}  # fmt: skip
    answer = await api.post("/oauth/token", data=asked, auth=(str(client.pk), secret))
    assert answer.status_code == (400 if is_removed else 200)


async def test_what_waits_to_be_linked_is_forgotten(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider, identity: Identity
) -> None:
    """Of this identity; a sign-in that has not come back yet knows nobody."""
    row = await UpstreamProvider.objects.aget()
    for subject in ("subject-1", "subject-2"):
        await UpstreamSignIn.objects.acreate(
            digest=subject, browser="", provider=row, issuer=row.issuer, subject=subject, expires_at=clock.now()
        )
    await sent(api, provider)
    api.cookies.clear()
    await removed(api, identity, pair)
    left = UpstreamSignIn.objects.order_by("subject").values_list("subject", flat=True)
    assert [one async for one in left] == ["", "subject-2"]


def test_which_provider_began_it(member: Member, provider: FakeProvider) -> None:
    """One of another provider stays where it is known which; of an application too, also one that works offline."""
    user, acme = User.objects.get(pk=member["id"]), UpstreamProvider.objects.get()
    other = stored("other", "https://other.example")
    Session.objects.all().delete()

    def opened(amr: str, began: UpstreamProvider | None = None, parent: Session | None = None) -> Session:
        row = Session.objects.create(
            user=user,
            epoch=user.session_epoch,
            amr=amr,
            scope="openid offline_access",
            parent_id=parent.pk if parent else None,
            client_id=SSO_CLIENT if parent is None else str(UUID(int=1)),
            master_key_id="1",
            idle_expires_at="2100-01-01T00:00:00Z",
            absolute_expires_at="2100-01-01T00:00:00Z",
        )
        if began is not None:
            UpstreamSession.objects.create(session=row, provider=began, subject="subject-1")
        return row

    there, here = opened("fed", other), opened("fed otp mfa", acme)
    stays = {there, opened("fed", None, there), opened("pwd"), opened("pwd", acme), opened("federated")}
    goes = {here, opened("fed otp mfa", None, here), opened("fed"), opened("fed mfa")}
    asking = opened("pwd")
    row = Identity.objects.create(user=user, provider=acme, issuer=acme.issuer, subject="subject-1")
    with transaction.atomic():
        removal.unlink(user_id=user.pk, identity_id=row.pk, session_id=asking.pk)
    assert set(Session.objects.filter(revoked_at=None)) == {*stays, asking}
    assert set(Session.objects.exclude(revoked_at=None)) == goes


@pytest.mark.parametrize("by", ["identity", "provider", "any"])
def test_removed_while_it_signs_in(member: Member, provider: FakeProvider, by: str) -> None:
    """The proof was judged before, and opens nothing after; with the identity there it does, and its use is noted."""
    user, acme = User.objects.get(pk=member["id"]), UpstreamProvider.objects.get()
    row = Identity.objects.create(user=user, provider=acme, issuer=acme.issuer, subject="subject-1")
    context = ClientContext(address="127.0.0.1", user_agent="")
    of: dict[str, Any] = {
        "provider_id": None if by == "any" else acme.pk,
        "identity_id": row.pk if by == "identity" else None,
    }
    proof = ByUpstream(user.pk, user.session_epoch, clock.now(), **of, email="new@example.com")
    before = row.last_used_at
    with transaction.atomic():
        assert sign_ins.open_session(proof, context=context).session_id
    row.refresh_from_db()
    assert (row.email == "new@example.com") is (row.last_used_at > before) is (by == "identity")
    row.delete()
    opened = Session.objects.count()
    with pytest.raises(InvalidCredentials), transaction.atomic():
        sign_ins.open_session(proof, context=context)
    assert Session.objects.count() == opened


async def test_a_second_factor_comes_too_late(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider, identity: Identity
) -> None:
    """The provider's answer was right before the identity was removed; with the factor after it, nothing opens."""
    app, _ = await enrol(api, pair)
    asked = await through(api, provider)
    assert "One more step" in asked.text
    mine = dict(api.cookies)
    api.cookies.clear()
    await removed(api, identity, pair)
    api.cookies.update(mine)
    answer = await send(api, asked, "/oauth/signin/code", code=app.code())
    assert answer.status_code == 401
    assert "access_token" not in answer.cookies
    assert not await Session.objects.filter(amr__startswith="fed", revoked_at=None).aexists()


@pytest.mark.parametrize("another", [True, False])
async def test_an_identity_at_another_provider_stands_in_for_none(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider, identity: Identity, another: bool
) -> None:
    """The ticket is for the provider that has answered; while the identity is there, it opens the session."""
    other = await sync_to_async(stored)("other", "https://other.example")
    user = await User.objects.aget(pk=member["id"])
    await Identity.objects.acreate(user=user, provider=other, issuer=other.issuer, subject="o")
    app, _ = await enrol(api, pair)
    asked = await through(api, provider)
    mine = dict(api.cookies)
    if another:
        api.cookies.clear()
        await removed(api, identity, pair)
        api.cookies.update(mine)
    answer = await send(api, asked, "/oauth/signin/code", code=app.code())
    assert is_in(answer) is not another


async def test_two_providers_of_one_issuer(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider, identity: Identity
) -> None:
    """Each signs the identity in, and what began with either ends when it is removed."""
    provider.document = {"backchannel_logout_supported": True}
    discovery.forget()
    await sync_to_async(stored)("again", provider.issuer)
    assert is_in(await back(api, provider, await sent(api, provider, slug="again"), slug="again"))
    thief: Any = {name: api.cookies[name] for name in ("access_token", "refresh_token")}
    api.cookies.clear()
    assert await lives(api, thief)
    await removed(api, identity, pair)
    assert not await lives(api, thief)
