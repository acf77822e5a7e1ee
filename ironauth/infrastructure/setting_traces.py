"""Whether requests leave OpenTelemetry traces: asked for by name, since ``OTEL_…`` may be set for all of a machine.

The rest (endpoint, sampling, headers, batches) is read by the SDK itself, by its own names.
"""

from importlib.util import find_spec
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from ironauth.infrastructure.environment import Environment

#: Both in requirements/otel.txt.
PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def are_traces_wanted(env: Environment) -> bool:
    """Return IRONAUTH_TRACES, off by default.

    Raises ``ImproperlyConfigured`` for traces without the packages that make them, and for an endpoint that is given
    and no HTTP address; the message does not repeat it, since it may hold credentials.
    """
    endpoint = env.text("OTEL_EXPORTER_OTLP_ENDPOINT", default="")
    if not env.switch("IRONAUTH_TRACES", default=False):
        return False
    if not all(map(_is_installed, PACKAGES)):
        raise ImproperlyConfigured(
            "IRONAUTH_TRACES=1 needs packages that are not installed: run sh requirements/install.sh otel, "
            "or set IRONAUTH_TRACES=0"
        )
    if endpoint and not _is_http(endpoint):
        raise ImproperlyConfigured(
            "OTEL_EXPORTER_OTLP_ENDPOINT must be the address of a collector that speaks OTLP over HTTP, for instance "
            "http://127.0.0.1:4318: correct it, or remove it for that port of this machine"
        )
    return True


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a package above it
        return False


def _is_http(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
