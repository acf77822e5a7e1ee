"""A person's own organisations over HTTP: input, one service call, output.

Where there are none (IRONAUTH_ORGANIZATIONS=off) each path is as unknown as any, to everybody. To somebody who is no
member there is no such organisation.
"""

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema

from accounts.errors import EmailNotVerified, StepUpRequired
from accounts.invitations.errors import InvalidInvitation, InvitationExists
from accounts.organizations import rules, services
from accounts.organizations.errors import (
    AlreadyMember,
    InvitationOfAnother,
    LastOwner,
    OrganizationsByStaff,
    TooManyMembers,
    TooManyOrganizations,
)
from accounts.organizations.inputs import (
    AcceptInvitationInput,
    MemberInvitationInput,
    MemberListInput,
    MemberRoleInput,
    OrganizationInput,
)
from accounts.organizations.outputs import MemberPage, OrganizationInvitationOut, OwnOrganizationOut, own_out
from accounts.organizations.roles import Role
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.idempotency import Created
from ironauth.infrastructure.api.paging import listed
from ironauth.infrastructure.api.parsers import NoParameters, validated_query
from ironauth.infrastructure.api.resources import ResourceView
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied, Throttled, ValidationFailed
from ironauth.infrastructure.http import client_context


class OrganizationsAPIView(ResourceView):
    """What all views of organisations have in common: without organisations there is no such path."""

    async def initial(self, request: ApiRequest, *args: Any, **kwargs: Any) -> None:
        """Answer 404 where there are none, before anybody is asked who they are."""
        rules.require_enabled()
        await super().initial(request, *args, **kwargs)

    def caller_of(self, request: ApiRequest) -> str:
        """Return the person and the client whose token it is."""
        who: Any = request.user
        return f"person {who.id} {who.client_id}"


class OrganizationsView(OrganizationsAPIView):
    """The organisations of the person behind the request."""

    while_acting = frozenset({"GET"})
    creates = Created(OwnOrganizationOut, name="id")

    @extend_schema(
        operation_id="organizations_list",
        summary="My organizations",
        request=None,
        responses={200: list[OwnOrganizationOut], 400: ValidationFailed, 404: NotFound},
    )
    async def get(self, request: ApiRequest) -> list[OwnOrganizationOut]:
        """Return the organizations that the caller is a member of, by name, at most 100, with the role in each."""
        validated_query(NoParameters, request.query_params)
        return [own_out(row) for row in await services.memberships_of(user_id=signed_in(request).id)]

    @extend_schema(
        operation_id="organizations_create",
        summary="Make an organization",
        request=OrganizationInput,
        responses={
            201: OwnOrganizationOut,
            400: ValidationFailed,
            403: (OrganizationsByStaff, EmailNotVerified),
            404: NotFound,
            409: TooManyOrganizations,
        },
    )
    async def post(self, request: ApiRequest) -> OwnOrganizationOut:
        """Make an organization, whose owner the caller is.

        Only with IRONAUTH_ORGANIZATIONS=anybody, and with a proved address; somebody may own 20 when they make another.
        `slug` begins like the name and ends at random.
        """
        data = await self.validated(request, OrganizationInput)
        return await services.make_own(user_id=signed_in(request).id, **data)


class OrganizationView(OrganizationsAPIView):
    """One organisation of the person behind the request."""

    while_acting = frozenset({"GET"})

    @extend_schema(
        operation_id="organizations_read",
        summary="One of my organizations",
        request=None,
        responses={200: OwnOrganizationOut, 404: NotFound},
    )
    async def get(self, request: ApiRequest, organization_id: uuid.UUID) -> OwnOrganizationOut:
        """Return the organization, with the caller's role."""
        found = await services.membership(user_id=signed_in(request).id, organization_id=organization_id)
        return own_out(found)

    @extend_schema(
        operation_id="organizations_rename",
        summary="Rename an organization",
        request=OrganizationInput,
        responses={200: OwnOrganizationOut, 400: ValidationFailed, 403: PermissionDenied, 404: NotFound},
    )
    async def patch(self, request: ApiRequest, organization_id: uuid.UUID) -> OwnOrganizationOut:
        """Give the organization another name, as one of its owners; the slug stays."""
        data = await self.validated(request, OrganizationInput)
        renamed = await services.rename_organization(
            actor_id=signed_in(request).id, organization_id=organization_id, **data
        )
        return own_out(renamed)

    @extend_schema(
        operation_id="organizations_delete",
        summary="Delete an organization",
        request=None,
        responses={204: None, 401: StepUpRequired, 403: PermissionDenied, 404: NotFound},
    )
    async def delete(self, request: ApiRequest, organization_id: uuid.UUID) -> None:
        """Delete the organization with all memberships and invitations, as one of its owners.

        Needs a sign-in or step-up of the last ten minutes: nothing brings it back.
        """
        who = signed_in(request)
        step_up.require_recent(who)
        await services.delete_organization(actor_id=who.id, organization_id=organization_id)


class MembersView(OrganizationsAPIView):
    """The members of an organisation."""

    while_acting = frozenset({"GET"})

    @extend_schema(
        operation_id="organizations_members_list",
        summary="Members of an organization",
        parameters=[MemberListInput],
        request=None,
        responses={200: MemberPage, 400: ValidationFailed, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, organization_id: uuid.UUID) -> MemberPage:
        """Return one page of members, the newest first, to owners and admins."""
        filters = validated_query(MemberListInput, request.query_params)
        page = await services.members(actor_id=signed_in(request).id, organization_id=organization_id, filters=filters)
        return listed(MemberPage, request, page)


class MemberView(OrganizationsAPIView):
    """One member of an organisation."""

    @extend_schema(
        operation_id="organizations_members_set_role",
        summary="Give a member another role",
        request=MemberRoleInput,
        responses={
            204: None,
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
            409: LastOwner,
        },
    )
    async def put(self, request: ApiRequest, organization_id: uuid.UUID, user_id: uuid.UUID) -> None:
        """Give the role. Owners give any; admins give `admin` and `member`, to members who are no owners.

        Needs a sign-in or step-up of the last ten minutes. What was opened with the role before ends.
        """
        who = signed_in(request)
        data = await self.validated(request, MemberRoleInput)
        step_up.require_recent(who)
        await services.set_role(actor_id=who.id, organization_id=organization_id, user_id=user_id, **data)

    @extend_schema(
        operation_id="organizations_members_remove",
        summary="Remove a member",
        request=None,
        responses={204: None, 401: StepUpRequired, 403: PermissionDenied, 404: NotFound, 409: LastOwner},
    )
    async def delete(self, request: ApiRequest, organization_id: uuid.UUID, user_id: uuid.UUID) -> None:
        """End the membership; invitations that the member has made are withdrawn.

        Needs a sign-in or step-up of the last ten minutes.
        """
        who = signed_in(request)
        step_up.require_recent(who)
        await services.remove_member(actor_id=who.id, organization_id=organization_id, user_id=user_id)


class LeaveView(OrganizationsAPIView):
    """One's own membership."""

    @extend_schema(
        operation_id="organizations_leave",
        summary="Leave an organization",
        request=None,
        responses={204: None, 404: NotFound, 409: LastOwner},
    )
    async def post(self, request: ApiRequest, organization_id: uuid.UUID) -> None:
        """End one's own membership; the last active owner cannot."""
        await services.leave(user_id=signed_in(request).id, organization_id=organization_id)


class MemberInvitationsView(OrganizationsAPIView):
    """The invitations of an organisation that wait for an answer."""

    creates = Created(OrganizationInvitationOut, name="id")

    @extend_schema(
        operation_id="organizations_invitations_list",
        summary="Invitations that wait",
        request=None,
        responses={
            200: list[OrganizationInvitationOut],
            400: ValidationFailed,
            403: PermissionDenied,
            404: NotFound,
        },
    )
    async def get(self, request: ApiRequest, organization_id: uuid.UUID) -> list[OrganizationInvitationOut]:
        """Return the invitations that wait for an answer, the newest first, at most 100, to owners and admins."""
        validated_query(NoParameters, request.query_params)
        return await services.waiting_invitations(actor_id=signed_in(request).id, organization_id=organization_id)

    @extend_schema(
        operation_id="organizations_invite",
        summary="Invite somebody to an organization",
        request=MemberInvitationInput,
        responses={
            201: OrganizationInvitationOut,
            400: ValidationFailed,
            401: StepUpRequired,
            403: (PermissionDenied, EmailNotVerified),
            404: NotFound,
            409: (AlreadyMember, InvitationExists, TooManyMembers),
            429: Throttled,
        },
    )
    async def post(self, request: ApiRequest, organization_id: uuid.UUID) -> OrganizationInvitationOut:
        """Have a message sent with a link, by which the owner of the address becomes a member.

        Whether anybody has an account with the address is told to nobody. `owner` and `admin` need a sign-in or
        step-up of the last ten minutes.
        """
        who = signed_in(request)
        data = await self.validated(request, MemberInvitationInput)
        if data["role"] != Role.MEMBER:
            step_up.require_recent(who)
        return await services.invite(
            actor_id=who.id,
            organization_id=organization_id,
            address=data["email"],
            role=data["role"],
            language=data["language"],
            client_address=client_context.address_of(request),
        )


class MemberInvitationView(OrganizationsAPIView):
    """One invitation of an organisation."""

    @extend_schema(
        operation_id="organizations_invitations_withdraw",
        summary="Withdraw an invitation to an organization",
        request=None,
        responses={204: None, 403: PermissionDenied, 404: NotFound},
    )
    async def delete(self, request: ApiRequest, organization_id: uuid.UUID, invitation_id: uuid.UUID) -> None:
        """End it: its link opens nothing from now on. One that was accepted or withdrawn is not found."""
        await services.withdraw(
            actor_id=signed_in(request).id, organization_id=organization_id, invitation_id=invitation_id
        )


class AcceptInvitationView(OrganizationsAPIView):
    """An invitation, accepted by the person behind the request."""

    @extend_schema(
        operation_id="organizations_invitations_accept",
        summary="Accept an invitation to an organization",
        request=AcceptInvitationInput,
        responses={
            200: OwnOrganizationOut,
            400: (ValidationFailed, InvalidInvitation),
            403: (InvitationOfAnother, EmailNotVerified),
            404: NotFound,
            409: (AlreadyMember, TooManyOrganizations, TooManyMembers),
            429: Throttled,
        },
    )
    async def post(self, request: ApiRequest) -> OwnOrganizationOut:
        """Become a member with the account that is signed in, whose proved address has to be the invited one.

        Somebody without an account makes one with `POST /api/v1/access/signup` and the same token as `invitation`, and
        is a member then.
        """
        data = await self.validated(request, AcceptInvitationInput)
        joined = await services.accept(
            user_id=signed_in(request).id, address=client_context.address_of(request), **data
        )
        return own_out(joined)


class DeclineInvitationView(OrganizationsAPIView):
    """An invitation, declined by the person behind the request."""

    @extend_schema(
        operation_id="organizations_invitations_decline",
        summary="Decline an invitation to an organization",
        request=AcceptInvitationInput,
        responses={
            204: None,
            400: (ValidationFailed, InvalidInvitation),
            403: (InvitationOfAnother, EmailNotVerified),
            404: NotFound,
            429: Throttled,
        },
    )
    async def post(self, request: ApiRequest) -> None:
        """End an invitation to the proved address of the account that is signed in; its link opens nothing any more.

        Members of the organization do not see it among those that wait any more, and may make another.
        """
        data = await self.validated(request, AcceptInvitationInput)
        await services.decline(user_id=signed_in(request).id, address=client_context.address_of(request), **data)
