"""Users' sessions, for staff."""

from typing import ClassVar
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import MembershipPermission, StaffPermission, StaffView
from ironauth.infrastructure.api.parsers import NoParameters, validated_query
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied, ValidationFailed
from tokens.errors import InvalidToken, TwoCredentials
from tokens.rights import DELETE_SESSIONS
from tokens.sessions.outputs import SessionOut
from tokens.sessions.transport import no_content
from tokens.staff import services as staff_services


class UserSessionsView(StaffView):
    """GET and DELETE /api/v1/users/{id}/sessions."""

    permission_classes = [IsAuthenticated, MembershipPermission]
    rights_in_unit = frozenset({"GET", "DELETE"})

    @extend_schema(
        operation_id="users_sessions_list",
        summary="List a user's sessions",
        responses={
            200: list[SessionOut],
            400: (TwoCredentials, ValidationFailed),
            401: InvalidToken,
            403: PermissionDenied,
            404: NotFound,
        },
    )
    async def get(self, request: ApiRequest, user_id: UUID) -> list[SessionOut]:
        """Return the user's live sessions, the 1,000 most recently used first."""
        validated_query(NoParameters, request.query_params)
        return await staff_services.list_sessions(caller=request.auth, user_id=user_id)

    @extend_schema(
        operation_id="users_sessions_end",
        summary="End every session of a user",
        request=None,
        responses={
            204: OpenApiResponse(None, "Every session of the user is over."),
            400: TwoCredentials,
            401: InvalidToken,
            403: PermissionDenied,
            404: NotFound,
        },
    )
    async def delete(self, request: ApiRequest, user_id: UUID) -> HttpResponse:
        """End every session of the user at once."""
        await staff_services.end_sessions(caller=request.auth, user_id=user_id)
        return no_content()


class EndSessionPermission(StaffPermission):
    """The right to end single sessions of others."""

    needed: ClassVar[dict[str, str]] = {"DELETE": DELETE_SESSIONS}


class UserSessionView(StaffView):
    """DELETE /api/v1/users/{id}/sessions/{session_id}."""

    permission_classes = (IsAuthenticated, EndSessionPermission)
    rights_in_unit = frozenset({"DELETE"})

    @extend_schema(
        operation_id="users_session_end",
        summary="End one session of a user",
        request=None,
        responses={
            204: OpenApiResponse(None, "The session is over."),
            400: TwoCredentials,
            401: InvalidToken,
            403: PermissionDenied,
            404: NotFound,
        },
    )
    async def delete(self, request: ApiRequest, user_id: UUID, session_id: UUID) -> HttpResponse:
        """End the session, and what began in it; the device is asked for the second factor again."""
        await staff_services.end_session(caller=request.auth, user_id=user_id, session_id=session_id)
        return no_content()
