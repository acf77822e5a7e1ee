"""A person's own account over HTTP: input, one service call, output."""

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.response import Response

from accounts.errors import (
    EmailTaken,
    InvalidCredentials,
    InvalidEmailCode,
    LastSuperuser,
    SignUpClosed,
    StepUpRequired,
    UserProtected,
)
from accounts.invitations import services as invitations
from accounts.invitations.errors import InvalidInvitation
from accounts.organizations.errors import SoleOwner, TooManyMembers
from accounts.own_account import project_profile
from accounts.own_account import services as own_account
from accounts.users import services
from accounts.users.inputs import DeleteAccountInput, LanguageInput, ProfileInput, SignupInput
from accounts.users.outputs import LanguageOut, MeOut, UserOut, me_out
from accounts.users.proofs import Evidence
from accounts.users.signed_in import signed_in
from ironauth.config.cookies import ACCESS
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import Throttled, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context, cookies, language


class SignupView(AsyncAPIView):
    """Open to everyone; a credential sent along is ignored."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(
        operation_id="access_signup",
        summary="Create an account",
        request=SignupInput,
        responses={
            201: UserOut,
            202: OpenApiResponse(
                None, "Where addresses must be verified: always without an invitation, with a message to the address."
            ),
            400: (ValidationFailed, InvalidInvitation),
            403: SignUpClosed,
            409: (EmailTaken, TooManyMembers),
            429: Throttled,
        },
    )
    async def post(self, request: ApiRequest) -> Response:
        """Create an account; unknown fields are ignored, so nobody signs up as staff.

        With ``invitation``, the token of an invitation's link, also where sign-up is by invitation only; the address is
        verified then, and the account has the roles that came with the invitation, or is a member of the organization
        that it is to.
        """
        data = await self.validated(request, SignupInput)
        address, invitation = client_context.address_of(request), data.pop("invitation", None)
        if invitation is not None:
            return Response(await invitations.accept(token=invitation, **data, address=address), status=201)
        user = (await own_account.sign_up(**data, address=address)).user
        return Response(user, status=201 if user else 202)


class MeView(AsyncAPIView):
    """The person behind the request."""

    while_acting = frozenset({"GET"})

    @extend_schema(operation_id="access_me", summary="Who am I", request=None, responses={200: MeOut})
    async def get(self, request: ApiRequest) -> MeOut:
        """Return the person as the access token's session was last confirmed; no query while that is fresh.

        `acting` says who of staff is signed in as this person for support, and until when; it is null for the person.
        """
        who = signed_in(request)
        return me_out(who.user, who.acting)

    @extend_schema(
        operation_id="access_me_update",
        summary="Change my names and time zone",
        request=ProfileInput,
        responses={200: MeOut, 400: ValidationFailed},
    )
    async def patch(self, request: ApiRequest) -> MeOut:
        """Change the names and the time zone; nothing else can be changed here, and an empty body changes nothing."""
        who = signed_in(request)
        data = await self.validated(request, ProfileInput)
        if data:
            user = await services.update_profile(user_id=who.id, session_id=who.session_id, values=data)
        else:
            user = await services.get_profile(user_id=who.id)
        return me_out(user, who.acting)

    @extend_schema(
        operation_id="access_me_delete",
        summary="Delete my account",
        request=DeleteAccountInput,
        responses={
            204: None,
            400: ValidationFailed,
            401: (InvalidCredentials, InvalidEmailCode, StepUpRequired),
            409: (LastSuperuser, UserProtected, SoleOwner),
            429: Throttled,
        },
    )
    async def delete(self, request: ApiRequest) -> HttpResponse:
        """Delete the account after the password was given once more; a message tells how long that can be undone."""
        who = signed_in(request)
        data = await self.validated(request, DeleteAccountInput)
        await own_account.delete_account(
            user_id=who.id,
            session_id=who.session_id,
            authenticated_at=who.authenticated_at,
            shown=Evidence.in_body(data),
        )
        response = HttpResponse(status=204)
        del response.headers["Content-Type"]
        cookies.clear(response)
        return response


class ProjectProfileView(AsyncAPIView):
    """The project's own fields of the person; routed where a project has registered them."""

    while_acting = frozenset({"GET"})
    takes_delegated = False

    @extend_schema(
        operation_id="access_me_profile",
        summary="My fields in this project",
        request=None,
        responses={200: OpenApiTypes.OBJECT},
    )
    async def get(self, request: ApiRequest) -> Response:
        """Return the fields that the project has registered."""
        return Response(await database().read(project_profile.read, user_id=signed_in(request).id))

    @extend_schema(
        operation_id="access_me_profile_update",
        summary="Change my fields in this project",
        request=OpenApiTypes.OBJECT,
        responses={200: OpenApiTypes.OBJECT, 400: ValidationFailed},
    )
    async def patch(self, request: ApiRequest) -> Response:
        """Change some of them; what is absent stays, and unknown names are ignored."""
        who = signed_in(request)
        changed = await database().write(
            project_profile.write, user_id=who.id, values=request.data, session_id=who.session_id
        )
        return Response(changed)


class LanguageView(AsyncAPIView):
    """The language of a person's pages and messages."""

    while_acting = frozenset({"GET"})

    @extend_schema(
        operation_id="access_me_language",
        summary="My language",
        request=None,
        responses={200: LanguageOut},
    )
    async def get(self, request: ApiRequest) -> Response:
        """Return the language; a browser that is signed in by cookies learns it for the pages it opens next."""
        return self._told(request, await services.get_language(user_id=signed_in(request).id))

    @extend_schema(
        operation_id="access_me_language_set",
        summary="Choose my language",
        request=LanguageInput,
        responses={200: LanguageOut, 400: ValidationFailed},
    )
    async def put(self, request: ApiRequest) -> Response:
        """Choose the language; "" leaves it to the browser."""
        who = signed_in(request)
        data = await self.validated(request, LanguageInput)
        await services.set_language(user_id=who.id, session_id=who.session_id, **data)
        return self._told(request, data["language"])

    @staticmethod
    def _told(request: ApiRequest, code: str) -> Response:
        response = Response(LanguageOut(code))
        if cookies.name_of(ACCESS) in request.COOKIES and signed_in(request).acting is None:
            language.keep_own(response, code)
        return response
