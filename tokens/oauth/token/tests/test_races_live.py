"""One code, one refresh token, and many who use it at once, at the same moment, in two worker processes."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from tokens.access import codec
from tokens.oauth.tests.apis import MAIL, ORDERS, make_api
from tokens.oauth.tests.flow import Party, approve, signed_on
from tokens.oauth.tests.material import make_client
from tokens.sessions.models import Session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

AT_ONCE = 50
ROUNDS = 4


@pytest.fixture
async def shop(serve_process: Callable[..., str], signing_key: str) -> Any:
    """A client of a server with two worker processes, which know nothing of this one but the database."""
    base = await asyncio.to_thread(serve_process, "--workers", "2")
    limits = httpx.Limits(max_connections=AT_ONCE)
    async with httpx.AsyncClient(base_url=base, limits=limits, timeout=30) as client:
        yield Party(client, *await sync_to_async(make_client)())


@pytest.fixture
async def buyer(shop: Party, new_email: Callable[[], str]) -> uuid.UUID:
    """Somebody who buys there."""
    user = await sync_to_async(User.objects.create_user)(email=new_email())
    return user.pk


async def test_one_of_many_redemptions_and_one_successor_of_many_refreshes(shop: Party, buyer: uuid.UUID) -> None:
    """Security-bar 16 and 17, round after round; one test, because each start of a server takes seconds.

    Within a single sign-on, as the pages make codes, and without: these are other statements on PostgreSQL.
    """
    sso_session = await sync_to_async(signed_on)(buyer)
    await _redeem_at_once(shop, buyer, sso_session)
    await sso_session.adelete()
    await _redeem_at_once(shop, buyer, None)
    await _narrow_at_once(shop, buyer)
    await _refresh_at_once(shop, buyer)


async def _redeem_at_once(shop: Party, buyer: uuid.UUID, sso_session: Session | None) -> None:
    """Exactly one gets tokens, and the others end what it got."""
    opened = Session.objects.exclude(pk=sso_session.pk) if sso_session else Session.objects.all()
    reuses = AuditEvent.objects.filter(event="code_reuse")
    sessions_before, reuses_before = await opened.acount(), await reuses.acount()
    for number in range(1, ROUNDS + 1):
        code = await sync_to_async(approve)(shop.client, buyer, sso_session=sso_session)
        answers = await asyncio.gather(*(shop.redeem(code) for _ in range(AT_ONCE)))
        assert Counter(answer.status_code for answer in answers) == {200: 1, 400: AT_ONCE - 1}
        assert {answer.json()["error"] for answer in answers if answer.status_code != 200} == {"invalid_grant"}
        assert await opened.acount() == sessions_before + number
        tokens = next(answer.json() for answer in answers if answer.status_code == 200)
        assert (await shop.refresh(tokens["refresh_token"])).status_code == 400
        assert await opened.filter(revoked_at=None).acount() == 0
    assert await reuses.acount() == reuses_before + ROUNDS


async def _narrow_at_once(shop: Party, buyer: uuid.UUID) -> None:
    """A code for two APIs is redeemed once, for whichever of them the one that got it named."""
    await sync_to_async(make_api)()
    await sync_to_async(make_api)(MAIL, name="Mail")
    opened = Session.objects.filter(revoked_at=None)
    for _ in range(ROUNDS):
        code = await sync_to_async(approve)(shop.client, buyer, resources=f"{ORDERS} {MAIL}")
        asked = [ORDERS, MAIL, "https://nobody.example"] * (AT_ONCE // 3)
        answers = await asyncio.gather(*(shop.redeem(code, resource=one) for one in asked))
        told = [(answer.status_code, one, answer) for answer, one in zip(answers, asked, strict=True)]
        good = [(one, answer.json()) for status, one, answer in told if status == 200]
        assert len(good) == 1
        assert codec.payload_of(good[0][1]["access_token"])["aud"] == good[0][0] in (ORDERS, MAIL)
        assert {answer.json()["error"] for status, _, answer in told if status != 200} <= {
            "invalid_grant",
            "invalid_target",
        }
        assert (await shop.refresh(good[0][1]["refresh_token"])).status_code == 400
        assert await opened.acount() == 0


async def _refresh_at_once(shop: Party, buyer: uuid.UUID) -> None:
    """The session moves on by one, no matter who asks how often, and its tokens are good in both workers."""
    tokens = (await shop.redeem(await sync_to_async(approve)(shop.client, buyer))).json()
    for generation in range(1, ROUNDS + 1):
        answers = await asyncio.gather(*(shop.refresh(tokens["refresh_token"]) for _ in range(AT_ONCE)))
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.json()["refresh_token"] for answer in answers}) == 1
        assert (await Session.objects.aget(revoked_at=None)).generation == generation
        tokens = answers[0].json()
    found = await asyncio.gather(*(shop.introspect(tokens["access_token"]) for _ in range(8)))
    assert {answer["active"] for answer in found} == {True}
