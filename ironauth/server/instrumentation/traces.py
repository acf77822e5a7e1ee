"""OpenTelemetry traces: what a request waited for, sent to a collector. With ``IRONAUTH_TRACES=1`` alone.

Then, and only then, this module and the SDK are imported; off, nothing is asked for each request. Spans say what was
done, for how long and how it ended: no path, query, address, header or message of an error is in them, for all of these
may hold secrets or say who somebody is.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE

from ironauth.infrastructure.cache.shared_entries import L2
from ironauth.infrastructure.core.errors import DomainError, Unavailable
from ironauth.infrastructure.telemetry import logs
from ironauth.infrastructure.threads.executor import BoundedExecutor
from ironauth.infrastructure.threads.job_queues import Job
from ironauth.version import VERSION

#: How long the end of a process may wait until its last spans are sent; seconds. What is left is lost.
FLUSH_S: Final = 2.0
NAME: Final = "ironauth"
#: The SDK's own warnings: a line for each failed try, with the collector's address. `BestEffortExporter` logs one.
CHATTY: Final = ("opentelemetry.exporter", "opentelemetry.sdk.trace.export", "opentelemetry.sdk._shared_internal")


class Tracing:
    """Makes spans of what pools and Redis do for the current request, as children of its span."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self.tracer = provider.get_tracer(NAME, VERSION)

    def attach(self) -> None:
        """Have pools, Redis lookups and log lines of this process take part, for good."""
        BoundedExecutor.on_submit = self.on_submit
        L2.around = self.lookup
        logs.name_traces(trace_id)

    def on_submit(self, pool: str, job: Job) -> None:
        """Have ``job`` leave two spans, its wait and its run, when it belongs to a request that is sampled.

        Args:
            pool: the name of the executor.
            job: what is submitted to it; its ``call`` is replaced.
        """
        if not trace.get_current_span().is_recording():
            return
        asked_at = time.time_ns()
        call = job.call

        def run() -> Any:  # on the pool's thread, in the context of who asked
            started_at = time.time_ns()
            self.tracer.start_span(f"{pool} wait", start_time=asked_at).end(started_at)
            with self._span(f"{pool} run"):
                return call()

        job.call = run

    @contextmanager
    def lookup(self) -> Iterator[Callable[[bool], None]]:
        """Time a look into Redis; call what it gives with whether something was found."""
        with self._span("redis lookup") as span:
            yield lambda hit: span.set_attribute("ironauth.cache.hit", hit)

    @contextmanager
    def _span(self, name: str) -> Iterator[trace.Span]:
        """Make a span the current one; an error that nobody expects marks it by its class, never by its text."""
        with self.tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as span:
            try:
                yield span
            except BaseException as error:
                if isinstance(error, Unavailable) or not isinstance(error, DomainError):
                    span.set_attribute(ERROR_TYPE, type(error).__name__)
                    span.set_status(trace.StatusCode.ERROR)
                raise

    def stop(self) -> None:
        """Send what is left, for at most `FLUSH_S` seconds; blocks."""
        # A thread of our own: the SDK waits for up to 30 s, and a collector that is silent must not keep the process.
        last = threading.Thread(target=self._provider.shutdown, name="traces-flush", daemon=True)
        last.start()
        last.join(FLUSH_S)


class BestEffortExporter(SpanExporter):
    """Sends spans by another exporter, and says once when that begins to fail and once when it works again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._fails = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send ``spans``, on the SDK's thread; those that cannot be sent are lost."""
        try:
            result = self._exporter.export(spans)
        except Exception:  # noqa: BLE001 - whatever the collector answered: no request has to do with it
            result = SpanExportResult.FAILURE
        fails = result is not SpanExportResult.SUCCESS
        if fails and not self._fails:
            remedy = "is a collector at OTEL_EXPORTER_OTLP_ENDPOINT? requests are answered without traces meanwhile"
            logs.get_logger().warning("traces_not_sent", spans=len(spans), remedy=remedy)
        elif self._fails and not fails:
            logs.get_logger().info("traces_sent_again")
        self._fails = fails
        return result

    def shutdown(self) -> None:
        """End the exporter, and a try of it that waits to be repeated."""
        self._exporter.shutdown()


def start() -> Tracing:
    """Send spans in batches from a thread of this process, to where ``OTEL_…`` says and as it samples."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    resource = Resource.create({SERVICE_VERSION: VERSION})
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):  # the SDK's, when nobody has named it
        resource = resource.merge(Resource({SERVICE_NAME: NAME}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)  # `stop` is bounded, its own hook is not
    provider.add_span_processor(BatchSpanProcessor(BestEffortExporter(OTLPSpanExporter())))
    tracing = Tracing(provider)
    tracing.attach()
    return tracing


def trace_id() -> str:
    """Return the current trace's id as 32 hex digits, empty outside of one."""
    found = trace.get_current_span().get_span_context()
    return trace.format_trace_id(found.trace_id) if found.is_valid else ""
