"""A sign-in with a provider replaces the session that the browser had at this site's pages, as any other one does."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.audit.models import AuditEvent
from accounts.federation.models import Identity, UpstreamProvider, UpstreamSignIn
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize
from tokens.sessions.models import FIRST_PARTY_CLIENT, Session
from tokens.tests.browser import SAME_ORIGIN, Member, by_cookie
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.walk import back, is_in, sent, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]


@pytest.fixture(autouse=True)
async def identity(member: Member, provider: FakeProvider) -> Identity:
    """The member's identity at the provider."""
    user, row = await User.objects.aget(pk=member["id"]), await UpstreamProvider.objects.aget()
    return await Identity.objects.acreate(user=user, provider=row, issuer=provider.issuer, subject="subject-1")


def without_strict(api: httpx.AsyncClient) -> dict[str, Any]:
    """Take the cookies away that no browser sends on a way back from another site; return them."""
    kept = {name: api.cookies[name] for name in ("refresh_token", "device") if name in api.cookies}
    for name in kept:
        del api.cookies[name]
    return kept


async def live() -> list[Session]:
    return [one async for one in Session.objects.filter(revoked_at=None, client_id=FIRST_PARTY_CLIENT)]


async def test_it_is_replaced(api: httpx.AsyncClient, member: Member, provider: FakeProvider) -> None:
    """The session of before ends with the way back, and not with the way there; the row names it, without a secret."""
    await by_cookie(api, member)
    (old,) = await live()
    asked = await sent(api, provider)
    kept = without_strict(api)
    assert [one.pk for one in await live()] == [old.pk]
    row = await UpstreamSignIn.objects.aget()
    assert str(old.pk) in row.page
    assert kept["refresh_token"] not in row.page
    assert is_in(await back(api, provider, asked))
    (new,) = await live()
    assert (new.amr, new.pk != old.pk) == ("fed", True)


async def test_another_session_is_not(api: httpx.AsyncClient, member: Member, provider: FakeProvider) -> None:
    """A browser without a session replaces none, and a forged cookie names none."""
    await by_cookie(api, member)
    (old,) = await live()
    genuine = api.cookies["refresh_token"]
    api.cookies.clear()
    api.cookies.set("refresh_token", genuine[:-4] + ("AAAA" if not genuine.endswith("AAAA") else "BBBB"))
    asked = await sent(api, provider)
    without_strict(api)
    assert is_in(await back(api, provider, asked))
    assert old.pk in [one.pk for one in await live()]


@pytest.mark.parametrize(("age_s", "over"), [(5, False), (60, True)])
async def test_an_older_cookie_is_a_reuse(
    api: httpx.AsyncClient, member: Member, provider: FakeProvider, age_s: int, over: bool
) -> None:
    """The way to a provider shows the cookie as a refresh does: what is too old for one ends its session."""
    await by_cookie(api, member)
    before = api.cookies["refresh_token"]
    api.headers.update(SAME_ORIGIN)
    assert (await api.post("/api/v1/access/refresh")).status_code == 204
    await Session.objects.aupdate(rotated_at=clock.now() - timedelta(seconds=age_s))
    api.cookies.clear()
    api.cookies.set("refresh_token", before)
    (old,) = await live()
    await sent(api, provider)
    assert (await live() == []) is over
    assert (str(old.pk) in (await UpstreamSignIn.objects.aget()).page) is not over
    assert await AuditEvent.objects.filter(event="refresh_reuse", session_id=old.pk).acount() == int(over)


async def test_on_the_way_to_a_client(api: httpx.AsyncClient, member: Member, provider: FakeProvider) -> None:
    """Single sign-on replaces no session of this site's pages: their cookie stays."""
    await by_cookie(api, member)
    client, _ = await sync_to_async(make_client)(trusted=True)
    assert answered(await through(api, provider, await authorize(api, client)))["code"]
    assert len(await live()) == 1
