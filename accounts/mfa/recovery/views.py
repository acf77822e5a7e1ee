"""A person's recovery codes over HTTP."""

from drf_spectacular.utils import extend_schema

from accounts.errors import InvalidCredentials, InvalidEmailCode, PasswordChanged, StepUpRequired
from accounts.mfa.errors import MfaNotEnabled
from accounts.mfa.inputs import PasswordInput
from accounts.mfa.outputs import RecoveryCodes
from accounts.mfa.recovery import services
from accounts.users import step_up
from accounts.users.proofs import Evidence
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import Overloaded, Throttled, ValidationFailed


class RecoveryCodesView(AsyncAPIView):
    """POST /api/v1/access/mfa/recovery-codes."""

    @extend_schema(
        operation_id="access_mfa_recovery_codes",
        summary="Make new recovery codes",
        request=PasswordInput,
        responses={
            200: RecoveryCodes,
            400: ValidationFailed,
            401: (StepUpRequired, InvalidCredentials, InvalidEmailCode),
            409: (MfaNotEnabled, PasswordChanged),
            429: Throttled,
            503: Overloaded,
        },
    )
    async def post(self, request: ApiRequest) -> RecoveryCodes:
        """Return ten new codes, shown this once; all older ones are worthless."""
        who = signed_in(request)
        data = await self.validated(request, PasswordInput)
        step_up.require_recent(who)
        return await services.new_recovery_codes(
            user_id=who.id, session_id=who.session_id, shown=Evidence.in_body(data)
        )
