"""Sign a browser out whose sign-in has ended at the server."""

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, logout
from django.http import HttpRequest, HttpResponse

from ironauth_client.django import identities
from ironauth_client.django.checks import BACKEND


class OpenSessionMiddleware:
    """Looks at each request of a browser that signed in at the server: one query. List it after authentication."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """End the session first if its row is gone or too old."""
        ours = settings.SESSION_COOKIE_NAME in request.COOKIES and request.session.get(BACKEND_SESSION_KEY) == BACKEND
        if ours and not identities.is_open(request.session.get(identities.SESSION_KEY)):
            logout(request)
        return self.get_response(request)
