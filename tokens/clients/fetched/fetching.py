"""Fetching what a client's address has: from public addresses only, without redirects, in bounds of size and time.

On small pools of its own: servers that hang keep their threads busy, and nothing else.
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
from tokens.clients.fetched.errors import FetchRefused

LIMIT_S: Final = 5.0  # seconds from the connection to the end of the answer; a person is waiting
THREADS: Final = 4
#: Seconds for which an answer is used before it is fetched again: as its headers say, within these.
LEAST_S: Final = 60
MOST_S: Final = 86_400
UNSAID_S: Final = 3_600
_MAX_AGE: Final = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?([0-9]{1,9})\"?(?=[\s,]|$)", re.IGNORECASE)
_FORBIDDEN: Final = re.compile(r"(?:^|[\s,])(?:no-store|no-cache)(?=[\s,=]|$)", re.IGNORECASE)
_TYPE: Final = re.compile(r"application/(?:json|[a-z0-9!#$&^_.-]+\+json)", re.IGNORECASE)
_executor: Final = BoundedExecutor(name="client-documents", threads=THREADS)
#: For clients that staff have made or verified: servers of strangers that hang do not keep these busy.
_known_executor: Final = BoundedExecutor(name="known-clients", threads=THREADS)


class Answer(NamedTuple):
    """What an address had.

    Attributes:
        body: The answer.
        media: Its type, in lower case and without parameters.
        keep_s: Seconds for which it may be used.
    """

    body: bytes
    media: str
    keep_s: float


async def fetch(url: str, *, accept: str, longest: int, known: bool = False) -> Answer:
    """Return what is at an address that ``addresses.problem_of``, or the rules of documents, have passed.

    Args:
        url: The address; a fragment is not sent.
        accept: What is wanted, for the header.
        longest: Bytes; a longer answer is refused.
        known: Whether staff have made or verified the client.

    Raises:
        FetchRefused: There is no such answer in time.
    """
    networks = settings.IRONAUTH_CLIENT_DOCUMENT_NETWORKS
    exchange = Exchange(url, limit_s=LIMIT_S, longest=longest, networks=networks)
    headers = {"Accept": accept, "User-Agent": "ironauth"}
    executor = _known_executor if known else _executor
    try:
        async with asyncio.timeout(LIMIT_S):
            body = await executor.offload(exchange.run, "GET", headers=headers, wanted=(200,))
    except (OSError, HTTPException, ExchangeFailedError, Overloaded) as error:
        cause = str(error) if isinstance(error, ExchangeFailedError) else type(error).__name__
        raise refused(url, cause) from error
    finally:
        exchange.cut()
    return Answer(body, media_of(exchange.headers.get("content-type", "")), keep_s(exchange.headers))


def media_of(header: str) -> str:
    """Return the media type of a Content-Type header, in lower case and without parameters."""
    return header.partition(";")[0].strip().lower()


def refused(url: str, cause: str) -> FetchRefused:
    """Return the refusal of an answer, which is in the log now.

    Args:
        url: Where it came from, or should have.
        cause: A word or two.
    """
    get_logger().info("client_document_refused", host=urlsplit(url).hostname, cause=cause)
    return FetchRefused(cause)


def json_of(url: str, answer: Answer) -> Any:
    """Return the JSON that an answer is.

    Args:
        url: Where it came from.
        answer: From ``fetch``.

    Raises:
        FetchRefused: It is none, or has more than one meaning.
    """
    if not _TYPE.fullmatch(answer.media):
        raise refused(url, "content type")
    try:
        return strict_json.loads(answer.body)
    except strict_json.InvalidJson as error:
        raise refused(url, "no JSON") from error


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
    for executor in (_executor, _known_executor):
        await asyncio.to_thread(executor.shutdown, wait=False)
