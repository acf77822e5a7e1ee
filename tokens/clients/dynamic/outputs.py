"""What a client learns that registers itself."""

from typing import Any, NamedTuple


class Registered(NamedTuple):
    """What a client learns once: what is registered, and its two secrets; "" where it has none."""

    metadata: dict[str, Any]
    token: str
    secret: str
