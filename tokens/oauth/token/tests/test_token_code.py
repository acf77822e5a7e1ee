"""Codes at the token endpoint: what they are bound to, once, and what the client gets."""

import base64
import json
import uuid
from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from conftest import bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db import unit_of_work as database
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.clients.models import OAuthClient
from tokens.clients.registry import read_client
from tokens.keys.key_set import Family
from tokens.keys.models import SigningKey
from tokens.keys.store import key_store
from tokens.keys.units import create_first_keys
from tokens.oauth import codes
from tokens.oauth.codes import LIFE_S, Outcome, PresentedCode, challenge_of
from tokens.oauth.models import AuthorizationCode
from tokens.oauth.tests.flow import SCOPE, VERIFIER, Party, approve, signed_on
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.sessions.models import Session
from tokens.tests.browser import ME, REFRESH, VERIFY, Member
from tokens.tests.test_vectors import RFC

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("still_clock")]

GRAMMAR = RFC["rfc7636-4.1-verifier-grammar"]
Tokens = dict[str, Any]


async def a_code(party: Party, member: Member, **changes: Any) -> str:
    """Return a code of the member's for the client."""
    return await sync_to_async(approve)(party.client, uuid.UUID(member["id"]), **changes)


def said(token: str) -> dict[str, Any]:
    """Return a token's claims, unverified."""
    return dict(json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "==")))


async def refused(answer: httpx.Response, error: str = "invalid_grant") -> None:
    """The answer is a refusal of this kind, as RFC 6749 §5.2 has it."""
    assert (answer.status_code, answer.json()["error"]) == (400, error), answer.text
    assert (answer.headers["cache-control"], answer.headers["pragma"]) == ("no-store", "no-cache")


async def test_a_code_gives_tokens(wiki: Party, member: Member) -> None:
    """An access token that forward-auth knows, a refresh token, an ID token, and what they are good for."""
    answer = await wiki.redeem(await a_code(wiki, member))
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    tokens = answer.json()
    assert list(tokens) == ["access_token", "token_type", "expires_in", "scope", "refresh_token", "id_token"]
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 600, SCOPE)
    claims, identity = said(tokens["access_token"]), said(tokens["id_token"])
    assert (claims["client_id"], claims["sub"], claims["scope"]) == (str(wiki.client.pk), member["id"], SCOPE)
    assert (identity["aud"], identity["sub"], identity["nonce"]) == (str(wiki.client.pk), member["id"], "n-0S6_WzA2Mj")
    verified = await wiki.api.get(VERIFY, headers=bearer(tokens))
    assert (verified.status_code, verified.headers["x-auth-scope"]) == (204, SCOPE)
    assert (await wiki.api.get(ME, headers=bearer(tokens))).status_code == 403
    assert (await wiki.api.post(REFRESH, json={"refresh_token": tokens["refresh_token"]})).status_code == 401
    session = await Session.objects.aget(pk=claims["sid"])
    assert (session.client_id, session.scope) == (str(wiki.client.pk), SCOPE)
    event = await AuditEvent.objects.aget(event="client_sign_in")
    assert (event.session_id, event.details) == (session.pk, {"client": str(wiki.client.pk)})


async def test_without_openid_no_id_token_and_without_the_grant_no_refresh_token(
    api: httpx.AsyncClient, member: Member
) -> None:
    """What was not asked for is not there, and a session that cannot be refreshed ends with its access token."""
    given = {"grants": ["authorization_code"], "access_token_s": 90}
    party = Party(api, *await sync_to_async(make_client)(**given))
    tokens = (await party.redeem(await a_code(party, member, scope="email"))).json()
    assert list(tokens) == ["access_token", "token_type", "expires_in", "scope"]
    assert tokens["expires_in"] in {89, 90}  # a second may begin between the session and its token
    session = await Session.objects.aget(client_id=str(party.client.pk))
    assert (session.absolute_expires_at - session.created_at).total_seconds() == 90


async def test_roles_are_told_where_they_were_asked_for(wiki: Party, member: Member) -> None:
    """The access token and forward-auth name roles with the scope roles, and not without."""
    user = await User.objects.aget(pk=member["id"])
    group = await user.groups.acreate(name="editors")
    assert group.pk
    wiki.client.scopes = ["openid", "roles"]
    await wiki.client.asave()
    for scope, roles in (("openid", []), ("openid roles", ["editors"])):
        tokens = (await wiki.redeem(await a_code(wiki, member, scope=scope))).json()
        assert said(tokens["access_token"])["roles"] == roles
        verified = await wiki.api.get(VERIFY, headers=bearer(tokens))
        assert (verified.status_code, verified.headers["x-auth-roles"]) == (204, ",".join(roles))


@pytest.mark.parametrize(("age_s", "good"), [(LIFE_S - 1, True), (LIFE_S, False)])
async def test_a_code_is_good_for_a_minute(
    still_clock: float, wiki: Party, member: Member, age_s: int, good: bool
) -> None:
    """59 s after it was made a code works, 60 s after it does not."""
    code = await a_code(wiki, member)
    with clock.shifted(age_s):
        assert (await wiki.redeem(code)).status_code == (200 if good else 400)


async def test_codes_are_bound_and_a_wrong_try_costs_nothing(wiki: Party, app: Party, member: Member) -> None:
    """Another client, address or verifier is invalid_grant, uses the code up for nobody, and ends nothing."""
    code = await a_code(wiki, member)
    await refused(await app.redeem(code))
    await refused(await wiki.redeem(code, redirect_uri=REDIRECT_URI + "/"))
    await refused(await wiki.redeem(code, code_verifier="w" * 43))
    await refused(await wiki.redeem(code, code_verifier=""))
    await refused(await wiki.redeem(code + "x"))
    await refused(await wiki.redeem(code, redirect_uri="", code_verifier=""), "invalid_request")
    await refused(await wiki.redeem(code, redirect_uri="", code_verifier="w" * 43))
    await refused(await wiki.redeem(""), "invalid_request")
    tokens = (await wiki.redeem(code)).json()
    await refused(await app.redeem(code))
    await refused(await wiki.redeem(code, code_verifier="w" * 43))
    assert (await wiki.introspect(tokens["access_token"]))["active"]


async def test_the_address_may_be_left_out_with_pkce(wiki: Party, member: Member) -> None:
    """OAuth 2.1 §4.1.3: the verifier proves whose the code is. Without PKCE the address is needed, verifier or not."""
    tokens = (await wiki.redeem(await a_code(wiki, member), redirect_uri="")).json()
    assert (await wiki.introspect(tokens["access_token"]))["active"]
    wiki.client.require_pkce = False
    await wiki.client.asave()
    code = await a_code(wiki, member, code_challenge="")
    await refused(await wiki.redeem(code, redirect_uri="", code_verifier=""), "invalid_request")
    await refused(await wiki.redeem(code, redirect_uri=""))
    assert (await wiki.redeem(code, code_verifier="")).status_code == 200


async def test_a_second_use_revokes_what_the_first_got(wiki: Party, member: Member) -> None:
    """RFC 6749 §4.1.2: the second use is refused, and neither token of the first works any more; told in the trail.

    Also when it comes after the minute.
    """
    for after_s in (0, LIFE_S + 100):
        code = await a_code(wiki, member)
        tokens = (await wiki.redeem(code)).json()
        with clock.shifted(after_s):
            await refused(await wiki.redeem(code))
            assert await wiki.introspect(tokens["access_token"]) == {"active": False}
            await refused(await wiki.refresh(tokens["refresh_token"]))
            await refused(await wiki.redeem(code))
    assert await AuditEvent.objects.filter(event="code_reuse", outcome="refused").acount() == 2


async def test_a_second_use_that_is_given_up_ends_nothing(
    wiki: Party, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hears 503 even where the loop learns of its end first: the first use may have been its own next try."""
    code = await a_code(wiki, member)
    tokens = (await wiki.redeem(code)).json()
    find = codes._find

    def find_late(digest: str) -> codes._Code | None:
        database._here.deadline = 0.0  # over; the pool forgets it with the unit
        return find(digest)

    with monkeypatch.context() as patched:
        patched.setattr(codes, "_find", find_late)
        assert (await wiki.redeem(code)).status_code == 503
    assert (await wiki.introspect(tokens["access_token"]))["active"]
    await refused(await wiki.redeem(code))
    assert await wiki.introspect(tokens["access_token"]) == {"active": False}


async def test_pkce_appendix_b(wiki: Party, member: Member) -> None:
    """The verifier of RFC 7636 appendix B opens what its challenge has closed."""
    vector = RFC["rfc7636-appendix-b"]
    assert challenge_of(vector["code_verifier"]) == vector["code_challenge"]
    code = await a_code(wiki, member, code_challenge=vector["code_challenge"])
    assert (await wiki.redeem(code, code_verifier=vector["code_verifier"])).status_code == 200


@pytest.mark.parametrize("verifier", [*GRAMMAR["accept"], *filter(None, GRAMMAR["reject_verifier"])])
async def test_verifier_grammar(wiki: Party, member: Member, verifier: str) -> None:
    """43 to 128 unreserved characters (RFC 7636 §4.1); for any other text even the right challenge does not help."""
    code = await a_code(wiki, member, code_challenge=challenge_of(verifier))
    answer = await wiki.redeem(code, code_verifier=verifier)
    assert answer.status_code == (200 if verifier in GRAMMAR["accept"] else 400)


async def test_plain_challenges_and_downgrades_are_refused(api: httpx.AsyncClient, wiki: Party, member: Member) -> None:
    """A challenge is never compared as it is, and of challenge and verifier neither comes alone (RFC 9700 §4.8.2)."""
    await refused(await wiki.redeem(await a_code(wiki, member, code_challenge=VERIFIER)))
    without = await a_code(wiki, member, code_challenge="")
    await refused(await wiki.redeem(without))
    await refused(await wiki.redeem(without, code_verifier=""))
    old = Party(api, *await sync_to_async(make_client)(require_pkce=False))
    code = await a_code(old, member, code_challenge="")
    await refused(await old.redeem(code))
    assert (await old.redeem(code, code_verifier="")).status_code == 200


async def test_a_code_dies_with_what_it_was_given_under(wiki: Party, member: Member) -> None:
    """Deactivation, a raised epoch, deletion of the person between approval and redemption: invalid_grant."""
    user = await User.objects.aget(pk=member["id"])
    codes = [await a_code(wiki, member) for _ in range(3)]
    user.is_active = False
    await sync_to_async(user.save)()
    await refused(await wiki.redeem(codes[0]))
    user.is_active, user.session_epoch = True, user.session_epoch + 1
    await sync_to_async(user.save)()
    await refused(await wiki.redeem(codes[1]))
    await sync_to_async(user.delete)()
    await refused(await wiki.redeem(codes[2]))


async def test_sessions_begin_in_their_sso_session(wiki: Party, member: Member) -> None:
    """Without offline_access no longer than it and not after its end, with it whatever became of it."""
    sso_session = await sync_to_async(signed_on)(uuid.UUID(member["id"]))
    tokens = (await wiki.redeem(await a_code(wiki, member, scope="openid", sso_session=sso_session))).json()
    claims = said(tokens["access_token"])
    session = await Session.objects.aget(pk=claims["sid"])
    assert (session.parent_id, session.absolute_expires_at) == (sso_session.pk, sso_session.absolute_expires_at)
    assert (session.ip, session.user_agent) == ("192.0.2.7", "Firefox")
    assert said(tokens["id_token"])["sid"] == str(sso_session.pk)
    fresh = (await wiki.refresh(tokens["refresh_token"])).json()
    identity = said(fresh["id_token"])
    assert (identity["sid"], "nonce" in identity) == (str(sso_session.pk), False)
    codes = [
        await a_code(wiki, member, scope=scope, sso_session=sso_session)
        for scope in ("openid", "offline_access openid")
    ]
    await Session.objects.filter(pk=sso_session.pk).aupdate(revoked_at=clock.now(), revoke_reason="signed_out")
    answers = [await wiki.redeem(code) for code in codes]
    assert [answer.status_code for answer in answers] == [400, 200]
    lasting = await Session.objects.aget(pk=said(answers[1].json()["access_token"])["sid"])
    assert lasting.absolute_expires_at > sso_session.absolute_expires_at


async def test_the_clients_own_lifetimes(api: httpx.AsyncClient, member: Member) -> None:
    """Access token, idle and absolute limit are the client's where it has them; refreshing keeps within them."""
    given = {"access_token_s": 60, "session_idle_s": 1_000, "session_absolute_s": 1_500}
    party = Party(api, *await sync_to_async(make_client)(**given))
    tokens = (await party.redeem(await a_code(party, member))).json()
    assert tokens["expires_in"] == 60
    with clock.shifted(999):
        tokens = (await party.refresh(tokens["refresh_token"])).json()
    with clock.shifted(1_490):
        tokens = (await party.refresh(tokens["refresh_token"])).json()
        assert 8 <= tokens["expires_in"] <= 10
    with clock.shifted(1_501):
        await refused(await party.refresh(tokens["refresh_token"]))
    second = (await party.redeem(await a_code(party, member))).json()
    with clock.shifted(1_001):
        await refused(await party.refresh(second["refresh_token"]))


async def test_an_issued_token_is_warm(wiki: Party, tokens: Tokens, statements: list[str]) -> None:
    """The process that issued an access token need not look anything up to know it."""
    statements.clear()
    assert (await wiki.api.get(VERIFY, headers=bearer(tokens))).status_code == 204
    assert statements == []


async def test_statements_of_a_redemption(wiki: Party, member: Member, statements: list[str]) -> None:
    """Code, its use, count of sessions, SSO session, session, event."""
    sso_session = await sync_to_async(signed_on)(uuid.UUID(member["id"]))
    first, second = [await a_code(wiki, member, sso_session=sso_session) for _ in range(2)]
    await wiki.redeem(first)
    statements.clear()
    assert (await wiki.redeem(second)).status_code == 200
    assert len(statements) == 6, statements


async def test_a_redemption_makes_room_and_keeps_its_sso_session(
    wiki: Party, member: Member, settings: Settings
) -> None:
    """At the limit another session of the person ends, and never the SSO session in which the client's begins."""
    settings.IRONAUTH_MAX_SESSIONS_PER_USER = 5
    long_ago = clock.now() - timedelta(hours=1)
    user_id = uuid.UUID(member["id"])
    sso_session = await sync_to_async(signed_on)(user_id)
    await Session.objects.filter(pk=sso_session.pk).aupdate(last_used_at=long_ago)
    others = [await sync_to_async(signed_on)(user_id) for _ in range(4)]
    answer = await wiki.redeem(await a_code(wiki, member, sso_session=sso_session))
    assert answer.status_code == 200
    new = uuid.UUID(said(answer.json()["access_token"])["sid"])
    live = {one.pk async for one in Session.objects.filter(user_id=user_id).live(clock.now())}
    assert live >= {sso_session.pk, new}
    assert len(live & {one.pk for one in others}) == 3
    event = await AuditEvent.objects.aget(event="session_ended")
    assert (event.user_id, event.details) == (user_id, {"reason": "too_many"})
    assert event.session_id in {one.pk for one in others} - live


async def test_bound_codes_need_their_key(wiki: Party, member: Member) -> None:
    """A code that was asked for with a key is not redeemed without a proof of it, nor for a client that needs one."""
    await refused(await wiki.redeem(await a_code(wiki, member, dpop_jkt="k" * 43)))
    wiki.client.dpop = OAuthClient.Policy.REQUIRED
    await sync_to_async(wiki.client.save)()
    await refused(await wiki.redeem(await a_code(wiki, member)), "invalid_request")


def test_a_redemption_that_fails_leaves_the_code(new_account: Any) -> None:
    """What is stored when the outcome is anything but REDEEMED: nothing."""
    client, _ = make_client()
    account = new_account()
    code = approve(client, account.id)
    known = read_client(client.pk)
    assert known is not None
    wrong = PresentedCode(code, REDIRECT_URI, "w" * 43)
    with transaction.atomic(), CaptureQueriesContext(connection) as captured:
        assert codes.redeem(presented=wrong, client=known, context=ClientContext()).outcome is Outcome.MISMATCH
    assert len(captured) == 1
    assert AuthorizationCode.objects.get().used_at is None
    assert Session.objects.count() == 0


def test_a_code_that_is_deleted_in_mid_race(new_account: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who loses the race for a code that a purge deletes meanwhile hears of a second use, and no session ends."""
    client, _ = make_client()
    account = new_account()
    other = signed_on(account.id)
    code = approve(client, account.id)
    known = read_client(client.pk)
    assert known is not None

    class Lost:
        def run(self, **values: Any) -> int:
            return AuthorizationCode.objects.all().delete()[0] * 0

    monkeypatch.setattr(codes, "_USE", Lost())
    with transaction.atomic():
        found = codes.redeem(
            presented=PresentedCode(code, REDIRECT_URI, VERIFIER), client=known, context=ClientContext()
        )
    assert found == codes.Redemption(Outcome.REUSED)
    assert list(Session.objects.filter(revoked_at=None)) == [other]
    assert not AuditEvent.objects.filter(event="code_reuse").exists()


async def test_a_scope_the_client_has_lost(wiki: Party, member: Member) -> None:
    """A code is good for what the client may still have, and its session too."""
    code = await a_code(wiki, member)
    wiki.client.scopes = ["openid", "email", "offline_access"]
    await wiki.client.asave()
    tokens = (await wiki.redeem(code)).json()
    assert tokens["scope"] == said(tokens["access_token"])["scope"] == "email offline_access openid"
    assert (await Session.objects.aget(pk=said(tokens["access_token"])["sid"])).scope == tokens["scope"]


async def test_without_a_key_for_the_id_token_nothing_is_used_up(api: httpx.AsyncClient, member: Member) -> None:
    """503 before the code is redeemed or the session goes on; what needs no ID token is answered all the same."""
    party = Party(api, *await sync_to_async(make_client)(id_token_alg="ES256"))
    await sync_to_async(create_first_keys)()
    code = await a_code(party, member)
    answer = await party.redeem(code)
    assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
    assert (await AuthorizationCode.objects.aget()).used_at is None
    await sync_to_async(create_first_keys)(Family.ES256)
    tokens = (await party.redeem(code)).json()
    assert "id_token" in tokens
    await SigningKey.objects.filter(family=Family.ES256).adelete()
    key_store().outdated()
    answer = await party.refresh(tokens["refresh_token"])
    assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
    assert (await Session.objects.aget()).generation == 0
    fresh = await party.refresh(tokens["refresh_token"], scope="profile")
    assert (fresh.status_code, "id_token" in fresh.json()) == (200, False)
