"""The token endpoint (RFC 6749 §3.2), introspection (RFC 7662) and revocation (RFC 7009): what clients post to."""

import msgspec
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema

from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import Throttled
from ironauth.infrastructure.http.client_context import context_of
from tokens.clients import dpop
from tokens.clients.authentication import authenticate
from tokens.clients.certificates import presented as certificates
from tokens.clients.errors import (
    AccessDenied,
    AuthorizationPending,
    ExpiredToken,
    InvalidAuthorizationDetails,
    InvalidDpopProof,
    InvalidGrant,
    InvalidRequest,
    InvalidScope,
    InvalidTarget,
    OAuthError,
    SlowDown,
    UnauthorizedClient,
    UnsupportedGrantType,
    UnsupportedTokenType,
)
from tokens.oauth.endpoint import SEVERAL, OAuthEndpoint, refusals
from tokens.oauth.inputs import TokenInput, TokenQuestion
from tokens.oauth.signed import responses as signed
from tokens.oauth.token import device_grant, introspection, revocation
from tokens.oauth.token.grants import GRANTS
from tokens.oauth.token.introspection import INACTIVE, Introspection
from tokens.oauth.token.response import TokenRequest, TokenResponse
from tokens.protocol import GrantType, is_scope


class TokenView(OAuthEndpoint):
    """POST /oauth/token."""

    several = SEVERAL

    @extend_schema(
        operation_id="oauth_token",
        summary="Exchange a grant for tokens",
        request={"application/x-www-form-urlencoded": TokenInput},
        responses={
            200: TokenResponse,
            **refusals(
                InvalidGrant,
                UnauthorizedClient,
                UnsupportedGrantType,
                InvalidScope,
                InvalidTarget,
                InvalidAuthorizationDetails,
                InvalidDpopProof,
                AuthorizationPending,
                SlowDown,
                ExpiredToken,
                AccessDenied,
            ),
        },
    )
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Answer with tokens, or with an error of RFC 6749 §5.2.

        Confidential clients authenticate by HTTP Basic, in the body, or by a signed assertion; public ones send their
        `client_id`.
        """
        parameters = await self.parameters(request)
        grant_type = parameters.get("grant_type")
        if grant_type is None:
            raise InvalidRequest("The parameter grant_type is missing.")
        grant = GRANTS.get(grant_type)
        if grant is None:
            raise UnsupportedGrantType
        client = await authenticate(request, parameters, allow_public=True)
        if grant_type not in client.grants:
            raise UnauthorizedClient
        if "scope" in parameters and not is_scope(parameters["scope"]):
            raise InvalidScope
        http = request._request  # noqa: SLF001 - Django's request
        proof = dpop.presented(http, client)
        x5t = certificates.binding(http, client) if client.certificate_bound else ""
        asked = TokenRequest(client, parameters, context_of(http), proof.jkt if proof is not None else "", x5t)
        if grant_type == GrantType.DEVICE_CODE:  # before anything is written: devices ask again and again
            await device_grant.refuse_waiting(asked)
        await dpop.use_for_client(proof)
        try:
            answer = await grant(asked)
        except (OAuthError, Throttled):
            if proof is not None and client.is_public:  # anybody can be one: nothing given, nothing stored
                await dpop.give_back(proof)
            raise
        return HttpResponse(msgspec.json.encode(answer), content_type="application/json")


class IntrospectionView(OAuthEndpoint):
    """POST /oauth/introspect. For servers: a page has no secret to ask with."""

    cross_origin = False

    @extend_schema(
        operation_id="oauth_introspect",
        summary="Ask what a token stands for",
        request={"application/x-www-form-urlencoded": TokenQuestion},
        responses={200: Introspection, **refusals()},
    )
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Answer for a confidential client's own tokens, or for a resource server; anything else is inactive.

        With `Accept: application/token-introspection+jwt` the answer is a signed JWT (RFC 9701).
        """
        parameters = await self.parameters(request)
        caller = await authenticate(request, parameters, allow_public=False)
        found = await introspection.introspect(token=_token(parameters), caller=caller)
        body = msgspec.json.encode(found) if found else INACTIVE
        accept = request.META.get("HTTP_ACCEPT", "")
        if "jwt" in accept.lower() and signed.is_asked(accept):  # the plain answer costs what it did
            return HttpResponse(await signed.introspection(caller, body), content_type=signed.INTROSPECTION_MEDIA)
        return HttpResponse(body, content_type="application/json")


class RevocationView(OAuthEndpoint):
    """POST /oauth/revoke."""

    @extend_schema(
        operation_id="oauth_revoke",
        summary="Give a token back",
        request={"application/x-www-form-urlencoded": TokenQuestion},
        responses={
            200: OpenApiResponse(None, "The token is not good any more, or never was."),
            **refusals(UnsupportedTokenType),
        },
    )
    async def post(self, request: ApiRequest) -> HttpResponse:
        """End what the client's own token stands for; a token of a session ends the session."""
        parameters = await self.parameters(request)
        caller = await authenticate(request, parameters, allow_public=True)
        await revocation.revoke(token=_token(parameters), caller=caller)
        return HttpResponse(status=200)


def _token(parameters: dict[str, str]) -> str:
    """Return the token that is asked about; raise ``InvalidRequest`` when it is missing."""
    token = parameters.get("token")
    if token is None:
        raise InvalidRequest("The parameter token is missing.")
    return token
