"""Staff over HTTP: the people they invite."""

import uuid
from typing import Final

from drf_spectacular.utils import extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import InvitationPermission, StaffView, caller_id
from accounts.errors import SignUpClosed, StepUpRequired
from accounts.invitations import services as invitations
from accounts.invitations.errors import InvitationExists
from accounts.invitations.inputs import InvitationInput
from accounts.invitations.outputs import InvitationOut, InvitationPage
from accounts.staff.inputs import InvitationListInput
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.idempotency import Created
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied, Throttled, ValidationFailed

_RIGHTS: Final = (IsAuthenticated, InvitationPermission)


class InvitationsView(StaffView):
    """All invitations."""

    permission_classes = _RIGHTS
    rights_in_unit = frozenset({"GET", "POST"})
    creates = Created(InvitationOut, name="id")

    @extend_schema(
        operation_id="invitations_list",
        summary="List invitations",
        parameters=[InvitationListInput],
        request=None,
        responses={200: InvitationPage, 400: ValidationFailed, 403: PermissionDenied},
    )
    async def get(self, request: ApiRequest) -> InvitationPage:
        """Return one page of invitations, the newest first; those that ended unanswered go after 30 days."""
        return await self.page_of(request, InvitationListInput, InvitationPage, invitations.list_invitations)

    @extend_schema(
        operation_id="invitations_create",
        summary="Invite somebody",
        request=InvitationInput,
        responses={
            201: InvitationOut,
            400: ValidationFailed,
            401: StepUpRequired,
            403: (PermissionDenied, SignUpClosed),
            409: InvitationExists,
            429: Throttled,
        },
    )
    async def post(self, request: ApiRequest) -> InvitationOut:
        """Have a message sent with a link that makes one account with this address.

        Whether anybody has the address already is told to its owner alone. ``roles`` are given with the account, as far
        as the caller may still give them then; they need a sign-in or step-up of the last ten minutes.
        """
        values = await self.validated(request, InvitationInput)
        if values["roles"]:
            step_up.require_recent(signed_in(request))
        return await invitations.invite(actor_id=caller_id(request), values=values)


class InvitationView(StaffView):
    """One invitation."""

    permission_classes = _RIGHTS
    rights_in_unit = frozenset({"DELETE"})

    @extend_schema(
        operation_id="invitations_withdraw",
        summary="Withdraw an invitation",
        request=None,
        responses={204: None, 403: PermissionDenied, 404: NotFound},
    )
    async def delete(self, request: ApiRequest, invitation_id: uuid.UUID) -> None:
        """End it: its link opens nothing from now on. One that was accepted or withdrawn is not found."""
        await invitations.withdraw(actor_id=caller_id(request), invitation_id=invitation_id)


class InvitationSendView(StaffView):
    """Another message of one invitation."""

    permission_classes = _RIGHTS
    rights_in_unit = frozenset({"POST"})

    @extend_schema(
        operation_id="invitations_send",
        summary="Send an invitation again",
        request=None,
        responses={
            200: InvitationOut,
            403: (PermissionDenied, SignUpClosed),
            404: NotFound,
            429: Throttled,
        },
    )
    async def post(self, request: ApiRequest, invitation_id: uuid.UUID) -> InvitationOut:
        """Have another message sent, with a link that works as long as the first did; the one before opens nothing."""
        return await invitations.send_again(actor_id=caller_id(request), invitation_id=invitation_id)
