"""Signing in with a passkey, and what browsers need for it, over HTTP: input, one service call, output."""

from typing import Any, ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny, IsAuthenticated

from accounts.errors import EmailNotVerified, PasswordChangeRequired
from accounts.mfa.outputs import PasskeyOptions
from accounts.mfa.passkeys.errors import InvalidPasskey
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import Throttled, ValidationFailed
from ironauth.infrastructure.http import client_context
from tokens.errors import CrossOrigin, InvalidMfaToken, InvalidToken, SigningKeyMissing
from tokens.sessions.outputs import TokenPair
from tokens.sessions.transport import context_of_sign_in, token_response
from tokens.sign_in import passkey_services
from tokens.sign_in.inputs import MfaTokenInput, PasskeySignInInput
from tokens.sign_in.views import NO_CONTENT


class SignInOptionsView(AsyncAPIView):
    """POST /api/v1/access/signin/passkey/options."""

    authentication_classes: ClassVar[list[Any]] = []
    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="access_signin_passkey_options",
        summary="Ask for what signs in with a passkey",
        request=None,
        responses={200: PasskeyOptions, 429: Throttled},
    )
    async def post(self, request: ApiRequest) -> PasskeyOptions:
        """Return the options of `navigator.credentials.get()`: the same for everybody, good for 5 minutes."""
        return await passkey_services.sign_in_options(address=client_context.address_of(request))


class PasskeySignInView(AsyncAPIView):
    """POST /api/v1/access/signin/passkey."""

    authentication_classes: ClassVar[list[Any]] = []
    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="access_signin_passkey",
        summary="Sign in with a passkey instead of a password",
        request=PasskeySignInInput,
        responses={
            200: TokenPair,
            204: NO_CONTENT,
            400: ValidationFailed,
            401: InvalidPasskey,
            403: (CrossOrigin, EmailNotVerified, PasswordChangeRequired),
            429: Throttled,
            503: SigningKeyMissing,
        },
    )
    async def post(self, request: ApiRequest) -> TokenPair | HttpResponse:
        """Open a session for the person who holds the passkey and was verified by its authenticator."""
        data = await self.validated(request, PasskeySignInInput)
        context = context_of_sign_in(request._request, data["transport"])  # noqa: SLF001 - Django's request
        pair = await passkey_services.sign_in(
            challenge_token=data["challenge_token"], credential=data["credential"], context=context
        )
        return token_response(pair, context, data["transport"])


class SecondFactorOptionsView(AsyncAPIView):
    """POST /api/v1/access/signin/mfa/options."""

    authentication_classes: ClassVar[list[Any]] = []
    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="access_signin_mfa_options",
        summary="Ask for what finishes a sign-in with a passkey",
        request=MfaTokenInput,
        responses={200: PasskeyOptions, 400: ValidationFailed, 401: InvalidMfaToken},
    )
    async def post(self, request: ApiRequest) -> PasskeyOptions:
        """Return the options of `navigator.credentials.get()`, naming the person's passkeys."""
        data = await self.validated(request, MfaTokenInput)
        return await passkey_services.second_factor_options(token=data["mfa_token"])


class StepUpOptionsView(AsyncAPIView):
    """POST /api/v1/access/step-up/options."""

    permission_classes = [IsAuthenticated]

    @extend_schema(
        operation_id="access_step_up_options",
        summary="Ask for what confirms my session with a passkey",
        request=None,
        responses={200: PasskeyOptions, 401: InvalidToken, 403: CrossOrigin},
    )
    async def post(self, request: ApiRequest) -> PasskeyOptions:
        """Return the options of `navigator.credentials.get()`, naming the caller's passkeys."""
        return await passkey_services.step_up_options(principal=request.auth)
