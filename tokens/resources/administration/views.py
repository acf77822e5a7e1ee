"""Registered APIs over HTTP: input, one service call, output. Scopes: ``resources:read``, ``resources:write``."""

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import StaffPermission, StaffView, caller_id
from accounts.errors import StepUpRequired
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.idempotency import Created
from ironauth.infrastructure.api.parsers import NoParameters, validated_query
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied, ValidationFailed
from tokens.registered import services
from tokens.resources.administration.inputs import ResourceCreateInput, ResourcePatchInput
from tokens.resources.administration.kind import RESOURCES
from tokens.resources.administration.outputs import ResourceOut


class ResourcePermission(StaffPermission):
    """Rights over registered APIs."""

    needed = RESOURCES.rights


class ResourcesView(StaffView):
    """All registered APIs."""

    permission_classes = (IsAuthenticated, ResourcePermission)
    rights_in_unit = frozenset({"GET", "POST"})
    creates = Created(ResourceOut, name="id")

    @extend_schema(
        operation_id="resources_list",
        summary="List registered APIs",
        request=None,
        responses={200: list[ResourceOut], 400: ValidationFailed, 403: PermissionDenied},
    )
    async def get(self, request: ApiRequest) -> list[ResourceOut]:
        """Return the APIs that access tokens can be made for (RFC 8707), by name. Scope: `resources:read`."""
        validated_query(NoParameters, request.query_params)
        return await services.list_all(RESOURCES, actor_id=caller_id(request))

    @extend_schema(
        operation_id="resources_create",
        summary="Register an API",
        request=ResourceCreateInput,
        responses={201: ResourceOut, 400: ValidationFailed, 401: StepUpRequired, 403: PermissionDenied},
    )
    async def post(self, request: ApiRequest) -> ResourceOut:
        """Register an API; applications then ask for its tokens by `resource`. Scope: `resources:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        values = await self.validated(request, ResourceCreateInput)
        step_up.require_recent(signed_in(request))
        return await services.create(RESOURCES, actor_id=caller_id(request), values=values)


class ResourceView(StaffView):
    """One registered API."""

    permission_classes = (IsAuthenticated, ResourcePermission)
    rights_in_unit = frozenset({"GET", "PATCH", "DELETE"})
    edited = services.edited(RESOURCES)

    @extend_schema(
        operation_id="resources_read",
        summary="Read a registered API",
        request=None,
        responses={200: ResourceOut, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, resource_id: UUID) -> ResourceOut:
        """Return the API. Scope: `resources:read`."""
        return await services.read(RESOURCES, actor_id=caller_id(request), row_id=resource_id)

    @extend_schema(
        operation_id="resources_update",
        summary="Change a registered API, or switch it off",
        request=ResourcePatchInput,
        responses={
            200: ResourceOut,
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
        },
    )
    async def patch(self, request: ApiRequest, resource_id: UUID) -> ResourceOut:
        """Change the fields that are sent. Scope: `resources:write`.

        Switched off (`active`), nobody gets tokens for it, and introspection calls those there are inactive. Needs a
        sign-in, step-up or machine's token of the last ten minutes.
        """
        values = await self.validated(request, ResourcePatchInput)
        step_up.require_recent(signed_in(request))
        return await services.change(RESOURCES, actor_id=caller_id(request), row_id=resource_id, values=values)

    @extend_schema(
        operation_id="resources_delete",
        summary="Delete a registered API",
        request=None,
        responses={204: None, 401: StepUpRequired, 403: PermissionDenied, 404: NotFound},
    )
    async def delete(self, request: ApiRequest, resource_id: UUID) -> None:
        """Delete the API; grants for it give no more tokens. Scope: `resources:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes. Switching it off is the gentler way.
        """
        step_up.require_recent(signed_in(request))
        await services.delete(RESOURCES, actor_id=caller_id(request), row_id=resource_id)
