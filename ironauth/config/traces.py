"""Whether requests leave OpenTelemetry traces: a switch of its own, because ``OTEL_…`` may be set for a whole machine.

The rest (endpoint, sampling, headers, batches) is read by the SDK itself, by its own names.
"""

import re
from importlib.util import find_spec
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from ironauth.config.environment import NUMBER, Environment

#: Both in requirements/otel.txt.
PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
BATCH = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT"
#: The SDK's numbers and their defaults (milliseconds but for sizes; the timeout is in seconds).
NUMBERS = {
    "OTEL_BSP_MAX_QUEUE_SIZE": 2_048,
    BATCH: 512,
    "OTEL_BSP_SCHEDULE_DELAY": 5_000,
    "OTEL_BSP_EXPORT_TIMEOUT": 30_000,
    TIMEOUT: 10,
}
#: One header as the SDK takes it (`opentelemetry.util.re`), or nothing between two commas.
HEADER = r"[ \t]*([!#-'*+.0-9A-Z^-z|~-]+[ \t]*=[ \t]*[ !#-+\--:<-[\]-~]*[ \t]*)?"
#: Families of the SDK's variables: what they must be, in words and as a pattern. By any other value each worker would
#: end with a traceback, sample everything, or log the headers, which hold the collector's password.
FAMILIES = (
    (re.compile(r"OTEL_[A-Z_]+_LIMIT"), "a whole number from 0", re.compile(r"[0-9]{0,9}", re.ASCII)),
    (re.compile(r"OTEL_EXPORTER_OTLP_(TRACES_)?COMPRESSION"), "none, deflate or gzip", re.compile("none|deflate|gzip")),
    (
        re.compile("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"),
        "a number above 0",
        re.compile(r"(?=.*[1-9])[0-9]{1,9}(\.[0-9]+)?"),
    ),
    (
        re.compile("OTEL_TRACES_SAMPLER"),
        "always_on, always_off or traceidratio, each also with parentbased_ before it",
        re.compile(r"((parentbased_)?(always_on|always_off|traceidratio))?", re.IGNORECASE),
    ),
    (re.compile("OTEL_TRACES_SAMPLER_ARG"), "a number from 0 to 1", re.compile(r"(0?\.[0-9]+|0|1(\.0+)?)?", re.ASCII)),
    (
        re.compile("OTEL_EXPORTER_OTLP_(TRACES_)?HEADERS"),
        "NAME=VALUE, several with commas between them",
        re.compile(rf"{HEADER}(,{HEADER})*"),
    ),
)
POSITIVE = re.compile(r"0*[1-9][0-9]{0,9}", re.ASCII)


def are_traces_wanted(env: Environment) -> bool:
    """Return IRONAUTH_TRACES, off by default.

    Raises:
        ImproperlyConfigured: The packages that make traces are missing, a value is one that the SDK would ignore or end
            the process by, or the endpoint is no HTTP address. The message repeats neither it nor headers, since they
            may hold credentials.
    """
    endpoint = env.text("OTEL_EXPORTER_OTLP_ENDPOINT", default="")
    numbers = _numbers(env)
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
    for name, text in numbers.items():
        good = NUMBER.fullmatch(text) and float(text) > 0 if name == TIMEOUT else POSITIVE.fullmatch(text)
        if text and not good:
            kind = "a number above 0" if name == TIMEOUT else "a whole number from 1"
            raise ImproperlyConfigured(
                f"{name} must be {kind}: correct it, or remove it for the default, {NUMBERS[name]}"
            )
    for family, kind, good_values in FAMILIES:
        for name, text in env.matching(family).items():
            if not good_values.fullmatch(text):
                raise ImproperlyConfigured(f"{name} must be {kind}: correct it, or remove it for the SDK's default")
    most, batch = (int(numbers[name] or NUMBERS[name]) for name in ("OTEL_BSP_MAX_QUEUE_SIZE", BATCH))
    if batch > most:
        raise ImproperlyConfigured(f"{BATCH} must not be larger than OTEL_BSP_MAX_QUEUE_SIZE: correct one of the two")
    return True


def _numbers(env: Environment) -> dict[str, str]:
    # Each by its name: deploy/env.example is held against what is read here.
    return {
        "OTEL_BSP_MAX_QUEUE_SIZE": env.text("OTEL_BSP_MAX_QUEUE_SIZE", default=""),
        BATCH: env.text("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", default=""),
        "OTEL_BSP_SCHEDULE_DELAY": env.text("OTEL_BSP_SCHEDULE_DELAY", default=""),
        "OTEL_BSP_EXPORT_TIMEOUT": env.text("OTEL_BSP_EXPORT_TIMEOUT", default=""),
        TIMEOUT: env.text("OTEL_EXPORTER_OTLP_TIMEOUT", default=""),
    }


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
