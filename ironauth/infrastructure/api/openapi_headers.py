"""The header fields of answers in the OpenAPI document, each described once and referred to from there."""

from typing import Any, Final

type JsonSchema = dict[str, Any]

_OF_ENDING: Final = ("Deprecation", "Sunset")
_OF_COUNTED: Final = ("RateLimit-Policy", "RateLimit")


def add_headers(operation: JsonSchema, *, is_ending: bool) -> None:
    """Add to every answer of an operation the header fields that it carries.

    Args:
        operation: The operation, with its answers. One that can be throttled tells of rate limits in all of them.
        is_ending: Whether it is deprecated.
    """
    counted = _OF_COUNTED if "429" in operation["responses"] else ()
    for status, answer in operation["responses"].items():
        names = ["X-Request-ID"]
        names += ["WWW-Authenticate"] if status == "401" else []
        names += ["Retry-After"] if status in ("429", "503") else []
        names += counted if status.startswith("2") or status in ("401", "429") else ()
        names += _OF_ENDING if is_ending else ()
        answer.setdefault("headers", {}).update({name: {"$ref": f"#/components/headers/{name}"} for name in names})
