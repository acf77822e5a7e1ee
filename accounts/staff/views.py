"""Staff over HTTP: users, roles and the audit trail. Rights are Django model permissions (``permissions``)."""

import uuid
from typing import Final

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import (
    AuditPermission,
    MembershipPermission,
    RolePermission,
    StaffView,
    UserPermission,
    caller_id,
)
from accounts.access.validation import validated_naming_unknown
from accounts.audit import exporting
from accounts.audit.exporting import Format
from accounts.audit.outputs import AuditPage
from accounts.errors import DeletionPending, EmailTaken, LastSuperuser, RoleExists, StepUpRequired, UserProtected
from accounts.organizations.errors import SoleOwner
from accounts.staff import services as staff_services
from accounts.staff.inputs import AuditExportInput, AuditListInput, RoleListInput, UserListInput
from accounts.staff.roles import services as role_services
from accounts.users import step_up
from accounts.users.inputs import RoleCreateInput, UserCreateInput, UserPatchInput
from accounts.users.outputs import RoleOut, RolePage, UserOut, UserPage
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.idempotency import Created
from ironauth.infrastructure.api.parsers import validated_query
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied, ValidationFailed

#: Fields of a user that nobody changes from a session that was proved long ago.
_SENSITIVE: Final = frozenset({"email", "email_verified", "is_active", "is_staff", "is_superuser", "roles"})
#: Of these, what makes more of a new user than an account without rights, whose address nobody has proved.
_SENSITIVE_WHEN_NEW: Final = ("email_verified", "is_staff", "is_superuser", "roles")


class UsersView(StaffView):
    """All users."""

    permission_classes = (IsAuthenticated, UserPermission)
    rights_in_unit = frozenset({"GET", "POST"})
    creates = Created(UserOut, name="id")

    @extend_schema(
        operation_id="users_list",
        summary="List users",
        parameters=[UserListInput],
        request=None,
        responses={200: UserPage, 400: ValidationFailed, 403: PermissionDenied},
    )
    async def get(self, request: ApiRequest) -> UserPage:
        """Return one page of users, the newest first unless ``ordering`` says otherwise."""
        return await self.page_of(request, UserListInput, UserPage, staff_services.list_users)

    @extend_schema(
        operation_id="users_create",
        summary="Create a user",
        request=UserCreateInput,
        responses={201: UserOut, 400: ValidationFailed, 401: StepUpRequired, 403: PermissionDenied, 409: EmailTaken},
    )
    async def post(self, request: ApiRequest) -> UserOut:
        """Create a user, with or without a password; only superusers make staff.

        Making staff, giving roles, and calling the address verified need a sign-in or step-up of the last ten minutes;
        the last needs the permission accounts.verify_email too.
        """
        values = await validated_naming_unknown(self, request, UserCreateInput, "roles", staff_services.require_roles)
        if any(values[name] for name in _SENSITIVE_WHEN_NEW):
            step_up.require_recent(signed_in(request))
        return await staff_services.create_user(actor_id=caller_id(request), values=values)


class UserView(StaffView):
    """One user."""

    permission_classes = (IsAuthenticated, UserPermission)
    rights_in_unit = frozenset({"GET", "PATCH", "DELETE"})
    edited = staff_services.EDITED

    @extend_schema(
        operation_id="users_read",
        summary="Read a user",
        request=None,
        responses={200: UserOut, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, user_id: uuid.UUID) -> UserOut:
        """Return the user as the database has it now."""
        return await staff_services.get_user(actor_id=caller_id(request), user_id=user_id)

    @extend_schema(
        operation_id="users_update",
        summary="Change a user",
        request=UserPatchInput,
        responses={
            200: UserOut,
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
            409: (EmailTaken, LastSuperuser, DeletionPending),
        },
    )
    async def patch(self, request: ApiRequest, user_id: uuid.UUID) -> UserOut:
        """Change the fields that are sent; ``is_active: false`` ends every session of the person at once.

        Another ``email`` needs a sign-in or step-up of the last ten minutes, as it does for one's own: who gets the
        account's messages sets its password. So do ``is_staff``, ``is_superuser`` and ``roles``, by which a stolen
        session would outlive itself, and ``is_active``, by which it would keep others out or let them in again. So does
        ``email_verified``, on which applications rely; it needs the permission accounts.verify_email too. The address
        before gets a message.
        """
        values = await validated_naming_unknown(self, request, UserPatchInput, "roles", staff_services.require_roles)
        if _SENSITIVE & values.keys():
            step_up.require_recent(signed_in(request))
        return await staff_services.update_user(actor_id=caller_id(request), user_id=user_id, values=values)

    @extend_schema(
        operation_id="users_delete",
        summary="Delete a user",
        request=None,
        responses={
            204: None,
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
            409: (LastSuperuser, UserProtected, SoleOwner),
        },
    )
    async def delete(self, request: ApiRequest, user_id: uuid.UUID) -> None:
        """Delete the user for good; deactivating is the gentler way.

        Needs a sign-in or step-up of the last ten minutes: nothing brings the account back.
        """
        step_up.require_recent(signed_in(request))
        await staff_services.delete_user(actor_id=caller_id(request), user_id=user_id)


class MembershipView(StaffView):
    """One role of one user."""

    permission_classes = (IsAuthenticated, MembershipPermission)
    rights_in_unit = frozenset({"PUT", "DELETE"})

    @extend_schema(
        operation_id="users_role_give",
        summary="Give a role",
        request=None,
        responses={204: None, 401: StepUpRequired, 403: PermissionDenied, 404: NotFound},
    )
    async def put(self, request: ApiRequest, user_id: uuid.UUID, role: str) -> None:
        """Give the role; only one whose permissions the caller holds. Giving it twice is no error.

        Needs a sign-in or step-up of the last ten minutes, as taking it does.
        """
        step_up.require_recent(signed_in(request))
        await staff_services.set_role(actor_id=caller_id(request), user_id=user_id, role=role, member=True)

    @extend_schema(
        operation_id="users_role_take",
        summary="Take a role",
        request=None,
        responses={204: None, 401: StepUpRequired, 403: PermissionDenied, 404: NotFound},
    )
    async def delete(self, request: ApiRequest, user_id: uuid.UUID, role: str) -> None:
        """Take the role; taking one the user does not have is no error.

        Needs a sign-in or step-up of the last ten minutes.
        """
        step_up.require_recent(signed_in(request))
        await staff_services.set_role(actor_id=caller_id(request), user_id=user_id, role=role, member=False)


class RolesView(StaffView):
    """All roles."""

    permission_classes = (IsAuthenticated, RolePermission)
    rights_in_unit = frozenset({"GET", "POST"})
    creates = Created(RoleOut, name="name")

    @extend_schema(
        operation_id="roles_list",
        summary="List roles",
        parameters=[RoleListInput],
        request=None,
        responses={200: RolePage, 400: ValidationFailed, 403: PermissionDenied},
    )
    async def get(self, request: ApiRequest) -> RolePage:
        """Return one page of roles with the permissions they grant, by name."""
        return await self.page_of(request, RoleListInput, RolePage, staff_services.list_roles)

    @extend_schema(
        operation_id="roles_create",
        summary="Create a role",
        request=RoleCreateInput,
        responses={
            201: RoleOut,
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
            409: RoleExists,
        },
    )
    async def post(self, request: ApiRequest) -> RoleOut:
        """Create a role from permissions the caller holds.

        Needs a sign-in or step-up of the last ten minutes.
        """
        require = role_services.require_permissions
        values = await validated_naming_unknown(self, request, RoleCreateInput, "permissions", require)
        step_up.require_recent(signed_in(request))
        return await staff_services.create_role(actor_id=caller_id(request), **values)


class AuditView(StaffView):
    """The audit trail."""

    permission_classes = (IsAuthenticated, AuditPermission)
    rights_in_unit = frozenset({"GET"})

    @extend_schema(
        operation_id="audit_list",
        summary="List security-relevant events",
        parameters=[AuditListInput],
        request=None,
        responses={200: AuditPage, 400: ValidationFailed, 403: PermissionDenied},
    )
    async def get(self, request: ApiRequest) -> AuditPage:
        """Return one page of events, the newest first."""
        return await self.page_of(request, AuditListInput, AuditPage, staff_services.list_audit_events)


class AuditExportView(StaffView):
    """The audit trail, as a file."""

    permission_classes = (IsAuthenticated, AuditPermission)
    rights_in_unit = frozenset({"GET"})

    @extend_schema(
        operation_id="audit_export",
        summary="Export security-relevant events",
        parameters=[
            AuditExportInput,
            OpenApiParameter(
                "Content-Disposition", str, OpenApiParameter.HEADER, response=[200], description="A file."
            ),
        ],
        request=None,
        responses={
            (200, "text/csv"): OpenApiTypes.STR,
            (200, "application/jsonl"): OpenApiTypes.STR,
            400: ValidationFailed,
            403: PermissionDenied,
        },
    )
    async def get(self, request: ApiRequest) -> StreamingHttpResponse:
        """Return all events of the filters up to now, the oldest first, as CSV or as a JSON object in each line.

        The fields are those of the list, then `actor_email` and `user_email`, the addresses that the accounts have now,
        and `reason` of the details; null, and in CSV empty, where there is none or the account is gone. In CSV a cell
        that a spreadsheet would compute begins with an apostrophe. The export is an event of the trail.
        """
        query = validated_query(AuditExportInput, request.query_params)
        form = Format(query["format"])
        parts = await staff_services.export_audit_events(
            actor_id=caller_id(request), session_id=signed_in(request).session_id, filters=query, form=form
        )
        return StreamingHttpResponse(parts, content_type=form.media_type, headers=exporting.file_name(form))
