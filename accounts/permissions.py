"""DRF permissions of the staff API: Django model permissions, read from the database at request time."""

from typing import Any, ClassVar

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from accounts.rights import rights_of
from ironauth.infrastructure.database import database


class StaffPermission(BasePermission):
    """Lets a request through when the caller holds what the method needs; refuses before the body is looked at.

    Changes check the same right again inside their transaction. A view whose change has no body to be looked at names
    the method in ``rights_in_unit``, and its unit of work alone asks: one trip to a database thread less. HEAD follows
    GET; OPTIONS needs authentication only.
    """

    needed: ClassVar[dict[str, str]]

    async def has_permission(self, request: Request, view: APIView) -> bool:  # type: ignore[override] # awaited by AsyncAPIView
        """Tell whether the caller may use this method; one read on the database pool.

        Raises ``PermissionDenied`` naming the missing right, ``NotAuthenticated`` when the account is gone.
        """
        caller: Any = request.user
        if caller is None or not caller.is_authenticated:
            return False
        if request.method in getattr(view, "rights_in_unit", ()):
            return True
        permission = self.needed.get("GET" if request.method == "HEAD" else request.method or "")
        if permission:
            (await database().read(rights_of, caller.id)).require(permission)
        return True


class UserPermission(StaffPermission):
    """Rights over users."""

    needed: ClassVar[dict[str, str]] = {
        "GET": "accounts.view_user",
        "POST": "accounts.add_user",
        "PATCH": "accounts.change_user",
        "DELETE": "accounts.delete_user",
    }


class MembershipPermission(StaffPermission):
    """Rights over who has which role, and over users' sessions: a change of the user both."""

    needed: ClassVar[dict[str, str]] = {
        "GET": "accounts.view_user",
        "PUT": "accounts.change_user",
        "DELETE": "accounts.change_user",
    }


class RolePermission(StaffPermission):
    """Rights over roles themselves: Django's group permissions."""

    needed: ClassVar[dict[str, str]] = {"GET": "auth.view_group", "POST": "auth.add_group"}
