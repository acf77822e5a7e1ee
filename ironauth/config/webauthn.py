"""Settings of passkeys: the host name they are bound to, and the origins whose pages may use them (WebAuthn Level 3).

Each function returns what may be used, or raises ``ImproperlyConfigured`` in one line that names the variable and the
remedy.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from ironauth.config import addresses

RP_ID = "IRONAUTH_WEBAUTHN_RP_ID"
ORIGINS = "IRONAUTH_WEBAUTHN_ORIGINS"
#: What browsers take for a host name on this very machine; an IP address never is one (§5.1.3, step 9).
LOOPBACK = "localhost"


def relying_party(rp_id: str, origins: Sequence[str], *, issuer: str, trusted: Sequence[str]) -> tuple[str, list[str]]:
    """Return the relying party's id and origins; both may be left empty.

    Then the id is the issuer's host, ``localhost`` for a loopback address, and the origins are the issuer's and those
    ``trusted`` ones whose host is the id or below it: browsers let no others use a passkey.

    Args:
        rp_id: IRONAUTH_WEBAUTHN_RP_ID as set.
        origins: IRONAUTH_WEBAUTHN_ORIGINS as set.
        issuer: IRONAUTH_ISSUER, judged.
        trusted: The trusted origins, judged.

    Raises:
        ImproperlyConfigured: The id is no host name, or an origin is neither at nor below it.
    """
    home = _home(issuer)
    if rp_id and addresses.HOST_NAME.fullmatch(rp_id) is None:
        raise ImproperlyConfigured(
            f"{RP_ID} must be a host name in lower case without scheme, port or path: write it like example.com"
        )
    rp_id = rp_id or urlsplit(home).hostname or ""
    if not origins:
        return rp_id, _default_origins(rp_id, home, trusted)
    for at, origin in enumerate(addresses.origins(origins, ORIGINS), start=1):
        if not _is_within(origin, rp_id):
            raise ImproperlyConfigured(
                f"{ORIGINS}, item {at}: its host is neither {RP_ID} nor below it, so that no browser would accept it: "
                f"remove it, or set {RP_ID} to a host name that all items are below"
            )
    return rp_id, list(origins)


def _default_origins(rp_id: str, home: str, trusted: Sequence[str]) -> list[str]:
    found = [origin for origin in dict.fromkeys((home, *trusted)) if _is_within(origin, rp_id)]
    if not found:
        raise ImproperlyConfigured(
            f"{RP_ID} is neither the host of IRONAUTH_ISSUER nor above it, so that no page could use a passkey: "
            f"correct it, or list the pages' origins in {ORIGINS}"
        )
    return found


def _home(issuer: str) -> str:
    """Return the origin under which browsers let this server's own pages use passkeys."""
    parts = urlsplit(issuer)
    host = parts.hostname or ""
    if not addresses.is_local(host) or host.endswith(LOOPBACK):
        return issuer
    return f"{parts.scheme}://{LOOPBACK}{f':{parts.port}' if parts.port else ''}"


def _is_within(origin: str, rp_id: str) -> bool:
    """Return whether the host of ``origin`` is ``rp_id`` or below it."""
    host = urlsplit(origin).hostname or ""
    return host == rp_id or host.endswith(f".{rp_id}")
