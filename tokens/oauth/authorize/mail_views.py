"""The pages that links in messages open on the way of a sign-in.

GET changes nothing: mail scanners fetch every link.
"""

from django.conf import settings
from django.http import HttpResponse
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import extend_schema

from accounts.email import codes
from accounts.errors import InvalidEmailCode, InvalidEmailToken
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import DomainError, NotFound
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context
from tokens.errors import MfaRequired
from tokens.oauth.authorize import mailed_pages
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize import request as authorization_request
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.request import Unanswerable
from tokens.oauth.authorize.sign_in_views import SignInForm, refusal_of
from tokens.oauth.authorize.state import AuthorizationState
from tokens.oauth.authorize.views import EXPIRED
from tokens.sessions import transport
from tokens.sign_in import services
from tokens.upstream import providers

USED_UP = _("The link no longer works: it was used, or is too old. Ask for a new message.")


class SignInLink(SignInForm):
    """GET, POST /oauth/signin/link."""

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Show the button that signs in, in the browser that asked; elsewhere, where the code is typed."""
        if not settings.IRONAUTH_SIGN_IN_BY_EMAIL:
            raise NotFound
        token, browser = request.query_params.get("token", ""), authorization_state.browser_of(request)
        try:
            found = await codes.opened_link(token=token, address=client_context.address_of(request))
        except InvalidEmailToken as error:
            return authorize_pages.error(detail=error.detail, status=error.status, signs_in=True)
        waiting = await database().read(mailed_pages.find, found.id, browser)
        if waiting is None or not waiting.is_here:
            return authorize_pages.of_message_elsewhere("email_link_elsewhere.html")
        await providers.refresh()
        client = None
        if isinstance(waiting.state, AuthorizationState):
            client = await authorization_request.enabled_client(waiting.state.request.client_id)
        return authorize_pages.of_message("email_link.html", waiting.state, client, browser, token=token)

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Sign in whose message it was, and go on."""
        state, client = await self.resumed_sign_in(request)
        if not settings.IRONAUTH_SIGN_IN_BY_EMAIL:
            raise NotFound
        if state.code_id is None:
            raise Unanswerable(EXPIRED)
        browser = authorization_state.browser_of(request)
        context = transport.context_of_sign_in(request._request, "cookie")  # noqa: SLF001 - Django's request
        try:
            proof = await services.verify_email_link(
                code_id=state.code_id, token=str(request.data.get("token", "")), address=context.address
            )
            return await self.signed_in(request, proof, state=state, client=client, context=context)
        except MfaRequired as needed:
            return self.ask_second_factor(needed, state, client, browser, email=state.email)
        except (InvalidEmailToken, InvalidEmailCode) as error:
            return authorize_pages.ask_email_code(
                state, client, browser, email=state.email, problem=USED_UP, status=error.status
            )
        except DomainError as error:
            return authorize_pages.sign_in(state, client, browser, email=state.email, **refusal_of(error))
