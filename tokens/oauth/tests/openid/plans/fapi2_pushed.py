"""Modules of FAPI 2.0 about pushed requests (RFC 9126): who may open a handle, when, and how often."""

from typing import Final

from tokens.oauth.tests.openid.browser import answer_in
from tokens.oauth.tests.openid.fapi2_client import PREFIX
from tokens.oauth.tests.openid.plans.fapi2 import NAME, client_of
from tokens.oauth.tests.openid.registry import Modules, Trial
from tokens.oauth.tests.openid.relying_party import error_of

MODULES: Final = Modules()
TABLE: Final = "tokens_pushedrequest"


@MODULES.add(
    f"{NAME}-par-ensure-reused-request-uri-prior-to-auth-completion-succeeds",
    "A handle that was opened and left may be opened again, until the person has finished.",
)
def opened_again(trial: Trial) -> None:
    """In the same browser, and in another one."""
    client, browser = client_of(trial), trial.browser()
    asked = client.request()
    uri = client.pushed(asked)
    for left in (browser, trial.browser()):
        page = left.open(client.link(uri))
        assert (page.status_code, answer_in(page)) == (200, None)
    client.finished(asked, client.code_of(browser, asked, uri))


@MODULES.add(f"{NAME}-par-attempt-reuse-request_uri", "A handle is over once the person has finished.")
def used_again(trial: Trial) -> None:
    """In the same browser, too: a page tells the person."""
    client, browser = client_of(trial), trial.browser()
    asked = client.request()
    uri = client.pushed(asked)
    client.finished(asked, client.code_of(browser, asked, uri))
    page = browser.stopped(client.link(uri))
    assert page.status_code == 400
    assert "used before" in page.text


@MODULES.add(f"{NAME}-par-attempt-to-use-expired-request_uri", "A handle is over after expires_in seconds.")
def expired(trial: Trial) -> None:
    """Half a minute before it is good."""
    client, browser = client_of(trial), trial.browser()
    asked = client.request()
    answer = client.push(asked).json()
    where = {"client_id": client.client_id.replace("-", "")}
    trial.site.move_back(TABLE, ("expires_at",), answer["expires_in"] - 30, where)
    assert browser.open(client.link(answer["request_uri"])).status_code == 200
    trial.site.move_back(TABLE, ("expires_at",), 31, where)
    page = browser.stopped(client.link(answer["request_uri"]))
    assert page.status_code == 400
    assert "expired" in page.text


@MODULES.add(
    f"{NAME}-par-attempt-to-use-request_uri-for-different-client", "A handle is of no use with another client_id."
)
def other_client(trial: Trial) -> None:
    """The first client can still use it."""
    first, second = client_of(trial), client_of(trial, number=1)
    asked = first.request()
    uri = first.pushed(asked)
    page = trial.browser().stopped(second.link(uri))
    assert page.status_code == 400
    first.finished(asked, first.code_of(trial.browser(), asked, uri))


@MODULES.add(
    f"{NAME}-par-authorization-request-containing-request_uri-form-param", "A request_uri may not be pushed itself."
)
def request_uri_pushed(trial: Trial) -> None:
    """Neither one of ours nor another."""
    client = client_of(trial)
    ours = client.pushed(client.request())
    for uri in (ours, f"{PREFIX}other", "https://app.example.com/request.jwt"):
        answer = client.push({**client.request(), "request_uri": uri})
        error_of(answer, "invalid_request", "invalid_request_object", "request_uri_not_supported")


@MODULES.add(f"{NAME}-par-attempt-invalid-http-method", "Requests are pushed by POST alone.")
def other_method(trial: Trial) -> None:
    """405, and which method it is."""
    client = client_of(trial)
    for method in ("PUT", "GET", "DELETE"):
        answer = client.push(client.request(), method=method)
        assert answer.status_code == 405
        assert "POST" in answer.headers["allow"]


@MODULES.add(
    f"{NAME}-par-without-duplicate-parameters", "client_id and request_uri alone are enough in the browser's request."
)
def without_duplicates(trial: Trial) -> None:
    """The whole flow."""
    client = client_of(trial)
    asked = client.request()
    uri = client.pushed(asked)
    assert set(client.link(uri)) == {"client_id", "request_uri"}
    client.finished(asked, client.code_of(trial.browser(), asked, uri))
