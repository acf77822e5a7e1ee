"""One device code and one proof, and many who use each at once, in two worker processes."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.users.models import User
from ironauth.infrastructure.core import clock
from tokens.clients.models import digest_of
from tokens.oauth import device_codes
from tokens.oauth.models import DeviceGrant
from tokens.oauth.tests.flow import TOKEN, Party
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.proofs import new_key, proof
from tokens.sessions.models import Session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
AT_ONCE = 30
ROUNDS = 3


@pytest.fixture
async def cinema(serve_process: Callable[..., str], signing_key: str) -> Any:
    """A client of a server with two worker processes, which know nothing of this one but the database."""
    base = await asyncio.to_thread(serve_process, "--workers", "2")
    given = {"name": "Cinema", "grants": [DEVICE_CODE, "client_credentials"], "scopes": ["openid", "reports"]}
    limits = httpx.Limits(max_connections=AT_ONCE)
    async with httpx.AsyncClient(base_url=base, limits=limits, timeout=30) as client:
        yield Party(client, *await sync_to_async(make_client)(**given))


def allowed(party: Party, user_id: uuid.UUID) -> str:
    """Store a device that somebody has just allowed, and return its code."""
    code, now = device_codes.new_device_code(), clock.now()
    DeviceGrant.objects.create(
        digest=digest_of(code), user_code=device_codes.stored(device_codes.new_user_code()), client=party.client,
        scope="openid", state=DeviceGrant.State.APPROVED, user_id=user_id, authenticated_at=now, amr="pwd",
        interval_s=5, expires_at=now + timedelta(minutes=10), epoch=User.objects.get(pk=user_id).session_epoch,
    )  # fmt: skip
    return code


async def test_one_of_many(cinema: Party, new_email: Callable[[], str]) -> None:
    """Of many who redeem a device code one gets a session; of many who show a proof one is let in."""
    user = await sync_to_async(User.objects.create_user)(email=new_email())
    for number in range(1, ROUNDS + 1):
        code = await sync_to_async(allowed)(cinema, user.pk)
        asked = {"grant_type": DEVICE_CODE, "device_code": code}
        answers = await asyncio.gather(*(cinema.post(TOKEN, **asked) for _ in range(AT_ONCE)))
        assert Counter(answer.status_code for answer in answers) == {200: 1, 400: AT_ONCE - 1}
        assert {answer.json()["error"] for answer in answers if answer.status_code == 400} == {"invalid_grant"}
        assert await Session.objects.acount() == number
    for _ in range(ROUNDS):
        cinema.headers = {"DPoP": proof(new_key(), "POST", TOKEN)}
        answers = await asyncio.gather(*(cinema.post(TOKEN, grant_type="client_credentials") for _ in range(AT_ONCE)))
        assert Counter(answer.status_code for answer in answers) == {200: 1, 400: AT_ONCE - 1}
        assert {answer.json()["error"] for answer in answers if answer.status_code == 400} == {"invalid_dpop_proof"}
