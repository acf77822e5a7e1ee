"""The metadata of clients: /.well-known/openid-configuration and /.well-known/oauth-authorization-server.

OpenID Connect Discovery 1.0 and RFC 8414: one document under two names. It names what this process serves and nothing
else: endpoints by their routes, grants by the token endpoint's register, algorithms by the signing keys there are.
"""

from typing import Any, ClassVar, Final

import msgspec
from django.conf import settings
from django.http import HttpResponse
from django.urls import Resolver404, resolve
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view

from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from tokens.clients import assertion as client_assertion
from tokens.clients.models import CERTIFICATES, OAuthClient
from tokens.details import queries as detail_types
from tokens.keys.store import key_store
from tokens.oauth.authorize.request import prompts
from tokens.oauth.claims import ABOUT_ORGANIZATIONS
from tokens.oauth.discovery.userinfo import CLAIMS
from tokens.oauth.id_tokens import ACR_VALUES
from tokens.oauth.token.grants import GRANTS
from tokens.protocol import PROOF_ALGORITHMS, TOKEN_PATH, ResponseMode, Scope
from tokens.sessions.organizations import queries as organizations

#: Members that are addresses (RFC 8414 §2, Discovery §3, RFC 8628 §4, RFC 9126 §5, RP-Initiated Logout §2.1).
ENDPOINTS: Final = {
    "authorization_endpoint": "/oauth/authorize",
    "token_endpoint": TOKEN_PATH,
    "userinfo_endpoint": "/oauth/userinfo",
    "jwks_uri": "/.well-known/jwks.json",
    "introspection_endpoint": "/oauth/introspect",
    "revocation_endpoint": "/oauth/revoke",
    "end_session_endpoint": "/oauth/logout",
    "pushed_authorization_request_endpoint": "/oauth/par",
    "device_authorization_endpoint": "/oauth/device_authorization",
}
REGISTRATION_PATH: Final = "/oauth/register"
#: Where clients prove who they are, and hence may show a certificate (RFC 8705 §5).
ALIASES: Final = (
    "token_endpoint",
    "introspection_endpoint",
    "revocation_endpoint",
    "pushed_authorization_request_endpoint",
    "device_authorization_endpoint",
    "userinfo_endpoint",
)
#: How a client proves who it is (RFC 7591 §2), at the endpoints where public clients have no business.
CONFIDENTIAL: Final = ("client_secret_basic", "client_secret_post", "private_key_jwt")
ANYBODY: Final = (*CONFIDENTIAL, "none")
#: Where clients may sign who they are.
ASKED: Final = ("token", "revocation", "introspection")
#: What an ID token says in addition to userinfo.
ID_TOKEN_CLAIMS: Final = ("iss", "aud", "exp", "iat", "auth_time", "nonce", "amr", "acr", "sid", "at_hash")


class MetadataView(AsyncAPIView):
    """The document, under whichever name."""

    authentication_classes: ClassVar[Any] = ()
    permission_classes = ()
    no_store = False

    async def get(self, request: ApiRequest) -> HttpResponse:
        """Return the metadata (OpenID Connect Discovery 1.0 §3, RFC 8414 §2); clients may keep them for a while."""
        algorithms = (await key_store().for_publishing()).algorithms
        body = msgspec.json.encode(metadata(algorithms, await detail_types.offered()))
        headers = {
            "Cache-Control": f"public, max-age={settings.IRONAUTH_JWKS_MAX_AGE_S}",
            "Access-Control-Allow-Origin": "*",  # public by nature; browsers' OIDC clients fetch it
        }
        return HttpResponse(body, content_type="application/json", headers=headers)


def _described(operation_id: str, summary: str) -> Any:
    """Return what describes one of the two names."""
    answers = {(200, "application/json"): OpenApiTypes.OBJECT}
    return extend_schema_view(get=extend_schema(operation_id=operation_id, summary=summary, responses=answers))


@_described("openid_configuration", "What OpenID Connect clients configure themselves by")
class OpenIdView(MetadataView):
    """GET /.well-known/openid-configuration."""


@_described("oauth_metadata", "What OAuth clients configure themselves by")
class OAuthServerView(MetadataView):
    """GET /.well-known/oauth-authorization-server."""


def metadata(algorithms: tuple[str, ...], details: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the document.

    Args:
        algorithms: What ID tokens and signed answers may be signed with.
        details: The types of authorization details that are registered (RFC 9396 §10).
    """
    issuer: str = settings.IRONAUTH_ISSUER
    mtls: str = settings.IRONAUTH_MTLS_ORIGIN
    certificates = sorted(CERTIFICATES, reverse=True) if mtls else []
    aliases = {member: f"{mtls}{ENDPOINTS[member]}" for member in ALIASES if is_served(ENDPOINTS[member])}
    signing = list(algorithms) or [settings.IRONAUTH_JWT_ALG]
    return {
        "issuer": issuer,
        **{member: f"{issuer}{path}" for member, path in ENDPOINTS.items() if is_served(path)},
        **_strangers(issuer),
        "scopes_supported": [scope.value for scope in offered_scopes()],
        "claims_supported": [*_claims(), *ID_TOKEN_CLAIMS],
        "acr_values_supported": ACR_VALUES,
        "response_types_supported": ["code"],
        "response_modes_supported": [mode.value for mode in ResponseMode],
        "grant_types_supported": list(GRANTS),
        "code_challenge_methods_supported": ["S256"],
        "dpop_signing_alg_values_supported": PROOF_ALGORITHMS,  # RFC 9449 §5.1
        "authorization_response_iss_parameter_supported": True,  # RFC 9207 §3
        "prompt_values_supported": prompts(),
        **({"authorization_details_types_supported": details} if details else {}),
        "subject_types_supported": [subject.value for subject in OAuthClient.Subject],
        "id_token_signing_alg_values_supported": signing,
        "token_endpoint_auth_methods_supported": (*ANYBODY, *certificates),
        "revocation_endpoint_auth_methods_supported": (*ANYBODY, *certificates),
        "introspection_endpoint_auth_methods_supported": (*CONFIDENTIAL, *certificates),
        **({"mtls_endpoint_aliases": aliases, "tls_client_certificate_bound_access_tokens": True} if mtls else {}),
        **{f"{which}_endpoint_auth_signing_alg_values_supported": client_assertion.ALGORITHM_NAMES for which in ASKED},
        "backchannel_logout_supported": True,
        "backchannel_logout_session_supported": True,
        "claims_parameter_supported": True,
        "request_parameter_supported": True,  # of clients that sign their requests (RFC 9101)
        "request_object_signing_alg_values_supported": _request_algorithms(),
        "require_signed_request_object": False,  # their profile may (RFC 9101 §10.5)
        **{f"{which}_signing_alg_values_supported": signing for which in ("authorization", "introspection")},
        "request_uri_parameter_supported": settings.IRONAUTH_REQUEST_URIS,  # unless it is said: true (Discovery §3)
        "require_request_uri_registration": True,
        "userinfo_signing_alg_values_supported": signing,
        "require_pushed_authorization_requests": False,
        "protected_resources": [issuer],  # RFC 9728 §4; registered APIs name this server themselves
    }


def offered_scopes() -> list[Scope]:
    """Return the scopes that mean something here."""
    return [scope for scope in Scope if scope is not Scope.ORGANIZATION or organizations.is_on()]


def _claims() -> list[str]:
    """Return the claims about people that a client may learn here."""
    return [claim for claim in CLAIMS if claim not in ABOUT_ORGANIZATIONS or organizations.is_on()]


def _request_algorithms() -> list[str]:
    """Return what signs request objects; unsigned ones are taken from registered addresses alone."""
    unsigned = OAuthClient.RequestAlg.UNSIGNED
    return [alg.value for alg in OAuthClient.RequestAlg if alg and (alg != unsigned or settings.IRONAUTH_REQUEST_URIS)]


def _strangers(issuer: str) -> dict[str, Any]:
    """Return what is open to clients that no member of staff has made; nothing while that is off, as it begins."""
    said: dict[str, Any] = {}
    if settings.IRONAUTH_REGISTRATION != "closed":
        said["registration_endpoint"] = f"{issuer}{REGISTRATION_PATH}"
    if settings.IRONAUTH_CLIENT_DOCUMENTS:
        said["client_id_metadata_document_supported"] = True
    return said


def is_served(path: str) -> bool:
    """Return whether this process answers the path."""
    try:
        resolve(path)
    except Resolver404:
        return False
    return True
