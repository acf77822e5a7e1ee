"""Operations that will end: one mark on the handler sets ``Deprecation`` (RFC 9745) and ``Sunset`` (RFC 8594).

The mark also stands in the OpenAPI document, as ``deprecated: true`` with the two dates in words.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import Any, Final, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.utils.http import http_date

#: What is deprecated is served for this long at least; days. The page *Changes of the API* promises it.
SHORTEST_DAYS: Final = 365
#: Where the link of the header leads: the description of the operations.
PAGE: Final = "/api/docs"
_MARK: Final = "ironauth_deprecation"


class Deprecation(NamedTuple):
    """Since when an operation is deprecated, when it ends, and what to call in its place; both at 00:00 UTC."""

    since: date
    sunset: date
    instead: str

    def headers(self) -> dict[str, str]:
        """Return what every answer of the operation carries."""
        return {
            "Deprecation": f"@{_unix(self.since)}",  # RFC 9745 §2.1: a Date of structured fields
            "Sunset": http_date(_unix(self.sunset)),  # RFC 8594 §3: an HTTP-date
            "Link": f'<{PAGE}>; rel="deprecation"; type="text/html"',  # RFC 9745 §3
        }

    def words(self) -> str:
        """Return the same as a sentence of the OpenAPI document."""
        return f"Deprecated since {self.since}, and gone after {self.sunset}. Call {self.instead} in its place."


def deprecated[T: Callable[..., Any]](*, since: date, sunset: date, instead: str) -> Callable[[T], T]:
    """Return the mark of a handler whose operation will end.

    Args:
        since: The day of the release that deprecates it.
        sunset: The day after which it may be gone.
        instead: The operation to call in its place.

    Raises:
        ImproperlyConfigured: It would end earlier than is promised.
    """
    if (sunset - since).days < SHORTEST_DAYS:
        raise ImproperlyConfigured(f"A deprecated operation is served for {SHORTEST_DAYS} days: name a later sunset")

    def mark(handler: T) -> T:
        setattr(handler, _MARK, Deprecation(since, sunset, instead))
        return handler

    return mark


def deprecation_of(handler: object) -> Deprecation | None:
    """Return the mark of a handler, None for one that stays."""
    return getattr(handler, _MARK, None)


def _unix(day: date) -> int:
    return int(datetime.combine(day, time(), UTC).timestamp())
