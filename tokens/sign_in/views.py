"""Signing in and out, refreshing, verifying, and changing the password."""

from typing import Any, ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.permissions import AllowAny, IsAuthenticated
from rest_framework.response import Response

from accounts.errors import (
    InvalidCredentials,
    PasswordChanged,
    PasswordChangeRequired,
    StepUpRequired,
)
from accounts.users.proofs import Evidence
from ironauth.config.cookies import REFRESH
from ironauth.infrastructure.api.parsers import FormParser, JSONParser
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import FieldError, NotAuthenticated, Overloaded, Throttled, ValidationFailed
from ironauth.infrastructure.http import client_context, cookies
from tokens.access.credentials import access_credential, access_name, require_same_origin
from tokens.errors import (
    CrossOrigin,
    InvalidRefreshToken,
    InvalidToken,
    MfaRequired,
    SigningKeyMissing,
    TwoCredentials,
)
from tokens.sessions import services as session_services
from tokens.sessions.authentication import AccessTokenAuthentication
from tokens.sessions.outputs import TokenPair
from tokens.sessions.transport import (
    cleared_response,
    context_of_sign_in,
    cookie_response,
    set_cookies,
    token_response,
)
from tokens.sign_in import services
from tokens.sign_in.inputs import ChangePasswordInput, RefreshInput, RefreshTokenInput, SignInForm, SignInInput

NO_CONTENT = OpenApiResponse(None, "The same with the cookie transport: both cookies are set.")
CLEARED = OpenApiResponse(None, "The session is over; both cookies are cleared.")
MISSING_REFRESH_TOKEN = FieldError(
    field="refresh_token", code="required", message="Send the refresh token here or in its cookie."
)

_REQUEST_ID = (
    "1 to 64 characters of `[A-Za-z0-9._-]`: the answer, problems and the log have it. Another one is made anew."
)


class SignInView(AsyncAPIView):
    """POST /api/v1/access/signin."""

    authentication_classes: ClassVar[list[Any]] = []
    permission_classes = [AllowAny]
    parser_classes = [JSONParser, FormParser]

    @extend_schema(
        operation_id="access_signin",
        summary="Sign in with e-mail address and password",
        request={"application/json": SignInInput, "application/x-www-form-urlencoded": SignInForm},
        # Named here, where every operation has it: openapi-python-client 0.28 and 0.29 write a module that cannot be
        # imported for an operation of two kinds of body and no optional parameter.
        parameters=[OpenApiParameter("X-Request-ID", str, OpenApiParameter.HEADER, description=_REQUEST_ID)],
        responses={
            200: TokenPair,
            204: NO_CONTENT,
            401: (InvalidCredentials, MfaRequired),
            403: (CrossOrigin, PasswordChangeRequired),
            415: OpenApiResponse(None, "Neither JSON nor a form"),
            429: Throttled,
            503: (Overloaded, SigningKeyMissing),
        },
    )
    async def post(self, request: ApiRequest) -> TokenPair | HttpResponse:
        """Open a session. JSON is answered with a TokenPair unless ``transport`` is "cookie", a form the other way.

        Beside `mfa_required` the problem has the `mfa_token` and the `methods` (`totp`, `passkey`, `recovery_code`) for
        `/api/v1/access/signin/mfa`.
        """
        is_form = request.content_type.lower().startswith(FormParser.media_type)  # RFC 9110 §8.3.1
        data = await self.validated(request, SignInForm if is_form else SignInInput)
        context = context_of_sign_in(request._request, data["transport"])  # noqa: SLF001 - Django's request
        pair = await services.sign_in(
            email=data["username" if is_form else "email"], password=data["password"], context=context
        )
        return token_response(pair, context, data["transport"])


class RefreshView(AsyncAPIView):
    """POST /api/v1/access/refresh."""

    authentication_classes: ClassVar[list[Any]] = []
    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="access_refresh",
        summary="Exchange a refresh token for the next token pair",
        request=RefreshInput,
        responses={
            200: TokenPair,
            204: NO_CONTENT,
            401: InvalidRefreshToken,
            403: CrossOrigin,
            429: Throttled,
            503: SigningKeyMissing,
        },
    )
    async def post(self, request: ApiRequest) -> TokenPair | HttpResponse:
        """Refresh by the token in the body (answered in the body) or, without one, by the cookie (by cookies).

        With `organization` the session acts for that one from now on: access tokens have `org_id` and `org_roles`.
        Tokens that name another one end. Where the caller is no member of it, the answer is 400, and the refresh token
        stays good.
        """
        data = await self.validated(request, RefreshInput)
        token = data.get("refresh_token")
        wanted: dict[str, Any] = {"organization": data.get("organization")}
        wanted["address"] = client_context.address_of(request)
        if token is not None:
            return await session_services.refresh(token=token, **wanted)
        token = _refresh_cookie(request)
        if token is None:
            raise ValidationFailed(errors=[MISSING_REFRESH_TOKEN])
        require_same_origin(request._request)  # noqa: SLF001 - Django's request
        try:
            return cookie_response(await session_services.refresh(token=token, **wanted))
        except InvalidRefreshToken as error:
            response = self.handle_exception(error)
            if error.session_over:  # else another tab of this browser may hold the right cookie already
                cookies.clear(response)
            return response


class LogoutView(AsyncAPIView):
    """POST /api/v1/access/logout."""

    while_acting = frozenset({"POST"})  # the way out
    authentication_classes: ClassVar[list[Any]] = []
    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="access_logout",
        summary="End this session",
        auth=[{"bearer": []}, {"cookie": []}, {}],  # type: ignore[list-item] # requirements, as OpenAPI writes them
        request=RefreshTokenInput,
        responses={204: CLEARED, 400: TwoCredentials, 401: (NotAuthenticated, InvalidToken), 403: CrossOrigin},
    )
    async def post(self, request: ApiRequest) -> HttpResponse:
        """End the session of the first credential that names one: refresh token in the body, access token, cookie.

        Only ever this session. A browser on this site always gets 204 and its cookies cleared, also for a session that
        is over already.
        """
        try:
            await self._end_session(request)
        except NotAuthenticated:
            # A browser cannot drop HttpOnly cookies itself: signing out of what is over already must do it.
            if not _has_our_cookies(request) or not cookies.origin_allowed(request):
                raise
        return cleared_response()

    async def _end_session(self, request: ApiRequest) -> None:
        """End the session of the first genuine credential; raise ``NotAuthenticated`` when there is none."""
        body_token = (await self.validated(request, RefreshTokenInput)).get("refresh_token")
        if body_token is not None:
            await session_services.sign_out_by_refresh_token(token=body_token)
            return
        cookie_token = _refresh_cookie(request)
        try:
            found = await AccessTokenAuthentication().authenticate(request)
            if found is not None:
                by = found[0].acting.id if found[0].acting else None
                await session_services.sign_out(session_id=found[0].session_id, user_id=found[0].id, actor_id=by)
                return
            if cookie_token is None:
                raise NotAuthenticated
        except NotAuthenticated:  # expired, for instance: the refresh cookie lives longer and names the same session
            if cookie_token is None:
                raise
        require_same_origin(request._request)  # noqa: SLF001 - Django's request
        await session_services.sign_out_by_refresh_token(token=cookie_token)


class LogoutAllView(AsyncAPIView):
    """POST /api/v1/access/logout-all."""

    permission_classes = [IsAuthenticated]

    @extend_schema(
        operation_id="access_logout_all",
        summary="End every session of the caller",
        request=None,
        responses={204: CLEARED, 400: TwoCredentials, 401: InvalidToken, 403: CrossOrigin},
    )
    async def post(self, request: ApiRequest) -> HttpResponse:
        """End every session of the caller, this one included."""
        await session_services.sign_out_everywhere(principal=request.auth)
        return cleared_response()


class PasswordView(AsyncAPIView):
    """POST /api/v1/access/password."""

    permission_classes = [IsAuthenticated]

    @extend_schema(
        operation_id="access_password_change",
        summary="Change the password and end all other sessions",
        request=ChangePasswordInput,
        responses={
            200: TokenPair,
            401: (InvalidToken, InvalidCredentials, StepUpRequired),
            403: CrossOrigin,
            409: PasswordChanged,
            429: Throttled,
            503: (Overloaded, SigningKeyMissing),
        },
    )
    async def post(self, request: ApiRequest) -> Response:
        """Set the new password; the caller gets a new session, in cookies too if the request came with the cookie."""
        data = await self.validated(request, ChangePasswordInput)
        pair = await services.change_password(
            principal=request.auth,
            shown=Evidence(password=data["current_password"]),
            new_password=data["new_password"],
            context=client_context.context_of(request._request),  # noqa: SLF001 - Django's request
        )
        response = Response(pair)
        credential = access_credential(request._request)  # noqa: SLF001 - Django's request
        if credential is not None and credential.from_cookie:
            set_cookies(response, pair)
        return response


def _refresh_cookie(request: ApiRequest) -> str | None:
    """Return the refresh cookie's value, None when there is none or an empty one."""
    value: str | None = request.COOKIES.get(cookies.name_of(REFRESH))
    return value or None


def _has_our_cookies(request: ApiRequest) -> bool:
    """Return whether the browser sent any of the two cookies."""
    return bool(request.COOKIES.get(access_name()) or request.COOKIES.get(cookies.name_of(REFRESH)))
