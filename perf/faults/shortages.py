"""Leaving nothing to anybody else: every connection of Postgres, every byte of a volume. Blocking, for threads."""

import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg

FILL_EVERY_S = 0.05
CONNECTIONS_EVERY_S = 0.02
APPLICATION = "taker"  # application_name of connections that take every place


def take_connections(url: str, over: threading.Event) -> None:
    """Take every connection of Postgres, throw others out, and take what becomes free, until ``over``."""
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name <> %s AND datname IS NOT NULL"
    )
    with ExitStack() as taken:
        first = taken.enter_context(psycopg.connect(url, autocommit=True, application_name=APPLICATION))
        while not over.is_set():
            with suppress(psycopg.OperationalError):  # none is left
                while not over.is_set():
                    taken.enter_context(psycopg.connect(url, application_name=APPLICATION))
            first.execute(others, [APPLICATION])
            time.sleep(CONNECTIONS_EVERY_S)


def fill_volume(file: Path, over: threading.Event) -> None:
    """Write ``file`` until its volume is full, and what becomes free, until ``over``."""
    with file.open("wb", buffering=0) as filler:
        while not over.is_set():
            with suppress(OSError):  # no space left on device
                while not over.is_set():
                    filler.write(bytes(4096))
            time.sleep(FILL_EVERY_S)
