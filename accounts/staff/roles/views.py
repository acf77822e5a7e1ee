"""One role over HTTP, for staff and machines. The list of them: ``accounts.staff.views``."""

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import RolePermission, StaffView, caller_id
from accounts.access.validation import validated_naming_unknown
from accounts.errors import RoleExists, RoleProtected, StepUpRequired
from accounts.staff.roles import services
from accounts.users import step_up
from accounts.users.inputs import RolePatchInput
from accounts.users.outputs import RoleOut
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.parsers import NoParameters, validated_query
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied, ValidationFailed


class RoleView(StaffView):
    """GET, PATCH and DELETE /api/v1/roles/{role}."""

    permission_classes = (IsAuthenticated, RolePermission)
    rights_in_unit = frozenset({"GET", "PATCH", "DELETE"})
    edited = services.EDITED

    @extend_schema(
        operation_id="roles_read",
        summary="Read a role",
        request=None,
        responses={200: RoleOut, 400: ValidationFailed, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, role: str) -> RoleOut:
        """Return the role with the permissions it grants."""
        validated_query(NoParameters, request.query_params)
        return await services.get_role(actor_id=caller_id(request), role=role)

    @extend_schema(
        operation_id="roles_update",
        summary="Change a role",
        request=RolePatchInput,
        responses={
            200: RoleOut,
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
            409: RoleExists,
        },
    )
    async def patch(self, request: ApiRequest, role: str) -> RoleOut:
        """Change the fields that are sent; who has the role has what it grants from the next request on.

        The caller holds every permission that it grants, before and after. Needs a sign-in, step-up or machine's token
        of the last ten minutes. Scope: `roles:write`.
        """
        known = services.require_permissions
        values = await validated_naming_unknown(self, request, RolePatchInput, "permissions", known)
        step_up.require_recent(signed_in(request))
        return await services.change_role(actor_id=caller_id(request), role=role, values=values)

    @extend_schema(
        operation_id="roles_delete",
        summary="Delete a role",
        request=None,
        responses={
            204: OpenApiResponse(None, "Nobody has it any more."),
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
            409: RoleProtected,
        },
    )
    async def delete(self, request: ApiRequest, role: str) -> None:
        """Delete the role; the caller holds every permission that it grants.

        Needs a sign-in, step-up or machine's token of the last ten minutes. Scope: `roles:write`.
        """
        step_up.require_recent(signed_in(request))
        await services.delete_role(actor_id=caller_id(request), role=role)
