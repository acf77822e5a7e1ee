"""The one source of wall-clock time, so that every expiry can be tested at its boundary."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

_source: Callable[[], float] = time.time


def unix() -> float:
    """Return seconds since the epoch, UTC."""
    return _source()


def now() -> datetime:
    """Return the current time as an aware UTC datetime."""
    return datetime.fromtimestamp(_source(), UTC)


@contextmanager
def shifted(seconds: float) -> Iterator[None]:
    """Move this process's clock by ``seconds`` (negative: back) inside the block; for tests."""
    global _source  # noqa: PLW0603 - one process-wide clock is the point
    before = _source
    _source = lambda: before() + seconds  # noqa: E731 - a named function would say no more
    try:
        yield
    finally:
        _source = before
