"""The applications that somebody else has let in, for staff and machines."""

from typing import ClassVar
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import StaffPermission, StaffView, caller_id
from accounts.errors import StepUpRequired
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.parsers import NoParameters, validated_query
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied, ValidationFailed
from tokens.oauth.consent import services
from tokens.oauth.consent.services import ConsentOut
from tokens.rights import DELETE_CONSENTS, VIEW_CONSENTS
from tokens.sessions.transport import no_content


class ConsentPermission(StaffPermission):
    """Rights over what people have allowed applications."""

    needed: ClassVar[dict[str, str]] = {"GET": VIEW_CONSENTS, "DELETE": DELETE_CONSENTS}


class UserConsentsView(StaffView):
    """GET /api/v1/users/{id}/consents."""

    permission_classes = (IsAuthenticated, ConsentPermission)
    rights_in_unit = frozenset({"GET"})

    @extend_schema(
        operation_id="users_consents_list",
        summary="List the applications a user has let in",
        request=None,
        responses={200: list[ConsentOut], 400: ValidationFailed, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, user_id: UUID) -> list[ConsentOut]:
        """Return what the user has allowed applications, the newest first."""
        validated_query(NoParameters, request.query_params)
        return await services.list_of_user(actor_id=caller_id(request), user_id=user_id)


class UserConsentView(StaffView):
    """DELETE /api/v1/users/{id}/consents/{client_id}."""

    permission_classes = (IsAuthenticated, ConsentPermission)
    rights_in_unit = frozenset({"DELETE"})

    @extend_schema(
        operation_id="users_consents_revoke",
        summary="Take back what a user has allowed an application",
        request=None,
        responses={
            204: OpenApiResponse(None, "Nothing is allowed any more, and the application's sessions are over."),
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
        },
    )
    async def delete(self, request: ApiRequest, user_id: UUID, client_id: UUID) -> HttpResponse:
        """Take the consent back and end the application's sessions with the user. Scope: `users:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        step_up.require_recent(signed_in(request))
        await services.revoke_by_staff(actor_id=caller_id(request), user_id=user_id, client_id=client_id)
        return no_content()
