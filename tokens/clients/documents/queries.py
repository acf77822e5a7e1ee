"""The row of a client that its document describes: made when somebody first allows it something, and kept in step."""

from typing import Any, Final
from urllib.parse import urlsplit

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.clients import registry
from tokens.clients.documents import addresses
from tokens.clients.dynamic import queries as strangers
from tokens.clients.dynamic.metadata import METHODS, client_of
from tokens.clients.errors import OAuthError
from tokens.clients.models import OAuthClient, client_tag
from tokens.clients.registry import Client

#: A document has no secret in it that it could be known by.
_OPEN: Final = tuple(name for name, method in METHODS.items() if method != OAuthClient.AuthMethod.SECRET)
#: What a document says of a client; staff may change the rest.
_DESCRIBED: Final = (
    "name", "auth_method", "redirect_uris", "post_logout_redirect_uris", "backchannel_logout_uri", "jwks", "jwks_uri",
    "grants", "logo_uri", "policy_uri", "tos_uri", "request_uris", "request_object_signing_alg",
    "userinfo_signed_response_alg",
)  # fmt: skip
#: What staff have looked at: another one makes its client unverified.
_IDENTITY: Final = tuple(name for name in _DESCRIBED if name in strangers.IDENTITY)
#: What it says as long as staff have not looked at it.
_UNVERIFIED: Final = (*_DESCRIBED, "scopes", "id_token_alg", "dpop", "require_par")


def is_verified(url: str) -> bool:
    """Tell whether staff have verified the client whose document is at an address. 1 query.

    Args:
        url: Where the document is: the ``client_id``.
    """
    row = OAuthClient.objects.filter(pk=addresses.id_of(url), document_url=url, disabled_at=None)
    return row.exclude(verified_at=None).exists()


def described(url: str, said: dict[str, Any]) -> Client | None:
    """Return the client that a document describes; None where staff have disabled it, or the rules refuse it.

    It is unverified while its document says another name, address, key, logo or link than staff have verified.
    2 queries at most.

    Args:
        url: Where the document is: the ``client_id``.
        said: The document.
    """
    row = OAuthClient.objects.filter(pk=addresses.id_of(url)).first()
    if row is not None and (row.disabled_at is not None or row.document_url != url):
        return None
    known = {"token_endpoint_auth_method": "none", **said, "subject_type": "public", "sector_identifier_uri": None}
    try:
        now = client_of(known, methods=_OPEN)
    except OAuthError as refused:
        get_logger().info("client_document_refused", host=urlsplit(url).hostname, cause=refused.detail)
        return None
    if row is None:
        now.pk, now.origin, now.document_url = addresses.id_of(url), OAuthClient.Origin.DOCUMENT, url
        return registry.snapshot(now)
    if any(_differs(getattr(row, name), getattr(now, name)) for name in _IDENTITY):
        row.verified_at = None
    for name in _DESCRIBED if row.verified_at is not None else _UNVERIFIED:
        setattr(row, name, getattr(now, name))
    return registry.snapshot(row)


def keep(client: Client) -> None:
    """Store what a document says of its client, in the transaction in which somebody allows it something.

    So nobody fills the table by opening /oauth/authorize, and what people and staff see is what was allowed. A change
    of who it is makes a client that staff have verified unverified again. 3 queries the first time, 1 after that.

    Args:
        client: The client, as the request was judged by it.

    Raises:
        TooManyClients: There are as many unverified ones as there may be.
    """
    row = OAuthClient.objects.select_for_update().filter(pk=client.id).first()
    if row is None:
        strangers.make_room(OAuthClient.Origin.DOCUMENT)
        row = OAuthClient.objects.filter(pk=client.id).first()  # somebody else was first, and has committed
    said: dict[str, Any] = {name: _plain(getattr(client, name)) for name in _UNVERIFIED}
    details = {"client": client.client_id, "name": client.name, "document": client.document_url}
    if row is None:
        origin = OAuthClient.Origin.DOCUMENT
        OAuthClient.objects.create(
            pk=client.id, profile=client.profile, origin=origin, document_url=client.document_url, **said
        )
        invalidate(client_tag(client.client_id))
        audit.record(Event.CLIENT_REGISTERED, details={**details, "redirect_uris": said["redirect_uris"]})
        return
    changed = [name for name, value in said.items() if _differs(getattr(row, name), value)]
    if changed:
        for name in changed:
            setattr(row, name, said[name])
        if row.verified_at is not None and set(changed) & set(_IDENTITY):
            row.verified_at = None
            changed.append("verified_at")
        row.save(update_fields=changed)
        audit.record(Event.CLIENT_CHANGED, details={**details, "fields": sorted(changed)})


def _plain(value: Any) -> Any:
    """Return a value of a snapshot as a column has it."""
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value


def _differs(stored: Any, said: Any) -> bool:
    return sorted(stored) != sorted(said) if isinstance(said, list) else bool(stored != said)
