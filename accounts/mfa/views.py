"""A person's second factors over HTTP: input, one service call, output."""

from drf_spectacular.utils import extend_schema

from accounts.mfa import services
from accounts.mfa.outputs import MfaOut
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView


class MfaView(AsyncAPIView):
    """GET /api/v1/access/mfa."""

    while_acting = frozenset({"GET"})

    @extend_schema(operation_id="access_mfa", summary="My second factors", request=None, responses={200: MfaOut})
    async def get(self, request: ApiRequest) -> MfaOut:
        """Return which factors the person has, and how many recovery codes are left."""
        return await services.overview(user_id=signed_in(request).id)
