"""Signing keys over HTTP: input, one service call, output. Scopes: ``keys:read``, ``keys:write``."""

from typing import ClassVar

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import StaffPermission, StaffView, caller_id
from accounts.errors import StepUpRequired
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.idempotency import Created
from ironauth.infrastructure.api.parsers import validated_query
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import PermissionDenied, ValidationFailed
from tokens.keys.administration import services
from tokens.keys.administration.errors import RotationRefused
from tokens.keys.administration.inputs import FamilyInput, KeyListInput
from tokens.keys.administration.outputs import KeyOut
from tokens.keys.key_set import Family
from tokens.rights import CHANGE_KEYS, VIEW_KEYS


class KeyPermission(StaffPermission):
    """Rights over signing keys."""

    needed: ClassVar[dict[str, str]] = {"GET": VIEW_KEYS, "POST": CHANGE_KEYS}


class KeysView(StaffView):
    """All signing keys."""

    permission_classes = (IsAuthenticated, KeyPermission)
    rights_in_unit = frozenset({"GET", "POST"})
    creates = Created(list, status=200)

    @extend_schema(
        operation_id="keys_list",
        summary="List signing keys",
        parameters=[KeyListInput],
        request=None,
        responses={200: list[KeyOut], 400: ValidationFailed, 403: PermissionDenied},
    )
    async def get(self, request: ApiRequest) -> list[KeyOut]:
        """Return the keys, the newest first, without their private parts. Scope: `keys:read`."""
        query = validated_query(KeyListInput, request.query_params)
        return await services.list_keys(actor_id=caller_id(request), filters=query)

    @extend_schema(
        operation_id="keys_create",
        summary="Make sure that a family has signing keys",
        request=FamilyInput,
        responses={
            200: OpenApiResponse(list[KeyOut], "The keys of the family: one is active, one is next."),
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
        },
    )
    async def post(self, request: ApiRequest) -> list[KeyOut]:
        """Make the active and the next key of a family that has none; those there are stay. Scope: `keys:write`.

        Doing so twice is no error. Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        values = await self.validated(request, FamilyInput)
        step_up.require_recent(signed_in(request))
        return await services.create_keys(actor_id=caller_id(request), family=Family(values["family"]))


class KeyRotationView(StaffView):
    """The rotation of a family of signing keys."""

    permission_classes = (IsAuthenticated, KeyPermission)
    rights_in_unit = frozenset({"POST"})
    creates = Created(KeyOut, status=200)

    @extend_schema(
        operation_id="keys_rotate",
        summary="Activate the next signing key",
        request=FamilyInput,
        responses={
            200: OpenApiResponse(KeyOut, "The key that signs from now on."),
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
            409: RotationRefused,
        },
    )
    async def post(self, request: ApiRequest) -> KeyOut:
        """Retire the active key, activate the next one, and publish a new next one. Scope: `keys:write`.

        Nobody is signed out. While a client may not know the next key it is refused, and the detail says for how long.
        Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        values = await self.validated(request, FamilyInput)
        step_up.require_recent(signed_in(request))
        return await services.rotate_keys(actor_id=caller_id(request), family=Family(values["family"]))


class KeyDropView(StaffView):
    """Dropping one signing key."""

    permission_classes = (IsAuthenticated, KeyPermission)
    rights_in_unit = frozenset({"POST"})

    @extend_schema(
        operation_id="keys_drop",
        summary="Drop a compromised signing key",
        request=None,
        responses={
            200: OpenApiResponse(KeyOut, "The key that signs from now on."),
            401: StepUpRequired,
            403: PermissionDenied,
            409: RotationRefused,
        },
    )
    async def post(self, request: ApiRequest, kid: str) -> KeyOut:
        """Refuse every token of the key at once and destroy its private part; there is no way back.

        Everyone whose token it signed refreshes or signs in again. Scope: `keys:write`. Needs a sign-in, step-up or
        machine's token of the last ten minutes.
        """
        step_up.require_recent(signed_in(request))
        return await services.drop_key(actor_id=caller_id(request), kid=kid)
