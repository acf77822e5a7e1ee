"""Tags of cached entries that depend on a user or a role."""

import hashlib
import uuid


def sub_tag(user_id: uuid.UUID | str) -> str:
    """Return the tag of what depends on one user."""
    return f"sub:{user_id}"


def role_tag(name: str) -> str:
    """Return the tag of what depends on one role; a digest, because names are longer than tags."""
    return f"role:{hashlib.sha256(name.encode()).hexdigest()[:32]}"
