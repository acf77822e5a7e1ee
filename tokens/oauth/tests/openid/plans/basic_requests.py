"""Modules of Basic about what an authorization request may ask for, and what it may not."""

import base64
import json
from typing import Any, Final

from tokens.oauth.tests.openid.browser import Browser
from tokens.oauth.tests.openid.registry import Modules, Trial
from tokens.oauth.tests.openid.relying_party import RelyingParty
from tokens.oauth.tests.openid.site import CALLBACK
from tokens.sessions.models import SSO_CLIENT

MODULES: Final = Modules()
#: How long ago somebody has signed in, where time has to pass.
LATER_S: Final = 30.0
SESSIONS: Final = "tokens_session"


def _succeeds(name: str, checks: str, **asked: str) -> None:
    """Add a module whose whole flow succeeds with these parameters."""

    def run(trial: Trial) -> None:
        client = trial.client()
        client.userinfo(client.sign_in(trial.browser(), **asked))

    MODULES.add(name, checks)(run)


_succeeds("oidcc-display-page", "display=page is no error.", display="page")
_succeeds("oidcc-display-popup", "display=popup is no error.", display="popup")
_succeeds("oidcc-login-hint", "login_hint is no error.", login_hint="mia@example.com")
_succeeds("oidcc-ui-locales", "ui_locales is no error.", ui_locales="se fr")
_succeeds("oidcc-claims-locales", "claims_locales is no error.", claims_locales="se")
_succeeds(
    "oidcc-ensure-request-with-unknown-parameter-succeeds", "A parameter that nobody knows is no error.", extra="foobar"
)


@MODULES.add("oidcc-ensure-request-with-acr-values-succeeds", "acr_values is no error, and acr should come back.")
def acr_values(trial: Trial) -> None:
    """The first value that the metadata names."""
    client = trial.client()
    wanted = client.metadata["acr_values_supported"][0]
    claims = client.sign_in(trial.browser(), acr_values=wanted)["claims"]
    trial.should(claims.get("acr") == wanted, "acr is not what was asked for")


@MODULES.add("oidcc-prompt-login", "prompt=login: the person signs in again, and auth_time is newer.")
def prompt_login(trial: Trial) -> None:
    """Somebody who has signed in half a minute ago."""
    client, browser = trial.client(), trial.browser()
    first = _signed_in_before(trial, client, browser)
    second = client.sign_in(browser, prompt="login")["claims"]
    assert browser.asked.count("signin") == 2
    assert second["sub"] == first["sub"]
    assert second["auth_time"] > first["auth_time"]


@MODULES.add("oidcc-prompt-none-logged-in", "prompt=none answers at once who is signed in: the same sub and auth_time.")
def prompt_none_logged_in(trial: Trial) -> None:
    """The second time nobody is asked anything."""
    client, browser = trial.client(), trial.browser()
    first = client.sign_in(browser)["claims"]
    asked = list(browser.asked)
    second = client.sign_in(browser, prompt="none")["claims"]
    assert browser.asked == asked
    assert (second["sub"], second["auth_time"]) == (first["sub"], first["auth_time"])


@MODULES.add("oidcc-prompt-none-not-logged-in", "prompt=none where nobody is signed in: an error to the client.")
def prompt_none_not_logged_in(trial: Trial) -> None:
    """The error says why."""
    client, browser = trial.client(), trial.browser()
    asked = client.request(prompt="none")
    client.refused(browser.authorize(asked), asked, "login_required", "interaction_required")
    assert browser.asked == []


@MODULES.add("oidcc-max-age-1", "max_age=1 more than a second later: the person signs in again, auth_time is newer.")
def max_age_1(trial: Trial) -> None:
    """Somebody who has signed in half a minute ago."""
    client, browser = trial.client(), trial.browser()
    first = _signed_in_before(trial, client, browser)
    second = client.sign_in(browser, max_age="1")["claims"]
    assert browser.asked.count("signin") == 2
    assert second["sub"] == first["sub"]
    assert second["auth_time"] > first["auth_time"]


@MODULES.add("oidcc-max-age-10000", "max_age=10000: nobody signs in again, auth_time is the same.")
def max_age_10000(trial: Trial) -> None:
    """Somebody who has signed in half a minute ago."""
    client, browser = trial.client(), trial.browser()
    first = _signed_in_before(trial, client, browser)
    second = client.sign_in(browser, max_age="10000")["claims"]
    assert browser.asked.count("signin") == 1
    assert (second["sub"], second["auth_time"]) == (first["sub"], first["auth_time"])


@MODULES.add("oidcc-id-token-hint", "prompt=none with the ID token of before as id_token_hint: the same person.")
def id_token_hint(trial: Trial) -> None:
    """The same sub and auth_time."""
    client, browser = trial.client(), trial.browser()
    first = client.sign_in(browser)
    second = client.sign_in(browser, prompt="none", id_token_hint=first["id_token"])["claims"]
    assert (second["sub"], second["auth_time"]) == (first["claims"]["sub"], first["claims"]["auth_time"])


@MODULES.add("oidcc-ensure-registered-redirect-uri", "An address that is not registered: a page, and no redirect.")
def registered_redirect_uri(trial: Trial) -> None:
    """The person is told, the address is not."""
    client = trial.client()
    stops_at_a_page(trial, client.request(redirect_uri=f"{CALLBACK}/other"))


@MODULES.add(
    "oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported",
    "An unsigned request object is honoured, or refused by request_not_supported with the state that is inside.",
    skipped="the answer is `request_not_supported`: unsigned requests are taken from registered addresses alone",
)
def unsigned_request_object(trial: Trial) -> None:
    """State, nonce and response mode stand in the object alone."""
    client = trial.client()
    inside = client.request()
    outside = {name: inside[name] for name in ("client_id", "redirect_uri", "response_type", "scope")}
    answer = trial.browser().authorize({**outside, "request": _unsigned(client, inside)})
    assert "none" in client.metadata["request_object_signing_alg_values_supported"]  # from addresses alone
    client.refused(answer, inside, "request_not_supported")


@MODULES.add(
    "oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported",
    "A request object by reference is honoured, or refused by request_uri_not_supported.",
)
def request_uri_unsigned(trial: Trial) -> None:
    """Nothing is fetched from an address that the client has not registered: nobody listens there."""
    client = trial.client()
    asked = client.request(request_uri="https://app.example.com/request.jwt")
    assert client.metadata["request_uri_parameter_supported"] is True
    assert client.metadata["require_request_uri_registration"] is True
    client.refused(trial.browser().authorize(asked), asked, "request_uri_not_supported")


@MODULES.add(
    "oidcc-ensure-request-object-with-redirect-uri",
    "A registered address in the object and another outside: honoured, or a page; never ignored.",
)
def request_object_with_redirect_uri(trial: Trial) -> None:
    """The address outside gets nothing."""
    client = trial.client()
    inside = client.request()
    outside = {**inside, "redirect_uri": f"{CALLBACK}/other", "request": _unsigned(client, inside)}
    stops_at_a_page(trial, outside)


def _signed_in_before(trial: Trial, client: RelyingParty, browser: Browser) -> dict[str, Any]:
    """Return the claims of somebody who is signed in, since half a minute."""
    client.sign_in(browser)
    trial.site.move_back(SESSIONS, ("authenticated_at",), LATER_S, {"client_id": SSO_CLIENT})
    claims: dict[str, Any] = client.sign_in(browser, prompt="none")["claims"]
    return claims


def stops_at_a_page(trial: Trial, asked: dict[str, str]) -> None:
    """Check that the person reads what is wrong, and is led nowhere."""
    page = trial.browser().stopped(asked)
    assert page.status_code == 400
    assert "location" not in page.headers
    assert "app.example.com" not in page.headers["content-security-policy"]


def _unsigned(client: RelyingParty, inside: dict[str, str]) -> str:
    """Return a request object without a signature (OpenID Connect Core §6.1)."""
    claims = {**inside, "iss": client.client_id, "aud": client.metadata["issuer"]}
    parts = (json.dumps(each).encode() for each in ({"alg": "none"}, claims))
    return ".".join([*(base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in parts), ""])
