"""The applications a person has let in."""

from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import NotFound
from tokens.errors import CrossOrigin, InsufficientScope, InvalidToken, TwoCredentials
from tokens.oauth.consent import services as consent_services
from tokens.oauth.consent.services import ConsentOut
from tokens.sessions.transport import no_content


class ConsentsView(AsyncAPIView):
    """GET /api/v1/access/consents."""

    while_acting = frozenset({"GET"})
    permission_classes = [IsAuthenticated]

    @extend_schema(
        operation_id="access_consents_list",
        summary="List the applications the caller has let in",
        responses={200: list[ConsentOut], 400: TwoCredentials, 401: InvalidToken, 403: InsufficientScope},
    )
    async def get(self, request: ApiRequest) -> list[ConsentOut]:
        """Return what the caller has allowed applications, the newest first."""
        return await consent_services.list_consents(principal=request.auth)


class ConsentView(AsyncAPIView):
    """DELETE /api/v1/access/consents/{client_id}."""

    permission_classes = [IsAuthenticated]

    @extend_schema(
        operation_id="access_consents_revoke",
        summary="Take back what the caller has allowed an application",
        request=None,
        responses={
            204: OpenApiResponse(None, "Nothing is allowed any more, and the application's sessions are over."),
            400: TwoCredentials,
            401: InvalidToken,
            403: CrossOrigin,
            404: NotFound,
        },
    )
    async def delete(self, request: ApiRequest, client_id: UUID) -> HttpResponse:
        """Take the consent back and end the application's sessions with the caller."""
        await consent_services.revoke_consent(principal=request.auth, client_id=client_id)
        return no_content()
