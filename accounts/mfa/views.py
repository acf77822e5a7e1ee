"""A person's second factors over HTTP, and their reset by staff: input, one service call, output."""

import uuid

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import MfaResetPermission, StaffView
from accounts.errors import DeletionPending, LastWayIn, StepUpRequired
from accounts.mfa import services
from accounts.mfa.outputs import MfaOut
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied


class MfaView(AsyncAPIView):
    """GET /api/v1/access/mfa."""

    while_acting = frozenset({"GET"})

    @extend_schema(operation_id="access_mfa", summary="My second factors", request=None, responses={200: MfaOut})
    async def get(self, request: ApiRequest) -> MfaOut:
        """Return which factors the person has, and how many recovery codes are left."""
        return await services.overview(user_id=signed_in(request).id)


class UserMfaView(StaffView):
    """DELETE /api/v1/users/{id}/mfa."""

    permission_classes = (IsAuthenticated, MfaResetPermission)
    rights_in_unit = frozenset({"DELETE"})

    @extend_schema(
        operation_id="users_mfa_reset",
        summary="Take away a user's second factors",
        request=None,
        responses={
            204: OpenApiResponse(None, "The user has no second factor now; if they had one, every session has ended."),
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
            409: (DeletionPending, LastWayIn),
        },
    )
    async def delete(self, request: ApiRequest, user_id: uuid.UUID) -> None:
        """Take every factor away; the person gets a message and signs in with the password alone.

        A user with no password and no other way in than a passkey gets a link to choose one. Where the address is not
        verified, the answer is 409 `last_way_in` and nothing changes: deactivate the account to keep somebody out.
        """
        who = signed_in(request)
        step_up.require_recent(who)
        await services.reset(actor_id=who.id, user_id=user_id)
