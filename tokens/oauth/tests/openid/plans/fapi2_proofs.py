"""Modules of FAPI 2.0 about proofs of possession (RFC 9449): which are taken, and what a code is bound to."""

import time
from typing import Any, Final

from tokens.oauth.tests.openid.fapi2_client import Fapi2Client
from tokens.oauth.tests.openid.plans.fapi2 import NAME, client_of
from tokens.oauth.tests.openid.registry import Modules, Trial
from tokens.oauth.tests.openid.relying_party import error_of
from tokens.oauth.tests.proofs import new_key

MODULES: Final = Modules()
PAR: Final = "/oauth/par"
TOKEN: Final = "/oauth/token"
USERINFO: Final = "/oauth/userinfo"
_MISMATCH: Final = ("invalid_grant", "invalid_dpop_proof", "invalid_request")


@MODULES.add(f"{NAME}-access-token-type-header-case-sensitivity", "The resource takes the type of a token in any case.")
def any_case(trial: Trial) -> None:
    """RFC 9110 §11.1."""
    client = client_of(trial)
    said = client.sign_in(trial.browser())
    for scheme in ("dPOp", "dpop", "DPOP"):
        proof = client.proven("GET", USERINFO, token=said["access_token"])
        assert client.ask_with(said, proof, scheme=scheme).status_code == 200, scheme


def _everywhere(trial: Trial, **claims: Any) -> None:
    """Walk through the flow with such proofs at each endpoint: pushing, tokens, resource."""
    client = client_of(trial)
    asked = client.request()
    code = client.code(trial.browser(), asked, dpop=client.proven("POST", PAR, **claims))
    answer = client.redeem_with(code, client.authenticated(), client.proven("POST", TOKEN, **claims))
    said = client.tokens(answer)
    proof = client.proven("GET", USERINFO, token=said["access_token"], **claims)
    assert client.ask_with(said, proof).status_code == 200


@MODULES.add(f"{NAME}-check-dpop-proof-nbf-exp", "Proofs may have nbf and exp.")
def nbf_and_exp(trial: Trial) -> None:
    """At each endpoint."""
    now = int(time.time())
    _everywhere(trial, nbf=now, exp=now + 300)


@MODULES.add(f"{NAME}-ensure-dpopproof-with-iat-10seconds-before-succeeds", "Proofs that are 10 seconds old are taken.")
def ten_seconds_old(trial: Trial) -> None:
    """At each endpoint."""
    _everywhere(trial, iat=int(time.time()) - 10)


@MODULES.add(
    f"{NAME}-ensure-dpopproof-with-iat-10seconds-after-succeeds", "Proofs that are 10 seconds ahead are taken."
)
def ten_seconds_ahead(trial: Trial) -> None:
    """At each endpoint."""
    _everywhere(trial, iat=int(time.time()) + 10)


@MODULES.add(
    f"{NAME}-ensure-mismatched-dpop-jkt-fails", "A request pushed with another dpop_jkt than its proof's is refused."
)
def other_thumbprint(trial: Trial) -> None:
    """The right one is not."""
    client = client_of(trial)
    wrong = client.request(dpop_jkt=new_key().thumbprint())
    error_of(client.push(wrong, dpop=client.proven("POST", PAR)), "invalid_request", "invalid_dpop_proof")
    right = client.request(dpop_jkt=client.holder.thumbprint())
    client.pushed(right, dpop=client.proven("POST", PAR))


def _other_key_at_token(client: Fapi2Client, code: str) -> None:
    """Check that the code is given to its own key alone."""
    proof = client.proven("POST", TOKEN, key=new_key())
    error_of(client.redeem_with(code, client.authenticated(), proof), *_MISMATCH)
    client.tokens(client.redeem(code))


@MODULES.add(
    f"{NAME}-ensure-token-endpoint-fails-with-mismatched-dpop-proof-jkt",
    "A code whose request was pushed with a proof is not redeemed with another key.",
)
def other_key_than_pushed(trial: Trial) -> None:
    """It is, with that key."""
    client = client_of(trial)
    _other_key_at_token(client, client.code(trial.browser(), dpop=client.proven("POST", PAR)))


@MODULES.add(
    f"{NAME}-ensure-token-endpoint-fails-with-mismatched-dpop-jkt",
    "A code whose request named a dpop_jkt is not redeemed with another key.",
)
def other_key_than_named(trial: Trial) -> None:
    """It is, with that key."""
    client = client_of(trial)
    _other_key_at_token(client, client.code(trial.browser(), client.request(dpop_jkt=client.holder.thumbprint())))


@MODULES.add(
    f"{NAME}-ensure-dpopproof-at-par-endpoint-binding-success",
    "A code that is bound by a proof is redeemed by its key.",
)
def bound_by_proof(trial: Trial) -> None:
    """The whole flow."""
    client = client_of(trial)
    asked = client.request()
    client.finished(asked, client.code(trial.browser(), asked, dpop=client.proven("POST", PAR)))


@MODULES.add(
    f"{NAME}-ensure-dpop-auth-code-binding-success",
    "A code that is bound by a proof and by dpop_jkt is redeemed by its key.",
)
def bound_by_both(trial: Trial) -> None:
    """The whole flow."""
    client = client_of(trial)
    asked = client.request(dpop_jkt=client.holder.thumbprint())
    client.finished(asked, client.code(trial.browser(), asked, dpop=client.proven("POST", PAR)))
