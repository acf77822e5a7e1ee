"""Devices without a browser (RFC 8628): the endpoint where they begin, and the page where their people end up."""

import msgspec
from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema

from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.http import client_context, second_clicks
from tokens.access.credentials import refuse_login_csrf
from tokens.clients import dpop
from tokens.clients.authentication import admit_public, authenticate
from tokens.clients.certificates import presented as certificates
from tokens.clients.errors import (
    InvalidAuthorizationDetails,
    InvalidDpopProof,
    InvalidScope,
    InvalidTarget,
    UnauthorizedClient,
)
from tokens.clients.registry import Client
from tokens.oauth import device_codes
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize.services import Decision, Step
from tokens.oauth.authorize.state import AuthorizationState
from tokens.oauth.authorize.views import ConsentView, OAuthPage
from tokens.oauth.device import services as devices
from tokens.oauth.device.units import INTERVAL_S, LIFE_S
from tokens.oauth.endpoint import DETAILS, RESOURCE, SEVERAL, OAuthEndpoint, refusals
from tokens.oauth.inputs import DeviceInput
from tokens.protocol import GrantType
from tokens.sessions import sso_session


class DeviceAuthorization(msgspec.Struct, frozen=True):
    """What the device asks with, and what it shows (RFC 8628 §3.2); ``expires_in`` and ``interval`` in seconds."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


class DeviceAuthorizationView(OAuthEndpoint):
    """POST /oauth/device_authorization."""

    several = SEVERAL

    @extend_schema(
        operation_id="oauth_device_authorization",
        summary="Begin to sign in on a device without a browser",
        request={"application/x-www-form-urlencoded": DeviceInput},
        responses={
            200: DeviceAuthorization,
            **refusals(UnauthorizedClient, InvalidScope, InvalidTarget, InvalidAuthorizationDetails, InvalidDpopProof),
        },
    )
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Answer with two codes: one the device asks `/oauth/token` with, one its person types at `/oauth/device`."""
        parameters = await self.parameters(request)
        client = await authenticate(request, parameters, allow_public=True)
        await admit_public(request, client)
        if GrantType.DEVICE_CODE not in client.grants:
            raise UnauthorizedClient
        http = request._request  # noqa: SLF001 - Django's request
        jkt = await dpop.key_of_client(http, client) or certificates.binding(http, client, required=False)
        device_code, user_code = await devices.begin(
            client=client,
            scope=parameters.get("scope", ""),
            jkt=jkt,
            asked=parameters.get(RESOURCE, ""),
            details=parameters.get(DETAILS, ""),
        )
        page, shown = f"{settings.IRONAUTH_ISSUER}/oauth/device", device_codes.shown(user_code)
        begun = DeviceAuthorization(device_code, shown, page, f"{page}?user_code={shown}", LIFE_S, INTERVAL_S)
        return HttpResponse(msgspec.json.encode(begun), content_type="application/json")


class DeviceView(OAuthPage):
    """GET, POST /oauth/device."""

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Ask which device; a code in the address is filled in, and nothing done with it (RFC 8628 §3.3.1)."""
        user_code = device_codes.typed(request.query_params.get("user_code", ""))
        return authorize_pages.device(user_code=device_codes.shown(user_code) if user_code else "")

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Go on to sign in, and to the question whether the device is theirs."""
        refuse_login_csrf(request._request)  # noqa: SLF001 - Django's request
        typed, cookie = str(request.data.get("user_code", "")), sso_session.read_cookie(request)
        found = await devices.find(typed=typed, address=client_context.address_of(request), cookie=cookie)
        if found is None:
            return authorize_pages.device(user_code=typed[: device_codes.MAX_TYPED], problem=devices.GONE)
        return self.shown(request, found.state, found.client, await devices.decide(cookie))


class ClientOrDeviceConsentView(ConsentView):
    """POST /oauth/consent, where a device may wait for the answer instead of a client."""

    async def answered(self, request: ApiRequest, state: AuthorizationState, client: Client, said: str) -> HttpResponse:
        """Tell a device that waits yes or no, or have the person who is to answer sign in."""
        if not state.device or said == "switch":
            return await super().answered(request, state, client, said)
        if said == "deny":
            await devices.deny(state, client)
            return authorize_pages.device_done(client, allowed=False)
        done = await devices.allow(state, client, sso_session.read_cookie(request))
        if done is None:
            return self.shown(request, state, client, Decision(Step.SIGN_IN))
        if not done and await second_clicks.first_of(request) is None:
            return authorize_pages.device(problem=devices.GONE)
        if done:
            await second_clicks.note(request)
        return authorize_pages.device_done(client, allowed=True)
