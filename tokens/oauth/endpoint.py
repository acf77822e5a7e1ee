"""The base of the endpoints that clients call: form in, JSON out, errors as RFC 6749 §5.2 says."""

from typing import Any, ClassVar

import msgspec
from django.core.exceptions import TooManyFieldsSent
from django.http import HttpResponse
from django.utils.translation import gettext_noop as _
from rest_framework import exceptions

from ironauth.infrastructure.api.openapi_errors import OAuthErrors
from ironauth.infrastructure.api.parsers import FormParser
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import DomainError
from tokens.clients.errors import InvalidClient, InvalidRequest, InvalidTarget, OAuthError

#: What a domain error that is none of OAuth's is called here: RFC 6749 §4.1.2.1, RFC 8628 §3.5 has no closer one.
TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"
PREFLIGHT_S = 7_200  # seconds a browser need not ask again; Chromium keeps it no longer
#: Bytes of an authorization request, as query or form: with the path before it below the 8 KiB from which servers,
#: ours too, answer 414.
MAX_BYTES = 8_000
#: The parameter of resource indicators, which a request may repeat (RFC 8707 §2).
RESOURCE = "resource"
SEVERAL = frozenset({RESOURCE})
#: The parameter of rich authorization requests (RFC 9396 §2).
DETAILS = "authorization_details"
#: The parameter that names the organization which the person is to act for, by id or slug.
ORGANIZATION = "organization"
NO_MEMBER = "The person belongs to no organization of this id or slug."
MAX_PARAMETERS = 100  # Django's DATA_UPLOAD_MAX_NUMBER_FIELDS is 1,000; no request of ours has over 25


def refusals(*bad_request: type[OAuthError]) -> dict[int, OAuthErrors]:
    """Return the refusals of an endpoint whose callers authenticate, for the API's description.

    Args:
        *bad_request: Those of status 400 that it gives beside ``invalid_request``.
    """
    return {
        400: OAuthErrors((InvalidRequest.error, *(one.error for one in bad_request))),
        401: OAuthErrors((InvalidClient.error,)),
        405: OAuthErrors((InvalidRequest.error,)),
        **dict.fromkeys((429, 503), OAuthErrors((TEMPORARILY_UNAVAILABLE,))),
    }


class OAuthEndpoint(AsyncAPIView):
    """An endpoint without DRF's authentication: clients prove who they are in ``clients.authentication``."""

    authentication_classes: ClassVar[Any] = ()
    permission_classes = ()
    parser_classes = (FormParser,)
    #: Whether pages of any origin may read the answers (the metadata, keys and token endpoints: security-bar 48).
    cross_origin: ClassVar[bool] = True
    #: Parameters that may be sent several times; the others may not (RFC 6749 §3.2).
    several: ClassVar[frozenset[str]] = frozenset()

    async def async_dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Answer as the base does; with Pragma as RFC 6749 §5.1 shows it, and open to any origin where that is so."""
        response = await super().async_dispatch(request, *args, **kwargs)
        if self.no_store:
            response.headers["Pragma"] = "no-cache"
        if self.cross_origin:
            response.headers["Access-Control-Allow-Origin"] = "*"  # no cookie is ever read here
            response.headers["Access-Control-Expose-Headers"] = "Retry-After, WWW-Authenticate"
        return response

    def handle_exception(self, exc: Exception) -> HttpResponse:
        """Return ``{error, error_description}`` for whatever a handler raised."""
        if isinstance(exc, OAuthError):
            return error_response(exc.error, exc.detail, exc.status, exc.headers)
        if isinstance(exc, exceptions.UnsupportedMediaType | exceptions.ParseError | TooManyFieldsSent):
            return error_response("invalid_request", "Send the parameters as application/x-www-form-urlencoded.")
        if isinstance(exc, exceptions.MethodNotAllowed):
            allow = {"Allow": ", ".join(self.allowed_methods)}
            return error_response("invalid_request", "This endpoint does not take that method.", 405, allow)
        if isinstance(exc, DomainError) and exc.status >= 429:  # noqa: PLR2004 - Too Many Requests, Unavailable
            return error_response(TEMPORARILY_UNAVAILABLE, exc.detail, exc.status, exc.headers)
        return super().handle_exception(exc)

    async def options(self, request: ApiRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Answer OPTIONS with Allow, and a browser that asks whether a page of another origin may call this."""
        response = await super().options(request, *args, **kwargs)
        if self.cross_origin:
            response.headers["Access-Control-Allow-Methods"] = response.headers["Allow"]
            response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type, DPoP"
            response.headers["Access-Control-Max-Age"] = str(PREFLIGHT_S)
        return response

    async def parameters(self, request: ApiRequest) -> dict[str, str]:
        """Return the body's parameters.

        Without a value counts as not sent (RFC 6749 §3.2).

        Raises:
            InvalidRequest: one sent twice.
        """
        return unique_parameters(request.data, self.several)


def unique_parameters(data: Any, several: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return the parameters of a query or form (a ``QueryDict``), without empty ones.

    Args:
        data: As it was received.
        several: Those that may be repeated; their values come back in one text, separated by spaces.

    Raises:
        InvalidRequest: one is repeated (RFC 6749 §3.1) or there are more than any request has.
        InvalidTarget: A value of several has a space in it, which no URI has (RFC 8707 §2).
    """
    if len(data) > MAX_PARAMETERS:
        raise InvalidRequest(_("The request has too many parameters."))
    found = {}
    for name in data:
        values = data.getlist(name)
        if name in several and values:
            if any(" " in value for value in values):
                raise InvalidTarget
            values = [" ".join(filter(None, values))]
        if len(values) > 1:
            raise InvalidRequest(_("A parameter was sent more than once."))
        if values[0]:
            found[name] = values[0]
    return found


def error_response(
    error: str, description: str, status: int = 400, headers: Any = None, **members: object
) -> HttpResponse:
    """Return the JSON error of RFC 6749 §5.2.

    Args:
        error: The code, registered for OAuth.
        description: For the client's developer; ASCII (RFC 6749, §5.2).
        status: The status of the response.
        headers: Further headers.
        **members: Further members of the JSON object.
    """
    body = msgspec.json.encode({"error": error, "error_description": description, **members})
    return HttpResponse(body, status=status, content_type="application/json", headers=headers)
