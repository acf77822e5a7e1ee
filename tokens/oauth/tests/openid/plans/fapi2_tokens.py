"""Modules of FAPI 2.0 about codes and refresh tokens."""

from typing import Any, Final

from tokens.oauth.tests.openid.fapi2_client import Fapi2Client
from tokens.oauth.tests.openid.plans.fapi2 import NAME, client_of
from tokens.oauth.tests.openid.registry import Modules, Trial
from tokens.oauth.tests.openid.relying_party import error_of, invalid_grant

MODULES: Final = Modules()
CODES: Final = "tokens_authorizationcode"
SESSIONS: Final = "tokens_session"
_NO_PROOF: Final = ("invalid_request", "invalid_grant", "invalid_dpop_proof")


@MODULES.add(f"{NAME}-ensure-holder-of-key-required", "A code is not redeemed without a proof of a key.")
def proof_needed(trial: Trial) -> None:
    """With a good assertion; it is, with a proof."""
    client = client_of(trial)
    code = client.code(trial.browser())
    error_of(client.redeem_with(code, client.authenticated(), ""), *_NO_PROOF)
    client.tokens(client.redeem(code))


@MODULES.add(f"{NAME}-ensure-authorization-code-is-bound-to-client", "A code is of no use to another client.")
def other_client(trial: Trial) -> None:
    """With an assertion and a proof of its own."""
    first, second = client_of(trial), client_of(trial, number=1)
    code = first.code(trial.browser())
    invalid_grant(second.redeem(code))
    first.tokens(first.redeem(code))


@MODULES.add(
    f"{NAME}-attempt-reuse-authorization-code-after-one-second",
    "A code used a second time is refused, and ends the tokens of the first use.",
)
def used_again(trial: Trial) -> None:
    """A second later, with another assertion and proof."""
    client = client_of(trial)
    asked = client.request()
    code = client.code(trial.browser(), asked)
    said = client.finished(asked, code)
    moments = ("created_at", "used_at", "expires_at")
    trial.site.move_back(CODES, moments, 1.0, {"client_id": client.client_id.replace("-", "")})
    invalid_grant(client.redeem(code))
    trial.should(client.ask(said).status_code == 401, "the access token of the first use still works")


@MODULES.add(
    f"{NAME}-ensure-token-endpoint-fails-with-expired-auth-code", "A code that is older than 60 seconds is refused."
)
def expired(trial: Trial) -> None:
    """One of half a minute is good."""
    client, browser = client_of(trial), trial.browser()
    where = {"client_id": client.client_id.replace("-", "")}
    code = client.code(browser)
    trial.site.move_back(CODES, ("created_at", "expires_at"), 30.0, where)
    client.tokens(client.redeem(code))
    code = client.code(browser)
    trial.site.move_back(CODES, ("created_at", "expires_at"), 61.0, where)
    invalid_grant(client.redeem(code))


@MODULES.add(f"{NAME}-ensure-pkce-code-verifier-required", "A code is not redeemed without code_verifier.")
def verifier_needed(trial: Trial) -> None:
    """It is, with it."""
    client = client_of(trial)
    code = client.code(trial.browser())
    invalid_grant(client.redeem(code, code_verifier=""))
    client.tokens(client.redeem(code))


@MODULES.add(f"{NAME}-incorrect-pkce-code-verifier-rejected", "A code is not redeemed with another code_verifier.")
def other_verifier(trial: Trial) -> None:
    """It is, with the right one."""
    client = client_of(trial)
    code = client.code(trial.browser())
    invalid_grant(client.redeem(code, code_verifier="w" * 43))
    client.tokens(client.redeem(code))


@MODULES.add(
    f"{NAME}-refresh-token",
    "Refresh with assertion and proof alone; the former token works 30 seconds later, another client's never.",
)
def refresh(trial: Trial) -> None:
    """Of two clients."""
    first, second = client_of(trial), client_of(trial, number=1)
    browser = trial.browser()
    _refreshed(trial, first, browser)
    renewed = _refreshed(trial, second, browser)
    stolen = first.proven("GET", "/oauth/userinfo", token=renewed["access_token"])
    assert second.ask_with(renewed, stolen).status_code == 401
    invalid_grant(first.token(grant_type="refresh_token", refresh_token=renewed["refresh_token"]))
    second.tokens(second.token(grant_type="refresh_token", refresh_token=renewed["refresh_token"]))


def _refreshed(trial: Trial, client: Fapi2Client, browser: Any) -> dict[str, Any]:
    """Check the refresh tokens of a client; return its newest tokens, with the claims of the ID token."""
    said = client.sign_in(browser, scope="openid offline_access", prompt="consent")
    asked = {"grant_type": "refresh_token", "refresh_token": said["refresh_token"]}
    renewed = client.tokens(client.token(**asked))
    if renewed["refresh_token"] != said["refresh_token"]:
        trial.site.move_back(SESSIONS, ("rotated_at",), 30.0, {"client_id": client.client_id})
        renewed = client.tokens(client.token(**asked))
    asked["refresh_token"] = renewed["refresh_token"]
    proof = client.proven("POST", "/oauth/token")
    unknown = client.token_with({"client_id": client.client_id}, proof, **asked)
    error_of(unknown, "invalid_client", "invalid_grant", "invalid_request")
    error_of(client.token_with(client.authenticated(), "", **asked), *_NO_PROOF)
    told = {**renewed, "claims": said["claims"]}
    client.userinfo(told)
    return told
