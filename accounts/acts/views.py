"""Acts on one person over HTTP: those of the admin's buttons that have no path of their own. Scope: ``users:write``."""

import uuid
from types import MappingProxyType
from typing import ClassVar, Final

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import StaffPermission, StaffView, caller_id
from accounts.access.rights import CHANGE_USERS
from accounts.acts import services
from accounts.acts.changes import ACCEPT_PASSWORD, REQUIRE_CHANGE, RESEND_VERIFICATION, SEND_RESET
from accounts.errors import EmailTaken, NothingToDo, StepUpRequired
from accounts.privacy import services as privacy
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied

#: By their names in the path. Other acts have paths of their own: ``PATCH /users/{id}``, ``DELETE /users/{id}/mfa``.
ACTS: Final = MappingProxyType(
    {
        change.name.replace("_", "-"): change
        for change in (SEND_RESET, RESEND_VERIFICATION, REQUIRE_CHANGE, ACCEPT_PASSWORD)
    }
)


class ActPermission(StaffPermission):
    """The right to change users: all of these acts need it."""

    needed: ClassVar[dict[str, str]] = {"POST": CHANGE_USERS}


class UserActView(StaffView):
    """POST /api/v1/users/{id}/acts/{act}."""

    permission_classes = (IsAuthenticated, ActPermission)
    rights_in_unit = frozenset({"POST"})

    @extend_schema(
        operation_id="users_act",
        summary="Do an act on a user",
        parameters=[OpenApiParameter("act", str, OpenApiParameter.PATH, enum=list(ACTS), description="Which act.")],
        request=None,
        responses={
            204: OpenApiResponse(None, "It is done, and in the audit trail."),
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
            409: NothingToDo,
        },
    )
    async def post(self, request: ApiRequest, user_id: uuid.UUID, act: str) -> None:
        """Do to the user what the button of this name does in the admin. Scope: `users:write`.

        `send-reset` mails a link to choose a new password; the present one keeps working. `resend-verification` mails a
        link that verifies the address. `require-password-change` ends every session, refuses the present password and
        mails a link. `accept-password` accepts it again. All but `resend-verification` need a sign-in, step-up or
        machine's token of the last ten minutes.
        """
        change = ACTS.get(act)
        if change is None:
            raise NotFound(f"There is no such act: {', '.join(ACTS)}.")
        if change.step_up:
            step_up.require_recent(signed_in(request))
        await services.perform(actor_id=caller_id(request), user_id=user_id, change=change)


class UserRestoreView(StaffView):
    """POST /api/v1/users/{id}/restore."""

    permission_classes = (IsAuthenticated, ActPermission)
    rights_in_unit = frozenset({"POST"})

    @extend_schema(
        operation_id="users_restore",
        summary="Restore a user who is being deleted",
        request=None,
        responses={
            204: OpenApiResponse(None, "The account is as it was."),
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
            409: (NothingToDo, EmailTaken),
        },
    )
    async def post(self, request: ApiRequest, user_id: uuid.UUID) -> None:
        """Take back the deletion that the owner has asked for, in its days of grace. Scope: `users:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        step_up.require_recent(signed_in(request))
        await privacy.restore_for_staff(actor_id=caller_id(request), user_id=user_id)
