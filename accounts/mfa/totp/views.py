"""A person's app for one-time codes over HTTP."""

from drf_spectacular.utils import OpenApiResponse, extend_schema

from accounts.errors import InvalidCredentials, InvalidEmailCode, PasswordChanged, StepUpRequired
from accounts.mfa.errors import InvalidMfaCode, MfaNotEnabled
from accounts.mfa.inputs import CodeInput, PasswordInput
from accounts.mfa.outputs import RecoveryCodes
from accounts.mfa.totp import services
from accounts.mfa.totp.errors import MfaAlreadyEnabled, MfaNotStarted
from accounts.mfa.totp.outputs import TotpSetup
from accounts.users import step_up
from accounts.users.proofs import Evidence
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import Overloaded, Throttled, ValidationFailed


class TotpView(AsyncAPIView):
    """POST and DELETE /api/v1/access/mfa/totp."""

    @extend_schema(
        operation_id="access_mfa_totp_start",
        summary="Set up one-time codes",
        request=None,
        responses={200: TotpSetup, 401: StepUpRequired, 409: MfaAlreadyEnabled},
    )
    async def post(self, request: ApiRequest) -> TotpSetup:
        """Return a new secret for an app. It counts for nothing until a code of it is confirmed."""
        who = signed_in(request)
        step_up.require_recent(who)
        return await services.start_totp(user_id=who.id)

    @extend_schema(
        operation_id="access_mfa_totp_remove",
        summary="Remove one-time codes",
        request=PasswordInput,
        responses={
            204: OpenApiResponse(None, "The app is no factor any more; recovery codes went with the last factor."),
            400: ValidationFailed,
            401: (StepUpRequired, InvalidCredentials, InvalidEmailCode),
            409: (MfaNotEnabled, PasswordChanged),
            429: Throttled,
            503: Overloaded,
        },
    )
    async def delete(self, request: ApiRequest) -> None:
        """Take the app away after the password was given once more; the person gets a message."""
        who = signed_in(request)
        data = await self.validated(request, PasswordInput)
        step_up.require_recent(who)
        await services.remove_totp(user_id=who.id, session_id=who.session_id, shown=Evidence.in_body(data))


class TotpConfirmView(AsyncAPIView):
    """POST /api/v1/access/mfa/totp/confirm."""

    @extend_schema(
        operation_id="access_mfa_totp_confirm",
        summary="Confirm one-time codes with the first one",
        request=CodeInput,
        responses={
            200: RecoveryCodes,
            400: ValidationFailed,
            401: (StepUpRequired, InvalidMfaCode),
            409: (MfaNotStarted, MfaAlreadyEnabled),
            429: Throttled,
            503: Overloaded,
        },
    )
    async def post(self, request: ApiRequest) -> RecoveryCodes:
        """Make the app a factor; the recovery codes in the answer are shown this once, and replace all older ones."""
        who = signed_in(request)
        data = await self.validated(request, CodeInput)
        step_up.require_recent(who)
        return await services.confirm_totp(user_id=who.id, session_id=who.session_id, epoch=who.epoch, **data)
