"""A browser's SSO session that signs nobody in any more: what it still stores, and what it still shows."""

from uuid import UUID

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

from accounts.email import first_proof
from accounts.users import queries as user_queries
from accounts.users.models import User
from ironauth.infrastructure.crypto.master_keys import newest_master_key_id
from tokens.clients import registry as clients
from tokens.oauth import device_codes
from tokens.oauth.device import units as device_units
from tokens.oauth.models import AuthorizationCode, Consent, DeviceGrant
from tokens.oauth.tests.flow import signed_on
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, is_page, say, send
from tokens.sessions import sso_session
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.sessions.queries import StoredSession
from tokens.sessions.sso_session import SsoCookie
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

_find = sso_session.find


def owner_comes(user_id: UUID) -> None:
    """Let the owner of the address prove it, which removes consents and ends sessions."""
    user = user_queries.lock(user_id)
    assert user is not None
    first_proof.start_clean(user, encoded="!another")


def _found_in_time(cookie: SsoCookie) -> StoredSession | None:
    """Find the session, and let the owner come before anything is written, as another transaction does."""
    session = _find(cookie)
    assert session is not None
    owner_comes(session.account.id)
    return session


async def test_a_consent_of_the_moment_of_the_first_proof_is_not_kept(
    api: httpx.AsyncClient, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a stranger allows while the owner's proof commits is stored for nobody, and they have to sign in."""
    client, _ = await sync_to_async(make_client)(name="Paint")
    page = await by_password(api, await authorize(api, client), member["email"])
    monkeypatch.setattr(sso_session, "find", _found_in_time)
    assert is_page(await say(api, page, "allow"), 200, "Password")
    assert not await Consent.objects.aexists()
    assert not await AuthorizationCode.objects.aexists()


def test_nor_is_one_that_lets_a_device_in(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same on the page that lets a device in: it goes on waiting."""
    row, _ = make_client(name="Telly")
    client = clients.read_client(row.pk)
    assert client is not None
    session = signed_on(UUID(member["id"]), master_key_id=newest_master_key_id())
    text = sso_session.mint_cookie(
        session_id=session.pk, secret=bytes(session.secret), master_key_id=session.master_key_id
    )
    cookie = sso_session.parse_cookie(text)
    assert cookie is not None
    _, shown = device_units.begin(client=client, scope="openid", jkt="")
    user_code = device_codes.typed(shown)
    assert user_code is not None
    monkeypatch.setattr(sso_session, "find", _found_in_time)
    with transaction.atomic():
        assert device_units.allow(client=client, user_code=user_code, scope="openid", cookie=cookie) is None
    assert not Consent.objects.exists()
    assert DeviceGrant.objects.get().state == DeviceGrant.State.PENDING
    monkeypatch.undo()
    assert device_units.find(user_code=user_code) is not None


async def test_the_question_whether_to_sign_out_names_nobody(api: httpx.AsyncClient, member: Member) -> None:
    """A cookie of before the new password shows no address of today; it ends what hangs on its session all the same."""
    client, _ = await sync_to_async(make_client)(trusted=True)
    answered(await by_password(api, await authorize(api, client), member["email"]))
    asked = await api.get("/oauth/logout")
    assert is_page(asked, 200, "Sign out?", f"You are <strong>{member['email']}</strong>")
    user = await User.objects.aget(pk=member["id"])
    user.password, user.email = "!another", "moved@example.net"
    await user.asave()
    asked = await api.get("/oauth/logout")
    assert is_page(asked, 200, "Sign out?")
    for text in ("moved@example.net", member["email"], "You are"):
        assert text not in asked.text, text
    await send(api, asked, "/oauth/logout")
    assert (await Session.objects.aget(client_id=SSO_CLIENT)).revoked_at is not None
