"""The database connections of the calling thread: open a reader's, give all up, close those that are of no use."""

from contextlib import suppress

from django.db import DEFAULT_DB_ALIAS, Error, connections


def open_reader() -> None:
    """Make sure that this thread's SQLite connection is open and unable to write or to take the write lock.

    Set on each new connection rather than in its settings: those belong to all threads, and tests rename the file.
    """
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.connection is None:
        connection.ensure_connection()
        connection.transaction_mode = "DEFERRED"  # type: ignore[attr-defined]  # SQLite's wrapper has it
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA query_only = ON")


def drop_connections() -> None:
    """Close this thread's connections, whatever state they are in; the next unit opens new ones."""
    for connection in connections.all(initialized_only=True):
        with suppress(Error):
            connection.close()
        connection.connection = None
        connection.in_atomic_block = connection.closed_in_transaction = False


def tidy_connections() -> None:
    """Close connections that broke or were left inside a transaction, as Django does after each request."""
    for connection in connections.all(initialized_only=True):
        try:
            connection.close_if_unusable_or_obsolete()
        except Error:
            drop_connections()
