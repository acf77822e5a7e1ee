"""A person's passkeys over HTTP: input, one service call, output."""

import uuid

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.response import Response

from accounts.errors import LastWayIn, StepUpRequired
from accounts.mfa.outputs import AddedPasskey, PasskeyOptions, PasskeyOut
from accounts.mfa.passkeys import services as passkeys
from accounts.mfa.passkeys.errors import PasskeyNotMade, PasskeyTaken, TooManyPasskeys
from accounts.mfa.passkeys.inputs import NewPasskeyInput, RenamePasskeyInput
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import NotFound, Overloaded, Throttled, ValidationFailed


class PasskeyOptionsView(AsyncAPIView):
    """POST /api/v1/access/mfa/passkeys/options."""

    @extend_schema(
        operation_id="access_mfa_passkeys_options",
        summary="Ask for what makes a passkey",
        request=None,
        responses={200: PasskeyOptions, 401: StepUpRequired, 409: TooManyPasskeys},
    )
    async def post(self, request: ApiRequest) -> PasskeyOptions:
        """Return the options of `navigator.credentials.create()`; good for 5 minutes, and nothing is stored."""
        who = signed_in(request)
        step_up.require_recent(who)
        return await passkeys.registration_options(user_id=who.id)


class PasskeysView(AsyncAPIView):
    """POST /api/v1/access/mfa/passkeys."""

    @extend_schema(
        operation_id="access_mfa_passkeys_add",
        summary="Add a passkey",
        request=NewPasskeyInput,
        responses={
            201: AddedPasskey,
            400: (ValidationFailed, PasskeyNotMade),
            401: StepUpRequired,
            409: (PasskeyTaken, TooManyPasskeys),
            429: Throttled,
            503: Overloaded,
        },
    )
    async def post(self, request: ApiRequest) -> Response:
        """Store what the authenticator made. With the first factor come recovery codes, shown this once."""
        who = signed_in(request)
        data = await self.validated(request, NewPasskeyInput)
        step_up.require_recent(who)
        added = await passkeys.add(user_id=who.id, session_id=who.session_id, epoch=who.epoch, **data)
        return Response(added, status=201)


class PasskeyView(AsyncAPIView):
    """PATCH, DELETE /api/v1/access/mfa/passkeys/{id}."""

    @extend_schema(
        operation_id="access_mfa_passkeys_rename",
        summary="Rename one of my passkeys",
        request=RenamePasskeyInput,
        responses={200: PasskeyOut, 400: ValidationFailed, 404: NotFound},
    )
    async def patch(self, request: ApiRequest, passkey_id: uuid.UUID) -> PasskeyOut:
        """Give the passkey another name, by which its owner knows it; it changes nothing else."""
        data = await self.validated(request, RenamePasskeyInput)
        return await passkeys.rename(user_id=signed_in(request).id, passkey_id=passkey_id, **data)

    @extend_schema(
        operation_id="access_mfa_passkeys_remove",
        summary="Remove one of my passkeys",
        request=None,
        responses={
            204: OpenApiResponse(None, "It opens nothing any more; recovery codes went with the last factor."),
            401: StepUpRequired,
            404: NotFound,
            409: LastWayIn,
        },
    )
    async def delete(self, request: ApiRequest, passkey_id: uuid.UUID) -> None:
        """Take the passkey away, unless it is the last way in; another person's is 404, like one that is not there."""
        who = signed_in(request)
        step_up.require_recent(who)
        await passkeys.remove(user_id=who.id, passkey_id=passkey_id, session_id=who.session_id)
