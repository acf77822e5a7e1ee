"""RP-initiated logout: who is signed out, and where they are led afterwards."""

import base64
import json
from typing import Any, Final

import httpx
from joserfc import jwt
from joserfc.jwk import RSAKey

from tokens.oauth.tests.openid.browser import Browser, answer_in
from tokens.oauth.tests.openid.registry import Modules, Plan, Trial
from tokens.oauth.tests.openid.relying_party import RelyingParty
from tokens.oauth.tests.openid.site import ISSUER
from tokens.oauth.tests.walk import form_to

MODULES: Final = Modules()
PLAN: Final = Plan("oidcc-rp-initiated-logout-certification-test-plan", "RP-Initiated Logout", (MODULES,))
GONE: Final = "https://app.example.com/signed-out"
LOGOUT: Final = "/oauth/logout"
_STATE: Final = "st-1"


class Visit:
    """Somebody who has signed in to a client and comes to sign out."""

    def __init__(self, trial: Trial, **fields: Any) -> None:
        self.client: RelyingParty = trial.client(post_logout_redirect_uris=[GONE], **fields)
        self.browser: Browser = trial.browser()
        self.said = self.client.sign_in(self.browser)

    def sign_out(self, **asked: str) -> httpx.Response:
        """Follow the client's link to the end of the session."""
        return self.browser.http.get(self.client.path("end_session_endpoint"), params=asked)

    def confirmed(self, page: httpx.Response) -> httpx.Response:
        """Say yes on the page that asks."""
        return self.browser.http.post(LOGOUT, data=form_to(page, LOGOUT).fields, headers={"Origin": ISSUER})

    def is_signed_in(self) -> bool:
        """Return whether prompt=none still knows the person."""
        answer = self.browser.authorize(self.client.request(prompt="none"))
        return "code" in answer.parameters

    def is_led(self, page: httpx.Response, state: str | None) -> None:
        """Check that the browser is led to the client, with its state alone, and that the person is signed out."""
        answer = answer_in(page)
        assert answer is not None, page.text
        assert answer.where == GONE
        assert answer.parameters == ({} if state is None else {"state": state})
        assert not self.is_signed_in()

    def stays(self, page: httpx.Response) -> None:
        """Check that the browser is led nowhere: a page says what is wrong, or asks; nobody is signed out meanwhile."""
        assert page.status_code in (200, 400)
        assert "location" not in page.headers
        assert answer_in(page) is None
        assert GONE not in page.text
        assert self.is_signed_in()


@MODULES.add(
    "oidcc-rp-initiated-logout-discovery-endpoint-verification", "The metadata names end_session_endpoint, by https."
)
def discovery(trial: Trial) -> None:
    """At the issuer."""
    assert trial.client().path("end_session_endpoint").startswith(f"{ISSUER}/")


@MODULES.add(
    "oidcc-rp-initiated-logout", "Signed out and led to the client with its state; prompt=none fails afterwards."
)
def logout(trial: Trial) -> None:
    """With the ID token of this session nobody is asked."""
    visit = Visit(trial)
    page = visit.sign_out(id_token_hint=visit.said["id_token"], post_logout_redirect_uri=GONE, state=_STATE)
    visit.is_led(page, _STATE)


@MODULES.add("oidcc-rp-initiated-logout-no-state", "The same without state: none comes back.")
def no_state(trial: Trial) -> None:
    """No parameter at all comes back."""
    visit = Visit(trial)
    visit.is_led(visit.sign_out(id_token_hint=visit.said["id_token"], post_logout_redirect_uri=GONE), None)


@MODULES.add(
    "oidcc-rp-initiated-logout-bad-post-logout-redirect-uri", "An address that is not registered: no redirect."
)
def bad_address(trial: Trial) -> None:
    """Neither there nor to the registered one."""
    visit = Visit(trial)
    bad = "https://app.example.com/elsewhere"
    page = visit.sign_out(id_token_hint=visit.said["id_token"], post_logout_redirect_uri=bad, state=_STATE)
    visit.stays(page)
    assert bad not in page.text


@MODULES.add(
    "oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri",
    "The registered address with a query that was added: no redirect.",
)
def query_added(trial: Trial) -> None:
    """It is compared character by character."""
    visit = Visit(trial)
    added = f"{GONE}?foo=bar"
    visit.stays(visit.sign_out(id_token_hint=visit.said["id_token"], post_logout_redirect_uri=added, state=_STATE))


def _counts_for_nothing(visit: Visit, hint: str) -> None:
    """Check that such a hint leads nobody anywhere, also where the client is named beside it."""
    for named in ({}, {"client_id": visit.client.client_id}):
        visit.stays(visit.sign_out(id_token_hint=hint, post_logout_redirect_uri=GONE, state=_STATE, **named))


@MODULES.add("oidcc-rp-initiated-logout-modified-id-token-hint", "The ID token with alg none instead: no redirect.")
def modified_hint(trial: Trial) -> None:
    """Its claims are right."""
    visit = Visit(trial)
    payload = visit.said["id_token"].split(".")[1]
    header = base64.urlsafe_b64encode(json.dumps({"alg": "none"}).encode()).rstrip(b"=").decode()
    _counts_for_nothing(visit, f"{header}.{payload}.")


@MODULES.add("oidcc-rp-initiated-logout-bad-id-token-hint", "An ID token that another key has signed: no redirect.")
def bad_hint(trial: Trial) -> None:
    """Its claims are right, and so is its kid."""
    visit = Visit(trial)
    header = json.loads(base64.urlsafe_b64decode(visit.said["id_token"].split(".")[0] + "=="))
    forged = jwt.encode(header, visit.said["claims"], RSAKey.generate_key(2048), algorithms=["RS256"])
    _counts_for_nothing(visit, forged)


@MODULES.add(
    "oidcc-rp-initiated-logout-no-id-token-hint", "Without an ID token: no redirect before the person has said yes."
)
def no_hint(trial: Trial) -> None:
    """Neither without the client, nor with it, until they confirm."""
    visit = Visit(trial)
    visit.stays(visit.sign_out(post_logout_redirect_uri=GONE, state=_STATE))
    asks = visit.sign_out(post_logout_redirect_uri=GONE, state=_STATE, client_id=visit.client.client_id)
    assert answer_in(asks) is None
    assert visit.is_signed_in()
    visit.is_led(visit.confirmed(asks), _STATE)


def _asks_first(trial: Trial, **asked: str) -> None:
    """Check that a page asks, that yes signs out, and that nobody is led anywhere."""
    visit = Visit(trial)
    page = visit.sign_out(**asked)
    visit.stays(page)
    gone = visit.confirmed(page)
    assert (gone.status_code, answer_in(gone)) == (200, None)
    assert "signed out" in gone.text
    assert not visit.is_signed_in()


@MODULES.add("oidcc-rp-initiated-logout-no-params", "Without parameters: signed out once they have said yes.")
def no_parameters(trial: Trial) -> None:
    """No site can sign somebody out unasked."""
    _asks_first(trial)


@MODULES.add("oidcc-rp-initiated-logout-only-state", "With state alone: the same.")
def only_state(trial: Trial) -> None:
    """Nothing is done with the state."""
    _asks_first(trial, state=_STATE)


@MODULES.add(
    "oidcc-rp-initiated-logout-no-post-logout-redirect-uri", "Without an address: signed out, and led nowhere."
)
def no_address(trial: Trial) -> None:
    """With the ID token of this session nobody is asked."""
    visit = Visit(trial)
    page = visit.sign_out(id_token_hint=visit.said["id_token"], state=_STATE)
    assert (page.status_code, answer_in(page)) == (200, None)
    assert "signed out" in page.text
    assert not visit.is_signed_in()
