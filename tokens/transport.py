"""How tokens travel: in the body as a TokenPair, or in cookies that scripts cannot read."""

from django.http import HttpRequest, HttpResponse

from ironauth.infrastructure import cookies, origin
from tokens.outputs import TokenPair
from tokens.sessions import ClientInfo


def cookie_response(pair: TokenPair) -> HttpResponse:
    """Return 204 with both cookies, each living as long as the token in it."""
    response = no_content()
    set_cookies(response, pair)
    return response


def set_cookies(response: HttpResponse, pair: TokenPair) -> None:
    """Give the browser both cookies along with ``response``."""
    cookies.set_access(response, pair.access_token, pair.expires_in)
    cookies.set_refresh(response, pair.refresh_token, pair.refresh_expires_in)


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


def client_info(request: HttpRequest) -> ClientInfo:
    """Return where the request comes from, fit to be stored and shown."""
    return ClientInfo(ip=origin.address_of(request), user_agent=origin.user_agent_of(request))
