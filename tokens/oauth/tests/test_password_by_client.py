"""A new password set through an application: what the session that follows hangs on."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.flow import signed_on
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.sessions import access_token
from tokens.oauth.tests.walk import answered, authorize, by_password, is_page, send
from tokens.sessions import sso_session
from tokens.sessions import units as sessions
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.tests.browser import PASSWORD_URL, Member, me
from tokens.tests.second_factor import said

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

BODY = {"current_password": PASSWORD, "new_password": "quite another pass phrase 7"}


@pytest.fixture
async def client(signing_key: str) -> OAuthClient:
    """An application of one's own."""
    scopes = ["openid", "offline_access", "account"]
    return (await sync_to_async(make_client)(trusted=True, scopes=scopes))[0]


async def changed(api: httpx.AsyncClient, client: OAuthClient, sso_session_id: UUID, scope: str) -> Any:
    """Change the password with a token of a session that began in this SSO session; return the answer."""
    user_id = (await Session.objects.aget(pk=sso_session_id)).user_id
    token = await access_token(client, user_id, scope, parent_id=sso_session_id)
    return await api.post(PASSWORD_URL, json=BODY, headers=bearer({"access_token": token}))


@pytest.mark.parametrize("scope", ["account openid", "account offline_access openid"])
async def test_it_stays_with_its_sso_session(
    api: httpx.AsyncClient, client: OAuthClient, member: Member, scope: str
) -> None:
    """It ends when that does, and no later than that could have lasted; with offline_access neither, as before."""
    end = clock.now() + timedelta(hours=1)
    began_in = await sync_to_async(signed_on)(member["id"], idle_expires_at=end, absolute_expires_at=end)
    answer = await changed(api, client, began_in.pk, scope)
    assert answer.status_code == 200, answer.text
    session = await Session.objects.aget(pk=answer.json()["session_id"])
    assert (session.parent_id, session.client_id) == (began_in.pk, str(client.pk))
    offline = "offline_access" in scope
    assert (session.absolute_expires_at <= end) is not offline
    assert await me(api, answer.json()) == 200
    ended = await sync_to_async(sso_session.end)(session_id=began_in.pk, user_id=began_in.user_id)
    assert (ended, await me(api, answer.json())) == (True, 200 if offline else 401)


async def test_the_browser_it_began_in_still_signs_it_out(
    api: httpx.AsyncClient, client: OAuthClient, member: Member
) -> None:
    """After the new password the browser's SSO session signs nobody in, and signing out ends what began in it."""
    answered(await by_password(api, await authorize(api, client, scope="openid"), member["email"]))
    began_in = await Session.objects.aget(client_id=SSO_CLIENT)
    answer = await changed(api, client, began_in.pk, "account openid")
    assert (answer.status_code, await me(api, answer.json())) == (200, 200)
    assert answered(await authorize(api, client, scope="openid", prompt="none"))["error"] == "login_required"
    asked = await api.get("/oauth/logout")
    assert is_page(asked, 200, "Sign out?")
    await send(api, asked, "/oauth/logout")
    assert await me(api, answer.json()) == 401
    assert (await Session.objects.aget(pk=began_in.pk)).revoked_at is not None


async def test_without_its_sso_session_nothing_follows(
    api: httpx.AsyncClient, client: OAuthClient, member: Member
) -> None:
    """Ended before, it has taken the session with it: 401, and the password is the one of before."""
    began_in = await sync_to_async(signed_on)(member["id"])
    token = await access_token(client, began_in.user_id, "account openid", parent_id=began_in.pk)
    reason = Session.RevokeReason.SIGNED_OUT
    assert await sync_to_async(sessions.end_session)(session_id=began_in.pk, reason=reason)
    answer = await api.post(PASSWORD_URL, json=BODY, headers=bearer({"access_token": token}))
    assert said(answer) == (401, "invalid_token")
    assert await sync_to_async((await User.objects.aget(pk=member["id"])).check_password)(PASSWORD)


async def test_its_own_end_is_seen_before_anything_changes(
    api: httpx.AsyncClient, client: OAuthClient, member: Member
) -> None:
    """A worker that has not heard that the session was revoked lets its token in for seconds, but changes nothing."""
    user_id = UUID(member["id"])
    token = await access_token(client, user_id, "account openid")
    assert await me(api, {"access_token": token}) == 200
    await Session.objects.filter(client_id=str(client.pk)).aupdate(revoked_at=clock.now())  # tells nobody
    answer = await api.post(PASSWORD_URL, json=BODY, headers=bearer({"access_token": token}))
    assert said(answer) == (401, "invalid_token")
    assert await sync_to_async((await User.objects.aget(pk=user_id)).check_password)(PASSWORD)
