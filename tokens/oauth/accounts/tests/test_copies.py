"""A copied token of the account's pages: what was opened with it, in however many steps, ends when it is found out."""

import uuid
from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError, connection
from django.db.models import F

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from accounts.users.services import account_snapshot
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.clients.registry import read_client
from tokens.oauth.accounts.tests.test_accounts import client, is_over, people_in, person  # noqa: F401 - a fixture
from tokens.oauth.accounts.tests.test_clicks import same
from tokens.oauth.accounts.tests.test_own_accounts import (  # noqa: F401 - a fixture
    REFRESH,
    at_home,
    at_pages,
    browser,
    live,
    press,
    with_cookies,
)
from tokens.oauth.models import AuthorizationCode, LogoutNotice
from tokens.oauth.tests.flow import approve
from tokens.oauth.tests.walk import answered, by_password, request_of
from tokens.sessions import refresh_token
from tokens.sessions.client_sessions import ConsentedAccess, open_client_session
from tokens.sessions.models import FIRST_PARTY_CLIENT, SSO_CLIENT, Session
from tokens.sessions.refresh import units as refresh_units

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

OFFLINE = "openid offline_access"


async def opened(client: Any, session: Session, scope: str) -> uuid.UUID | None:  # noqa: F811
    """Open a session of the client in this SSO session, as a code does; return its id, None where it is refused."""

    def unit() -> uuid.UUID | None:
        found, account = read_client(client.pk), account_snapshot(session.user_id)
        assert found is not None
        assert account is not None
        consented = ConsentedAccess(account, scope, session.authenticated_at, session.amr, session.pk)
        session_ = open_client_session(client=found, consented=consented, context=ClientContext())
        return session_.session_id if session_ is not None else None

    return await database().write(unit)


async def kept_by_a_thief(
    browser: httpx.AsyncClient,  # noqa: F811
    *copied: str,
) -> tuple[User, httpx.AsyncClient, Session]:
    """Sign anne in at the pages, and let a copy of her token, and of these cookies, stay beside another account."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    thief = with_cookies(browser, **{name: browser.cookies[name] for name in ("refresh_token", *copied)})
    await press(thief, "other")
    (kept,) = await live(SSO_CLIENT)
    return anne, same(thief), kept


def kept_cookie(thief: httpx.AsyncClient) -> str:
    """Return what names the SSO session that was kept."""
    return thief.cookies["sso_others"]


async def reuses() -> int:
    return await AuditEvent.objects.filter(event="refresh_reuse").acount()


@pytest.mark.parametrize("found_out", [True, False])
async def test_what_a_client_got_ends(browser: httpx.AsyncClient, client: Any, found_out: bool) -> None:  # noqa: F811
    """With ``offline_access`` too, and what waits for it; the client is told. An ordinary sign-out leaves it."""
    anne, _, kept = await kept_by_a_thief(browser)
    online, offline = await opened(client, kept, "openid"), await opened(client, kept, OFFLINE)
    assert online is not None
    assert offline is not None
    await sync_to_async(approve)(client, anne.pk, sso_session=kept)
    if found_out:
        with clock.shifted(60):
            assert (await browser.post(REFRESH)).status_code == 401
    else:
        assert (await browser.post("/api/v1/access/logout")).status_code == 204
    assert await is_over(kept.pk)
    assert (await is_over(online), await is_over(offline)) == (True, found_out)
    assert await AuthorizationCode.objects.acount() == (0 if found_out else 1)
    assert await LogoutNotice.objects.filter(session_id=kept.pk).aexists()
    assert (await opened(client, kept, OFFLINE) is None) is found_out  # what is redeemed at that moment
    assert await reuses() == int(found_out)


@pytest.mark.parametrize("second", [True, False])
async def test_a_second_step(browser: httpx.AsyncClient, client: Any, second: bool) -> None:  # noqa: F811
    """A copy of the second session ends what was opened with it alone; one of the first, all of it."""
    _, thief, kept = await kept_by_a_thief(browser)
    again = with_cookies(browser, sso=kept_cookie(thief))
    await at_home(again)
    own = next(one for one in await live(FIRST_PARTY_CLIENT) if one.parent_id == kept.pk)
    third = with_cookies(browser, refresh_token=again.cookies["refresh_token"])
    await press(third, "other")
    (latest,) = [one for one in await live(SSO_CLIENT) if one.pk != kept.pk]
    offline = await opened(client, latest, OFFLINE)
    assert offline is not None
    with clock.shifted(60):
        assert (await (again if second else browser).post(REFRESH)).status_code == 401
    assert [await is_over(one) for one in (own.pk, latest.pk, offline)] == [True] * 3
    assert await is_over(kept.pk) is not second
    assert await reuses() == 1


async def test_a_second_step_ends_with_the_single_sign_on(browser: httpx.AsyncClient) -> None:  # noqa: F811
    """Who signs out of what keeps the account ends what began there, in every step."""
    _, thief, kept = await kept_by_a_thief(browser)
    again = with_cookies(browser, sso=kept_cookie(thief))
    await at_home(again)
    await press(with_cookies(browser, refresh_token=again.cookies["refresh_token"]), "other")
    assert len(await live(SSO_CLIENT)) == 2
    assert (await again.post("/oauth/logout", data={"confirmation": "account-page"})).status_code == 200
    assert not await live(SSO_CLIENT)
    assert [one.parent_id for one in await live(FIRST_PARTY_CLIENT)] == [None]  # the owner's
    assert await is_over(kept.pk)


@pytest.mark.parametrize("after", [5, 60])
async def test_a_thief_who_throws_the_owner_out(browser: httpx.AsyncClient, after: int) -> None:  # noqa: F811
    """Their own session lives on alone, and ends when the owner's browser shows its token."""
    _, thief, _ = await kept_by_a_thief(browser)
    again = with_cookies(browser, sso=kept_cookie(thief))
    await at_home(again)
    assert (await again.delete("/api/v1/access/sessions")).status_code == 204
    assert [one.parent_id for one in await live(FIRST_PARTY_CLIENT)] == [None]
    with clock.shifted(after):
        assert (await browser.post(REFRESH)).status_code == 401
    assert not await live(FIRST_PARTY_CLIENT)
    assert await reuses() == 1


async def test_everywhere_else_leaves_who_asks(browser: httpx.AsyncClient) -> None:  # noqa: F811
    """Also where what it goes on from is among those that end."""
    _, thief, _ = await kept_by_a_thief(browser)
    again = with_cookies(browser, sso=kept_cookie(thief))
    email = await at_home(again)
    assert (await again.delete("/api/v1/access/sessions")).status_code == 204
    with clock.shifted(60):
        assert (await again.post(REFRESH)).status_code == 204
        assert await at_home(again) == email


@pytest.mark.parametrize("moved", [True, False])
async def test_a_token_that_expired(browser: httpx.AsyncClient, moved: bool) -> None:  # noqa: F811
    """An older one of a session that has expired is a copy; the newest one is its own browser's, and ends nothing."""
    _, thief, kept = await kept_by_a_thief(browser)
    (own,) = await live(FIRST_PARTY_CLIENT)
    await Session.objects.filter(pk=own.pk).aupdate(idle_expires_at=F("created_at"))
    assert (await (browser if moved else thief).post(REFRESH)).status_code == 401
    assert await is_over(kept.pk) is moved
    assert await reuses() == int(moved)


@pytest.mark.parametrize("as_whom", ["anne", "berta"])
@pytest.mark.parametrize(("after", "copied", "reused"), [(5, ["authorize"], 0), (5, [], 1), (60, ["authorize"], 1)])
async def test_a_new_sign_in_shows_the_older_cookie(
    browser: httpx.AsyncClient,  # noqa: F811
    client: Any,  # noqa: F811
    as_whom: str,
    after: int,
    copied: list[str],
    reused: int,
) -> None:
    """It is as good as a refresh with it: what a copy has opened ends, also where somebody else signs in.

    Within the grace it may be a second tab of the browser that has gone on, where it is that browser.
    """
    anne, _, kept = await kept_by_a_thief(browser, *copied)
    if as_whom == "berta":
        await person("berta")
    (own,) = await live(FIRST_PARTY_CLIENT)
    offline = await opened(client, kept, OFFLINE)
    assert offline is not None
    with clock.shifted(after):
        await at_pages(browser, f"{as_whom}@example.com")
    assert (await is_over(own.pk), await is_over(kept.pk)) == (True, True)
    assert await is_over(offline) is bool(reused)
    assert await AuditEvent.objects.filter(event="refresh_reuse", user_id=anne.pk).acount() == reused
    (new,) = await live(FIRST_PARTY_CLIENT)
    event = await AuditEvent.objects.aget(event="sign_in", session_id=new.pk)
    assert ("replaces" in event.details) is (as_whom == "anne" and not reused)


async def test_a_new_sign_in_with_the_newest_cookie_leaves_the_account(browser: httpx.AsyncClient) -> None:  # noqa: F811
    """Somebody else signs in beside it: that is what it was kept for."""
    _, thief, kept = await kept_by_a_thief(browser)
    await person("berta")
    with clock.shifted(60):
        await at_pages(thief, "berta@example.com")
    assert not await is_over(kept.pk)
    assert await reuses() == 0


@pytest.mark.parametrize("after", [5, 60])
async def test_a_new_sign_in_shows_the_cookie_of_one_that_has_ended(
    browser: httpx.AsyncClient,  # noqa: F811
    client: Any,  # noqa: F811
    after: int,
) -> None:
    """A copy was switched away: the owner's next sign-in ends what stays of it elsewhere."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    thief = with_cookies(browser)
    (mallory,) = await people_in(thief, client, "mallory")
    thief.cookies.set("refresh_token", browser.cookies["refresh_token"])
    await press(thief, "account", mallory.email)
    with clock.shifted(after):
        await at_pages(browser, anne.email)
    assert [one.user_id for one in await live(SSO_CLIENT)].count(anne.pk) == 0
    assert await AuditEvent.objects.filter(event="refresh_reuse", user_id=anne.pk).acount() == 1
    assert [one.user_id for one in await live(FIRST_PARTY_CLIENT)].count(anne.pk) == 1


async def test_a_renewed_session_still_goes_on_from_it(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """A sign-in in it gives it another secret; what a copy of its cookie has opened for a client still has to end."""
    anne, thief, kept = await kept_by_a_thief(browser)
    copy = kept_cookie(thief)
    offline = await opened(client, kept, OFFLINE)
    assert offline is not None
    owner = with_cookies(browser, sso=copy)
    answer = await owner.get("/oauth/authorize", params=request_of(client, prompt="login"))
    answered(await by_password(owner, answer, anne.email))
    (renewed,) = await live(SSO_CLIENT)
    assert (renewed.pk, renewed.secret != kept.secret) == (kept.pk, True)
    assert await at_home(with_cookies(browser, sso=copy)) == ""  # the copy of its cookie is worth nothing
    with clock.shifted(60):
        assert (await browser.post(REFRESH)).status_code == 401
    assert (await is_over(kept.pk), await is_over(offline)) == (True, True)


@pytest.mark.only_postgres
async def test_an_end_that_may_have_been_committed_is_not_repeated(
    browser: httpx.AsyncClient,  # noqa: F811
    client: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A connection that breaks while the end of a copy is written: the caller hears 503, and the unit runs once."""
    await kept_by_a_thief(browser)
    token = browser.cookies["refresh_token"]
    await Session.objects.filter(client_id=FIRST_PARTY_CLIENT).aupdate(revoked_at=clock.now() - timedelta(minutes=1))
    runs: list[int] = []
    send = refresh_units._end_what_goes_on

    def broken(session: Any) -> int:
        runs.append(send(session))
        if len(runs) == 1:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return runs[-1]

    monkeypatch.setattr(refresh_units, "_end_what_goes_on", broken)
    parsed = refresh_token.parse(token)
    assert parsed is not None
    with pytest.raises((Unavailable, OperationalError)):
        await database().write_autocommit(refresh_units.rotate, parsed=parsed)
    assert runs == [1]
    assert (await browser.post(REFRESH)).status_code == 401
    assert not await live(SSO_CLIENT)
