"""Everything held about the person behind a request, as a file."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.response import Response

from accounts.errors import StepUpRequired
from accounts.privacy import services as export_services
from accounts.users import step_up
from accounts.users.outputs import ExportOut
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import NotAuthenticated, Throttled


class ExportView(AsyncAPIView):
    """GET /api/v1/access/me/export."""

    takes_delegated = False

    @extend_schema(
        operation_id="access_me_export",
        summary="Everything held about me",
        parameters=[
            OpenApiParameter("Content-Disposition", str, OpenApiParameter.HEADER, response=[200], description="A file.")
        ],
        request=None,
        responses={200: ExportOut, 401: (NotAuthenticated, StepUpRequired), 429: Throttled},
    )
    async def get(self, request: ApiRequest) -> Response:
        """Return it, to be saved as a file; of the sections in `incomplete` the newest 5,000 rows are in it."""
        who = signed_in(request)
        step_up.require_recent(who)
        held = await export_services.export_own_data(user_id=who.id, session_id=who.session_id)
        name = f"account-{held.made_at:%Y-%m-%d}.json"
        return Response(held, headers={"Content-Disposition": f'attachment; filename="{name}"'})
