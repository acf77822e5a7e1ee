"""Fetching a client's document: from public addresses only, without redirects, within bounds of size and time.

On a small pool of its own: servers that hang keep its threads busy, and nothing else.
"""

import asyncio
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings

from ironauth.infrastructure.core import clock, strict_json
from ironauth.infrastructure.core.errors import Overloaded
from ironauth.infrastructure.outbound.request import Exchange, ExchangeFailedError
from ironauth.infrastructure.telemetry.logs import get_logger
from ironauth.infrastructure.threads.executor import BoundedExecutor
from tokens.clients.documents.errors import DocumentRefused

LIMIT_S: Final = 5.0  # seconds from the connection to the end of the answer; a person is waiting
LONGEST: Final = 5 * 1024  # bytes: the draft's §8.7
THREADS: Final = 4
#: Seconds for which a document is used before it is fetched again: as its headers say, within these.
LEAST_S: Final = 60
MOST_S: Final = 86_400
UNSAID_S: Final = 3_600
_MAX_AGE: Final = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?([0-9]{1,9})\"?(?=[\s,]|$)", re.IGNORECASE)
_FORBIDDEN: Final = re.compile(r"(?:^|[\s,])(?:no-store|no-cache)(?=[\s,=]|$)", re.IGNORECASE)
_TYPE: Final = re.compile(r"application/(?:json|[a-z0-9!#$&^_.-]+\+json)", re.IGNORECASE)
_HEADERS: Final = {"Accept": "application/json", "User-Agent": "ironauth"}
_executor: Final = BoundedExecutor(name="client-documents", threads=THREADS)


class Document(NamedTuple):
    """What a client says about itself, and for how many seconds that may be used."""

    said: dict[str, Any]
    keep_s: float


async def fetch(url: str) -> Document:
    """Return the document at an address that ``addresses.is_accepted`` has passed.

    Args:
        url: The ``client_id``.

    Raises:
        DocumentRefused: There is no such answer in time, or it is none that can be used.
    """
    networks = settings.IRONAUTH_CLIENT_DOCUMENT_NETWORKS
    exchange = Exchange(url, limit_s=LIMIT_S, longest=LONGEST, networks=networks)
    try:
        async with asyncio.timeout(LIMIT_S):
            body = await _executor.offload(exchange.run, "GET", headers=_HEADERS, wanted=(200,))
        said = document_of(url, exchange.headers.get("content-type", ""), body)
    except (OSError, HTTPException, ExchangeFailedError, Overloaded, DocumentRefused) as error:
        cause = str(error) if isinstance(error, ExchangeFailedError | DocumentRefused) else type(error).__name__
        get_logger().info("client_document_refused", host=urlsplit(url).hostname, cause=cause)
        raise DocumentRefused(cause) from error
    finally:
        exchange.cut()
    return Document(said, keep_s(exchange.headers))


def document_of(url: str, content_type: str, body: bytes) -> dict[str, Any]:
    """Return the document that a body is.

    Args:
        url: The ``client_id``; the document has to name itself by the same text.
        content_type: Of the answer.
        body: The answer.

    Raises:
        DocumentRefused: It is no JSON object with one meaning, is another client's, or has a secret in it.
    """
    if not _TYPE.fullmatch(content_type.partition(";")[0].strip()):
        raise DocumentRefused("content type")
    try:
        said = strict_json.loads(body)
    except strict_json.InvalidJson as error:
        raise DocumentRefused("no JSON") from error
    if not isinstance(said, dict):
        raise DocumentRefused("no object")
    if said.get("client_id") != url:
        raise DocumentRefused("client_id")
    if said.keys() & {"client_secret", "client_secret_expires_at"}:
        raise DocumentRefused("secret")
    return said


def keep_s(headers: Mapping[str, str]) -> float:
    """Return for how many seconds an answer may be used (RFC 9111 §5.2.2, §5.3), within our bounds.

    Args:
        headers: Of the answer, by their names in lower case.
    """
    control = headers.get("cache-control", "")
    if _FORBIDDEN.search(control):
        return LEAST_S
    age = _whole(headers.get("age", ""))
    if found := _MAX_AGE.search(control):
        return float(min(max(int(found[1]) - age, LEAST_S), MOST_S))
    if "expires" not in headers:
        return UNSAID_S
    try:
        left = parsedate_to_datetime(headers["expires"]).timestamp() - clock.unix()
    except (ValueError, TypeError, OverflowError):
        return LEAST_S  # RFC 9111 §5.3: a date that is none has passed
    return float(min(max(left, LEAST_S), MOST_S))


def _whole(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) else 0


async def close() -> None:
    """Let the threads end."""
    await asyncio.to_thread(_executor.shutdown, wait=False)
