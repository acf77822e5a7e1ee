"""A real server and a small collector: spans arrive as OTLP over HTTP, and its absence costs no request anything."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ironauth import settings_test
from ironauth.tests.test_serve import Running

pytestmark = pytest.mark.only_sqlite
DELAY_MS = 500  # between two batches
LIMIT_S = 20.0


class Collector(ThreadingHTTPServer):
    """Keeps what it is sent: the resource's attributes and, by its name, each span's."""

    allow_reuse_address = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.service: dict[str, str] = {}
        self.spans: list[tuple[str, str, dict[str, str]]] = []

    def take(self, path: str, body: bytes) -> None:
        """Read one batch."""
        assert path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.service = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    about = {each.key: str(each.value).strip() for each in span.attributes}
                    self.spans.append((span.name, span.trace_id.hex(), about))

    def names(self) -> list[str]:
        """Return the names of all spans so far."""
        return [name for name, _, _ in self.spans]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' name
        """Print nothing."""


@contextmanager
def _collector(port: int) -> Iterator[Collector]:
    with Collector(port) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_spans_arrive_and_a_missing_collector_is_missed_once(tmp_path: Path) -> None:
    """Answers come without a collector, then spans with one; those of the last moment are sent before the end."""
    port = settings_test._free_port()
    running = Running(
        ("--migrate", "--port", "0"),
        {
            "DATABASE_URL": f"sqlite:///{tmp_path / 'data' / 'traces.sqlite3'}",
            "REDIS_URL": "",
            "IRONAUTH_TRACES": "1",
            "IRONAUTH_ACCESS_LOG": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "0.5",
            "OTEL_BSP_SCHEDULE_DELAY": str(DELAY_MS),
        },
        tmp_path / "log",
    )
    try:
        with httpx.Client(base_url=running.ready()) as client:
            assert client.get("/ping").elapsed.total_seconds() < 1.0
            _until(lambda: "traces_not_sent" in running.printed(), "the collector is missed")
            assert client.get("/ping").status_code == 200
            with _collector(port) as collector:
                asked = client.get("/health", headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
                _until(lambda: "GET /health" in collector.names(), "its span")
                _until(lambda: "traces_sent_again" in running.printed(), "the collector is found")
                client.get("/health/live?token=hush")
                running.process.terminate()  # within the delay, so that only the end can have sent it
                assert running.process.wait(timeout=LIMIT_S) == 0
                assert "GET /health/live" in collector.names()
        assert collector.service["service.name"] == "ironauth"
        (trace_id, about) = next(each[1:] for each in collector.spans if each[0] == "GET /health")
        assert asked.headers["X-Request-ID"] in about["http.response.header.x-request-id"]
        assert trace_id != "a" * 32  # nobody here is a trusted proxy
        assert {"database wait", "database run"} <= {name for name, trace, _ in collector.spans if trace == trace_id}
        assert "hush" not in str(collector.spans)
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()
    lines = [json.loads(line) for line in running.printed().splitlines() if line.startswith("{")]
    assert [line["event"] for line in lines if "traces_" in line["event"]] == ["traces_not_sent", "traces_sent_again"]
    told = [(line["logger"], line["event"]) for line in lines if "logger" in line]
    assert told == [("ironauth.server.graceful", event) for event in ("server_ending", "server_ended")]
    assert trace_id in {line.get("trace_id") for line in lines if line.get("path") == "/health"}
