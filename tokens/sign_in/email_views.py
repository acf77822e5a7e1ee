"""Signing in with a code that is mailed, and proving again who one is by one, over HTTP."""

from typing import Any, ClassVar

import msgspec
from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.response import Response

from accounts.email import code_method
from accounts.errors import EmailCodeNotOffered, EmailNotVerified, InvalidEmailCode, PasswordChangeRequired
from accounts.users.inputs import EmailInput
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import NotFound, Throttled, ValidationFailed
from ironauth.infrastructure.http import client_context
from tokens.errors import CrossOrigin, InvalidToken, MfaRequired, SigningKeyMissing
from tokens.sessions.outputs import TokenPair
from tokens.sessions.transport import context_of_sign_in, token_response
from tokens.sign_in import email_services
from tokens.sign_in.inputs import EmailCodeInput
from tokens.sign_in.views import NO_CONTENT


class AskedCode(msgspec.Struct, frozen=True):
    """What to send back with the code. It opens nothing by itself, and says nothing about whether there is an account.

    ``minutes``: how long the code works once its message was sent.
    """

    code_token: str
    minutes: int


class EmailCodeView(AsyncAPIView):
    """POST /api/v1/access/signin/email."""

    authentication_classes: ClassVar[list[Any]] = []
    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="access_signin_email",
        summary="Ask for a code by e-mail to sign in with",
        request=EmailInput,
        responses={200: AskedCode, 404: NotFound, 429: Throttled},
    )
    async def post(self, request: ApiRequest) -> AskedCode:
        """Have a code sent to the person who has this address. The answer is the same where nobody has it.

        `404` without `IRONAUTH_SIGN_IN_BY_EMAIL`.
        """
        if not settings.IRONAUTH_SIGN_IN_BY_EMAIL:
            raise NotFound
        data = await self.validated(request, EmailInput)
        token, minutes = await email_services.ask(email=data["email"], address=client_context.address_of(request))
        return AskedCode(token, minutes)


class StepUpEmailView(AsyncAPIView):
    """POST /api/v1/access/step-up/email."""

    @extend_schema(
        operation_id="access_step_up_email",
        summary="Ask for a code by e-mail to prove once more who I am",
        request=None,
        responses={
            202: OpenApiResponse(
                None, "A message is on its way; its code is good in this session, once, for ten minutes"
            ),
            401: InvalidToken,
            403: CrossOrigin,
            409: EmailCodeNotOffered,
            429: Throttled,
        },
    )
    async def post(self, request: ApiRequest) -> Response:
        """Have a code sent; for people without a password it is `email_code` wherever a password is asked for.

        People with a password and no second factor may send it to `POST /step-up`, where people sign in by e-mail.
        """
        principal = request.auth
        address = client_context.address_of(request)
        await code_method.request_code(user_id=principal.id, session_id=principal.session_id, address=address)
        return Response(status=202)


class EmailSignInView(AsyncAPIView):
    """POST /api/v1/access/signin/email/confirm."""

    authentication_classes: ClassVar[list[Any]] = []
    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="access_signin_email_confirm",
        summary="Sign in with the code that was mailed",
        request=EmailCodeInput,
        responses={
            200: TokenPair,
            204: NO_CONTENT,
            400: ValidationFailed,
            401: (InvalidEmailCode, MfaRequired),
            403: (CrossOrigin, EmailNotVerified, PasswordChangeRequired),
            404: NotFound,
            429: Throttled,
            503: SigningKeyMissing,
        },
    )
    async def post(self, request: ApiRequest) -> TokenPair | HttpResponse:
        """Open a session; answered as a sign-in with a password is, also where a second factor is asked for.

        The code works once, with the `code_token` it was asked for under, for five tries. Where nobody had proved the
        address before, the account starts clean: its password and second factors are gone, its sessions end.
        """
        if not settings.IRONAUTH_SIGN_IN_BY_EMAIL:
            raise NotFound
        data = await self.validated(request, EmailCodeInput)
        context = context_of_sign_in(request._request, data["transport"])  # noqa: SLF001 - Django's request
        pair = await email_services.sign_in(
            email=data["email"], code=data["code"], token=data["code_token"], context=context
        )
        return token_response(pair, context, data["transport"])
