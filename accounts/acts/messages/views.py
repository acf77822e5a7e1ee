"""Messages to one person over HTTP, for staff and machines."""

import uuid
from typing import ClassVar

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import StaffPermission, StaffView, caller_id
from accounts.access.rights import CHANGE_USERS, VIEW_USERS
from accounts.acts.messages import units
from accounts.acts.messages.outputs import MessageOut
from accounts.errors import NothingToDo
from ironauth.infrastructure.api.parsers import NoParameters, validated_query
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database


class MessagePermission(StaffPermission):
    """Rights over messages: those over the people they are to."""

    needed: ClassVar[dict[str, str]] = {"GET": VIEW_USERS, "POST": CHANGE_USERS}


class UserMessagesView(StaffView):
    """GET /api/v1/users/{id}/messages."""

    permission_classes = (IsAuthenticated, MessagePermission)
    rights_in_unit = frozenset({"GET"})

    @extend_schema(
        operation_id="users_messages_list",
        summary="List the messages to a user that were not accepted yet",
        request=None,
        responses={200: list[MessageOut], 400: ValidationFailed, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, user_id: uuid.UUID) -> list[MessageOut]:
        """Return them, the newest first; what the mail server has accepted is gone from here."""
        validated_query(NoParameters, request.query_params)
        return await database().read(units.waiting, actor_id=caller_id(request), user_id=user_id)


class UserMessageSendView(StaffView):
    """POST /api/v1/users/{id}/messages/{message_id}/send."""

    permission_classes = (IsAuthenticated, MessagePermission)
    rights_in_unit = frozenset({"POST"})

    @extend_schema(
        operation_id="users_messages_send",
        summary="Try to send a message to a user again now",
        request=None,
        responses={
            204: OpenApiResponse(None, "It is tried at the next delivery, at once."),
            403: PermissionDenied,
            404: NotFound,
            409: NothingToDo,
        },
    )
    async def post(self, request: ApiRequest, user_id: uuid.UUID, message_id: uuid.UUID) -> None:
        """Have it sent at once, also one that was given up; links in it are valid from then. Scope: `users:write`.

        `409 nothing_to_do` while it is being sent.
        """
        ids = {"user_id": user_id, "message_id": message_id}
        if not await database().write(units.try_again, actor_id=caller_id(request), **ids):
            raise NothingToDo("The message is being sent at this moment.")
