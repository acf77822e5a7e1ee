"""The ASGI application: guard, then lanes; start-up and shutdown belong to ``server.lifespan``."""

import asyncio
import os
from typing import TYPE_CHECKING, Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
# Before the imports below: they read settings, and views need the app registry.
django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402 - after django.setup()
from django.urls import get_resolver, resolve, reverse  # noqa: E402 - after django.setup()
from rest_framework.permissions import IsAuthenticated  # noqa: E402 - after django.setup()

from ironauth.infrastructure.admin.session_store import is_staff  # noqa: E402 - after django.setup()
from ironauth.infrastructure.core.asgi_types import (  # noqa: E402 - after django.setup()
    Application,
    Receive,
    Scope,
    Send,
)
from ironauth.infrastructure.core.lifecycle import on_shutdown, on_startup  # noqa: E402 - after django.setup()
from ironauth.infrastructure.db.unit_of_work import database, ping  # noqa: E402 - after django.setup()
from ironauth.infrastructure.http.cross_origin import CrossOrigin  # noqa: E402 - after django.setup()
from ironauth.infrastructure.http.guard import Guard  # noqa: E402 - after django.setup()
from ironauth.infrastructure.http.handler import LeanHandler  # noqa: E402 - after django.setup()
from ironauth.infrastructure.http.hot_lane import HotLane  # noqa: E402 - after django.setup()
from ironauth.infrastructure.http.lanes import (  # noqa: E402 - after django.setup()
    AdminLane,
    LaneRouter,
    PageHandler,
    longest_body,
)
from ironauth.infrastructure.threads.request_threads import request_threads  # noqa: E402 - after django.setup()
from ironauth.server import lifespan  # noqa: E402 - after django.setup()
from ironauth.server.instrumentation.route_label import (  # noqa: E402 - after django.setup()
    NotingPageHandler,
    RouteLabelHandler,
)
from tokens.access import remembered  # noqa: E402 - after django.setup()
from tokens.access.credentials import access_name  # noqa: E402 - after django.setup()
from tokens.oauth.token import introspection  # noqa: E402 - after django.setup()
from tokens.sessions import authentication  # noqa: E402 - after django.setup()

if TYPE_CHECKING:
    from ironauth.infrastructure.telemetry.metrics import Recorder


def _depends_on_the_token_alone(path: str) -> bool:
    """Return whether the view at ``path`` admits every holder of a token. A throttle sees every request."""
    view: Any = resolve(path).func
    return not view.cls.throttle_classes and list(view.cls.permission_classes) == [IsAuthenticated]


def _judges_callers_itself(path: str) -> bool:
    """Return whether nothing but the view at ``path`` looks at who asks, as at OAuth's endpoints."""
    view: Any = resolve(path).func
    return not view.cls.throttle_classes and not view.cls.permission_classes


async def _database_answers() -> None:
    """Ask the database, within its pool's time limit: a page would wait as long as one hangs, on one of few threads."""
    await database().read(ping)


def _made_lanes() -> LaneRouter:
    watched = settings.IRONAUTH_METRICS or settings.IRONAUTH_TRACES
    pages = AdminLane((NotingPageHandler if watched else PageHandler)(), request_threads, first=_database_answers)
    handler = RouteLabelHandler if settings.IRONAUTH_TRACES else LeanHandler
    if not settings.IRONAUTH_METRICS:  # then nothing is counted, and nothing for it imported
        return LaneRouter(api=handler(request_threads), admin=pages)
    from ironauth.infrastructure.telemetry import metrics  # noqa: PLC0415 - as above
    from ironauth.server.instrumentation import metrics_requests  # noqa: PLC0415 - as above

    recorder = metrics.start()
    _sample(recorder)
    api = handler(request_threads, observer=metrics_requests.CountedApi(recorder))
    return LaneRouter(api=api, admin=metrics_requests.CountedPages(pages, recorder))


def _sample(recorder: "Recorder") -> None:
    """Have what is not counted as it happens sampled between start-up and shutdown."""
    from ironauth.server.instrumentation.metrics_sampling import (  # noqa: PLC0415 - with IRONAUTH_METRICS only
        Sampling,
    )

    sampling = Sampling(recorder)

    @on_startup
    async def _begin() -> None:
        sampling.start()

    @on_shutdown
    async def _end() -> None:
        sampling.stop()


def _traced(application: Application) -> Application:
    """Return ``application`` with a span around each request; the last ones are sent at shutdown."""
    from ironauth.server.instrumentation import traces, traces_requests  # noqa: PLC0415 - with IRONAUTH_TRACES only

    tracing = traces.start()

    @on_shutdown
    async def _send_the_last() -> None:
        await asyncio.to_thread(tracing.stop)

    return traces_requests.TracedRequests(
        application, tracing.tracer, fixed_paths=_hot_paths | _userinfo | _introspection
    )


_lanes = _made_lanes()
_hot_paths = frozenset(filter(_depends_on_the_token_alone, map(reverse, ("access:me", "access:verify"))))
_userinfo = frozenset(filter(_judges_callers_itself, [reverse("oauth:userinfo")]))
_introspection = frozenset(filter(_judges_callers_itself, [reverse("oauth:introspect")]))
_guard = Guard(
    HotLane(
        _lanes,
        paths=_hot_paths | _userinfo,
        answers_of=authentication.answers_of,
        keep=remembered.keep_answer,
        cookie_name=access_name,
        header_paths=_userinfo,
        forms=dict.fromkeys(_introspection, introspection),
    ),
    longest_body=longest_body,
    is_staff=is_staff,
)
_http: Application = _traced(_guard) if settings.IRONAUTH_TRACES else _guard
if settings.IRONAUTH_TRUSTED_ORIGINS:
    _paths = ("/api/v1/",) if settings.IRONAUTH_SIMPLEJWT == "off" else ("/api/v1/", settings.IRONAUTH_SIMPLEJWT_PATH)
    _http = CrossOrigin(_http, origins=settings.IRONAUTH_TRUSTED_ORIGINS, prefixes=_paths)


@on_shutdown
async def _end_request_threads() -> None:
    """Close the admin lane's database connections; closing waits for its threads, so not on the loop."""
    await asyncio.to_thread(request_threads.close)


@on_startup
async def _load_routes() -> None:
    """Import every view now: the first request would wait about 60 ms for it."""
    _ = get_resolver().url_patterns


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve HTTP and the lifespan protocol; a WebSocket handshake is refused (403).

    Args:
        scope: What the request is, as ASGI describes it.
        receive: Awaited for the next event of the client.
        send: Awaited with the next event of the answer.
    """
    if scope["type"] == "http":
        await _http(scope, receive, send)
    elif scope["type"] == "lifespan":
        await lifespan.run(receive, send)
    else:
        await send({"type": "websocket.close"})
