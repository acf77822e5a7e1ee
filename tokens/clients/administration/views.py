"""Clients over HTTP: input, one service call, output. Scopes: ``clients:read``, ``clients:write``."""

from typing import ClassVar
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import StaffPermission, StaffView, caller_id
from accounts.errors import StepUpRequired
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.idempotency import Created
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied, ValidationFailed
from tokens.clients.administration import services
from tokens.clients.administration.errors import NoSecret, SecretReplaced
from tokens.clients.administration.inputs import ClientCreateInput, ClientListInput, ClientPatchInput, RotateInput
from tokens.clients.administration.outputs import ClientOut, ClientPage, ClientSecretShown
from tokens.clients.errors import SessionsEnding
from tokens.rights import ADD_CLIENTS, CHANGE_CLIENTS, DELETE_CLIENTS, VIEW_CLIENTS


class ClientPermission(StaffPermission):
    """Rights over clients."""

    needed: ClassVar[dict[str, str]] = {
        "GET": VIEW_CLIENTS, "POST": ADD_CLIENTS, "PATCH": CHANGE_CLIENTS, "DELETE": DELETE_CLIENTS,
    }  # fmt: skip


class ClientActPermission(StaffPermission):
    """The right to change clients, for acts on one."""

    needed: ClassVar[dict[str, str]] = {"POST": CHANGE_CLIENTS}


class ClientsView(StaffView):
    """All clients."""

    permission_classes = (IsAuthenticated, ClientPermission)
    rights_in_unit = frozenset({"GET", "POST"})
    creates = Created(ClientSecretShown, name="client_id", once="client_secret")

    @extend_schema(
        operation_id="clients_list",
        summary="List clients",
        parameters=[ClientListInput],
        request=None,
        responses={200: ClientPage, 400: ValidationFailed, 403: PermissionDenied},
    )
    async def get(self, request: ApiRequest) -> ClientPage:
        """Return one page of clients, the newest first, without their secrets. Scope: `clients:read`."""
        return await self.page_of(request, ClientListInput, ClientPage, services.list_clients)

    @extend_schema(
        operation_id="clients_create",
        summary="Create a client",
        request=ClientCreateInput,
        responses={201: ClientSecretShown, 400: ValidationFailed, 401: StepUpRequired, 403: PermissionDenied},
    )
    async def post(self, request: ApiRequest) -> ClientSecretShown:
        """Create a client; with a `preset`, a name and an address are enough. Scope: `clients:write`.

        `client_secret` is shown this once. Needs a sign-in, step-up or machine's token of the last ten minutes. Only a
        superuser makes a client that is `trusted`, `administers`, or has the scope `account`.
        """
        values = await self.validated(request, ClientCreateInput)
        step_up.require_recent(signed_in(request))
        return await services.create_client(actor_id=caller_id(request), values=values)


class ClientView(StaffView):
    """One client."""

    permission_classes = (IsAuthenticated, ClientPermission)
    rights_in_unit = frozenset({"GET", "PATCH", "DELETE"})
    edited = services.EDITED

    @extend_schema(
        operation_id="clients_read",
        summary="Read a client",
        request=None,
        responses={200: ClientOut, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, client_id: UUID) -> ClientOut:
        """Return the client without its secrets. Scope: `clients:read`."""
        return await services.get_client(actor_id=caller_id(request), client_id=client_id)

    @extend_schema(
        operation_id="clients_update",
        summary="Change a client",
        request=ClientPatchInput,
        responses={
            200: ClientSecretShown,
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
        },
    )
    async def patch(self, request: ApiRequest, client_id: UUID) -> ClientSecretShown:
        """Change the fields that are sent. Scope: `clients:write`.

        A client that changes to `secret` gets its first one, which is shown this once; one that changes to another way
        loses its secrets. Needs a sign-in, step-up or machine's token of the last ten minutes. A client that is
        `trusted`, `administers`, or has the scope `account` is a superuser's alone to change.
        """
        values = await self.validated(request, ClientPatchInput)
        step_up.require_recent(signed_in(request))
        return await services.change_client(actor_id=caller_id(request), client_id=client_id, values=values)

    @extend_schema(
        operation_id="clients_delete",
        summary="Delete a client",
        request=None,
        responses={204: None, 401: StepUpRequired, 403: PermissionDenied, 404: NotFound},
    )
    async def delete(self, request: ApiRequest, client_id: UUID) -> None:
        """Delete the client with its consents; its sessions end. Scope: `clients:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes. Disabling is the gentler way.
        """
        step_up.require_recent(signed_in(request))
        await services.delete_client(actor_id=caller_id(request), client_id=client_id)


class ClientSecretView(StaffView):
    """The secret of one client."""

    permission_classes = (IsAuthenticated, ClientActPermission)
    rights_in_unit = frozenset({"POST"})
    creates = Created(ClientSecretShown, once="client_secret", status=200)

    @extend_schema(
        operation_id="clients_secret_rotate",
        summary="Give a client another secret",
        request=RotateInput,
        responses={
            200: ClientSecretShown,
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
            409: (NoSecret, SecretReplaced),
        },
    )
    async def post(self, request: ApiRequest, client_id: UUID) -> ClientSecretShown:
        """Make another secret and show it, this once; the newest before works on for a while. Scope: `clients:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        values = await self.validated(request, RotateInput)
        step_up.require_recent(signed_in(request))
        return await services.rotate_secret(actor_id=caller_id(request), client_id=client_id, values=values)


class ClientDisableView(StaffView):
    """Refusing one client."""

    permission_classes = (IsAuthenticated, ClientActPermission)
    rights_in_unit = frozenset({"POST"})

    @extend_schema(
        operation_id="clients_disable",
        summary="Disable a client",
        request=None,
        responses={
            200: OpenApiResponse(ClientOut, "It is refused, and its sessions are over."),
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
        },
    )
    async def post(self, request: ApiRequest, client_id: UUID) -> ClientOut:
        """Refuse the client and its tokens from now on, and end its sessions. Scope: `clients:write`.

        Doing so twice is no error. Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        step_up.require_recent(signed_in(request))
        return await services.disable_client(actor_id=caller_id(request), client_id=client_id)


class ClientEnableView(StaffView):
    """Letting one client in again."""

    permission_classes = (IsAuthenticated, ClientActPermission)
    rights_in_unit = frozenset({"POST"})

    @extend_schema(
        operation_id="clients_enable",
        summary="Enable a client",
        request=None,
        responses={200: ClientOut, 401: StepUpRequired, 403: PermissionDenied, 404: NotFound, 409: SessionsEnding},
    )
    async def post(self, request: ApiRequest, client_id: UUID) -> ClientOut:
        """Let the client sign people in again; what was ended stays so. Scope: `clients:write`.

        While its sessions are still being ended, which takes minutes for a million of them, it is refused (409). Doing
        so twice is no error. Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        step_up.require_recent(signed_in(request))
        return await services.enable_client(actor_id=caller_id(request), client_id=client_id)


class ClientVerifyView(StaffView):
    """Verifying one client that registered itself, or that its own document describes."""

    permission_classes = (IsAuthenticated, ClientActPermission)
    rights_in_unit = frozenset({"POST"})
    acts_on = services.EDITED

    @extend_schema(
        operation_id="clients_verify",
        summary="Verify a client that registered itself",
        request=None,
        responses={200: ClientOut, 401: StepUpRequired, 403: PermissionDenied, 404: NotFound},
    )
    async def post(self, request: ApiRequest, client_id: UUID) -> ClientOut:
        """Have people asked about it as about any other, and keep it though it is unused. Scope: `clients:write`.

        Send the `ETag` of the `GET` that you have looked at as `If-Match`: where the client has changed since, the
        answer is 412, and it is not verified. Without it you vouch for what is there now.

        Doing so twice, or for a client of staff, is no error. Needs a sign-in, step-up or machine's token of the last
        ten minutes.
        """
        step_up.require_recent(signed_in(request))
        return await services.verify_client(actor_id=caller_id(request), client_id=client_id)
