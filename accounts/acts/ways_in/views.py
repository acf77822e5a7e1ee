"""What a person signs in with, over HTTP, for staff and machines."""

import uuid
from typing import Final

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import (
    KeptDevicePermission,
    PasswordPermission,
    StaffView,
    WayInPermission,
    caller_id,
)
from accounts.access.taking import TakesWayIn
from accounts.acts.ways_in import services
from accounts.acts.ways_in.inputs import SetPasswordInput
from accounts.errors import DeletionPending, LastWayIn, MfaEnrolmentRequired, StepUpRequired
from accounts.federation.outputs import IdentityOut
from accounts.mfa import services as mfa_services
from accounts.mfa.kept_devices.services import KeptDeviceOut
from accounts.mfa.outputs import MfaOut
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.parsers import NoParameters, validated_query
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, Overloaded, PermissionDenied, ValidationFailed

_GONE: Final = OpenApiResponse(None, "It signs nobody in any more.")
_TAKES: Final = {401: StepUpRequired, 403: (PermissionDenied, MfaEnrolmentRequired), 404: NotFound}


class UserPasswordView(StaffView):
    """PUT /api/v1/users/{id}/password."""

    permission_classes = (IsAuthenticated, PasswordPermission)
    rights_in_unit = frozenset({"PUT"})

    @extend_schema(
        operation_id="users_password_set",
        summary="Set a user's password",
        request=SetPasswordInput,
        responses={
            204: OpenApiResponse(None, "It is the password, and every session has ended."),
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
            409: DeletionPending,
            503: Overloaded,
        },
    )
    async def put(self, request: ApiRequest, user_id: uuid.UUID) -> None:
        """Set the password of somebody else, who gets a message. Scope: `users:write`.

        Nobody hears the password by mail: have the person choose one with `acts/send-reset` where they read their mail.
        Needs a sign-in, step-up or machine's token of the last ten minutes, and every right that the person has.
        """
        data = await self.validated(request, SetPasswordInput)
        step_up.require_recent(signed_in(request))
        await services.set_password(actor_id=caller_id(request), user_id=user_id, **data)


class UserMfaView(StaffView):
    """GET and DELETE /api/v1/users/{id}/mfa."""

    permission_classes = (IsAuthenticated, WayInPermission)
    rights_in_unit = frozenset({"GET", "DELETE"})

    @extend_schema(
        operation_id="users_mfa",
        summary="Read a user's second factors",
        request=None,
        responses={200: MfaOut, 400: ValidationFailed, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, user_id: uuid.UUID) -> MfaOut:
        """Return which factors the user has, their passkeys, and how many recovery codes are left."""
        validated_query(NoParameters, request.query_params)
        return await services.see(services.FACTORS, actor_id=caller_id(request), user_id=user_id)

    @extend_schema(
        operation_id="users_mfa_reset",
        summary="Take away a user's second factors",
        request=None,
        responses={
            204: OpenApiResponse(None, "The user has no second factor now; if they had one, every session has ended."),
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
            409: (DeletionPending, LastWayIn),
        },
    )
    async def delete(self, request: ApiRequest, user_id: uuid.UUID) -> None:
        """Take every factor away; the person gets a message and signs in with the password alone.

        A user with no password and no other way in than a passkey gets a link to choose one. Where the address is not
        verified, the answer is 409 `last_way_in` and nothing changes: deactivate the account to keep somebody out.
        """
        who = signed_in(request)
        step_up.require_recent(who)
        await mfa_services.reset(actor_id=who.id, user_id=user_id)


class UserPasskeyView(TakesWayIn):
    """DELETE /api/v1/users/{id}/mfa/passkeys/{passkey_id}."""

    @extend_schema(
        operation_id="users_mfa_passkeys_remove",
        summary="Take away one of a user's passkeys",
        request=None,
        responses={204: _GONE, **_TAKES, 409: (DeletionPending, LastWayIn)},
    )
    async def delete(self, request: ApiRequest, user_id: uuid.UUID, passkey_id: uuid.UUID) -> None:
        """Take the passkey away; the sessions in which it was used end, and the user gets a message.

        Of the last way in, the user gets a link to choose a password; `409 last_way_in` where nobody could be mailed.
        Scope: `users:mfa`. Needs a sign-in, step-up or machine's token of the last ten minutes; of people, with a
        second factor.
        """
        await self.require_proof(request)
        await services.take(services.PASSKEY, actor_id=caller_id(request), user_id=user_id, passkey_id=passkey_id)


class UserIdentitiesView(TakesWayIn):
    """GET /api/v1/users/{id}/identities."""

    http_method_names = ("get", "head", "options")

    @extend_schema(
        operation_id="users_identities_list",
        summary="List a user's identities at other providers",
        request=None,
        responses={200: list[IdentityOut], 400: ValidationFailed, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, user_id: uuid.UUID) -> list[IdentityOut]:
        """Return them, the oldest first."""
        validated_query(NoParameters, request.query_params)
        return await services.see(services.IDENTITIES, actor_id=caller_id(request), user_id=user_id)


class UserIdentityView(TakesWayIn):
    """DELETE /api/v1/users/{id}/identities/{identity_id}."""

    @extend_schema(
        operation_id="users_identities_remove",
        summary="Take away one of a user's identities",
        request=None,
        responses={204: _GONE, **_TAKES, 409: (DeletionPending, LastWayIn)},
    )
    async def delete(self, request: ApiRequest, user_id: uuid.UUID, identity_id: uuid.UUID) -> None:
        """Take the identity away; the sessions that began with it end, and the user gets a message.

        As for passkeys: the last way in, the scope, and the proof that is needed.
        """
        await self.require_proof(request)
        await services.take(services.IDENTITY, actor_id=caller_id(request), user_id=user_id, identity_id=identity_id)


class UserKeptDevicesView(StaffView):
    """GET /api/v1/users/{id}/kept-devices."""

    permission_classes = (IsAuthenticated, KeptDevicePermission)
    rights_in_unit = frozenset({"GET"})

    @extend_schema(
        operation_id="users_kept_devices_list",
        summary="List the devices on which a user's second factor is not asked for",
        request=None,
        responses={200: list[KeptDeviceOut], 400: ValidationFailed, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, user_id: uuid.UUID) -> list[KeptDeviceOut]:
        """Return the live ones, the newest first."""
        validated_query(NoParameters, request.query_params)
        return await services.see(services.DEVICES, actor_id=caller_id(request), user_id=user_id)


class UserKeptDeviceView(StaffView):
    """DELETE /api/v1/users/{id}/kept-devices/{device_id}."""

    permission_classes = (IsAuthenticated, KeptDevicePermission)
    rights_in_unit = frozenset({"DELETE"})

    @extend_schema(
        operation_id="users_kept_devices_end",
        summary="Keep one of a user's devices no longer",
        request=None,
        responses={
            204: OpenApiResponse(None, "The next sign-in on it asks for the second factor."),
            403: PermissionDenied,
            404: NotFound,
        },
    )
    async def delete(self, request: ApiRequest, user_id: uuid.UUID, device_id: uuid.UUID) -> None:
        """End the device. Scope: `users:write`."""
        await services.take(services.DEVICE, actor_id=caller_id(request), user_id=user_id, device_id=device_id)
