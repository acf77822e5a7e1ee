"""Tokens with which clients register themselves, for staff and machines."""

from typing import ClassVar
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import StaffPermission, StaffView, caller_id
from accounts.errors import StepUpRequired
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.idempotency import Created
from ironauth.infrastructure.api.parsers import NoParameters, validated_query
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied, ValidationFailed
from tokens.clients.dynamic import staff_services
from tokens.clients.dynamic.inputs import RegistrationTokenInput
from tokens.clients.dynamic.outputs import RegistrationTokenOut, RegistrationTokenShown
from tokens.rights import ADD_CLIENTS, CHANGE_CLIENTS, VIEW_CLIENTS


class TokenPermission(StaffPermission):
    """Rights over clients are rights over what lets them register."""

    needed: ClassVar[dict[str, str]] = {"GET": VIEW_CLIENTS, "POST": ADD_CLIENTS, "DELETE": CHANGE_CLIENTS}


class TokensView(StaffView):
    """All tokens."""

    permission_classes = (IsAuthenticated, TokenPermission)
    rights_in_unit = frozenset({"GET", "POST"})
    creates = Created(RegistrationTokenShown, name="id", once="token")

    @extend_schema(
        operation_id="registration_tokens_list",
        summary="List tokens with which clients register themselves",
        request=None,
        responses={200: list[RegistrationTokenOut], 400: ValidationFailed, 403: PermissionDenied},
    )
    async def get(self, request: ApiRequest) -> list[RegistrationTokenOut]:
        """Return the newest hundred, without the tokens themselves. Scope: `clients:read`."""
        validated_query(NoParameters, request.query_params)
        return await staff_services.list_tokens(actor_id=caller_id(request))

    @extend_schema(
        operation_id="registration_tokens_create",
        summary="Make a token with which clients register themselves",
        request=RegistrationTokenInput,
        responses={201: RegistrationTokenShown, 400: ValidationFailed, 401: StepUpRequired, 403: PermissionDenied},
    )
    async def post(self, request: ApiRequest) -> RegistrationTokenShown:
        """Make an initial access token (RFC 7591 §3); it is shown this once. Scope: `clients:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        values = await self.validated(request, RegistrationTokenInput)
        step_up.require_recent(signed_in(request))
        return await staff_services.make_token(actor_id=caller_id(request), values=values)


class TokenView(StaffView):
    """One token."""

    permission_classes = (IsAuthenticated, TokenPermission)
    rights_in_unit = frozenset({"DELETE"})

    @extend_schema(
        operation_id="registration_tokens_end",
        summary="End a token with which clients register themselves",
        request=None,
        responses={
            204: OpenApiResponse(None, "Nobody registers with it any more; clients that did so stay."),
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
        },
    )
    async def delete(self, request: ApiRequest, token_id: UUID) -> HttpResponse:
        """Let nobody register with it any more. Scope: `clients:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        step_up.require_recent(signed_in(request))
        await staff_services.end_token(actor_id=caller_id(request), token_id=token_id)
        return HttpResponse(status=204)
