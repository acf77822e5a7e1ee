"""A person's own sessions: the devices they are signed in on."""

from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import NotFound
from tokens.errors import CrossOrigin, InvalidToken, TwoCredentials
from tokens.sessions import services
from tokens.sessions.outputs import SessionOut
from tokens.sessions.transport import cleared_response, no_content


class SessionsView(AsyncAPIView):
    """GET, DELETE /api/v1/access/sessions."""

    while_acting = frozenset({"GET"})
    permission_classes = [IsAuthenticated]

    @extend_schema(
        operation_id="access_sessions_list",
        summary="List the caller's sessions",
        responses={200: list[SessionOut], 400: TwoCredentials, 401: InvalidToken},
    )
    async def get(self, request: ApiRequest) -> list[SessionOut]:
        """Return the caller's live sessions, the 1,000 most recently used first."""
        return await services.list_sessions(principal=request.auth)

    @extend_schema(
        operation_id="access_sessions_end_others",
        summary="Sign out everywhere else",
        request=None,
        responses={
            204: OpenApiResponse(None, "Only the session that asked is left."),
            400: TwoCredentials,
            401: InvalidToken,
            403: CrossOrigin,
        },
    )
    async def delete(self, request: ApiRequest) -> HttpResponse:
        """End every session of the caller but this one, those of applications too."""
        await services.end_other_sessions(principal=request.auth)
        return no_content()


class SessionView(AsyncAPIView):
    """DELETE /api/v1/access/sessions/{id}."""

    permission_classes = [IsAuthenticated]

    @extend_schema(
        operation_id="access_sessions_end",
        summary="End one of the caller's sessions",
        request=None,
        responses={
            204: OpenApiResponse(None, "The session is over."),
            400: TwoCredentials,
            401: InvalidToken,
            403: CrossOrigin,
            404: NotFound,
        },
    )
    async def delete(self, request: ApiRequest, session_id: UUID) -> HttpResponse:
        """End the session; another person's id is 404, like one that does not exist."""
        await services.end_own_session(principal=request.auth, session_id=session_id)
        return cleared_response() if session_id == request.auth.session_id else no_content()
