"""What a trace tells of a request, whose word it takes for the caller's, and what it never holds."""

import json
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from pytest_django import Settings

from conftest import PASSWORD, bearer
from ironauth.infrastructure.cache.memory import freshness
from ironauth.infrastructure.cache.shared_entries import L2
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core.asgi_types import Receive, Scope, Send
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.http.guard import Guard
from ironauth.infrastructure.http.hot_lane import HotLane
from ironauth.infrastructure.http.lanes import AdminLane, LaneRouter, longest_body
from ironauth.infrastructure.telemetry import logs
from ironauth.infrastructure.threads.executor import BoundedExecutor
from ironauth.infrastructure.threads.request_threads import request_threads
from ironauth.server.instrumentation import traces
from ironauth.server.instrumentation.route_label import NotingPageHandler, RouteLabelHandler
from ironauth.server.instrumentation.traces import BestEffortExporter, Tracing
from ironauth.server.instrumentation.traces_requests import TracedRequests
from ironauth.server.response import OFFERED
from ironauth.tests.canary_hooks import watched
from tokens.access import remembered
from tokens.access.credentials import access_name
from tokens.sessions import authentication

ME = "/api/v1/access/me"
SIGNIN = "/api/v1/access/signin"
USER = "0194d2a0-0000-7000-8000-000000000000"
CALLER = "4bf92f3577b34da6a3ce929d0e0e4736"
SAMPLED, NOT_SAMPLED = (f"00-{CALLER}-00f067aa0ba902b7-{flag}" for flag in ("01", "00"))


@pytest.fixture
def spans() -> InMemorySpanExporter:
    """Where finished spans are."""
    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tracing]:
    """Traces on, as with IRONAUTH_TRACES=1, kept in memory."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    made = Tracing(provider)
    for owner, name in ((BoundedExecutor, "on_submit"), (L2, "around")):
        monkeypatch.setattr(owner, name, None)
    made.attach()
    yield made
    logs.name_traces(None)


@pytest.fixture
async def traced(tracing: Tracing) -> Any:
    """A client of the application as ``ironauth.asgi`` assembles it with traces on."""
    pages = AdminLane(NotingPageHandler(), request_threads)
    hot = HotLane(
        LaneRouter(RouteLabelHandler(request_threads), pages),
        paths=frozenset({ME}),
        answers_of=authentication.answers_of,
        keep=remembered.keep_answer,
        cookie_name=access_name,
    )
    application = TracedRequests(Guard(hot, longest_body=longest_body), tracing.tracer, fixed_paths=frozenset({ME}))

    async def as_served(scope: Scope, receive: Receive, send: Send) -> None:
        await application({**scope, "extensions": OFFERED}, receive, send)

    transport = httpx.ASGITransport(app=cast("Any", as_served), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        yield client


def _servers(spans: InMemorySpanExporter) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.kind is SpanKind.SERVER]


def _all_said(spans: InMemorySpanExporter) -> str:
    return "\n".join(span.to_json() for span in spans.get_finished_spans())


class TestRequests:
    """Spans of requests and what is below them, on real storage."""

    pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

    async def test_a_request_is_named_by_its_route(
        self, traced: httpx.AsyncClient, spans: InMemorySpanExporter, signing_key: str
    ) -> None:
        """Method and pattern, never what the path has in it; what no pattern fits is the method alone."""
        asked = ["/ping?a=hush", f"/api/v1/users/{USER}", "/nowhere/hush", "/admin/login/", "/static/hush.css"]
        answers = [await traced.get(path) for path in asked]
        answers.append(await traced.request("HUSH", "/ping"))
        found = _servers(spans)
        assert [span.name for span in found] == [
            "GET /ping",
            "GET /api/v1/users/<uuid:user_id>",
            "GET",
            "GET /admin/login/",
            "GET /static/…",
            "HTTP /ping",
        ]
        assert dict(found[0].attributes or {}) == {
            "http.request.method": "GET",
            "http.response.header.x-request-id": (answers[0].headers["X-Request-ID"],),
            "http.response.status_code": 200,
            "http.route": "/ping",
            "network.protocol.version": "1.1",
            "url.scheme": "http",
        }
        for span, answer in zip(found, answers, strict=True):
            assert (span.attributes or {})["http.response.status_code"] == answer.status_code
        assert "hush" not in _all_said(spans).casefold()
        assert USER not in _all_said(spans)

    async def test_pools_and_redis_are_below_the_request(
        self, traced: httpx.AsyncClient, spans: InMemorySpanExporter, member: dict[str, Any]
    ) -> None:
        """Who signs in waits for the database and the hash; a token known by now costs neither."""
        spans.clear()
        pair = (await traced.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).json()
        (request,) = _servers(spans)
        below = [span for span in spans.get_finished_spans() if span is not request]
        assert {"hash wait", "hash run", "database run"} <= {span.name for span in below}
        for span in below:
            assert span.parent is not None
            assert span.context is not None
            assert request.context is not None
            assert (span.parent.span_id, span.context.trace_id) == (request.context.span_id, request.context.trace_id)
            assert (request.start_time or 0) <= (span.start_time or 0) <= (span.end_time or 0)
        (run,) = [span for span in below if span.name == "hash run"]
        assert (run.end_time or 0) > (run.start_time or 0)
        assert (await traced.get(ME, headers=bearer(pair))).status_code == 200
        spans.clear()
        assert (await traced.get(ME, headers=bearer(pair))).status_code == 200
        assert [span.name for span in spans.get_finished_spans()] == [f"GET {ME}"]
        freshness.clear()
        spans.clear()
        assert (await traced.get(ME, headers=bearer(pair))).status_code == 200
        looked = [span.name for span in spans.get_finished_spans() if span.name == "redis lookup"]
        assert bool(looked) == (token_cache().remote is not None)

    async def test_no_span_holds_a_secret(
        self, traced: httpx.AsyncClient, spans: InMemorySpanExporter, signing_key: str
    ) -> None:
        """Sign-up to sign-out, right and wrong: no password, token, code, address or e-mail address."""
        about = {"email": "mia.secret@example.com", "password": PASSWORD}
        await traced.post("/api/v1/access/signup", json={**about, "name": "Mia Secret"})
        await traced.post(SIGNIN, json={**about, "password": "wrong-horse-battery-9"})
        pair = (await traced.post(SIGNIN, json=about)).json()
        await traced.get(f"{ME}?access_token={pair['access_token']}", headers=bearer(pair))
        await traced.get("/api/v1/access/sessions", headers=bearer(pair))
        pair = (await traced.post("/api/v1/access/refresh", json={"refresh_token": pair["refresh_token"]})).json()
        await traced.post("/api/v1/access/refresh", json={"refresh_token": "mistaken"})
        await traced.get(f"/account/reset?token={pair['refresh_token']}")
        await traced.post("/api/v1/access/signout", headers=bearer(pair))
        said = _all_said(spans)
        assert len(_servers(spans)) == 9
        assert watched.needles
        assert watched.in_text("a span", said) == []
        for personal in ("mia", "127.0.0.1", "testclient", pair["access_token"][-20:]):
            assert personal not in said.casefold()

    async def test_lines_of_the_log_name_the_trace(
        self, traced: httpx.AsyncClient, spans: InMemorySpanExporter, signing_key: str, settings: Settings
    ) -> None:
        """The access line, an event and another library's record; outside of a trace there is none."""
        settings.IRONAUTH_ACCESS_LOG = True
        logs.flush()
        before = len(watched.logged)
        await traced.post(SIGNIN, json={"email": "mia@example.com", "password": PASSWORD})
        await traced.get("/static/none.css")
        logs.get_logger().info("outside")
        logs.flush()
        ids = [f"{span.context.trace_id:032x}" for span in _servers(spans) if span.context is not None]
        lines = [json.loads(line) for text in watched.logged[before:] for line in text.splitlines()]
        named = [(line["event"], line.get("trace_id")) for line in lines]
        assert named == [
            ("sign_in_refused", ids[0]),
            ("request", ids[0]),
            ("request", ids[1]),
            ("Not Found: /static/none.css", ids[1]),
            ("outside", None),
        ]

    @pytest.mark.parametrize("kind", ["hash", "database"])
    async def test_an_error_is_named_by_its_class(
        self, tracing: Tracing, spans: InMemorySpanExporter, kind: str
    ) -> None:
        """What nobody expects marks its span, without its text; what is not part of a request leaves none."""

        def fail() -> None:
            raise ZeroDivisionError("hush")

        run = hash_pool().run if kind == "hash" else database().read
        with tracing.tracer.start_as_current_span("request"), pytest.raises(ZeroDivisionError):
            await run(fail)
        with pytest.raises(ZeroDivisionError):
            await run(fail)
        wait, ran, _ = spans.get_finished_spans()
        assert (wait.name, ran.name) == (f"{kind} wait", f"{kind} run")
        assert (ran.status.status_code, dict(ran.attributes or {})) == (
            StatusCode.ERROR,
            {"error.type": "ZeroDivisionError"},
        )
        assert "hush" not in _all_said(spans)


class TestCallers:
    """Whose word is taken for the trace that a request belongs to."""

    async def test_a_proxy_of_ours_names_the_trace(
        self, traced: httpx.AsyncClient, spans: InMemorySpanExporter, settings: Settings
    ) -> None:
        """Its trace is gone on with, and what it did not sample is not."""
        settings.IRONAUTH_TRUSTED_PROXIES = ["127.0.0.1"]
        await traced.get("/ping", headers={"traceparent": SAMPLED, "X-Forwarded-Proto": "https"})
        await traced.get("/ping", headers={"traceparent": NOT_SAMPLED})
        (span,) = spans.get_finished_spans()
        assert span.context is not None
        assert span.parent is not None
        assert (f"{span.context.trace_id:032x}", span.parent.is_remote) == (CALLER, True)
        assert (span.attributes or {})["url.scheme"] == "https"

    async def test_strangers_choose_neither_trace_nor_sampling(
        self, traced: httpx.AsyncClient, spans: InMemorySpanExporter, settings: Settings
    ) -> None:
        """From anybody else, and for two such fields, a trace of our own begins."""
        for proxies in ([], ["192.0.2.1"]):
            settings.IRONAUTH_TRUSTED_PROXIES = proxies
            await traced.get("/ping", headers={"traceparent": SAMPLED})
            await traced.get("/ping", headers={"traceparent": NOT_SAMPLED})
        settings.IRONAUTH_TRUSTED_PROXIES = ["127.0.0.1"]
        await traced.get("/ping", headers=[("traceparent", SAMPLED), ("traceparent", SAMPLED)])
        found = spans.get_finished_spans()
        assert [span.parent for span in found] == [None] * 5
        assert CALLER not in _all_said(spans)


class _Collector(SpanExporter):
    """Takes spans as ``ping`` say: a result, an error, or a number of seconds that it takes."""

    def __init__(self, *answers: SpanExportResult | Exception | float) -> None:
        self.answers = list(answers)
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, float):
            time.sleep(answer)
        self.taken += len(spans)
        return answer if isinstance(answer, SpanExportResult) else SpanExportResult.SUCCESS


def test_an_outage_of_the_collector_is_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Its beginning and its end, however many batches are lost between them."""
    fails, works = SpanExportResult.FAILURE, SpanExportResult.SUCCESS
    exporter = BestEffortExporter(_Collector(works, fails, ValueError("hush"), fails, works, works))
    logs.flush()
    before = len(watched.logged)
    assert [exporter.export(()) for _ in range(6)] == [works, fails, fails, fails, works, works]
    logs.flush()
    events = [json.loads(line) for text in watched.logged[before:] for line in text.splitlines()]
    assert [event["event"] for event in events] == ["traces_not_sent", "traces_sent_again"]
    assert "hush" not in json.dumps(events)


@pytest.mark.parametrize(("takes_s", "sent"), [(0.0, 1), (1.5, 0)])
def test_the_end_waits_for_the_last_spans_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, takes_s: float, sent: int
) -> None:
    """What is queued is sent at once; a collector that is silent is not waited for."""
    monkeypatch.setattr(traces, "FLUSH_S", 0.3)
    collector = _Collector(takes_s, SpanExportResult.SUCCESS)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(collector, schedule_delay_millis=60_000))
    tracing = Tracing(provider)
    tracing.tracer.start_span("last").end()
    started = time.monotonic()
    tracing.stop()
    assert time.monotonic() - started < 1.0
    assert collector.taken == sent


def test_the_sdk_keeps_its_complaints_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own lines name the collector, whose address may hold a password; ours says enough."""
    monkeypatch.setattr(Tracing, "attach", lambda _self: None)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "")
    made = traces.start()
    for name in ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk._shared_internal"):
        assert not logging.getLogger(name).isEnabledFor(logging.ERROR)
    assert made._provider.resource.attributes["service.name"] == "ironauth"
    made.stop()
