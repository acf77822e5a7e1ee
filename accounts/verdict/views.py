"""The verdict on an account for staff: input, one service call, output."""

import uuid

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import MembershipPermission, StaffView, caller_id
from accounts.verdict import services
from accounts.verdict.outputs import Verdict
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied


class VerdictView(StaffView):
    """GET /api/v1/users/{id}/verdict."""

    permission_classes = (IsAuthenticated, MembershipPermission)
    rights_in_unit = frozenset({"GET"})

    @extend_schema(
        operation_id="users_verdict",
        summary="Tell whether a user can sign in, and why not",
        request=None,
        responses={200: Verdict, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, user_id: uuid.UUID) -> Verdict:
        """Return the first reason that keeps the user out, as code and sentence, and since and until when."""
        return await services.verdict(actor_id=caller_id(request), user_id=user_id)


class FailuresView(StaffView):
    """DELETE /api/v1/users/{id}/failures."""

    permission_classes = (IsAuthenticated, MembershipPermission)
    rights_in_unit = frozenset({"DELETE"})

    @extend_schema(
        operation_id="users_failures_forgive",
        summary="Forgive a user's failed sign-ins",
        request=None,
        responses={
            204: OpenApiResponse(None, "The next try is let in at once; counts of client addresses stay."),
            403: PermissionDenied,
            404: NotFound,
        },
    )
    async def delete(self, request: ApiRequest, user_id: uuid.UUID) -> None:
        """Reset the counts of wrong passwords and second factors of the account."""
        await services.forgive_failures(actor_id=caller_id(request), user_id=user_id)
