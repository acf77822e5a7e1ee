"""The metadata of an API (RFC 9728): how a client that knows its address alone finds out who gives tokens for it."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from ironauth_client.config import Config

WELL_KNOWN = "/.well-known/oauth-protected-resource"


def path_of(config: Config) -> str:
    """Return the path at which the API serves its metadata: that of its audience behind the well-known one (§3.1).

    Raises:
        ValueError: The audience is no http or https address.
    """
    where = _address(config)
    return f"{WELL_KNOWN}{where.path.rstrip('/')}"


def address_of(config: Config) -> str:
    """Return where the API serves its metadata, as its refusals name it (§5.1).

    Raises:
        ValueError: The audience is no http or https address.
    """
    where = _address(config)
    return f"{where.scheme}://{where.netloc}{path_of(config)}"


def document(config: Config, *, scopes: Iterable[str] = (), name: str = "") -> dict[str, Any]:
    """Return the metadata (§2).

    Args:
        config: Of the API; its audience is the identifier that it was registered with.
        scopes: Those that a client may ask for.
        name: What people know the API by.
    """
    address_of(config)
    named = {"scopes_supported": list(scopes), "resource_name": name}
    return {
        "resource": config.expected_audience,
        "authorization_servers": [config.issuer],
        "bearer_methods_supported": ["header"],
        **{member: value for member, value in named.items() if value},
    }


def challenge_of(config: Config) -> str:
    """Return what a challenge says of the metadata, "" where the API does not publish any."""
    return f'resource_metadata="{address_of(config)}"' if config.publishes_metadata else ""


def _address(config: Config) -> Any:
    where = urlsplit(config.expected_audience)
    if where.scheme not in ("http", "https") or not where.netloc:
        raise ValueError(f"an API with metadata has an address as audience: {config.expected_audience!r}")
    return where
