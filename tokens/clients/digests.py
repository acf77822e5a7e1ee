"""What stands in the database for a secret of 256 random bits."""

import hashlib


def digest_of(secret: str) -> str:
    """Return what stands for a code, handle or client secret in the database: no more is needed for 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()
