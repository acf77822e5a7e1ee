"""What people do by e-mail, over HTTP: input, one service call, output. Requests by address are always 202, empty."""

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.response import Response

from accounts.email import services as email_services
from accounts.email.units import BySession
from accounts.errors import (
    EmailTaken,
    InvalidCredentials,
    InvalidEmailCode,
    InvalidEmailToken,
    PasswordChanged,
    StepUpRequired,
)
from accounts.mfa.errors import InvalidMfaCode
from accounts.users import step_up
from accounts.users.inputs import ChangeEmailInput, EmailInput, EmailTokenInput, ResetPasswordInput, VerifyEmailInput
from accounts.users.proofs import Evidence
from accounts.users.signed_in import SignedIn, signed_in
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import Overloaded, Throttled, ValidationFailed
from ironauth.infrastructure.http import client_context

ACCEPTED = OpenApiResponse(None, "Always, whether the address is known or not: who owns it gets a message.")


class OpenView(AsyncAPIView):
    """Open to everyone; a credential sent along is ignored."""

    authentication_classes = ()
    permission_classes = ()


class ResetRequestView(OpenView):
    """POST /api/v1/access/password/reset."""

    @extend_schema(
        operation_id="access_password_reset",
        summary="Ask for a message that lets me choose a new password",
        request=EmailInput,
        responses={202: ACCEPTED, 400: ValidationFailed, 429: Throttled},
    )
    async def post(self, request: ApiRequest) -> Response:
        """Queue a message to the address, if an active account has it; it replaces the token of an older one."""
        data = await self.validated(request, EmailInput)
        await email_services.request_password_reset(email=data["email"], address=client_context.address_of(request))
        return Response(status=202)


class ResetConfirmView(OpenView):
    """POST /api/v1/access/password/reset/confirm."""

    @extend_schema(
        operation_id="access_password_reset_confirm",
        summary="Choose a new password with the token of a message",
        request=ResetPasswordInput,
        responses={204: None, 400: (ValidationFailed, InvalidEmailToken), 429: Throttled, 503: Overloaded},
    )
    async def post(self, request: ApiRequest) -> None:
        """Set the password and end every session; a password the policy refuses leaves the token as it is."""
        data = await self.validated(request, ResetPasswordInput)
        await email_services.reset_password(**data, address=client_context.address_of(request))


class VerifyEmailView(AsyncAPIView):
    """POST /api/v1/access/email/verify; a credential need not be sent, and one that is not good is refused."""

    permission_classes = ()

    @extend_schema(
        operation_id="access_email_verify",
        summary="Confirm an address with the token of a message",
        auth=[{}, {"bearer": []}, {"cookie": []}],  # type: ignore[list-item]  # published as it is; the annotation knows names only
        request=VerifyEmailInput,
        responses={
            204: None,
            400: (ValidationFailed, InvalidEmailToken),
            401: InvalidMfaCode,
            409: (EmailTaken, PasswordChanged),
            429: Throttled,
            503: Overloaded,
        },
    )
    async def post(self, request: ApiRequest) -> None:
        """Mark the address as verified; with the token of a change, it becomes the account's address.

        While nobody has proved the account's address, somebody else may have made the account. It stays as it is with
        its ``password`` (and ``code``, where it has a second factor), or in a live session of it. Otherwise it starts
        clean: sessions, second factors and consents of before end, and so does its password. With ``new_password``
        that is the password from now on; without it a message leads to where one is chosen. An account with a proved
        address moves to another one with its ``password``, or in a live session of it, and in no other way.
        """
        data = await self.validated(request, VerifyEmailInput)
        who: SignedIn | None = request.auth
        session = BySession(who.id, who.epoch) if who is not None else None
        await email_services.confirm_address(**data, session=session, address=client_context.address_of(request))


class RestoreView(OpenView):
    """POST /api/v1/access/me/restore."""

    @extend_schema(
        operation_id="access_me_restore",
        summary="Take the deletion of my account back with the token of a message",
        request=EmailTokenInput,
        responses={204: None, 400: (ValidationFailed, InvalidEmailToken), 409: EmailTaken, 429: Throttled},
    )
    async def post(self, request: ApiRequest) -> None:
        """Let the account in again, unless its address is taken by now; its password is the one of before."""
        data = await self.validated(request, EmailTokenInput)
        await email_services.restore_account(token=data["token"], address=client_context.address_of(request))


class ResendView(OpenView):
    """POST /api/v1/access/email/verify/resend."""

    @extend_schema(
        operation_id="access_email_verify_resend",
        summary="Ask for another message that verifies my address",
        request=EmailInput,
        responses={202: ACCEPTED, 400: ValidationFailed, 429: Throttled},
    )
    async def post(self, request: ApiRequest) -> Response:
        """Queue a message to the address, if an active account has it and has not verified it."""
        data = await self.validated(request, EmailInput)
        await email_services.resend_verification(email=data["email"], address=client_context.address_of(request))
        return Response(status=202)


class ChangeEmailView(AsyncAPIView):
    """POST /api/v1/access/email."""

    @extend_schema(
        operation_id="access_email_change",
        summary="Ask to use another address",
        request=ChangeEmailInput,
        responses={
            202: OpenApiResponse(None, "Always with a right password: the change happens when the message is opened."),
            400: ValidationFailed,
            401: (InvalidCredentials, InvalidEmailCode, StepUpRequired),
            409: PasswordChanged,
            429: Throttled,
            503: Overloaded,
        },
    )
    async def post(self, request: ApiRequest) -> Response:
        """Queue a message to the new address, which confirms it, and one to the present address, which tells of it."""
        data = await self.validated(request, ChangeEmailInput)
        who = signed_in(request)
        step_up.require_recent(who)
        await email_services.request_email_change(
            user_id=who.id,
            new_email=data["new_email"],
            shown=Evidence.in_body(data),
            address=client_context.address_of(request),
            session_id=who.session_id,
        )
        return Response(status=202)
