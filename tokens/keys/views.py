"""The public key set, for everyone who verifies our tokens."""

from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import AllowAny

from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from tokens.keys.key_set import JwkSet
from tokens.keys.store import key_store


class JwksView(AsyncAPIView):
    """GET /.well-known/jwks.json."""

    authentication_classes: ClassVar[list[Any]] = []
    permission_classes = [AllowAny]
    no_store = False

    @extend_schema(
        operation_id="jwks",
        summary="Public keys that verify access tokens",
        responses={200: JwkSet, 304: OpenApiResponse(None, "The key set still has the ETag of If-None-Match.")},
    )
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Return the next, active and retiring keys (RFC 7517 §5); needs no database once they are loaded."""
        keys = await key_store().for_publishing()
        unchanged = keys.etag in request.META.get("HTTP_IF_NONE_MATCH", "")
        response = HttpResponse(b"" if unchanged else keys.jwks, status=304 if unchanged else 200)
        if unchanged:
            del response.headers["Content-Type"]
        else:
            response.headers["Content-Type"] = "application/json"
        response.headers["Cache-Control"] = f"public, max-age={settings.IRONAUTH_JWKS_MAX_AGE_S}"
        response.headers["ETag"] = keys.etag
        response.headers["Access-Control-Allow-Origin"] = "*"  # public by nature; browsers' OIDC clients fetch it
        return response
