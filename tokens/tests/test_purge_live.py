"""Purging while a real server is busy with refreshes on the same SQLite file, which has one writer at a time."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from conftest import PASSWORD, ServeProcess
from ironauth.infrastructure.core import clock
from tokens.purge import Purged, purge_expired
from tokens.sessions.models import Session
from tokens.tests.browser import REFRESH, SIGNIN

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.only_sqlite]

EXPIRED = 3_000  # sessions: thirty transactions of the default batch
CLIENTS = 8


def expire_sessions(user_id: UUID) -> None:
    """Store many sessions that ended a month ago."""
    ended = clock.now() - timedelta(days=30)
    Session.objects.bulk_create(
        (
            Session(
                user_id=user_id, master_key_id="t1", epoch=0, idle_expires_at=ended, absolute_expires_at=ended,
            )
            for _ in range(EXPIRED)
        ),
        batch_size=5_000,
    )  # fmt: skip


def purge_elsewhere() -> Purged:
    """Purge on a thread, hence a connection, of its own."""
    try:
        return purge_expired()
    finally:
        connection.close()


async def test_refreshes_go_on_while_sessions_are_purged(
    serve_process: ServeProcess, signing_key: str, new_email: Callable[[], str]
) -> None:
    """Eight clients refresh without pause while 3,000 sessions are deleted: every single refresh succeeds."""
    base = await sync_to_async(serve_process)()
    busy = asyncio.Event()
    statuses: Counter[int] = Counter()
    body = {"email": new_email(), "password": PASSWORD}
    async with httpx.AsyncClient(base_url=base, timeout=30) as client:
        person = (await client.post("/api/v1/access/signup", json=body)).raise_for_status().json()
        tokens = [
            (await client.post(SIGNIN, json=body)).raise_for_status().json()["refresh_token"] for _ in range(CLIENTS)
        ]
        await sync_to_async(expire_sessions)(person["id"])

        async def purge_amid_refreshes() -> Purged:
            await busy.wait()
            return await sync_to_async(purge_elsewhere, thread_sensitive=False)()

        async def refresh_until(done: asyncio.Task[Purged], token: str) -> None:
            while not done.done():
                answer = await client.post(REFRESH, json={"refresh_token": token})
                statuses[answer.status_code] += 1
                token = answer.json().get("refresh_token", token)
                if statuses.total() >= 2 * CLIENTS:
                    busy.set()

        purge = asyncio.create_task(purge_amid_refreshes())
        await asyncio.gather(*(refresh_until(purge, token) for token in tokens))
    assert (await purge).sessions == EXPIRED
    assert set(statuses) == {200}
    assert await Session.objects.acount() == CLIENTS
