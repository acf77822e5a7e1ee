"""GET /.well-known/oauth-protected-resource (RFC 9728): what a client learns that knows this server's own API alone.

The API's 401 names the document. Its identifier is the issuer, which a request may send as ``resource``; the token's
``aud`` is IRONAUTH_AUDIENCE then, as without.
"""

from typing import Any, ClassVar, Final

import msgspec
from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema

from accounts.access.scopes import SCOPES as ADMINISTRATION
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from tokens.oauth.discovery.metadata import offered_scopes
from tokens.protocol import PROOF_ALGORITHMS

#: Where people read about the API.
DOCUMENTATION: Final = "/api/docs"


class ProtectedResourceView(AsyncAPIView):
    """GET /.well-known/oauth-protected-resource."""

    authentication_classes: ClassVar[Any] = ()
    permission_classes = ()
    no_store = False

    @extend_schema(
        operation_id="oauth_protected_resource",
        summary="What clients of this API configure themselves by",
        responses={(200, "application/json"): OpenApiTypes.OBJECT},
    )
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Return the metadata of this server's own API (RFC 9728 §2); clients may keep them for a while."""
        headers = {
            "Cache-Control": f"public, max-age={settings.IRONAUTH_JWKS_MAX_AGE_S}",
            "Access-Control-Allow-Origin": "*",  # public by nature
        }
        return HttpResponse(msgspec.json.encode(metadata()), content_type="application/json", headers=headers)


def metadata() -> dict[str, Any]:
    """Return the document."""
    issuer: str = settings.IRONAUTH_ISSUER
    return {
        "resource": issuer,
        "authorization_servers": [issuer],
        "scopes_supported": [*(scope.value for scope in offered_scopes()), *ADMINISTRATION],
        "bearer_methods_supported": ["header"],
        "resource_name": settings.IRONAUTH_BRAND_NAME,
        "resource_documentation": f"{issuer}{DOCUMENTATION}",
        "dpop_signing_alg_values_supported": PROOF_ALGORITHMS,
        "dpop_bound_access_tokens_required": False,
        **({"tls_client_certificate_bound_access_tokens": True} if settings.IRONAUTH_MTLS_ORIGIN else {}),
    }
