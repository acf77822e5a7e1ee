"""Tags of cached entries that depend on a session."""

import uuid


def sid_tag(session_id: uuid.UUID | str) -> str:
    """Return the tag of what depends on one session."""
    return f"sid:{session_id}"
