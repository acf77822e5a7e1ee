"""Signing in with a provider beside somebody who is signed in in this browser."""

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.users.models import User
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, form_to
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.tests.browser import Member
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.walk import through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]

ACCOUNT = "/oauth/account"


@pytest.mark.parametrize("chosen", [True, False])
async def test_a_provider_signs_in_beside(
    api: httpx.AsyncClient, provider: FakeProvider, member: Member, chosen: bool
) -> None:
    """After *Use another account* both are signed in; without the choice the one who was there is signed out."""
    client, _ = await sync_to_async(make_client)(trusted=True)
    answered(await by_password(api, await authorize(api, client), member["email"]))
    page = await authorize(api, client, prompt="select_account" if chosen else "login")
    if chosen:
        page = await api.post(ACCOUNT, data={**form_to(page, ACCOUNT).fields, "other": "1"})
    assert answered(await through(api, provider, page))["code"]
    live = Session.objects.filter(client_id=SSO_CLIENT, revoked_at=None).select_related("user")
    here = {member["email"]} if chosen else set()
    assert {one.user.email async for one in live} == {"ann@example.com"} | here
    assert await User.objects.acount() == 2
    assert ("sso_others" in api.cookies) is chosen
