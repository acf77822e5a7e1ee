"""Basic: the authorization-code flow of confidential clients without PKCE (OpenID Connect Core)."""

from typing import Final

from tokens.oauth.tests.openid.registry import Plan, Trial

PLAN: Final = Plan("oidcc-basic-certification-test-plan", "Basic")


@PLAN.module("oidcc-server", "The whole flow: code, tokens, a verified ID token, userinfo; twice, for two clients.")
def server(trial: Trial) -> None:
    """Two clients, one after the other."""
    for client in (trial.client(), trial.client()):
        said = client.sign_in(trial.browser())
        assert set(client.userinfo(said)) == {"sub"}


@PLAN.module("oidcc-prompt-none-logged-in", "prompt=none answers at once who is signed in: the same sub and auth_time.")
def prompt_none_logged_in(trial: Trial) -> None:
    """The second time nobody is asked anything."""
    client, browser = trial.client(), trial.browser()
    first = client.sign_in(browser)["claims"]
    asked = list(browser.asked)
    second = client.sign_in(browser, prompt="none")["claims"]
    assert browser.asked == asked
    assert second["sub"] == first["sub"]
    assert second["auth_time"] == first["auth_time"]


@PLAN.module("oidcc-prompt-none-not-logged-in", "prompt=none where nobody is signed in: an error to the client.")
def prompt_none_not_logged_in(trial: Trial) -> None:
    """The error says why."""
    client, browser = trial.client(), trial.browser()
    asked = client.request(prompt="none")
    client.refused(browser.authorize(asked), asked, "login_required", "interaction_required")
    assert browser.asked == []
