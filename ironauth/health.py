"""Whether this process answers, and whether what it depends on does.

``/ping`` and ``/health/live`` are about the process alone: restart it when they fail. ``/health`` is about what it
needs: take it out of the load balancer on 503. Only the database is needed for right answers. Without Redis, or with
password hashing at its limit, the server works on and answers ``degraded`` with 200: taking every instance out of
service because of a cache would turn a slow hour into an outage.

A process that ends answers ``draining`` with 503 from the moment it is told to, on connections that are open: what runs
is finished, and nothing new should come.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.response import Response

from ironauth.infrastructure.api.read_only import read_only
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import lifecycle
from ironauth.infrastructure.core.errors import DomainError, Unavailable
from ironauth.infrastructure.db import unit_of_work
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.http.client_context import is_local
from ironauth.infrastructure.telemetry.logs import get_logger
from ironauth.version import VERSION
from tokens.access.codec import MAX_TOKEN_BYTES
from tokens.keys.store import key_store
from tokens.sessions import authentication

type CheckStatus = Literal["ok", "degraded", "unavailable"]
type HealthStatus = Literal["ok", "degraded", "unavailable", "draining"]

DATABASE_LIMIT_S = 1.5  # the whole answer has to be there within 2 s when the database is gone
RETRY_AFTER_S = 2  # seconds; what the database pool says too
REPORT_SHARED_S = 0.1  # a report this young answers everybody: nobody can load the database through this address


class Check(msgspec.Struct, frozen=True):
    """One dependency: whether it answers, and after how many milliseconds."""

    status: CheckStatus
    latency_ms: float


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """``unavailable`` when the database is; ``degraded`` when anything else is not ok.

    ``draining``, without checks, from a process that ends. ``version``: for callers with an access token or on this
    machine; nobody else needs to know what holes the server may have.
    """

    status: HealthStatus
    version: str | msgspec.UnsetType = msgspec.UNSET
    checks: dict[str, Check]


class Live(msgspec.Struct, frozen=True):
    """The process answers. ``version``: for callers on this machine."""

    status: Literal["ok"]
    version: str | msgspec.UnsetType = msgspec.UNSET


@read_only
async def ping(_request: HttpRequest) -> HttpResponse:
    """Answer ``OK`` without touching anything."""
    return HttpResponse(b"OK", content_type="text/plain", headers={"Cache-Control": "no-store"})


class LiveView(AsyncAPIView):
    """Whether this process answers at all."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    async def get(self, request: ApiRequest) -> Live:
        """Say that this process answers; nothing else is looked at."""
        return Live(status="ok", version=VERSION if is_local(request) else msgspec.UNSET)


class HealthView(AsyncAPIView):
    """Whether everything this server needs answers."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    @extend_schema(
        responses={
            200: OpenApiResponse(Health, description="`ok`, or `degraded`: no cache, no signing key, or very busy"),
            (503, "application/json"): OpenApiResponse(
                Health, description="The database does not answer, or the process ends"
            ),
        }
    )
    async def get(self, request: ApiRequest) -> Health | Response:
        """Look at the database, the cache, the hash pool and the signing key; a report is at most 0.1 s old.

        A process that ends looks at nothing.
        """
        if lifecycle.is_leaving():
            report, tell = Health(status="draining", checks={}), is_local(request)
        else:  # both at once: without a database each takes as long as it may
            report, tell = await asyncio.gather(_shared.report(), _may_know_version(request))
        if tell:
            report = msgspec.structs.replace(report, version=VERSION)
        if report.status in ("unavailable", "draining"):
            return Response(report, status=503, headers={"Retry-After": str(RETRY_AFTER_S)})
        return report


def _token(request: ApiRequest) -> str:
    """Return the access token of the header, "" without one."""
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    return token if scheme == "Bearer" and len(token) <= MAX_TOKEN_BYTES else ""


async def _may_know_version(request: ApiRequest) -> bool:
    """Return whether the caller is on this machine or has an access token that is good now."""
    if is_local(request):
        return True
    token = _token(request)
    if not token:
        return False
    try:
        await authentication.by_text(token)
    except DomainError:  # no token of ours, or the database is away: the caller gets the public report
        return False
    return True


class _SharedReport:
    """The newest report, made by one task at a time however many requests ask."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Health] | None = None
        self._made_at = 0.0

    async def report(self) -> Health:
        """Return a report that is at most 0.1 s old or is being made."""
        task = self._task
        stale = time.monotonic() - self._made_at > REPORT_SHARED_S
        if task is None or (task.done() and stale) or task.get_loop() is not asyncio.get_running_loop():
            task = self._task = asyncio.create_task(self._make())
        # One caller that hangs up must not take the report away from the others.
        return await asyncio.shield(task)

    async def _make(self) -> Health:
        names = ("database", "cache", "hash_pool", "signing_key")
        results = await asyncio.gather(
            _timed(_database, "unavailable"),
            _timed(_cache, "degraded"),
            _timed(_hash_pool, "degraded"),
            _timed(_signing_key, "degraded"),
        )
        statuses = [check.status for check in results]
        worst: CheckStatus = "ok"
        if "unavailable" in statuses:
            worst = "unavailable"
        elif "degraded" in statuses:
            worst = "degraded"
        self._made_at = time.monotonic()
        return Health(status=worst, checks=dict(zip(names, results, strict=True)))


_shared = _SharedReport()


async def _timed(look: Callable[[], Awaitable[bool]], failed: CheckStatus) -> Check:
    """Return how ``look`` went: ``failed`` when it returns that or raises; the error never reaches the client."""
    started = time.perf_counter()
    try:
        well = await look()
    except (Unavailable, TimeoutError):
        well = False
    except Exception:  # noqa: BLE001 - a report about failures must not fail itself; the log has the traceback
        get_logger().exception("health_check_failed", check=look.__name__.strip("_"))
        well = False
    took_ms = round((time.perf_counter() - started) * 1000, 1)
    return Check(status="ok" if well else failed, latency_ms=took_ms)


async def _database() -> bool:
    """Ask the database for one row, on the connection and threads that requests use."""
    async with asyncio.timeout(DATABASE_LIMIT_S):
        return await database().read(unit_of_work.ping)


async def _cache() -> bool:
    """Ask Redis for a sign of life; without REDIS_URL the cache is this process's memory, which is well."""
    remote = token_cache().remote
    return remote is None or await remote.aattempt(lambda redis: redis.ping(), False)


async def _hash_pool() -> bool:
    """Tell whether a sign-in that came now would be taken rather than refused."""
    return bool(hash_pool().expected_wait_s() <= settings.IRONAUTH_HASH_MAX_WAIT_S)


async def _signing_key() -> bool:
    """Tell whether a sign-in could be given a token; without a copy of the keys the database is to blame."""
    return (await key_store().for_publishing()).active is not None
