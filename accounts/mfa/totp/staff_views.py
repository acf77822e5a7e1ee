"""Somebody else's app for one-time codes over HTTP, for staff and machines."""

import uuid

from drf_spectacular.utils import OpenApiResponse, extend_schema

from accounts.access.permissions import caller_id
from accounts.access.taking import TakesWayIn
from accounts.errors import DeletionPending, MfaEnrolmentRequired, StepUpRequired
from accounts.mfa.totp import removal
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger


class UserTotpView(TakesWayIn):
    """DELETE /api/v1/users/{id}/mfa/totp."""

    @extend_schema(
        operation_id="users_mfa_totp_remove",
        summary="Take away a user's app for one-time codes",
        request=None,
        responses={
            204: OpenApiResponse(None, "It signs nobody in any more."),
            401: StepUpRequired,
            403: (PermissionDenied, MfaEnrolmentRequired),
            404: NotFound,
            409: DeletionPending,
        },
    )
    async def delete(self, request: ApiRequest, user_id: uuid.UUID) -> None:
        """Take the app away, and nothing else; every session ends, and the user gets a message. Scope: `users:mfa`.

        Needs a sign-in, step-up or machine's token of the last ten minutes; of people, with a second factor.
        """
        await self.require_proof(request)
        await database().write(removal.remove_by_staff, actor_id=caller_id(request), user_id=user_id)
        get_logger().info("totp_removed_by_staff", user_id=str(user_id), by=str(caller_id(request)))
