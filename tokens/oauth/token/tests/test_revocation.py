"""Revocation: own tokens only, 200 whatever it was, and what ends with what."""

import uuid
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from accounts.audit.models import AuditEvent
from conftest import bearer
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.models import UsedOnce
from tokens.oauth.tests.flow import REVOKE, TOKEN, Party, approve
from tokens.oauth.token.tests.test_token_code import refused
from tokens.sessions.models import Session
from tokens.tests.browser import VERIFY, Member, Pair

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

Tokens = dict[str, Any]


async def gone(party: Party, token: str, **more: str) -> None:
    """Revoke a token: the answer is 200 and empty, whatever it is."""
    answer = await party.post(REVOKE, token=token, **more)
    assert (answer.status_code, answer.content, answer.headers["cache-control"]) == (200, b"", "no-store")


@pytest.mark.parametrize("kind", ["refresh_token", "access_token"])
async def test_a_token_of_a_session_ends_the_session(wiki: Party, tokens: Tokens, kind: str) -> None:
    """Either token ends both, and every other of the family, at once (security-bar 47); the trail says who did it."""
    fresh = (await wiki.refresh(tokens["refresh_token"])).json()
    await gone(wiki, tokens[kind], token_type_hint="no such type")
    for each in (tokens, fresh):
        assert await wiki.introspect(each["access_token"]) == {"active": False}
        assert (await wiki.api.get(VERIFY, headers=bearer(each))).status_code == 401
        await refused(await wiki.refresh(each["refresh_token"]))
    assert await AuditEvent.objects.filter(event="sign_out").acount() == 1
    await gone(wiki, tokens[kind])


async def test_other_sessions_go_on(wiki: Party, tokens: Tokens, member: Member) -> None:
    """What ends is one session of one client, not the person's others."""
    other = (await wiki.redeem(await sync_to_async(approve)(wiki.client, uuid.UUID(member["id"])))).json()
    await gone(wiki, tokens["refresh_token"])
    assert (await wiki.introspect(other["access_token"]))["active"]


async def test_others_tokens_and_garbage_are_left_alone(wiki: Party, app: Party, tokens: Tokens, pair: Pair) -> None:
    """200 for a text that is no token, for another client's and for first-party ones; nothing happens to these."""
    for text in ("x", "a.b.c", "A" * 70, tokens["id_token"], pair["access_token"], pair["refresh_token"]):
        await gone(wiki, text)
    for kind in ("access_token", "refresh_token"):
        await gone(app, tokens[kind])
    assert (await wiki.introspect(tokens["access_token"]))["active"]
    assert not await Session.objects.exclude(revoked_at=None).aexists()
    await refused(await wiki.post(REVOKE), "invalid_request")


async def test_an_access_token_that_has_expired_ends_nothing(wiki: Party, tokens: Tokens) -> None:
    """It stands for nothing any more."""
    with clock.shifted(601):
        await gone(wiki, tokens["access_token"])
        assert (await wiki.refresh(tokens["refresh_token"])).status_code == 200


async def test_a_clients_own_token_ends_alone(robot: Party, gateway: Party) -> None:
    """The one token is inactive for everybody, in other processes too, and the next is not; others may not end it."""
    first, second = [(await robot.post(TOKEN, grant_type="client_credentials")).json() for _ in range(2)]
    await gone(gateway, first["access_token"])
    assert (await gateway.introspect(first["access_token"]))["active"]
    for _ in range(2):
        await gone(robot, first["access_token"])
    for _ in range(2):
        assert await robot.introspect(first["access_token"]) == {"active": False}
        assert await gateway.introspect(first["access_token"]) == {"active": False}
        assert (await robot.introspect(second["access_token"]))["active"]
        token_cache().clear()
    assert await UsedOnce.objects.acount() == 1
