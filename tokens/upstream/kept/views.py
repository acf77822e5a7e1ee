"""Access that is kept, over HTTP, for services of the operator. Scope: ``providers:tokens``."""

from typing import ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import StaffPermission, StaffView, caller_id
from accounts.access.scopes import USE_PROVIDER_TOKENS
from accounts.federation.errors import UpstreamUnavailable
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied
from tokens.upstream.kept import services
from tokens.upstream.kept.errors import NoUpstreamToken
from tokens.upstream.kept.outputs import UpstreamTokenOut


class ProviderTokenPermission(StaffPermission):
    """The right to act for people at providers: machines' with the scope."""

    needed: ClassVar[dict[str, str]] = {"POST": USE_PROVIDER_TOKENS}


class UserProviderTokenView(StaffView):
    """POST /api/v1/users/{id}/provider-tokens/{slug}."""

    permission_classes = (IsAuthenticated, ProviderTokenPermission)
    rights_in_unit = frozenset({"POST"})

    @extend_schema(
        operation_id="users_provider_token",
        summary="Get an access token of a user at a sign-in provider",
        request=None,
        responses={
            200: UpstreamTokenOut,
            403: PermissionDenied,
            404: NotFound,
            409: NoUpstreamToken,
            503: UpstreamUnavailable,
        },
    )
    async def post(self, request: ApiRequest, user_id: UUID, slug: str) -> UpstreamTokenOut:
        """Return a token with which the machine acts for the user there; one that has ended is renewed first.

        For machines with the scope `providers:tokens` alone, and of people who have rights here, for machines that have
        them too. Each token that is handed out is in the audit trail.
        """
        return await services.access_token(user_id=user_id, provider=slug, actor_id=caller_id(request))
