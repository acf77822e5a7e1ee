"""The audit trail over HTTP, for staff."""

from drf_spectacular.utils import extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.audit import services as audit_services
from accounts.staff.inputs import AuditListInput
from accounts.staff.permissions import AuditPermission, StaffView
from accounts.staff.views import caller_id, page_url
from accounts.users.outputs import AuditPage
from ironauth.infrastructure.api.validation import validated
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import PermissionDenied, ValidationFailed


class AuditView(StaffView):
    """The audit trail."""

    permission_classes = (IsAuthenticated, AuditPermission)
    rights_in_unit = frozenset({"GET"})

    @extend_schema(
        operation_id="audit_list",
        summary="List security-relevant events",
        tags=["staff"],
        parameters=[AuditListInput],
        request=None,
        responses={200: AuditPage, 400: ValidationFailed, 403: PermissionDenied},
    )
    async def get(self, request: ApiRequest) -> AuditPage:
        """Return one page of events, the newest first."""
        query = validated(AuditListInput, request.query_params.dict())
        page = await audit_services.list_events(actor_id=caller_id(request), filters=query)
        return AuditPage(
            results=tuple(page.rows),
            next=page_url(request, page.next),
            previous=page_url(request, page.previous),
        )
