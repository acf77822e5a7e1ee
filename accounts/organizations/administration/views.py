"""Organisations for staff over HTTP: input, one service call, output. Scopes: ``organizations:read``, ``:write``."""

import uuid
from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission, IsAuthenticated

from accounts.access.permissions import StaffPermission, StaffView, caller_id
from accounts.access.rights import (
    ADD_ORGANIZATIONS,
    CHANGE_ORGANIZATIONS,
    DELETE_ORGANIZATIONS,
    VIEW_ORGANIZATIONS,
)
from accounts.errors import StepUpRequired
from accounts.organizations import rules
from accounts.organizations.administration import services
from accounts.organizations.administration.inputs import (
    StaffOrganizationInput,
    StaffOrganizationListInput,
    StaffOrganizationPatchInput,
)
from accounts.organizations.errors import AlreadyMember, LastOwner, TooManyMembers, TooManyOrganizations
from accounts.organizations.inputs import MemberListInput, MemberRoleInput
from accounts.organizations.outputs import MemberPage, OrganizationOut, OrganizationPage, OwnOrganizationOut
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.idempotency import Created
from ironauth.infrastructure.api.paging import listed
from ironauth.infrastructure.api.parsers import NoParameters, validated_query
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied, ValidationFailed


class OrganizationPermission(StaffPermission):
    """Rights over organisations."""

    needed: ClassVar[dict[str, str]] = {
        "GET": VIEW_ORGANIZATIONS,
        "POST": ADD_ORGANIZATIONS,
        "PATCH": CHANGE_ORGANIZATIONS,
        "DELETE": DELETE_ORGANIZATIONS,
    }


class MemberPermission(StaffPermission):
    """Rights over who is a member: to change an organisation."""

    needed: ClassVar[dict[str, str]] = {
        "GET": VIEW_ORGANIZATIONS,
        "PUT": CHANGE_ORGANIZATIONS,
        "DELETE": CHANGE_ORGANIZATIONS,
    }


_RIGHTS: Final = (IsAuthenticated, OrganizationPermission)
_MEMBER_RIGHTS: Final = (IsAuthenticated, MemberPermission)


class OrganizationStaffView(StaffView):
    """What all of these views have in common: without organisations there is no such path."""

    permission_classes: tuple[type[BasePermission], ...] = _RIGHTS

    async def initial(self, request: ApiRequest, *args: Any, **kwargs: Any) -> None:
        """Answer 404 where there are none, before anybody is asked who they are."""
        rules.require_enabled()
        await super().initial(request, *args, **kwargs)


class StaffOrganizationsView(OrganizationStaffView):
    """All organisations."""

    permission_classes = _RIGHTS
    rights_in_unit = frozenset({"GET", "POST"})
    creates = Created(OrganizationOut, name="id")

    @extend_schema(
        operation_id="staff_organizations_list",
        summary="List organizations",
        parameters=[StaffOrganizationListInput],
        request=None,
        responses={200: OrganizationPage, 400: ValidationFailed, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest) -> OrganizationPage:
        """Return one page of organizations, the newest first. Scope: `organizations:read`."""
        return await self.page_of(request, StaffOrganizationListInput, OrganizationPage, services.list_organizations)

    @extend_schema(
        operation_id="staff_organizations_create",
        summary="Make an organization for somebody",
        request=StaffOrganizationInput,
        responses={
            201: OrganizationOut,
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
            409: TooManyOrganizations,
        },
    )
    async def post(self, request: ApiRequest) -> OrganizationOut:
        """Make an organization with its first owner. Scope: `organizations:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        values = await self.validated(request, StaffOrganizationInput)
        step_up.require_recent(signed_in(request))
        return await services.create_organization(actor_id=caller_id(request), values=values)


class StaffOrganizationView(OrganizationStaffView):
    """One organisation."""

    permission_classes = _RIGHTS
    rights_in_unit = frozenset({"GET", "PATCH", "DELETE"})
    edited = services.EDITED

    @extend_schema(
        operation_id="staff_organizations_read",
        summary="Read an organization",
        request=None,
        responses={200: OrganizationOut, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, organization_id: uuid.UUID) -> OrganizationOut:
        """Return the organization, and how many members it has. Scope: `organizations:read`."""
        return await services.get_organization(actor_id=caller_id(request), organization_id=organization_id)

    @extend_schema(
        operation_id="staff_organizations_update",
        summary="Change an organization",
        request=StaffOrganizationPatchInput,
        responses={200: OrganizationOut, 400: ValidationFailed, 403: PermissionDenied, 404: NotFound},
    )
    async def patch(self, request: ApiRequest, organization_id: uuid.UUID) -> OrganizationOut:
        """Change the fields that are sent; the slug stays. Scope: `organizations:write`."""
        data = await self.validated(request, StaffOrganizationPatchInput)
        return await services.rename_organization(actor_id=caller_id(request), organization_id=organization_id, **data)

    @extend_schema(
        operation_id="staff_organizations_delete",
        summary="Delete an organization as staff",
        request=None,
        responses={204: None, 401: StepUpRequired, 403: PermissionDenied, 404: NotFound},
    )
    async def delete(self, request: ApiRequest, organization_id: uuid.UUID) -> None:
        """Delete the organization with all memberships and invitations. Scope: `organizations:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes: nothing brings it back.
        """
        step_up.require_recent(signed_in(request))
        await services.delete_organization(actor_id=caller_id(request), organization_id=organization_id)


class StaffMembersView(OrganizationStaffView):
    """The members of an organisation."""

    permission_classes = _MEMBER_RIGHTS
    rights_in_unit = frozenset({"GET"})

    @extend_schema(
        operation_id="staff_organizations_members_list",
        summary="List members of an organization",
        parameters=[MemberListInput],
        request=None,
        responses={200: MemberPage, 400: ValidationFailed, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, organization_id: uuid.UUID) -> MemberPage:
        """Return one page of members, the newest first. Scope: `organizations:read`."""
        filters = validated_query(MemberListInput, request.query_params)
        page = await services.list_members(
            actor_id=caller_id(request), organization_id=organization_id, filters=filters
        )
        return listed(MemberPage, request, page)


class StaffMemberView(OrganizationStaffView):
    """One member of an organisation."""

    permission_classes = _MEMBER_RIGHTS
    rights_in_unit = frozenset({"PUT", "DELETE"})

    @extend_schema(
        operation_id="staff_organizations_members_set",
        summary="Make somebody a member, or give another role",
        request=MemberRoleInput,
        responses={
            204: None,
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
            409: (LastOwner, AlreadyMember, TooManyMembers, TooManyOrganizations),
        },
    )
    async def put(self, request: ApiRequest, organization_id: uuid.UUID, user_id: uuid.UUID) -> None:
        """Give the person this role in the organization, as a member or new to it. Scope: `organizations:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        data = await self.validated(request, MemberRoleInput)
        step_up.require_recent(signed_in(request))
        await services.set_member(actor_id=caller_id(request), organization_id=organization_id, user_id=user_id, **data)

    @extend_schema(
        operation_id="staff_organizations_members_remove",
        summary="End a membership as staff",
        request=None,
        responses={204: None, 401: StepUpRequired, 403: PermissionDenied, 404: NotFound, 409: LastOwner},
    )
    async def delete(self, request: ApiRequest, organization_id: uuid.UUID, user_id: uuid.UUID) -> None:
        """End the membership; the last active owner stays. Scope: `organizations:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        step_up.require_recent(signed_in(request))
        await services.remove_member(actor_id=caller_id(request), organization_id=organization_id, user_id=user_id)


class UserOrganizationsView(OrganizationStaffView):
    """The organisations of a person."""

    permission_classes = _MEMBER_RIGHTS
    rights_in_unit = frozenset({"GET"})

    @extend_schema(
        operation_id="users_organizations",
        summary="A person's organizations",
        request=None,
        responses={200: list[OwnOrganizationOut], 400: ValidationFailed, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, user_id: uuid.UUID) -> list[OwnOrganizationOut]:
        """Return what the person is a member of, by name, with the role in each. Scope: `organizations:read`."""
        validated_query(NoParameters, request.query_params)
        return await services.organizations_of(actor_id=caller_id(request), user_id=user_id)
