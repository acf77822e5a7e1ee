"""Introspection: whose tokens, what it says, and that everything else is the same five words."""

import uuid
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.users.models import User
from conftest import bearer
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db.unit_of_work import database
from tokens.oauth.tests.flow import INTROSPECT, SCOPE, TOKEN, Party, approve
from tokens.oauth.token.tests.test_token_code import said
from tokens.tests.browser import Member, Pair
from tokens.tests.test_vectors import RFC

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("still_clock")]

Tokens = dict[str, Any]


async def prove(member: Member) -> None:
    """Have the person's address verified."""
    user = await User.objects.aget(pk=member["id"])
    user.email_verified_at = clock.now()
    await user.asave()


async def test_what_is_said_of_an_access_token(wiki: Party, tokens: Tokens, member: Member, settings: Any) -> None:
    """All that the token says, and whose it is."""
    await prove(member)
    claims = said(tokens["access_token"])
    auth_time = said(tokens["id_token"])["auth_time"]
    assert await wiki.introspect(tokens["access_token"]) == {
        "active": True,
        "iss": settings.IRONAUTH_ISSUER,
        "client_id": str(wiki.client.pk),
        "sub": member["id"],
        "exp": claims["exp"],
        "scope": SCOPE,
        "username": member["email"],
        "token_type": "Bearer",
        "aud": settings.IRONAUTH_AUDIENCE,
        "iat": claims["iat"],
        "jti": claims["jti"],
        "sid": claims["sid"],
        "auth_time": auth_time,
        "amr": ["pwd"],
    }


async def test_what_is_said_of_a_refresh_token(wiki: Party, tokens: Tokens, member: Member) -> None:
    """Whose it is, its scope and end; its predecessor is active while the grace lasts, and not a second longer."""
    found = await wiki.introspect(tokens["refresh_token"])
    assert (found["sub"], found["scope"], "token_type" in found) == (member["id"], SCOPE, False)
    assert found["sid"] == said(tokens["access_token"])["sid"]
    fresh = (await wiki.refresh(tokens["refresh_token"])).json()
    for after_s, active in ((9, True), (11, False)):
        with clock.shifted(after_s):
            assert (await wiki.introspect(tokens["refresh_token"]))["active"] is active
    assert (await wiki.introspect(fresh["refresh_token"]))["active"]
    with clock.shifted(15 * 86_400):
        assert await wiki.introspect(fresh["refresh_token"]) == {"active": False}


@pytest.mark.parametrize("verified", [False, True])
async def test_an_address_that_nobody_has_proved_is_no_name(
    wiki: Party, tokens: Tokens, member: Member, verified: bool
) -> None:
    """A stranger may have typed it: ``username`` comes with a verified one alone, of both kinds of token."""
    if verified:
        await prove(member)
    for kind in ("access_token", "refresh_token"):
        found = await wiki.introspect(tokens[kind])
        assert (found["sub"], found.get("username")) == (member["id"], member["email"] if verified else None)
        assert "email" in found["scope"].split()


async def test_no_address_without_the_scope_email(wiki: Party, tokens: Tokens, member: Member) -> None:
    """A token that was not given for the address does not tell it."""
    await prove(member)
    less = (await wiki.refresh(tokens["refresh_token"], scope="openid")).json()
    found = await wiki.introspect(less["access_token"])
    assert (found["scope"], "username" in found) == ("openid", False)


async def test_everything_else_is_the_same(wiki: Party, app: Party, tokens: Tokens, pair: Pair, member: Member) -> None:
    """Garbage, foreign, first-party, ID tokens, altered, expired: the same bytes, no oracle (security-bar 46)."""
    code = await sync_to_async(approve)(app.client, uuid.UUID(member["id"]))
    foreign = (await app.redeem(code)).json()
    head, payload, signature = tokens["access_token"].split(".")
    asked = [
        "x", "a.b.c", "x" * 9_000, "é" * 70, tokens["id_token"], f"{head}.{payload}.{signature[::-1]}",
        foreign["access_token"], foreign["refresh_token"], foreign["id_token"],
        pair["access_token"], pair["refresh_token"],
    ]  # fmt: skip
    answers = [await wiki.post(INTROSPECT, token=token) for token in asked]
    with clock.shifted(601):
        answers.append(await wiki.post(INTROSPECT, token=tokens["access_token"]))
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.content for answer in answers} == {b'{"active":false}'}
    assert answers[0].json() == RFC["rfc7662-2.2-inactive"]["body"]
    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}
    assert (await wiki.post(INTROSPECT)).json()["error"] == "invalid_request"


async def test_resource_servers_ask_about_everybodys_access_tokens(
    gateway: Party, wiki: Party, tokens: Tokens, pair: Pair
) -> None:
    """An API is shown the access tokens of all clients and of this site's own sign-in, and no refresh tokens."""
    for each, client in ((tokens, str(wiki.client.pk)), (pair, "ironauth")):
        assert (await gateway.introspect(each["access_token"]))["client_id"] == client
        assert await gateway.introspect(each["refresh_token"]) == {"active": False}


@pytest.mark.parametrize("end", ["deactivated", "epoch", "client disabled", "deleted"])
async def test_tokens_end_with_person_and_client(
    wiki: Party, gateway: Party, tokens: Tokens, member: Member, end: str
) -> None:
    """Deactivation, sign-out everywhere, a disabled client, a deleted account: inactive by the next question."""
    assert (await gateway.introspect(tokens["access_token"]))["active"]
    if end == "client disabled":
        wiki.client.disabled_at = clock.now()
        await sync_to_async(wiki.client.save)()
    else:
        user = await User.objects.aget(pk=member["id"])
        user.is_active = end != "deactivated"
        user.session_epoch += end == "epoch"
        await sync_to_async(user.delete if end == "deleted" else user.save)()
    assert await gateway.introspect(tokens["access_token"]) == {"active": False}
    if end != "client disabled":
        assert await wiki.introspect(tokens["refresh_token"]) == {"active": False}


async def test_statements(wiki: Party, robot: Party, tokens: Tokens, statements: list[str]) -> None:
    """A known access token costs none, one of another worker's one, a refresh token one; a client's own likewise."""
    own = (await robot.post(TOKEN, grant_type="client_credentials")).json()["access_token"]
    counts = {}
    for name, party, token in (("person", wiki, tokens["access_token"]), ("client", robot, own)):
        await party.introspect(token)
        statements.clear()
        await party.introspect(token)
        counts[f"{name} warm"] = len(statements)
    token_cache().clear()
    await wiki.post(INTROSPECT, token="x")  # the clients are known
    await robot.post(INTROSPECT, token="x")
    for name, party, token in (("person", wiki, tokens["access_token"]), ("client", robot, own)):
        statements.clear()
        await party.introspect(token)
        counts[f"{name} cold"] = len(statements)
    statements.clear()
    await wiki.introspect(tokens["refresh_token"])
    counts["refresh"] = len(statements)
    assert counts == {"person warm": 0, "client warm": 0, "person cold": 1, "client cold": 1, "refresh": 1}


async def test_an_outage_is_not_inactive(wiki: Party, tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be asked is 503, with the time to ask again: "inactive" would sign people out."""

    async def fail(*_: Any, **__: Any) -> Any:
        raise Unavailable

    await wiki.introspect("x")
    monkeypatch.setattr(database(), "read", fail)
    answer = await wiki.post(INTROSPECT, token=tokens["refresh_token"])
    assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
    assert "retry-after" in answer.headers


async def test_introspection_needs_a_client(api: httpx.AsyncClient, tokens: Tokens) -> None:
    """Nobody, and a token of one's own, are no client."""
    for headers in ({}, bearer(tokens)):
        answer = await api.post(INTROSPECT, data={"token": tokens["access_token"]}, headers=headers)
        assert answer.status_code == 401
