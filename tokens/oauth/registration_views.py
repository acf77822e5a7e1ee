"""POST /oauth/register (RFC 7591), and GET, PUT, DELETE of one registration (RFC 7592)."""

from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

import msgspec
from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import exceptions

from accounts.lockout import rate_limits
from ironauth.infrastructure.api.openapi_errors import OAuthErrors
from ironauth.infrastructure.api.parsers import JSONParser
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.http import client_context
from tokens.clients.dynamic import documented, services
from tokens.clients.dynamic.outputs import Registered
from tokens.clients.errors import (
    InvalidClientMetadata,
    InvalidRedirectUri,
    InvalidRegistrationToken,
    InvalidRequest,
)
from tokens.oauth.endpoint import TEMPORARILY_UNAVAILABLE, OAuthEndpoint, error_response

PATH: Final = "/oauth/register"
_BEARER: Final = "bearer "
_REFUSALS: Final = {
    401: OAuthErrors((InvalidRegistrationToken.error,)),
    404: NotFound,
    405: OAuthErrors((InvalidRequest.error,)),
    **dict.fromkeys((429, 503), OAuthErrors((TEMPORARILY_UNAVAILABLE,))),
}
_METADATA_REFUSED: Final = {400: OAuthErrors((InvalidClientMetadata.error, InvalidRedirectUri.error))}


class RegistrationEndpoint(OAuthEndpoint):
    """An endpoint that takes JSON, and is not there while registration is closed."""

    parser_classes = (JSONParser,)  # type: ignore[assignment]  # of another class than the base's

    async def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Refuse everything while registration is closed; those that registered before stay until staff end them."""
        await super().initial(request, *args, **kwargs)
        if settings.IRONAUTH_REGISTRATION == "closed":
            raise NotFound("Applications do not register themselves here: ask the people who run this server.")

    def handle_exception(self, exc: Exception) -> HttpResponse:
        """Return a body that is no JSON object as the metadata that it is not."""
        if isinstance(exc, exceptions.UnsupportedMediaType | exceptions.ParseError):
            return error_response(InvalidClientMetadata.error, "Send the metadata as one JSON object in UTF-8.")
        return super().handle_exception(exc)


def bearer(request: ApiRequest) -> str | None:
    """Return the bearer token of a request (RFC 6750 §2.1), None without one."""
    header: str = request.META.get("HTTP_AUTHORIZATION", "")
    return header[len(_BEARER) :].strip() if header[: len(_BEARER)].lower() == _BEARER else None


class RegisterView(RegistrationEndpoint):
    """POST /oauth/register."""

    @extend_schema(
        operation_id="oauth_register",
        summary="Register a client",
        request={"application/json": documented.METADATA},
        responses={(201, "application/json"): documented.INFORMATION, **_METADATA_REFUSED, **_REFUSALS},
    )
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Register what the metadata describe (RFC 7591 §3); people are told that nobody has looked at it.

        Depending on IRONAUTH_REGISTRATION it is closed (404), needs a token of staff, or is open to anybody.
        """
        made = await services.register(
            said=await self.body(request), token=bearer(request), address=client_context.address_of(request)
        )
        return _told(made, HTTPStatus.CREATED)

    async def body(self, request: ApiRequest) -> Any:
        """Return the metadata."""
        return request.data


class RegistrationView(RegistrationEndpoint):
    """GET, PUT and DELETE /oauth/register/{client_id}."""

    @extend_schema(
        operation_id="oauth_registration_read",
        summary="Read one's own registration",
        request=None,
        responses={(200, "application/json"): documented.INFORMATION, **_REFUSALS},
    )
    async def get(self, request: ApiRequest, client_id: UUID) -> HttpResponse:
        """Return what is registered (RFC 7592 §2.1); the token is the registration access token."""
        token = await _own_token(request)
        return await _counted(request, services.read(client_id=client_id, token=token), token)

    @extend_schema(
        operation_id="oauth_registration_replace",
        summary="Replace one's own registration",
        request={"application/json": documented.REPLACEMENT},
        responses={(200, "application/json"): documented.INFORMATION, **_METADATA_REFUSED, **_REFUSALS},
    )
    async def put(self, request: ApiRequest, client_id: UUID) -> HttpResponse:
        """Replace what is registered (RFC 7592 §2.2); what is left out gets its default."""
        token = await _own_token(request)
        return await _counted(request, services.change(client_id=client_id, token=token, said=request.data), token)

    @extend_schema(
        operation_id="oauth_registration_delete",
        summary="Delete one's own registration",
        request=None,
        responses={204: OpenApiResponse(None, "The client, its sessions and consents are gone."), **_REFUSALS},
    )
    async def delete(self, request: ApiRequest, client_id: UUID) -> HttpResponse:
        """Delete the client with all it holds (RFC 7592 §2.3)."""
        token = await _own_token(request)
        return await _counted(request, services.delete(client_id=client_id, token=token), token)


async def _own_token(request: ApiRequest) -> str:
    token = bearer(request)
    if token is None:
        raise InvalidRegistrationToken("Send the registration access token as Bearer.")
    return token


async def _counted(request: ApiRequest, work: Any, token: str) -> HttpResponse:
    """Return the answer of what a client does to its registration; wrong tokens are counted by their address."""
    try:
        done = await work
    except InvalidRegistrationToken:
        await rate_limits.admit(rate_limits.CLIENT, address=client_context.address_of(request))
        raise
    if done is None:
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    return _told(done if isinstance(done, Registered) else Registered(done, token, ""), HTTPStatus.OK)


def _told(made: Registered, status: int) -> HttpResponse:
    """Return the client information response (RFC 7591 §3.2.1, RFC 7592 §3)."""
    client_id = made.metadata["client_id"]
    body = {
        **made.metadata,
        **({"client_secret": made.secret, "client_secret_expires_at": 0} if made.secret else {}),
        "registration_access_token": made.token,
        "registration_client_uri": f"{settings.IRONAUTH_ISSUER}{PATH}/{client_id}",
    }
    return HttpResponse(msgspec.json.encode(body), status=status, content_type="application/json")
