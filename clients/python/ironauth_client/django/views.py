"""Sign in, come back, sign out, and be told by the server that somebody has signed out."""

from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import auth
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import resolve_url
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from ironauth_client import metadata
from ironauth_client import sign_in as flow
from ironauth_client.django import identities
from ironauth_client.django.conf import CacheReplayStore, client, setting
from ironauth_client.errors import IronAuthError, SignInFailed

#: Attempts of a browser that are kept: one for each tab.
ATTEMPTS: Final = "ironauth_attempts"
MOST_ATTEMPTS: Final = 5
LOGOUT_TOKEN_S: Final = 600  # seconds a used logout token is remembered; IronAuth's live two minutes


@never_cache
@require_GET
def sign_in(request: HttpRequest) -> HttpResponse:
    """Send the browser to the server; ``?next=`` is where the person goes afterwards, on this site only."""
    wanted = request.GET.get("next", "")
    here = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    after = wanted if here else resolve_url(settings.LOGIN_REDIRECT_URL)
    attempt = flow.Attempt(request.build_absolute_uri(reverse("ironauth_client:callback")), after)
    try:
        address = client().run(flow.address(client().provider, attempt, setting("SCOPE")))
    except IronAuthError as error:
        return _failed(error)
    kept = [*request.session.get(ATTEMPTS, []), asdict(attempt)]
    request.session[ATTEMPTS] = kept[-MOST_ATTEMPTS:]
    return HttpResponseRedirect(address)


@never_cache
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    """Sign in the person that the server names, in the browser that asked for it."""
    kept: list[dict[str, Any]] = request.session.get(ATTEMPTS, [])
    found = [given for given in kept if given["state"] == request.GET.get("state")]
    request.session[ATTEMPTS] = [given for given in kept if given not in found]  # used once, whatever comes of it
    try:
        if not found:
            raise SignInFailed("this answer belongs to no sign-in that began in this browser")
        attempt = flow.Attempt(**found[0])
        tokens = client().run(flow.redeem(client().provider, attempt, request.GET.dict()))
        claims = client().verify_identity(tokens["id_token"], nonce=attempt.nonce)
        user = auth.authenticate(request, ironauth_claims=claims)
        identity = identities.find(claims)
        if user is None or identity is None:
            raise SignInFailed("this account is closed here")
    except IronAuthError as error:
        return _failed(error)
    auth.login(request, user)
    request.session[identities.SESSION_KEY] = identities.open_session(identity, claims.session_id)
    return HttpResponseRedirect(attempt.next_url)


@never_cache
@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session here, and send the browser to end it at the server."""
    identities.end(request.session.get(identities.SESSION_KEY))
    auth.logout(request)
    home = request.build_absolute_uri(resolve_url(settings.LOGOUT_REDIRECT_URL or "/"))
    try:
        endpoint = client().run(client().provider.endpoint("end_session_endpoint"))
    except IronAuthError:
        return HttpResponseRedirect(home)  # signed out here, whatever the server does
    query = {"client_id": client().provider.config.client_id, "post_logout_redirect_uri": home}
    return HttpResponseRedirect(f"{endpoint}?{urlencode(query)}")


@csrf_exempt
@never_cache
@require_POST
def backchannel_logout(request: HttpRequest) -> HttpResponse:
    """End the sessions that a logout token names (OpenID Connect Back-Channel Logout 1.0)."""
    try:
        claims = client().verify_logout(request.POST.get("logout_token", ""))
    except IronAuthError as error:
        status = error.status if error.status == HTTPStatus.SERVICE_UNAVAILABLE else HTTPStatus.BAD_REQUEST
        return JsonResponse({"error": "invalid_request", "error_description": str(error)}, status=status)
    if not CacheReplayStore().first_use(f"logout-{claims.token_id}", LOGOUT_TOKEN_S):
        answer = {"error": "invalid_request", "error_description": "the logout token was used before"}
        return JsonResponse(answer, status=HTTPStatus.BAD_REQUEST)
    identities.end_by(claims)
    return HttpResponse()


@require_GET
def protected_resource(request: HttpRequest) -> HttpResponse:
    """Answer with the metadata of the site's API (RFC 9728) at the one path that its audience gives."""
    config = client().provider.config
    if not config.publishes_metadata or request.path != metadata.path_of(config):
        return HttpResponse(status=HTTPStatus.NOT_FOUND)
    said = metadata.document(config, scopes=setting("API_SCOPES"), name=setting("API_NAME"))
    return JsonResponse(said, headers={"Access-Control-Allow-Origin": "*"})


def _failed(error: IronAuthError) -> HttpResponse:
    return HttpResponse(f"Not signed in: {error}.", status=error.status, content_type="text/plain; charset=utf-8")
