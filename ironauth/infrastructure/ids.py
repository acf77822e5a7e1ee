"""Identifiers: UUIDv7 for rows, so that new ones land at the right end of every index."""

import uuid

import uuid_utils.compat


def new_id() -> uuid.UUID:
    """Return a UUIDv7 (RFC 9562 §5.7): time-ordered, and unique but not secret."""
    return uuid_utils.compat.uuid7()
