"""The flow by a client without script: sign in, allow, and the code goes back."""

import httpx
import pytest
from asgiref.sync import sync_to_async

from tokens.models import SSO_CLIENT, Session
from tokens.oauth.models import AuthorizationCode, Consent
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import ISSUER, answered, authorize, by_password, is_page, say
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


async def test_the_whole_way(api: httpx.AsyncClient, member: Member) -> None:
    """Sign in, allow, and the client gets a code with its state and our name; the next time nobody is asked."""
    client, _ = await sync_to_async(make_client)()
    page = await authorize(api, client)
    assert is_page(page, 200, "Sign in", "Wiki")
    page = await by_password(api, page, member["email"])
    assert is_page(page, 200, "Allow Wiki?", member["email"], "See your name", "app.example.com")
    answer = answered(await say(api, page, "allow"))
    assert (answer["state"], answer["iss"]) == ("st&te=1 é", ISSUER)
    code = await AuthorizationCode.objects.aget()
    assert (code.scope, code.nonce, str(code.user_id)) == ("openid profile", "n-1", member["id"])
    session = await Session.objects.aget(client_id=SSO_CLIENT)
    assert (code.sso_session_id, code.authenticated_at, code.amr) == (session.pk, session.authenticated_at, "pwd")
    assert (await Consent.objects.aget()).scope == "openid profile"
    again = answered(await authorize(api, client, prompt="none"))
    assert again["code"] != answer["code"]
