"""``request.user`` in the views of a project that is built on this product: who is signed in at our pages.

The pages' session has two cookies. For ten minutes the access token tells who it is. After that the refresh token does:
it is looked at here and not exchanged, which is left to the pages. A browser that only ever signed in on the way to a
client has the cookie of its SSO session. The admin is left out: it has a sign-in of its own, which nothing here
replaces.
A member of staff who acts as a person is nobody here: views of a project cannot tell them from the person.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.deprecation import MiddlewareMixin
from django.utils.functional import SimpleLazyObject

from ironauth.config.cookies import REFRESH
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import DomainError
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.http import cookies
from tokens.access.credentials import access_name
from tokens.errors import ActingSession
from tokens.sessions import queries, refresh_token, sso_session
from tokens.sessions.authentication import by_text
from tokens.sessions.models import FIRST_PARTY_CLIENT, FIRST_PARTY_SCOPE

ADMIN = "admin"  # the app name of every AdminSite's URLs


class WebUserMiddleware(MiddlewareMixin):
    """Sets ``request.user`` and ``request.auser`` from the session at our pages; behind AuthenticationMiddleware."""

    def process_view(
        self, request: HttpRequest, _view: Callable[..., Any], _args: tuple[Any, ...], _kwargs: dict[str, Any]
    ) -> None:
        """Replace Django's user where a view of the project asks for it; nothing is read before.

        Never by the session of the admin, which signs staff in there and nowhere else.
        """
        match = request.resolver_match
        if match is None or ADMIN in match.app_names:
            return
        own: Any = request
        known: list[Any] = []

        def user() -> Any:
            own.web_user_was_asked_for = True
            if not known:
                known.append(_signed_in(request) or AnonymousUser())
            return known[0]

        # As Django's own middleware sets them, whose types they have.
        own.user, own.auser = SimpleLazyObject(user), sync_to_async(user)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Say that the answer depends on cookies, where it does: no cache may give it to another person."""
        if getattr(request, "web_user_was_asked_for", False):
            patch_vary_headers(response, ("Cookie",))
        return response


def _signed_in(request: HttpRequest) -> Any:
    """Return the person that the cookies of the request sign in, or None. Up to 3 queries."""
    try:
        user_id = _by_access_token(request) or _by_refresh_token(request) or _by_sso_session(request)
    except ActingSession:
        return None
    if user_id is None:
        return None
    return get_user_model()._default_manager.filter(pk=user_id, is_active=True).first()  # noqa: SLF001 - Django's way


def _by_access_token(request: HttpRequest) -> UUID | None:
    token = request.COOKIES.get(access_name())
    if not token:
        return None
    try:
        principal = async_to_sync(by_text)(token)
    except ActingSession:
        raise
    except DomainError:
        return None
    return principal.id if FIRST_PARTY_SCOPE in principal.scope.split() and not principal.delegated else None


def _by_refresh_token(request: HttpRequest) -> UUID | None:
    """Return whose session the newest refresh token is of; an older one signs nobody in. 1 query."""
    parsed = refresh_token.parse(request.COOKIES.get(cookies.name_of(REFRESH), ""))
    session = queries.find(parsed.session_id) if parsed is not None else None
    if parsed is None or session is None or session.client_id != FIRST_PARTY_CLIENT or session.is_over(clock.now()):
        return None
    if session.actor_id is not None:
        raise ActingSession
    try:
        genuine = refresh_token.is_genuine(parsed, secret=session.secret, master_key_id=session.master_key_id)
    except MasterKeyMissingError:
        return None
    good = genuine and parsed.generation == session.generation and sso_session.signs_in(session)
    return session.account.id if good else None


def _by_sso_session(request: HttpRequest) -> UUID | None:
    """Return whose SSO session the browser has, and note its use. 1 query, 2 once a minute."""
    cookie = sso_session.read_cookie(request)
    session = sso_session.find(cookie) if cookie is not None else None
    if session is None:
        return None
    sso_session.touch(session)
    return session.account.id
