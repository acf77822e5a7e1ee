"""Health reports, on real storage, well and broken."""

import asyncio
import socket
import threading
import time
import tomllib
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from django.conf import LazySettings, settings
from django.db import connection

from ironauth.asgi import application
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.version import VERSION


def test_version_is_the_projects() -> None:
    """The reported version is the one in pyproject.toml."""
    project = tomllib.loads((Path(settings.BASE_DIR) / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["version"] == VERSION


async def test_ping_is_plain(api: httpx.AsyncClient) -> None:
    """/ping is the two letters OK as text, and nobody keeps it."""
    answer = await api.get("/ping")
    assert (answer.status_code, answer.text) == (200, "OK")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Request-ID"]


async def test_live_looks_at_nothing(api: httpx.AsyncClient) -> None:
    """/health/live answers from the process alone: this test may not use the database."""
    answer = await api.get("/health/live")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "version": VERSION})


@pytest.mark.storage
@pytest.mark.django_db(transaction=True)
async def test_everything_is_well(api: httpx.AsyncClient, signing_key: str) -> None:
    """With everything there, each check is ok and has a time."""
    answer = await api.get("/health")
    assert answer.status_code == 200
    report = answer.json()
    assert (report["status"], report["version"]) == ("ok", VERSION)
    assert list(report["checks"]) == ["database", "cache", "hash_pool", "signing_key"]
    for check in report["checks"].values():
        assert check["status"] == "ok"
        assert 0 <= check["latency_ms"] < 2_000
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.django_db(transaction=True)
async def test_many_requests_share_one_look(api: httpx.AsyncClient) -> None:
    """Fifty reports asked for at once cost the database one query, so that nobody can load it through here."""
    await api.get("/health")  # reads the signing keys
    await asyncio.sleep(0.15)  # older reports have expired
    queries = 0

    # On every reader thread's connection: each waits for the others, so that no thread takes two.
    barrier = threading.Barrier(settings.IRONAUTH_DATABASE_THREADS, timeout=2)

    def count() -> None:
        barrier.wait()

        def wrapper(execute, sql, params, many, context):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - Django's hook
            nonlocal queries
            queries += 1
            return execute(sql, params, many, context)

        connection.execute_wrappers.append(wrapper)

    readers = [database().read(count) for _ in range(settings.IRONAUTH_DATABASE_THREADS)]
    await asyncio.gather(*readers)
    try:
        answers = await asyncio.gather(*(api.get("/health") for _ in range(50)))
    finally:
        database().close()
    assert {answer.status_code for answer in answers} == {200}
    assert queries == 1


@pytest.mark.django_db(transaction=True)
async def test_a_server_without_a_signing_key_is_degraded(api: httpx.AsyncClient) -> None:
    """Nobody can sign in, while tokens are still verified: 200, and the report says what is missing."""
    await asyncio.sleep(0.15)
    answer = await api.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert [name for name, check in answer.json()["checks"].items() if check["status"] != "ok"] == ["signing_key"]


@pytest.mark.django_db(transaction=True)
async def test_a_busy_hash_pool_is_degraded(api: httpx.AsyncClient, settings: LazySettings) -> None:
    """When a sign-in would be refused the report says degraded, with 200: the server still answers everything else."""
    settings.IRONAUTH_HASH_THREADS = 1
    settings.IRONAUTH_HASH_MAX_WAIT_S = 0.05
    release = threading.Event()
    jobs = [asyncio.create_task(hash_pool().run(release.wait))]
    await asyncio.sleep(0.15)
    try:
        report = (await api.get("/health")).json()
    finally:
        release.set()
        await asyncio.gather(*jobs)
    assert report["status"] == "degraded"
    assert report["checks"]["hash_pool"]["status"] == "degraded"
    assert report["checks"]["database"]["status"] == "ok"


@pytest.mark.django_db(transaction=True)
async def test_a_lost_redis_is_degraded(api: httpx.AsyncClient, settings: LazySettings) -> None:
    """Without its Redis the server works on: 200 and degraded."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        settings.REDIS_URL = f"redis://127.0.0.1:{unused.getsockname()[1]}/0"
        await asyncio.sleep(0.15)
        answer = await api.get("/health")
    assert answer.status_code == 200
    assert answer.json()["status"] == "degraded"
    assert answer.json()["checks"]["cache"]["status"] == "degraded"


@pytest.mark.django_db(transaction=True)
@pytest.mark.only_sqlite
async def test_a_hanging_database_is_unavailable_in_time(api: httpx.AsyncClient, settings: LazySettings) -> None:
    """When no database thread comes free the report is 503 within 2 s, and well again afterwards."""
    settings.IRONAUTH_DATABASE_TIMEOUT_S = 1.5  # as the product's default is
    release = threading.Event()
    held = [asyncio.create_task(database().read(release.wait)) for _ in range(settings.IRONAUTH_DATABASE_THREADS)]
    await asyncio.sleep(0.15)
    started = time.monotonic()
    answer = await api.get("/health")
    took_s = time.monotonic() - started
    release.set()
    await asyncio.gather(*held, return_exceptions=True)
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.json()["status"] == "unavailable"
    assert answer.json()["checks"]["database"]["status"] == "unavailable"
    assert took_s < 2
    await asyncio.sleep(0.15)
    assert (await api.get("/health")).json()["checks"]["database"]["status"] == "ok"


@pytest.mark.parametrize("path", ["/health", "/health/live"])
@pytest.mark.django_db(transaction=True)
class TestWhoIsToldTheVersion:
    """Somebody with an access token, or on this machine."""

    @staticmethod
    async def told(path: str, address: str, **headers: Any) -> dict[str, Any]:
        transport = httpx.ASGITransport(app=cast("Any", application), client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            answer = await client.get(path, headers=headers)
        assert answer.status_code == 200
        assert answer.json()["status"] in ("ok", "degraded")
        return dict(answer.json())

    @pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", ""])
    async def test_callers_on_this_machine(self, path: str, address: str) -> None:
        """By loopback and by the Unix socket it is told, but not when a proxy passes the request on."""
        assert (await self.told(path, address))["version"] == VERSION
        for name in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Proto"):
            assert "version" not in await self.told(path, address, **{name: "192.0.2.1"})

    @pytest.mark.parametrize("address", ["192.0.2.1", "10.0.0.1", "2001:db8::1", "::ffff:192.0.2.1"])
    async def test_strangers(self, path: str, address: str) -> None:
        """Nobody else is told, whatever they send as a token, and gets the report all the same."""
        assert "version" not in await self.told(path, address)
        for token in (b"", b"x", b"x.y.z", b"\xe9", b"a" * 8_000, b".".join([b"e30"] * 3)):
            assert "version" not in await self.told(path, address, Authorization=b"Bearer " + token)

    async def test_a_token(self, path: str, pair: dict[str, Any]) -> None:
        """With an access token that is good the report tells it; with the refresh token it does not."""
        header = {"Authorization": f"Bearer {pair['access_token']}"}
        found = await self.told(path, "192.0.2.1", **header)
        assert found.get("version") == (VERSION if path == "/health" else None)
        refresh = {"Authorization": f"Bearer {pair['refresh_token']}"}
        assert "version" not in await self.told(path, "192.0.2.1", **refresh)
