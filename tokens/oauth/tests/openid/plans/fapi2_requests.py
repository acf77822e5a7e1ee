"""Modules of FAPI 2.0 about requests: what is tolerated, what the answer repeats, and what is refused."""

import secrets
from typing import Final

from tokens.oauth.tests.openid import transport
from tokens.oauth.tests.openid.plans.basic_claims import STANDARD
from tokens.oauth.tests.openid.plans.fapi2 import NAME, client_of, refused_when_pushed
from tokens.oauth.tests.openid.registry import Modules, Trial
from tokens.oauth.tests.openid.site import CALLBACK, ISSUER
from tokens.oauth.tests.walk import CHALLENGE, VERIFIER

MODULES: Final = Modules()


@MODULES.add(
    f"{NAME}-discovery-end-point-verification",
    "The metadata: pushed requests, PKCE by S256, signed assertions, DPoP, iss in the answer, algorithms.",
)
def discovery(trial: Trial) -> None:
    """What FAPI 2.0 asks of the document."""
    said = client_of(trial).metadata
    assert said["issuer"] == ISSUER
    assert said["pushed_authorization_request_endpoint"].startswith(f"{ISSUER}/")
    assert "S256" in said["code_challenge_methods_supported"]
    assert "plain" not in said["code_challenge_methods_supported"]
    assert "private_key_jwt" in said["token_endpoint_auth_methods_supported"]
    assert {"PS256", "ES256", "EdDSA"} <= set(said["token_endpoint_auth_signing_alg_values_supported"])
    assert {"PS256", "ES256", "EdDSA"} & set(said["dpop_signing_alg_values_supported"])
    assert {"ES256", "PS256", "EdDSA"} & set(said["id_token_signing_alg_values_supported"])
    assert said["authorization_response_iss_parameter_supported"] is True
    assert said["response_types_supported"] == ["code"]
    assert {"authorization_code", "refresh_token"} <= set(said["grant_types_supported"])
    assert {"openid", "offline_access"} <= set(said["scopes_supported"])
    if trial.signed:
        assert said["request_parameter_supported"] is True
        for signs in ("request_object", "authorization"):
            algorithms = set(said[f"{signs}_signing_alg_values_supported"])
            assert algorithms & {"PS256", "ES256", "EdDSA"}
            # Unsigned requests are other clients' (IRONAUTH_REQUEST_URIS): a module of this plan has one refused.
            assert "none" not in algorithms or signs == "request_object"
        assert "jwt" in said["response_modes_supported"]
    transport.check(trial.site)


@MODULES.add(
    f"{NAME}-happy-flow",
    "The whole flow of two clients; TLS; a token in the address is refused, and a token with another's key.",
)
def happy_flow(trial: Trial) -> None:
    """The second client names its key by dpop_jkt alone, and its browser brings the parameters once more."""
    transport.check(trial.site)
    first, second = client_of(trial), client_of(trial, number=1)
    said = first.sign_in(trial.browser())
    trial.should(not {"name", "email"} & said["claims"].keys(), "the ID token has claims that nobody asked for")
    for accept in ("application/json; charset=utf-8", "application/json, */*;q=0.1"):
        proof = first.proven("GET", "/oauth/userinfo", token=said["access_token"])
        headers = {"Authorization": f"DPoP {said['access_token']}", "DPoP": proof, "Accept": accept}
        assert first.http.get(first.path("userinfo_endpoint"), headers=headers).status_code == 200
    proof = first.proven("GET", "/oauth/userinfo", token=said["access_token"])
    in_address = first.http.get(
        first.path("userinfo_endpoint"), params={"access_token": said["access_token"]}, headers={"DPoP": proof}
    )
    assert in_address.status_code == 401
    asked = second.request(nonce=secrets.token_urlsafe(32)[:43], dpop_jkt=second.holder.thumbprint())
    repeated = {name: asked[name] for name in ("scope", "response_type", "redirect_uri", "state", "nonce")}
    code = second.code_of(trial.browser(), asked, second.pushed(asked), **dict(reversed(repeated.items())))
    others = second.finished(asked, code)
    stolen = first.proven("GET", "/oauth/userinfo", token=others["access_token"])
    assert second.ask_with(others, stolen).status_code == 401


@MODULES.add(
    f"{NAME}-user-rejects-authentication", "A person who refuses: access_denied to the client, of two clients."
)
def user_rejects(trial: Trial) -> None:
    """The state comes back."""
    for client in (client_of(trial), client_of(trial, number=1)):
        asked = client.request()
        answer = trial.browser().authorize(client.link(client.pushed(asked)), decision="deny")
        client.refused(answer, asked, "access_denied")


def _succeeds(name: str, checks: str, **changes: str | None) -> None:
    """Add a module whose whole flow succeeds with these parameters."""

    def run(trial: Trial) -> None:
        client_of(trial).sign_in(trial.browser(), **changes)

    MODULES.add(f"{NAME}-{name}", checks)(run)


_succeeds("ensure-authorization-request-without-state-success", "Without state: none comes back.", state=None)
_succeeds("ensure-authorization-request-without-nonce-success", "Without nonce: the ID token has none.", nonce=None)
_succeeds(
    "ensure-authorization-request-with-64-char-nonce-success", "A nonce of 64 characters comes back.", nonce="n" * 64
)
_succeeds("ensure-other-scope-order-succeeds", "The scopes in another order.", scope="email profile openid")
_succeeds(
    "ensure-authorization-request-with-long-nonce", "A nonce of 384 characters comes back whole.", nonce="n" * 384
)
_succeeds(
    "ensure-authorization-request-with-long-state", "A state of 1,000 characters comes back whole.", state="s" * 1000
)


@MODULES.add(
    f"{NAME}-test-claims-parameter-identity-claims",
    "Every claim of claims_supported, asked for by name, comes in the ID token or from userinfo.",
)
def identity_claims(trial: Trial) -> None:
    """Asked for in the ID token, and from userinfo."""
    client = client_of(trial)
    standard = {claim for claims in STANDARD.values() for claim in claims}
    wanted = sorted(standard & set(client.metadata["claims_supported"]))
    members = ", ".join(f'"{claim}": null' for claim in wanted)
    claims = f'{{"id_token": {{{members}}}, "userinfo": {{{members}}}}}'
    said = client.sign_in(trial.browser(), claims=claims)
    told = client.userinfo(said).keys() | said["claims"].keys()
    trial.should(set(wanted) <= told, f"not told: {set(wanted) - told}")


@MODULES.add(
    f"{NAME}-ensure-different-nonce-inside-and-outside-request-object",
    "Another nonce in the browser's request than in the pushed one: the pushed one counts.",
)
def other_nonce_outside(trial: Trial) -> None:
    """The ID token has the pushed one."""
    client = client_of(trial)
    asked = client.request()
    client.finished(asked, client.code_of(trial.browser(), asked, client.pushed(asked), nonce="outside"))


@MODULES.add(
    f"{NAME}-ensure-different-state-inside-and-outside-request-object",
    "Another state in the browser's request than in the pushed one: the pushed one counts.",
)
def other_state_outside(trial: Trial) -> None:
    """The answer has the pushed one."""
    client = client_of(trial)
    asked = client.request()
    client.finished(asked, client.code_of(trial.browser(), asked, client.pushed(asked), state="outside"))


@MODULES.add(
    f"{NAME}-state-only-outside-request-object-not-used", "A state in the browser's request alone is not repeated."
)
def state_outside_alone(trial: Trial) -> None:
    """The answer has none."""
    client = client_of(trial)
    asked = client.request(state=None)
    client.finished(asked, client.code_of(trial.browser(), asked, client.pushed(asked), state="outside"))


@MODULES.add(
    f"{NAME}-ensure-request-object-without-redirect-uri-fails", "A pushed request without redirect_uri is refused."
)
def without_redirect_uri(trial: Trial) -> None:
    """When it is pushed."""
    refused_when_pushed(trial, redirect_uri=None)


@MODULES.add(
    f"{NAME}-ensure-redirect-uri-in-authorization-request",
    "Without redirect_uri nobody is led anywhere, whatever the browser's request says.",
)
def redirect_uri_needed(trial: Trial) -> None:
    """Neither when it is pushed, nor in a link."""
    refused_when_pushed(trial, redirect_uri=None)
    client = client_of(trial)
    page = trial.browser().stopped(client.request(redirect_uri=None))
    assert (page.status_code, "location" in page.headers) == (400, False)


@MODULES.add(
    f"{NAME}-plain-fapi-tolerate-unregistered-redirect-uri",
    "A pushed address that is not registered is accepted or refused; it is refused.",
)
def unregistered_redirect_uri(trial: Trial) -> None:
    """When it is pushed."""
    refused_when_pushed(trial, redirect_uri=f"{CALLBACK}/{secrets.token_hex(4)}")


@MODULES.add(
    f"{NAME}-ensure-unsigned-authorization-request-without-using-par-fails",
    "The same parameters in a link, not pushed: refused.",
)
def not_pushed(trial: Trial) -> None:
    """The client is told."""
    client, browser = client_of(trial), trial.browser()
    asked = client.request()
    client.refused(browser.authorize(asked), asked, "invalid_request")
    assert browser.asked == []


@MODULES.add(f"{NAME}-ensure-response-type-code-idtoken-fails", "response_type=code id_token is refused.")
def code_id_token(trial: Trial) -> None:
    """When it is pushed."""
    refused_when_pushed(trial, "unsupported_response_type", response_type="code id_token")


@MODULES.add(f"{NAME}-ensure-response-type-token-fails", "response_type=token is refused.")
def implicit(trial: Trial) -> None:
    """When it is pushed."""
    refused_when_pushed(trial, "unsupported_response_type", response_type="token")


@MODULES.add(f"{NAME}-par-ensure-pkce-required", "A pushed request without PKCE is refused.")
def without_pkce(trial: Trial) -> None:
    """When it is pushed."""
    refused_when_pushed(trial, code_challenge=None, code_challenge_method=None)


@MODULES.add(f"{NAME}-par-plain-pkce-rejected", "PKCE by plain is refused.")
def plain_pkce(trial: Trial) -> None:
    """Named, and by leaving the method out, which means it (RFC 7636 §4.3)."""
    refused_when_pushed(trial, code_challenge=VERIFIER, code_challenge_method="plain")
    refused_when_pushed(trial, code_challenge=CHALLENGE, code_challenge_method=None)
