"""Types of authorization details over HTTP: input, one service call, output.

Scopes: ``resources:read``, ``resources:write``, as of registered APIs.
"""

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
from tokens.details.administration.inputs import DetailTypeCreateInput, DetailTypePatchInput
from tokens.details.administration.kind import DETAIL_TYPES
from tokens.details.administration.outputs import DetailTypeOut
from tokens.registered import services


class DetailTypePermission(StaffPermission):
    """Rights over types of authorization details."""

    needed = DETAIL_TYPES.rights


class DetailTypesView(StaffView):
    """All types of authorization details."""

    permission_classes = (IsAuthenticated, DetailTypePermission)
    rights_in_unit = frozenset({"GET", "POST"})
    creates = Created(DetailTypeOut, name="id")

    @extend_schema(
        operation_id="detail_types_list",
        summary="List types of authorization details",
        request=None,
        responses={200: list[DetailTypeOut], 400: ValidationFailed, 403: PermissionDenied},
    )
    async def get(self, request: ApiRequest) -> list[DetailTypeOut]:
        """Return the types that applications may be allowed to ask for (RFC 9396). Scope: `resources:read`."""
        validated_query(NoParameters, request.query_params)
        return await services.list_all(DETAIL_TYPES, actor_id=caller_id(request))

    @extend_schema(
        operation_id="detail_types_create",
        summary="Register a type of authorization details",
        request=DetailTypeCreateInput,
        responses={201: DetailTypeOut, 400: ValidationFailed, 401: StepUpRequired, 403: PermissionDenied},
    )
    async def post(self, request: ApiRequest) -> DetailTypeOut:
        """Register a type; the clients that name it may then ask for it. Scope: `resources:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        values = await self.validated(request, DetailTypeCreateInput)
        step_up.require_recent(signed_in(request))
        return await services.create(DETAIL_TYPES, actor_id=caller_id(request), values=values)


class DetailTypeView(StaffView):
    """One type of authorization details."""

    permission_classes = (IsAuthenticated, DetailTypePermission)
    rights_in_unit = frozenset({"GET", "PATCH", "DELETE"})
    edited = services.edited(DETAIL_TYPES)

    @extend_schema(
        operation_id="detail_types_read",
        summary="Read a type of authorization details",
        request=None,
        responses={200: DetailTypeOut, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, type_id: UUID) -> DetailTypeOut:
        """Return the type. Scope: `resources:read`."""
        return await services.read(DETAIL_TYPES, actor_id=caller_id(request), row_id=type_id)

    @extend_schema(
        operation_id="detail_types_update",
        summary="Change a type of authorization details, or switch it off",
        request=DetailTypePatchInput,
        responses={
            200: DetailTypeOut,
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
        },
    )
    async def patch(self, request: ApiRequest, type_id: UUID) -> DetailTypeOut:
        """Change the fields that are sent. Scope: `resources:write`.

        Switched off (`active`), requests for it are refused, and grants give no more of it. Needs a sign-in, step-up or
        machine's token of the last ten minutes.
        """
        values = await self.validated(request, DetailTypePatchInput)
        step_up.require_recent(signed_in(request))
        return await services.change(DETAIL_TYPES, actor_id=caller_id(request), row_id=type_id, values=values)

    @extend_schema(
        operation_id="detail_types_delete",
        summary="Delete a type of authorization details",
        request=None,
        responses={204: None, 401: StepUpRequired, 403: PermissionDenied, 404: NotFound},
    )
    async def delete(self, request: ApiRequest, type_id: UUID) -> None:
        """Delete the type; grants give no more of it. Scope: `resources:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes. Switching it off is the gentler way.
        """
        step_up.require_recent(signed_in(request))
        await services.delete(DETAIL_TYPES, actor_id=caller_id(request), row_id=type_id)
