"""What the API's document says of a registration: the members of RFC 7591 §2 that mean something here."""

from collections.abc import Mapping
from typing import Any, Final

from tokens.clients.dynamic.metadata import ALGORITHMS, METHODS
from tokens.clients.models import OAuthClient
from tokens.clients.profiles import AGENT_GRANTS


def _text(words: str, **more: object) -> dict[str, Any]:
    return {"type": "string", "description": words, **more}


def _texts(words: str, **items: object) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", **items}, "description": words}


def _flag(words: str) -> dict[str, Any]:
    return {"type": "boolean", "default": False, "description": words}


_METADATA: Final[Mapping[str, Any]] = {
    "redirect_uris": _texts("Where the answer of a sign-in goes; compared character by character."),
    "client_name": _text("What people read; left out, the host of the first address."),
    "token_endpoint_auth_method": _text(
        "How it proves who it is; `private_key_jwt` needs `jwks` or `jwks_uri`.",
        enum=list(METHODS),
        default="client_secret_basic",
    ),
    "grant_types": _texts(
        "Left out, `authorization_code` alone. `offline_access` needs `refresh_token` too; others are left out.",
        enum=sorted(AGENT_GRANTS),
    ),
    "response_types": _texts("`code` has to be in it; left out, it is that.", enum=["code"]),
    "scope": _text(
        "Separated by single spaces. What such an application may not have is left out; without the member it gets all "
        "that it may have.",
        example="openid offline_access notes:read",
    ),
    "post_logout_redirect_uris": _texts("Where people may be sent after a sign-out."),
    "backchannel_logout_uri": _text(
        "Where it hears of sign-outs, by a logout token (OpenID Connect Back-Channel Logout 1.0).", format="uri"
    ),
    "backchannel_logout_session_required": {
        "type": "boolean",
        "description": "Whether a logout token has to say which session has ended; here each does.",
    },
    "jwks": {"type": "object", "description": "Its public keys (RFC 7517 §5)."},
    "jwks_uri": _text("Where its public keys are, instead of `jwks`; fetched when they are needed.", format="uri"),
    "request_uris": _texts("Where its requests may be fetched, with IRONAUTH_REQUEST_URIS; as they stand in requests."),
    "request_object_signing_alg": _text(
        "What signs its request objects (RFC 9101); `none`: unsigned ones from `request_uris`.",
        enum=[alg.value for alg in OAuthClient.RequestAlg if alg],
    ),
    "userinfo_signed_response_alg": _text(
        "What signs the answers of userinfo; left out, they are plain JSON.", enum=list(ALGORITHMS)
    ),
    "sector_identifier_uri": _text(
        "A list that names all its `redirect_uris`: pairwise clients of its host have the same `sub`.", format="uri"
    ),
    "logo_uri": _text("Its picture: PNG, JPEG or WebP of at most 64 KiB. People are shown a copy.", format="uri"),
    "policy_uri": _text("What it says about people's data; people are shown the link.", format="uri"),
    "tos_uri": _text("Its terms; people are shown the link.", format="uri"),
    "id_token_signed_response_alg": _text("What signs its ID tokens.", enum=list(ALGORITHMS), default="RS256"),
    "subject_type": _text(
        "What its `sub` is.", enum=list(OAuthClient.Subject.values), default=OAuthClient.Subject.PUBLIC.value
    ),
    "dpop_bound_access_tokens": _flag("Whether each token is bound to a key (RFC 9449)."),
    "require_pushed_authorization_requests": _flag("Whether it pushes each request (RFC 9126)."),
}
_CLIENT_ID: Final = _text("The id that it was given.", format="uuid")
_TOLD: Final[Mapping[str, Any]] = {
    "client_id": _CLIENT_ID,
    "client_id_issued_at": {"type": "integer", "description": "Seconds since 1970."},
    "client_secret": _text("When one was made just now; shown this once."),
    "client_secret_expires_at": {"type": "integer", "description": "0: it does not end. With `client_secret`."},
    "registration_access_token": _text("With it the client reads, replaces and deletes this registration."),
    "registration_client_uri": _text("Where it does so.", format="uri"),
}
_SOMETIMES: Final = frozenset({
    "jwks", "client_secret", "client_secret_expires_at", "jwks_uri", "request_uris", "request_object_signing_alg",
    "userinfo_signed_response_alg", "sector_identifier_uri", "logo_uri", "policy_uri", "tos_uri",
    "backchannel_logout_uri", "backchannel_logout_session_required",
})  # fmt: skip

#: A client's metadata, as it is registered. Members that are not listed are ignored (RFC 7591 §2).
METADATA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": dict(_METADATA),
    "required": ["redirect_uris"],
}
#: The same, to replace a registration (RFC 7592 §2.2).
REPLACEMENT: Final[Mapping[str, Any]] = {
    **METADATA,
    "properties": {"client_id": _CLIENT_ID, **_METADATA},
    "required": ["client_id", "redirect_uris"],
}
#: What the client is told (RFC 7591 §3.2.1, RFC 7592 §3).
INFORMATION: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {**_TOLD, **_METADATA},
    "required": sorted((_TOLD.keys() | _METADATA.keys()) - _SOMETIMES),
}
