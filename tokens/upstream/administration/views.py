"""Sign-in providers over HTTP: input, one service call, output. Scopes: ``providers:read``, ``providers:write``."""

from typing import ClassVar

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated

from accounts.access.permissions import StaffPermission, StaffView, caller_id
from accounts.access.scopes import CHANGE_PROVIDERS, SEE_PROVIDERS
from accounts.errors import StepUpRequired
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.idempotency import Created
from ironauth.infrastructure.api.parsers import NoParameters, validated_query
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied, Throttled, ValidationFailed
from tokens.upstream.administration import services
from tokens.upstream.administration.errors import ProviderEnabled
from tokens.upstream.administration.inputs import ProviderCreateInput, ProviderPatchInput
from tokens.upstream.administration.outputs import SignInProviderOut, TrialOut


class ProviderPermission(StaffPermission):
    """Rights over sign-in providers: superusers', and machines' with the scope."""

    needed: ClassVar[dict[str, str]] = {
        "GET": SEE_PROVIDERS,
        "POST": CHANGE_PROVIDERS,
        "PATCH": CHANGE_PROVIDERS,
        "DELETE": CHANGE_PROVIDERS,
    }


class ProvidersView(StaffView):
    """All sign-in providers."""

    permission_classes = (IsAuthenticated, ProviderPermission)
    rights_in_unit = frozenset({"GET", "POST"})
    creates = Created(SignInProviderOut, name="slug")

    @extend_schema(
        operation_id="providers_list",
        summary="List sign-in providers",
        request=None,
        responses={200: list[SignInProviderOut], 400: ValidationFailed, 403: PermissionDenied},
    )
    async def get(self, request: ApiRequest) -> list[SignInProviderOut]:
        """Return the providers in the order of their buttons, without their secrets. Scope: `providers:read`."""
        validated_query(NoParameters, request.query_params)
        return await services.list_providers(actor_id=caller_id(request))

    @extend_schema(
        operation_id="providers_create",
        summary="Add a sign-in provider",
        request=ProviderCreateInput,
        responses={201: SignInProviderOut, 400: ValidationFailed, 401: StepUpRequired, 403: PermissionDenied},
    )
    async def post(self, request: ApiRequest) -> SignInProviderOut:
        """Add a provider; register its `redirect_uri` there. Scope: `providers:write`.

        A superuser's, or a machine's. Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        values = await self.validated(request, ProviderCreateInput)
        step_up.require_recent(signed_in(request))
        return await services.create_provider(actor_id=caller_id(request), values=values)


class ProviderView(StaffView):
    """One sign-in provider."""

    permission_classes = (IsAuthenticated, ProviderPermission)
    rights_in_unit = frozenset({"GET", "PATCH", "DELETE"})
    edited = services.EDITED

    @extend_schema(
        operation_id="providers_read",
        summary="Read a sign-in provider",
        request=None,
        responses={200: SignInProviderOut, 403: PermissionDenied, 404: NotFound},
    )
    async def get(self, request: ApiRequest, slug: str) -> SignInProviderOut:
        """Return the provider without its secret. Scope: `providers:read`."""
        return await services.get_provider(actor_id=caller_id(request), slug=slug)

    @extend_schema(
        operation_id="providers_update",
        summary="Change a sign-in provider, or switch it off",
        request=ProviderPatchInput,
        responses={
            200: SignInProviderOut,
            400: ValidationFailed,
            401: StepUpRequired,
            403: PermissionDenied,
            404: NotFound,
        },
    )
    async def patch(self, request: ApiRequest, slug: str) -> SignInProviderOut:
        """Change the fields that are sent. Scope: `providers:write`.

        Switched off (`enabled`), or at another issuer, it signs nobody in, and the sessions that began with it end.
        Where that leaves people without a way in it is refused, with their number, unless `leave_without_way_in` is
        true. Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        values = await self.validated(request, ProviderPatchInput)
        step_up.require_recent(signed_in(request))
        return await services.change_provider(actor_id=caller_id(request), slug=slug, values=values)

    @extend_schema(
        operation_id="providers_delete",
        summary="Delete a sign-in provider",
        request=None,
        responses={204: None, 401: StepUpRequired, 403: PermissionDenied, 404: NotFound, 409: ProviderEnabled},
    )
    async def delete(self, request: ApiRequest, slug: str) -> None:
        """Delete a provider that is switched off, with the identities there. Scope: `providers:write`.

        Needs a sign-in, step-up or machine's token of the last ten minutes.
        """
        step_up.require_recent(signed_in(request))
        await services.delete_provider(actor_id=caller_id(request), slug=slug)


class ProviderTrialView(StaffView):
    """Trying one sign-in provider."""

    permission_classes = (IsAuthenticated, ProviderPermission)
    rights_in_unit = frozenset({"POST"})

    @extend_schema(
        operation_id="providers_try",
        summary="Try a sign-in provider",
        request=None,
        responses={
            200: OpenApiResponse(TrialOut, "What the provider answers, or what is wrong with it."),
            403: PermissionDenied,
            404: NotFound,
            429: Throttled,
        },
    )
    async def post(self, request: ApiRequest, slug: str) -> TrialOut:
        """Fetch the provider's document and keys now; nothing is changed. Scope: `providers:write`."""
        return await services.try_provider(actor_id=caller_id(request), slug=slug)
