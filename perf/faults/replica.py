"""A replica that stands still, hangs, talks nonsense or was promoted, while staff list people from it.

What the people of the run do must not notice: nobody signs in, refreshes or is refused by what a replica says.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

from perf.faults.proxy import Mode
from perf.faults.site import to_its_end
from perf.http_client import Connection, ResponseError

if TYPE_CHECKING:
    from perf.faults.cases import Stage

LISTED = "/api/v1/users?page_size=5"
LIST_S = 5.0  # longest that a list may take: the database's time limit, and a busy machine
PAUSE_S = 0.02


def paused() -> Callable[["Stage"], AbstractAsyncContextManager[None]]:
    """Return the fault of a replica that replays nothing."""
    return _told("SELECT pg_wal_replay_pause()", after="SELECT pg_wal_replay_resume()")


def promoted() -> Callable[["Stage"], AbstractAsyncContextManager[None]]:
    """Return the fault of a replica that becomes a primary of its own, with other rows. It is none afterwards.

    It writes so much that its log is the longer one, and in it nobody may sign in.
    """
    return _told(
        "SELECT pg_promote()",
        "UPDATE accounts_user SET is_active = false, session_epoch = session_epoch + 1",
        "INSERT INTO infrastructure_invalidation (tag, created_at) SELECT 'never', now()"
        " FROM generate_series(1, 20000)",
    )


def becoming(mode: Mode) -> Callable[["Stage"], AbstractAsyncContextManager[None]]:
    """Return the fault of a replica that cannot be reached in one of the proxy's ways.

    Args:
        mode: What happens to its connections.
    """

    @asynccontextmanager
    async def fault(stage: "Stage") -> AsyncGenerator[None]:
        async with _listing(stage):
            await stage.site.to_replica.become(mode)
            yield
            await stage.site.to_replica.become(Mode.PASS)

    return fault


def _told(*before: str, after: str = "") -> Callable[["Stage"], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def fault(stage: "Stage") -> AsyncGenerator[None]:
        async with _listing(stage):
            for statement in before:
                await to_its_end(stage.site.replica.ask, statement)
            yield
            if after:
                await to_its_end(stage.site.replica.ask, after)

    return fault


@asynccontextmanager
async def _listing(stage: "Stage") -> AsyncGenerator[None]:
    """List people as a member of staff all the time: each list is complete, and in time."""
    checker, connection = stage.people[0].visits.checker, Connection(("127.0.0.1", stage.site.port), patience_s=LIST_S)
    token = await _token(stage, connection)
    listed = asyncio.Event()

    async def go() -> None:
        while True:
            began = time.monotonic()
            try:
                reply = await connection.send("GET", LISTED, token=token)
            except (OSError, TimeoutError, ResponseError) as error:
                checker.broken("staff got no list", type(error).__name__)
                connection.close()
                continue
            if reply.status != HTTPStatus.OK or time.monotonic() - began > LIST_S:
                checker.broken("staff got no list", f"{reply.status} after {time.monotonic() - began:.2f} s")
            listed.set()
            await asyncio.sleep(PAUSE_S)

    going = asyncio.create_task(go())
    try:
        await listed.wait()
        yield
    finally:
        going.cancel()
        with suppress(asyncio.CancelledError):
            await going
        connection.close()


async def _token(stage: "Stage", connection: Connection) -> str:
    """Return an access token of the member of staff of the site."""
    body = {"refresh_token": stage.site.staff_token}
    reply = await connection.send("POST", "/api/v1/access/refresh", json=body)
    answer = reply.json()
    stage.site.staff_token = answer["refresh_token"]
    return str(answer["access_token"])
