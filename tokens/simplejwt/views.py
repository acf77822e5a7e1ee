"""``token/``, ``token/refresh/``, ``token/verify/`` and ``token/blacklist/`` as SimpleJWT answers them."""

from http import HTTPStatus
from typing import Any, ClassVar

import msgspec
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny

from accounts.errors import InvalidCredentials
from ironauth.infrastructure.api.parsers import FormParser, JSONParser
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import NotAuthenticated
from ironauth.infrastructure.http import client_context
from tokens.errors import InvalidRefreshToken, InvalidToken
from tokens.simplejwt import services
from tokens.simplejwt.inputs import ObtainInput, RefreshInput, VerifyInput
from tokens.simplejwt.services import Pair

NO_ACCOUNT = "No active account found with the given credentials"
NOT_VALID = {"detail": "Token is invalid", "code": "token_not_valid"}
ANSWERED: dict[str, Any] = {}


class _View(AsyncAPIView):
    """A view whose errors have SimpleJWT's form in place of a problem document's."""

    authentication_classes: ClassVar[list[Any]] = []
    permission_classes = [AllowAny]
    parser_classes = [JSONParser, FormParser]

    def handle_exception(self, exc: Exception) -> HttpResponse:
        """Answer an error as Django REST framework and SimpleJWT do: ``detail``, or a list of texts a field."""
        response: HttpResponse = super().handle_exception(exc)
        problem = msgspec.json.decode(response.content)
        if isinstance(exc, InvalidToken | InvalidRefreshToken):
            body: dict[str, Any] = NOT_VALID
        elif isinstance(exc, InvalidCredentials):
            body = {"detail": NO_ACCOUNT}
        elif problem.get("errors"):
            body = {}
            for error in problem["errors"]:
                body.setdefault(error["field"] or "non_field_errors", []).append(error["message"])
        else:
            known = {"type", "title", "status", "errors", "request_id"}
            body = {name: value for name, value in problem.items() if name not in known}
        if isinstance(exc, NotAuthenticated) or response.status_code == HTTPStatus.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = 'Bearer realm="api"'
        response.content = msgspec.json.encode(body)
        response.headers["Content-Type"] = "application/json"
        return response


class ObtainView(_View):
    """POST token/."""

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> Pair:
        """Sign in with the address, as ``username`` or ``email``, and the password."""
        data = await self.validated(request, ObtainInput)
        context = client_context.context_of(request._request)  # noqa: SLF001 - Django's request
        email = data.get("email", data.get("username", ""))
        return await services.obtain(email=email, password=data["password"], context=context)


class RefreshView(_View):
    """POST token/refresh/."""

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> Pair:
        """Return the next access token, with a refresh token where they rotate."""
        data = await self.validated(request, RefreshInput)
        return await services.refresh(token=data["refresh"], address=client_context.address_of(request))


class VerifyView(_View):
    """POST token/verify/."""

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> dict[str, Any]:
        """Answer 200 for a token that would be accepted."""
        await services.verify(token=(await self.validated(request, VerifyInput))["token"])
        return ANSWERED


class BlacklistView(_View):
    """POST token/blacklist/."""

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> dict[str, Any]:
        """End the session of the refresh token."""
        await services.blacklist(token=(await self.validated(request, RefreshInput))["refresh"])
        return ANSWERED
