"""A person's kept devices over HTTP."""

import uuid

from drf_spectacular.utils import OpenApiResponse, extend_schema

from accounts.mfa.kept_devices import services
from accounts.mfa.kept_devices.services import KeptDeviceOut
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.http.client_context import kept_device_of


class KeptDevicesView(AsyncAPIView):
    """GET /api/v1/access/kept-devices."""

    while_acting = frozenset({"GET"})

    @extend_schema(
        operation_id="access_kept_devices",
        summary="List the devices on which my second factor is not asked for",
        request=None,
        responses={200: list[KeptDeviceOut]},
    )
    async def get(self, request: ApiRequest) -> list[KeptDeviceOut]:
        """Return the live ones, the newest first."""
        return await services.list_devices(user_id=signed_in(request).id, secret=kept_device_of(request))


class KeptDeviceView(AsyncAPIView):
    """DELETE /api/v1/access/kept-devices/{id}."""

    @extend_schema(
        operation_id="access_kept_devices_end",
        summary="Keep one of my devices no longer",
        request=None,
        responses={
            204: OpenApiResponse(None, "The next sign-in on it asks for the second factor."),
            404: NotFound,
        },
    )
    async def delete(self, request: ApiRequest, device_id: uuid.UUID) -> None:
        """End the device; another person's id is 404, like one that does not exist."""
        who = signed_in(request)
        await services.end(user_id=who.id, device_id=device_id, session_id=who.session_id)
