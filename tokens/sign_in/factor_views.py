"""Signing in with a second factor, and confirming a session with one, over HTTP."""

from typing import Any, ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import AllowAny

from accounts.errors import InvalidCredentials, InvalidEmailCode
from accounts.mfa import factors
from accounts.mfa.errors import InvalidMfaCode
from accounts.mfa.passkeys.errors import InvalidPasskey
from accounts.users.proofs import Evidence
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import Overloaded, Throttled, ValidationFailed
from ironauth.infrastructure.http import client_context
from tokens.errors import CrossOrigin, InvalidMfaToken, InvalidToken, SigningKeyMissing
from tokens.sessions.outputs import TokenPair
from tokens.sessions.transport import context_of_sign_in, token_response
from tokens.sign_in import factor_services
from tokens.sign_in.inputs import SignInMfaInput, StepUpInput
from tokens.sign_in.views import NO_CONTENT


class SignInMfaView(AsyncAPIView):
    """POST /api/v1/access/signin/mfa."""

    authentication_classes: ClassVar[list[Any]] = []
    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="access_signin_mfa",
        summary="Finish a sign-in with a second factor",
        request=SignInMfaInput,
        responses={
            200: TokenPair,
            204: NO_CONTENT,
            400: ValidationFailed,
            401: (InvalidMfaToken, InvalidMfaCode, InvalidPasskey),
            403: CrossOrigin,
            429: Throttled,
            503: (Overloaded, *factors.UNJUDGED, SigningKeyMissing),
        },
    )
    async def post(self, request: ApiRequest) -> TokenPair | HttpResponse:
        """Open the session that `mfa_required` stood in the way of; answered as a sign-in is."""
        data = await self.validated(request, SignInMfaInput)
        context = context_of_sign_in(request._request, data["transport"])  # noqa: SLF001 - Django's request
        pair = await factor_services.sign_in_with_factor(
            token=data["mfa_token"], shown=Evidence.in_body(data), context=context
        )
        return token_response(pair, context, data["transport"])


class StepUpView(AsyncAPIView):
    """POST /api/v1/access/step-up."""

    @extend_schema(
        operation_id="access_step_up",
        summary="Prove once more who I am",
        request=StepUpInput,
        responses={
            204: OpenApiResponse(None, "For ten minutes this session may do what `step_up_required` kept it from."),
            400: ValidationFailed,
            401: (InvalidToken, InvalidCredentials, InvalidMfaCode, InvalidPasskey, InvalidEmailCode),
            403: CrossOrigin,
            429: Throttled,
            503: (Overloaded, *factors.UNJUDGED),
        },
    )
    async def post(self, request: ApiRequest) -> None:
        """Note in the session that its person is here: by a second factor where they have one, else the password.

        A person who has neither sends the `email_code` of `POST /step-up/email`. So may one with a password alone,
        where people sign in by e-mail.
        """
        data = await self.validated(request, StepUpInput)
        await factor_services.step_up(
            principal=request.auth,
            shown=Evidence.in_body(data),
            address=client_context.address_of(request),
        )
