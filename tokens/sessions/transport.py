"""How tokens travel: in the body as a TokenPair, or in cookies that scripts cannot read."""

import secrets

from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from accounts.lockout.throttling import KNOWN_S
from ironauth.config.cookies import ACCESS, DEVICE, REFRESH
from ironauth.infrastructure.http import cookies
from ironauth.infrastructure.http.client_context import ClientContext, browser_of, context_of, kept_device_of
from tokens.access.credentials import refuse_login_csrf
from tokens.sessions.outputs import TokenPair

DEVICE_BYTES = 32  # 256 random bits: nobody guesses what another browser is known by


def context_of_sign_in(request: HttpRequest, transport: str) -> ClientContext:
    """Return where a sign-in comes from; with cookies, on a device that is new.

    Args:
        request: The request to sign in.
        transport: ``cookie``, or anything else for tokens in the body.

    Raises:
        CrossOrigin: (403) another site would be given cookies here.
    """
    if transport == "cookie":
        refuse_login_csrf(request)
        return context_of_return(request)._replace(kept_device=kept_device_of(request), previous=previous_of(request))
    return context_of(request)


def previous_of(request: HttpRequest | Request) -> str:
    """Return the refresh token whose cookie a sign-in with cookies replaces; "" without one."""
    previous: str = request.COOKIES.get(cookies.name_of(REFRESH), "")
    return previous


def context_of_return(request: HttpRequest) -> ClientContext:
    """Return where a sign-in comes from that another site sends back, and that has shown that it began in this browser.

    It is always on a new device: the device cookie that a browser brings there may have been planted.
    """
    device = secrets.token_urlsafe(DEVICE_BYTES)
    return context_of(request)._replace(new_device=device, browser=browser_of(request))


def token_response(pair: TokenPair, context: ClientContext, transport: str) -> TokenPair | HttpResponse:
    """Return the answer to a sign-in: the pair itself, or 204 with it, and the device, in cookies.

    Args:
        pair: The tokens of the session just opened.
        context: What ``context_of_sign_in`` returned, with the new device cookie.
        transport: ``cookie``, or anything else for tokens in the body.
    """
    if transport != "cookie":
        return pair
    response = cookie_response(pair)
    set_device(response, context)
    return response


def cookie_response(pair: TokenPair) -> HttpResponse:
    """Return 204 with both cookies, each living as long as the token in it."""
    response = no_content()
    set_cookies(response, pair)
    return response


def set_cookies(response: HttpResponse, pair: TokenPair) -> None:
    """Give the browser both cookies along with ``response``.

    Args:
        response: The response that sets them.
        pair: The tokens; each cookie lives as long as its token.
    """
    cookies.give(response, ACCESS, pair.access_token, max_age_s=pair.expires_in)
    cookies.give(response, REFRESH, pair.refresh_token, max_age_s=pair.refresh_expires_in)


def cleared_response() -> HttpResponse:
    """Return 204 that makes the browser forget both cookies."""
    response = no_content()
    cookies.clear(response)
    return response


def no_content() -> HttpResponse:
    """Return 204, without the Content-Type a response without content must not have (RFC 9110 §8.3)."""
    response = HttpResponse(status=204)
    del response.headers["Content-Type"]
    return response


def set_device(response: HttpResponse, context: ClientContext) -> None:
    """Give the browser its device cookie, which lives as long as the device is known.

    Args:
        response: The response that sets it.
        context: Where the sign-in comes from, with the new device cookie.
    """
    cookies.give(response, DEVICE, context.new_device, max_age_s=KNOWN_S)
