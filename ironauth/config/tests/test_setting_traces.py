"""``IRONAUTH_TRACES``: refused where it could not work."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from ironauth.config import traces as setting_traces
from ironauth.config.environment import Environment


def _read(*, on: bool, endpoint: str) -> bool:
    variables = {"IRONAUTH_TRACES": str(int(on)), "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    return setting_traces.are_traces_wanted(Environment(variables, {}))


def test_off_nothing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the packages nor an address that others have set."""
    monkeypatch.setattr(setting_traces, "PACKAGES", ("there_is.none",))
    assert _read(on=False, endpoint="nonsense") is False


def test_on_without_the_packages_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package or one above it is missing: how to get both, and how to do without."""
    for missing in ("there_is.none", "opentelemetry.there_is_none"):
        monkeypatch.setattr(setting_traces, "PACKAGES", ("opentelemetry.sdk", missing))
        with pytest.raises(ImproperlyConfigured, match=r"requirements/install\.sh otel, or set IRONAUTH_TRACES=0"):
            _read(on=True, endpoint="")


@pytest.mark.parametrize("endpoint", ["", "http://localhost:4318", "https://user:hush@collector.example/otlp"])
def test_collectors_that_speak_http(endpoint: str) -> None:
    """Without one, it is the SDK's default."""
    assert _read(on=True, endpoint=endpoint) is True


@pytest.mark.parametrize("endpoint", ["localhost:4317", "grpc://u:hush@c", "http://", "http://c:hush", "http://[c"])
def test_any_other_address_is_refused(endpoint: str) -> None:
    """The variable is named, what is in it is not."""
    with pytest.raises(ImproperlyConfigured, match="OTEL_EXPORTER_OTLP_ENDPOINT") as refusal:
        _read(on=True, endpoint=endpoint)
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "text", "taken"),
    [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "512", True),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "511", False),  # smaller than a batch
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", False),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2048", True),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2049", False),  # larger than the queue
        ("OTEL_BSP_SCHEDULE_DELAY", "1", True),
        ("OTEL_BSP_SCHEDULE_DELAY", "0", False),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "5", True),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5", True),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2.0", True),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0.0", False),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "abc", False),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "0", True),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "", True),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "-1", False),
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "many", False),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", True),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "brotli", False),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0.5", True),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0.0", False),
        ("OTEL_TRACES_SAMPLER", "ParentBased_TraceIdRatio", True),
        ("OTEL_TRACES_SAMPLER", "sometimes", False),
        ("OTEL_TRACES_SAMPLER_ARG", "0.01", True),
        ("OTEL_TRACES_SAMPLER_ARG", "1.0", True),
        ("OTEL_TRACES_SAMPLER_ARG", "7", False),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic dTpw==,x-scope = team a,", True),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization: Bearer hush==", False),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-scope=team,hush", False),
    ],
)
def test_values_are_what_the_sdk_takes(name: str, text: str, taken: bool) -> None:
    """Others would be ignored, logged or end each worker with a traceback; off, nobody looks at them."""
    given = Environment({"IRONAUTH_TRACES": "1", name: text}, {})
    if taken:
        assert setting_traces.are_traces_wanted(given) is True
    else:
        with pytest.raises(ImproperlyConfigured, match=r"OTEL_\w+ must (not )?be ") as refusal:
            setting_traces.are_traces_wanted(given)
        assert "hush" not in str(refusal.value)
    assert setting_traces.are_traces_wanted(Environment({name: text}, {})) is False
