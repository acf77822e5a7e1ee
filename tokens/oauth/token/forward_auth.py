"""The question a reverse proxy asks before it lets a request through to an application."""

import re
from typing import Any, ClassVar, Final
from urllib.parse import quote

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request

from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from tokens.access import codec
from tokens.access.credentials import access_credential
from tokens.clients.certificates import presented as certificates
from tokens.errors import ActingSession, InsufficientScope, InvalidToken, TwoCredentials, UnprovedToken
from tokens.oauth.endpoint import RESOURCE
from tokens.oauth.token import shown
from tokens.principal import Principal
from tokens.protocol import SCOPE_TOKEN, scope_set
from tokens.resources import identifiers
from tokens.sessions import access_tokens
from tokens.sessions.authentication import AccessTokenAuthentication
from tokens.sessions.organizations import queries as organizations
from tokens.sessions.transport import no_content

#: What a role name keeps in X-Auth-Roles apart from letters and digits; not the comma and the percent sign.
ROLE_CHARACTERS: Final = " !#$&'()*+-./:;<=>?@[]^_`{|}~"
#: What may be repeated in a header.
_SCOPE: Final = re.compile(SCOPE_TOKEN)


class ForApi(AccessTokenAuthentication):
    """Authentication for the API that the proxy names, or else for this server's own.

    What a token is for is read from its own verified text each time. What was remembered of a token for one API
    therefore answers nothing about another.
    """

    async def authenticate(self, request: Request) -> tuple[Principal, Principal] | None:  # type: ignore[override] # async
        """Return the principal twice, None without a credential.

        Raises:
            InvalidToken: (401) the token is not for every API that is named, or not good.
            UnprovedToken: (401) it is bound to a key; ``UncertifiedToken`` to a certificate that was not shown.
            ActingSession: (403) a member of staff acts as the person.
            Unavailable: (503) its session cannot be looked up.
        """
        if RESOURCE not in request.query_params:
            return await super().authenticate(request)
        http = request._request  # noqa: SLF001 - DRF's request only delegates, slowly
        credential = access_credential(http)
        if credential is None:
            return None
        if credential.with_proof:
            raise UnprovedToken("view")
        verified = await shown.decoded(credential.token)
        wanted = identifiers.asked(" ".join(request.query_params.getlist(RESOURCE)))
        if not wanted or not set(wanted) <= set(identifiers.listed(verified.claims.aud)):
            raise InvalidToken("aud")
        if codec.is_own(verified.claims.aud):  # what is remembered of those is not tied to other APIs
            await shown.require_active(verified.claims)
        principal = await shown.principal_of(credential.token, verified)
        if principal.jkt:
            raise UnprovedToken("bound")
        if principal.x5t:
            certificates.require_shown(http, principal.x5t)
        if principal.acting is not None:
            raise ActingSession
        return principal, principal


class VerifyView(AsyncAPIView):
    """GET /api/v1/access/verify: the question a reverse proxy asks before it lets a request through."""

    authentication_classes: ClassVar[list[Any]] = [ForApi]
    takes_proofs = False  # they are for the application's address behind the proxy, and nothing here vouches for that
    token_scope = None  # the asking proxy judges what a scope allows: ?scope=, X-Auth-Scope
    permission_classes = [IsAuthenticated]

    @extend_schema(
        operation_id="access_verify",
        summary="Check a credential, for forward-auth",
        auth=[{"bearer": []}, {"cookie": []}],  # type: ignore[list-item] # its annotation says names, it takes these
        parameters=[
            OpenApiParameter("scope", str, description="What the token has to be good for, separated by spaces."),
            OpenApiParameter(
                RESOURCE,
                str,
                description="The registered API that the token has to be for; without it, this server's own audience.",
            ),
            *(
                OpenApiParameter(name, str, OpenApiParameter.HEADER, response=[204], description=text)
                for name, text in (
                    ("X-Auth-Subject", "The user's id, as the token's client knows it."),
                    ("X-Auth-Session", "The session's id."),
                    ("X-Auth-Roles", "By the scope account or roles: their names joined by commas, percent-encoded."),
                    ("X-Auth-Scope", "What the token may do, separated by spaces."),
                    (
                        "X-Auth-Organization",
                        "With organizations: the id of the one that the person acts for, or empty.",
                    ),
                    ("X-Auth-Organization-Roles", "With organizations: their roles there joined by commas, or empty."),
                )
            ),
        ],
        responses={
            204: OpenApiResponse(None, "The credential is good."),
            400: TwoCredentials,
            401: InvalidToken,
            403: InsufficientScope,
        },
    )
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Say who the caller is, in headers alone.

        Without `scope` a good token of any client passes; `account` is what people have who sign in here. In front of
        a registered API name its identifier as `resource`: a token for another API, or for none, is 401 then.
        """
        principal = request.auth
        lacking = scope_set(" ".join(request.query_params.getlist("scope"))) - scope_set(principal.scope)
        if lacking:
            raise InsufficientScope(" ".join(filter(_SCOPE.fullmatch, sorted(lacking))))
        response = no_content()
        response.headers["X-Auth-Subject"] = str(principal.subject)
        response.headers["X-Auth-Session"] = str(principal.session_id)
        roles = principal.user.roles if access_tokens.tells_roles(principal.scope) else ()
        response.headers["X-Auth-Roles"] = ",".join(quote(role, safe=ROLE_CHARACTERS) for role in roles)
        response.headers["X-Auth-Scope"] = principal.scope
        if organizations.is_on():  # empty ones too: a proxy then replaces what the caller has sent
            organization = principal.organization
            response.headers["X-Auth-Organization"] = str(organization.id) if organization else ""
            response.headers["X-Auth-Organization-Roles"] = ",".join(organization.roles) if organization else ""
        return response
