"""DRF permissions of the staff API: Django model permissions, read from the database at request time."""

import uuid
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from accounts.access import scopes
from accounts.access.rights import (
    ADD_INVITATIONS,
    ADD_ROLES,
    ADD_USERS,
    CHANGE_ROLES,
    CHANGE_USERS,
    DELETE_INVITATIONS,
    DELETE_KEPT_DEVICES,
    DELETE_ROLES,
    DELETE_USERS,
    REMOVE_FACTORS,
    VIEW_AUDIT,
    VIEW_INVITATIONS,
    VIEW_KEPT_DEVICES,
    VIEW_ROLES,
    VIEW_USERS,
    rights_of,
)
from accounts.audit import recording as audit
from accounts.errors import MfaEnrolmentRequired
from ironauth.infrastructure.api.paging import Page, listed
from ironauth.infrastructure.api.parsers import validated_query
from ironauth.infrastructure.api.resources import ResourceView
from ironauth.infrastructure.api.views import ApiRequest, Handler
from ironauth.infrastructure.core.errors import PermissionDenied
from ironauth.infrastructure.db.unit_of_work import database


class StaffPermission(BasePermission):
    """Lets a request through when the caller holds what the method needs.

    For the methods a `StaffView` names in ``rights_in_unit`` its unit of work alone asks. HEAD follows GET; OPTIONS
    needs authentication only.
    """

    needed: ClassVar[dict[str, str]]

    async def has_permission(self, request: Request, view: APIView) -> bool:  # type: ignore[override] # awaited by AsyncAPIView
        """Tell whether the caller may use this method, or may go on to the unit of work that asks.

        Raises what ``require`` does, for methods not in the view's ``rights_in_unit``: one read on the database pool.
        Raises ``MfaEnrolmentRequired`` in its place where staff need a second factor, this session has seen none, and
        the caller holds what the method needs: anybody who lacks it is told that, for a factor would not help them.
        """
        caller: Any = request.user
        if caller is None or not caller.is_authenticated:
            return False
        try:
            if _lacks_factor(caller) and self.needs(request):
                await self.require(request)
                raise MfaEnrolmentRequired
            if request.method not in getattr(view, "rights_in_unit", ()):
                await self.require(request)
        except PermissionDenied:
            await _record_denial(request)
            raise
        return True

    async def require(self, request: Request) -> None:
        """Raise ``PermissionDenied`` naming what the caller lacks, ``NotAuthenticated`` when the account is gone.

        One read on the database pool.
        """
        if permission := self.needs(request):
            caller: Any = request.user
            (await database().read(rights_of, caller.id)).require(permission)

    def needs(self, request: Request) -> str | None:
        """Return the permission the method needs; None for OPTIONS, and for what no view answers."""
        return self.needed.get("GET" if request.method == "HEAD" else request.method or "")


class UserPermission(StaffPermission):
    """Rights over users."""

    needed: ClassVar[dict[str, str]] = {
        "GET": VIEW_USERS,
        "POST": ADD_USERS,
        "PATCH": CHANGE_USERS,
        "DELETE": DELETE_USERS,
    }


class MembershipPermission(StaffPermission):
    """Rights over who has which role, and over users' sessions: a change of the user both."""

    needed: ClassVar[dict[str, str]] = {
        "GET": VIEW_USERS,
        "PUT": CHANGE_USERS,
        "DELETE": CHANGE_USERS,
    }


class InvitationPermission(StaffPermission):
    """Rights over invitations."""

    needed: ClassVar[dict[str, str]] = {
        "GET": VIEW_INVITATIONS,
        "POST": ADD_INVITATIONS,
        "DELETE": DELETE_INVITATIONS,
    }


class WayInPermission(StaffPermission):
    """Rights over what people sign in with: to see it, and to take it away."""

    needed: ClassVar[dict[str, str]] = {"GET": VIEW_USERS, "DELETE": REMOVE_FACTORS}


class PasswordPermission(StaffPermission):
    """The right to set the passwords of others."""

    needed: ClassVar[dict[str, str]] = {"PUT": CHANGE_USERS}


class KeptDevicePermission(StaffPermission):
    """Rights over the devices on which others are not asked for their second factor."""

    needed: ClassVar[dict[str, str]] = {"GET": VIEW_KEPT_DEVICES, "DELETE": DELETE_KEPT_DEVICES}


class AuditPermission(StaffPermission):
    """The right to read the audit trail."""

    needed: ClassVar[dict[str, str]] = {"GET": VIEW_AUDIT}


class RolePermission(StaffPermission):
    """Rights over roles themselves: Django's group permissions."""

    needed: ClassVar[dict[str, str]] = {
        "GET": VIEW_ROLES,
        "POST": ADD_ROLES,
        "PATCH": CHANGE_ROLES,
        "DELETE": DELETE_ROLES,
    }


class StaffView(ResourceView):
    """A view whose units of work ask for the caller's rights themselves: one trip to a database thread less.

    A caller who lacks them is told that first, whatever else is wrong with the request: when a handler fails, the
    permission is asked after all.
    """

    #: Methods whose unit of work asks before it reads or changes anything; the permission asks for all others.
    rights_in_unit: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a view that does not ask first whether somebody is signed in, and then for a right of staff.

        Raises:
            ImproperlyConfigured: The view does not; the error names it.
        """
        super().__init_subclass__(**kwargs)
        first, *rights = cls.permission_classes
        if first is not IsAuthenticated or not rights or not all(map(_is_right, rights)):
            raise ImproperlyConfigured(
                f"{cls.__name__}.permission_classes must be IsAuthenticated, then a StaffPermission: "
                "without the first a stranger is refused as somebody who lacks a right"
            )

    def scope_of(self, request: ApiRequest) -> str | None:
        """Return the scope that a token needs for this request; None for what no token but an account's own may do."""
        for permission in self.permission_classes:
            if issubclass(permission, StaffPermission):
                needed = permission().needs(request)
                return scopes.scope_of(needed) if needed else None
        return None

    async def page_of[T](
        self,
        request: ApiRequest,
        query: type[BaseSerializer[Any]],
        make: Callable[..., T],
        find: Callable[..., Awaitable[Page[Any]]],
    ) -> T:
        """Return the page of a list that the request asks for.

        Args:
            request: The request, with the query of the list.
            query: The parameters of the list.
            make: The class of the answer.
            find: The service; gets ``actor_id`` and ``filters``.

        Raises:
            ValidationError: DRF's (400), naming every bad and every unknown parameter.
        """
        filters = validated_query(query, request.query_params)
        return listed(make, request, await find(actor_id=caller_id(request), filters=filters))

    def caller_of(self, request: ApiRequest) -> str:
        """Return the person and the client whose token it is, or the machine, which is a client itself."""
        who: Any = request.user
        return f"machine {who.id}" if who.is_machine else f"person {who.id} {who.client_id}"

    async def require_rights(self, request: ApiRequest) -> None:
        """Raise ``PermissionDenied`` when the caller lacks what the method needs; one read on the database pool."""
        for permission in self.permission_classes:
            if issubclass(permission, StaffPermission):
                await permission().require(request)

    def _handler(self, request: HttpRequest) -> Handler:
        handler = super()._handler(request)
        return self._judged(handler) if request.method in self.rights_in_unit else handler

    def _judged(self, handler: Handler) -> Handler:
        async def judged(request: ApiRequest, *args: Any, **kwargs: Any) -> Any:
            try:
                return await self._rights_first(handler(request, *args, **kwargs), request)
            except PermissionDenied:  # anybody who asked: handlers do too, before they say what is wrong with the input
                await _record_denial(request)
                raise

        return judged

    async def _rights_first(self, answer: Awaitable[Any], request: ApiRequest) -> Any:
        """Return the answer; when there is an error instead, let missing rights go before it."""
        try:
            return await answer
        except PermissionDenied:
            raise
        except Exception:
            await self.require_rights(request)
            raise


def caller_id(request: ApiRequest) -> uuid.UUID:
    """Return the id of the person behind the request."""
    who: Any = request.user
    user_id: uuid.UUID = who.id
    return user_id


def require_factor(request: ApiRequest) -> None:
    """Raise ``MfaEnrolmentRequired`` unless a second factor was proved in the caller's session, or it is a machine."""
    if _has_shown_none(request.user):
        raise MfaEnrolmentRequired


def _lacks_factor(caller: Any) -> bool:
    """Tell whether a person's session has seen no second factor where staff need one."""
    return settings.IRONAUTH_STAFF_MFA == "required" and _has_shown_none(caller)


def _has_shown_none(caller: Any) -> bool:
    """Tell whether a person's session has seen no second factor; a machine has none to show."""
    return not caller.is_machine and "mfa" not in caller.amr.split()


def _is_right(permission: object) -> bool:
    return isinstance(permission, type) and issubclass(permission, StaffPermission)


async def _record_denial(request: Request) -> None:
    """Leave in the audit trail that somebody asked for what they may not; the answer does not wait for it."""
    caller: Any = request.user
    match = request._request.resolver_match  # noqa: SLF001 - Django's request
    await audit.record_later(
        audit.Event.ACCESS_DENIED,
        outcome=audit.Outcome.REFUSED,
        actor_id=caller.id,
        session_id=caller.session_id,
        user_id=match.kwargs.get("user_id") if match else None,
        details={"method": request.method or "", "path": request.path},
    )
