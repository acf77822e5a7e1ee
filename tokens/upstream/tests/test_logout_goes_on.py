"""Logout that a provider starts reaches sessions that go on from one which began there, also where that has ended."""

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.audit.models import AuditEvent
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.oauth.accounts import units as accounts_here
from tokens.oauth.accounts.tests.test_accounts import people_in
from tokens.oauth.accounts.tests.test_own_accounts import at_home, live, press
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize
from tokens.sessions import queries as session_queries
from tokens.sessions import sso_session
from tokens.sessions import units as sessions
from tokens.sessions.browser_sessions import BrowserSession
from tokens.sessions.models import FIRST_PARTY_CLIENT, SSO_CLIENT, Session
from tokens.tests.browser import SAME_ORIGIN
from tokens.upstream import units as upstream_units
from tokens.upstream.id_token import SignedOut
from tokens.upstream.models import UpstreamSession
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.test_logout import LOGOUT, logout_token, telling  # noqa: F401 - a fixture
from tokens.upstream.tests.walk import through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]


async def in_at_a_client(api: httpx.AsyncClient, provider: FakeProvider) -> Session:
    """Sign in at a client with the provider; return the SSO session."""
    api.headers.update(SAME_ORIGIN)
    client, _ = await sync_to_async(make_client)(trusted=True)
    assert answered(await through(api, provider, await authorize(api, client)))["code"]
    (found,) = await live(SSO_CLIENT)
    return found


@pytest.mark.parametrize(("sid", "left"), [("there-1", 0), ("there-2", 1)])
async def test_after_everybody_else_was_thrown_out(
    api: httpx.AsyncClient,
    telling: FakeProvider,  # noqa: F811
    sid: str,
    left: int,
) -> None:
    """The session of the account's pages lives on alone then, and ends with the provider's; with no other one there."""
    await in_at_a_client(api, telling)
    assert await at_home(api)
    assert (await api.delete("/api/v1/access/sessions")).status_code == 204
    assert not await live(SSO_CLIENT)
    (own,) = await live(FIRST_PARTY_CLIENT)
    assert own.parent_id is None
    told = logout_token(telling, sid=sid)
    assert (await api.post(LOGOUT, data={"logout_token": told})).status_code == 200
    assert len(await live(FIRST_PARTY_CLIENT)) == left
    assert (await api.get("/api/v1/access/me")).status_code == (200 if left else 401)
    ended = AuditEvent.objects.filter(event="session_ended", session_id=own.pk, details__provider="acme")
    assert await ended.acount() == 1 - left


async def test_also_what_keeps_it_in_the_browser(api: httpx.AsyncClient, telling: FakeProvider) -> None:  # noqa: F811
    """However often it was gone on from: each session is known by the provider's."""
    await in_at_a_client(api, telling)
    email = await at_home(api)
    assert (await api.delete("/api/v1/access/sessions")).status_code == 204
    await press(api, "other")
    await press(api, "account", email)
    assert (await api.delete("/api/v1/access/sessions")).status_code == 204
    assert [one async for one in UpstreamSession.objects.filter(session__revoked_at=None).values_list("sid", flat=True)]
    answer = await api.post(LOGOUT, data={"logout_token": logout_token(telling)})
    assert answer.status_code == 200
    assert not await Session.objects.filter(revoked_at=None).aexists()


async def test_a_sign_in_without_a_provider_is_none_of_its(api: httpx.AsyncClient, telling: FakeProvider) -> None:  # noqa: F811
    """Nothing is noted of it."""
    api.headers.update(SAME_ORIGIN)
    client, _ = await sync_to_async(make_client)(trusted=True)
    await people_in(api, client, "anne")
    assert await at_home(api)
    assert not await UpstreamSession.objects.aexists()


async def test_gone_on_at_this_moment(
    api: httpx.AsyncClient,
    telling: FakeProvider,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between what the logout finds and what it ends, the pages go on and everybody else is thrown out: it ends too."""
    sso = await in_at_a_client(api, telling)
    row = await UpstreamSession.objects.aget()
    end = sessions.end_sessions
    opened: list[UUID] = []

    def at_this_moment(**asked: Any) -> int:
        if not opened:
            stored = session_queries.find(sso.pk)
            cookie = sso_session.parse_cookie(api.cookies["sso"])
            assert stored is not None
            assert cookie is not None
            chosen = BrowserSession(cookie, stored)
            own, _ = accounts_here.go_on(chosen, here=[], context=ClientContext(), browser="")
            opened.append(own.session_id)
            sessions.end_other_sessions(user_id=stored.account.id, epoch=stored.epoch, from_session_id=own.session_id)
            assert Session.objects.filter(pk=own.session_id, parent_id=None, revoked_at=None).exists()
        return end(**asked)

    monkeypatch.setattr(sessions, "end_sessions", at_this_moment)
    told = SignedOut(uuid4(), int(clock.unix()) + 60, row.subject, row.sid)
    ended = await database().write(upstream_units.signed_out_there, provider_id=row.provider_id, slug="acme", told=told)
    assert ended == 2
    assert not await Session.objects.filter(revoked_at=None).aexists()
