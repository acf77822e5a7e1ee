"""What the API says about clients; no secret but one that was made by the very request."""

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from tokens.clients.models import OAuthClient, OAuthClientSecret


class ClientSecretOut(msgspec.Struct, frozen=True):
    """A secret in use. ``hint``: its last characters; ``expires_at``: null while it is not being replaced."""

    id: uuid.UUID
    hint: str
    created_at: datetime
    expires_at: datetime | None


class ClientOut(msgspec.Struct, frozen=True, kw_only=True):
    """A client, as staff see it; ``secrets``: those in use, the newest first.

    ``origin``: staff, registered or document; ``document_url``: its client_id where its own document describes it;
    ``verified_at``: since when staff have verified one that none of them made. ``logo_kept_at``: since when people are
    shown our copy of the picture at ``logo_uri``; null for none. Another copy has another time.
    """

    client_id: uuid.UUID
    name: str
    profile: str
    auth_method: str
    redirect_uris: tuple[str, ...]
    post_logout_redirect_uris: tuple[str, ...]
    backchannel_logout_uri: str
    initiate_login_uri: str
    grants: tuple[str, ...]
    scopes: tuple[str, ...]
    strict_scopes: bool
    trusted: bool
    require_pkce: bool
    require_par: bool
    resource_server: bool
    serves: tuple[str, ...]
    resources: tuple[str, ...]
    authorization_details_types: tuple[str, ...]
    administers: bool
    dpop: str
    certificate_bound: bool
    subject_type: str
    sector: str
    id_token_alg: str
    access_token_alg: str
    id_token_claims: bool
    request_object_signing_alg: str
    authorization_signed_response_alg: str
    tls_client_auth_subject_dn: str
    jwks: dict[str, Any] | None
    jwks_uri: str
    request_uris: tuple[str, ...]
    userinfo_signed_response_alg: str
    logo_uri: str
    policy_uri: str
    tos_uri: str
    sector_identifier_uri: str
    access_token_s: int | None
    session_idle_s: int | None
    session_absolute_s: int | None
    origin: str
    document_url: str
    verified_at: datetime | None
    logo_kept_at: datetime | None
    created_at: datetime
    disabled_at: datetime | None
    sessions_ending: int | None
    secrets: tuple[ClientSecretOut, ...]


class ClientSecretShown(ClientOut, frozen=True, kw_only=True):
    """A client, and the secret that was made for it just now, which is shown this once; null where none was made."""

    client_secret: str | None


class ClientPage(msgspec.Struct, frozen=True):
    """One page of clients; ``next`` and ``previous`` are addresses, null at the ends."""

    results: tuple[ClientOut, ...]
    next: str | None
    previous: str | None


_LISTS: Final = (
    "redirect_uris",
    "post_logout_redirect_uris",
    "grants",
    "scopes",
    "serves",
    "resources",
    "authorization_details_types",
    "request_uris",
)
_OTHERS: Final = ("client_id", "secrets", "logo_kept_at", *_LISTS)
_PLAIN: Final = tuple(name for name in ClientOut.__struct_fields__ if name not in _OTHERS)


class Beside(NamedTuple):
    """What is shown of a client and is not in its row: its secrets in use, the newest first, and ``logo_kept_at``."""

    secrets: Iterable[OAuthClientSecret]
    logo_kept_at: datetime | None


def client_out(row: OAuthClient, beside: Beside) -> ClientOut:
    """Return a client as it leaves.

    Args:
        row: The client.
        beside: What is not in its row.
    """
    return ClientOut(**_fields(row, beside))


def secret_shown(row: OAuthClient, beside: Beside, secret: str) -> ClientSecretShown:
    """Return a client with the secret that was made just now.

    Args:
        row: The client.
        beside: What is not in its row.
        secret: In clear; "" where none was made.
    """
    return ClientSecretShown(**_fields(row, beside), client_secret=secret or None)


def _fields(row: OAuthClient, beside: Beside) -> Mapping[str, Any]:
    return {
        "client_id": row.pk,
        "secrets": tuple(ClientSecretOut(one.pk, one.hint, one.created_at, one.expires_at) for one in beside.secrets),
        "logo_kept_at": beside.logo_kept_at,
        **{name: tuple(getattr(row, name)) for name in _LISTS},
        **{name: getattr(row, name) for name in _PLAIN},
    }
