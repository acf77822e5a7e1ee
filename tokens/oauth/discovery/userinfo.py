"""GET, POST /oauth/userinfo (OpenID Connect Core §5.3): who the person behind an access token is, by its scopes.

As fast as ``/me``: a token that was seen before costs no query. Cookies do not count here, and pages of any origin may
ask with the token they have.
"""

from typing import Any, Final

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import UnsupportedMediaType

from ironauth.infrastructure.api.openapi_errors import OAuthErrors
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotAuthenticated
from tokens.access import signed_tokens
from tokens.access.codec import MAX_TOKEN_BYTES
from tokens.access.credentials import bearer_token, bound_token
from tokens.clients import registry as clients
from tokens.clients.errors import InvalidRequest
from tokens.clients.registry import Client
from tokens.errors import InsufficientScope, InvalidProof, InvalidToken, MalformedCredential, api_challenge
from tokens.keys.key_set import Family
from tokens.keys.store import key_store
from tokens.oauth import claims
from tokens.oauth.claims import PersonalClaims
from tokens.oauth.endpoint import TEMPORARILY_UNAVAILABLE, OAuthEndpoint, error_response, unique_parameters
from tokens.principal import Principal
from tokens.protocol import Scope, scope_set
from tokens.sessions import authentication

#: The parameter of RFC 6750 §2.2, which is read from the body of a POST and never from the address (§2.3).
PARAMETER: Final = "access_token"


class UserInfo(PersonalClaims, frozen=True, omit_defaults=True, kw_only=True):
    """What the token's scopes let its client know (§5.4): ``profile``, ``email``, ``roles``, ``organization``.

    ``sub``: as in the client's ID tokens. What the person has not said is left out.
    """

    sub: str


class UserInfoInput(serializers.Serializer[Any]):
    """A form with the token, for a client that cannot send it in the header (RFC 6750 §2.2)."""

    access_token = serializers.CharField(required=False)


#: The claims that a client may learn here, for the metadata.
CLAIMS: Final = ("sub", *PersonalClaims.__struct_fields__)


MEDIA: Final = "application/jwt"
#: What libraries expect where they look. Without ``exp`` and ``amr`` it is no ID token, and no hint of one.
TYP: Final = "JWT"

ANSWERS: Final = {
    200: UserInfo,
    400: OAuthErrors((InvalidRequest.error,)),
    401: OAuthErrors((InvalidToken.code, InvalidProof.code)),
    403: OAuthErrors((InsufficientScope.code,)),
    405: OAuthErrors((InvalidRequest.error,)),
    503: OAuthErrors((TEMPORARILY_UNAVAILABLE,)),
}


class UserInfoView(OAuthEndpoint):
    """GET, POST /oauth/userinfo."""

    @extend_schema(
        operation_id="oauth_userinfo",
        summary="Tell who the access token's person is",
        auth=[{"bearer": []}],  # type: ignore[list-item]  # published as it is; the annotation knows names only
        responses=ANSWERS,
    )
    async def get(self, request: ApiRequest) -> UserInfo | HttpResponse:
        """Answer with the claims of the token in the Authorization header.

        To a client with `userinfo_signed_response_alg` they are a JWT, `application/jwt`.
        """
        return await answered(*in_header(request), request._request)  # noqa: SLF001 - Django's request

    @extend_schema(
        operation_id="oauth_userinfo_post",
        summary="Tell who the access token's person is",
        auth=[{"bearer": []}],  # type: ignore[list-item]  # published as it is; the annotation knows names only
        request={"application/x-www-form-urlencoded": UserInfoInput},
        responses=ANSWERS,
    )
    async def post(self, request: ApiRequest) -> UserInfo | HttpResponse:
        """Answer with the claims of the token in the Authorization header, or in a form as `access_token`."""
        shown, in_body = in_header(request), _in_body(request)
        if shown[0] is not None and in_body is not None:
            raise MalformedCredential("Send the access token in the Authorization header or in the body, not in both.")
        http = request._request  # noqa: SLF001 - Django's request
        return await answered(*(shown if in_body is None else (in_body, False)), http)

    def handle_exception(self, exc: Exception) -> HttpResponse:
        """Return the errors of RFC 6750 §3.1, challenge included."""
        if isinstance(exc, InvalidRequest):  # a parameter of the form is there twice
            exc = MalformedCredential(exc.detail)
        if isinstance(exc, InvalidToken | InvalidProof | InsufficientScope | MalformedCredential):
            return error_response(exc.code, exc.detail, exc.status, exc.headers)
        if isinstance(exc, NotAuthenticated):
            challenge = {"WWW-Authenticate": api_challenge()}
            return error_response("invalid_token", "Send an access token.", exc.status, challenge)
        return super().handle_exception(exc)


def in_header(request: ApiRequest) -> tuple[str | None, bool]:
    """Return the token of the Authorization header, and whether a proof of its key has to be in the request.

    Raises:
        MalformedCredential: (400) the header has another form.
    """
    header = request.META.get("HTTP_AUTHORIZATION", "")
    bound = bound_token(header)
    if bound is not None:
        return bound, True
    return bearer_token(header), False


async def answered(token: str | None, proves: bool, request: HttpRequest) -> UserInfo | HttpResponse:
    """Return what the client of this access token may know about its person, signed where it has registered that.

    Args:
        token: The access token; None where none was sent.
        proves: Whether the request is to prove the token's key (RFC 9449).
        request: The request, which may show the certificate that the token is bound to (RFC 8705).

    Raises:
        NotAuthenticated: As `told`, with all the others.
        SigningKeyMissing: (503) there is no key to sign with.
    """
    client_id, said = await told(token, proves, request)
    client = await clients.find(client_id)
    if client is None or not client.userinfo_signed_response_alg:
        return said
    # `Vary` keeps the hot lane from repeating it: the key that has signed it may be dropped, the token's another.
    return HttpResponse(await signed(client, said), content_type=MEDIA, headers={"Vary": "Authorization"})


async def signed(client: Client, said: UserInfo) -> str:
    """Return the claims as a JWT for this client (OpenID Connect Core §5.3.2).

    Args:
        client: The client that asks.
        said: What it may know.

    Raises:
        SigningKeyMissing: (503) there is no key to sign with.
    """
    told_to = {"iss": settings.IRONAUTH_ISSUER, "aud": client.public_id}
    key = await key_store().signing(Family(client.userinfo_signed_response_alg))
    return signed_tokens.sign({**msgspec.to_builtins(said), **told_to}, key, typ=TYP)


async def told(token: str | None, proves: bool, request: HttpRequest) -> tuple[str, UserInfo]:
    """Return the client of this access token, and what it may know about its person.

    Args:
        token: The access token; None where none was sent.
        proves: Whether the request is to prove the token's key (RFC 9449).
        request: The request, which may show the certificate that the token is bound to (RFC 8705).

    Raises:
        NotAuthenticated: (401) there is no token.
        InvalidToken: (401) the token is not good; ``InvalidProof`` where the proof is not.
        InsufficientScope: (403) the token has not the scope openid.
    """
    if token is None:
        raise NotAuthenticated
    if len(token) > MAX_TOKEN_BYTES:
        raise InvalidToken("text")
    if proves:
        principal = await authentication.by_proof(request, token)
    else:
        principal = await authentication.by_text(token, request=request)
    scopes = scope_set(principal.scope)
    if Scope.OPENID not in scopes:
        raise InsufficientScope(Scope.OPENID)
    return principal.client_id, claims_of(principal, scopes)


def claims_of(principal: Principal, scopes: frozenset[str]) -> UserInfo:
    """Return the claims that these scopes stand for.

    Args:
        principal: The person, as the client knows them.
        scopes: What the access token allows.
    """
    said = claims.told(principal.user, claims.allowed(scopes), principal.organization)
    return UserInfo(sub=str(principal.subject), **said)


def _in_body(request: ApiRequest) -> str | None:
    """Return the token of a form, None for a body that is empty, or no form: it is not needed then."""
    try:
        data = request.data
    except UnsupportedMediaType:
        return None
    return unique_parameters(data).get(PARAMETER)
