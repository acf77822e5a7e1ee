"""Modules of FAPI 2.0 that differ for clients with certificates (RFC 8705).

``known``: whether the certificate proves who the client is (client_auth_type=mtls); else its tokens are bound to it
alone (sender_constrain=mtls).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tokens.oauth.tests.openid import transport
from tokens.oauth.tests.openid.certified_client import CertifiedClient
from tokens.oauth.tests.openid.fapi2_client import TYPE
from tokens.oauth.tests.openid.plans.fapi2 import NAME
from tokens.oauth.tests.openid.registry import Modules, Plan, Trial
from tokens.oauth.tests.openid.relying_party import error_of, invalid_grant
from tokens.oauth.tests.openid.site import CALLBACK
from tokens.oauth.tests.walk import VERIFIER

#: What a request without the certificate is told, by ``known``.
_NONE_SHOWN: Final = {False: ("invalid_request", "invalid_grant"), True: ("invalid_client",)}


def _redeemed(code: str) -> dict[str, str]:
    return {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}


def discovery(trial: Trial, *, known: bool) -> None:
    """Each of the addresses is at the host that asks for a certificate."""
    said = CertifiedClient(trial.site, known=known).metadata
    assert said["tls_client_certificate_bound_access_tokens"] is True
    aliases = said["mtls_endpoint_aliases"]
    assert {"token_endpoint", "pushed_authorization_request_endpoint", "userinfo_endpoint"} <= aliases.keys()
    assert all(address.startswith("https://mtls.") for address in aliases.values())
    assert ("tls_client_auth" if known else "private_key_jwt") in said["token_endpoint_auth_methods_supported"]
    transport.check(trial.site)


def happy_flow(trial: Trial, *, known: bool) -> None:
    """At the resource: with another's certificate, with none at either host, with its own."""
    first, second = (CertifiedClient(trial.site, known=known) for _ in range(2))
    said, others = first.sign_in(trial.browser()), second.sign_in(trial.browser())
    assert first.ask(others).status_code == 401
    headers = {"Authorization": f"Bearer {said['access_token']}"}
    for address in (first.path("userinfo_endpoint"), first.metadata["userinfo_endpoint"]):
        assert first.plain.get(address, headers=headers).status_code == 401
    assert first.ask(said).status_code == 200


def any_case(trial: Trial, *, known: bool) -> None:
    """RFC 9110 §11.1."""
    client = CertifiedClient(trial.site, known=known)
    said = client.sign_in(trial.browser())
    for scheme in ("bEARER", "bearer", "BEARER"):
        assert client.ask_with(said, scheme=scheme).status_code == 200, scheme


def certificate_needed(trial: Trial, *, known: bool) -> None:
    """It is, with it."""
    client = CertifiedClient(trial.site, known=known)
    code = client.code(trial.browser())
    error_of(client.by(client.plain, **_redeemed(code)), *_NONE_SHOWN[known])
    client.tokens(client.redeem(code))


def other_client(trial: Trial, *, known: bool) -> None:
    """With a certificate of its own."""
    first, second = (CertifiedClient(trial.site, known=known) for _ in range(2))
    code = first.code(trial.browser())
    invalid_grant(second.redeem(code))
    first.tokens(first.redeem(code))


def other_certificate(trial: Trial, *, known: bool) -> None:
    """When a request is pushed, and when a code is redeemed; an assertion proves nothing, either."""
    first, second = (CertifiedClient(trial.site, known=known) for _ in range(2))
    code = first.code(trial.browser())
    error_of(first.by(second.http, **_redeemed(code)), "invalid_client")
    address = first.path("pushed_authorization_request_endpoint")
    error_of(second.http.post(address, data={**first.request(), **first.authenticated()}), "invalid_client")
    asserted = {**_redeemed(code), "client_assertion": first.assertion(), "client_assertion_type": TYPE}
    error_of(first.by(first.plain, **asserted), "invalid_client")
    first.tokens(first.redeem(code))


def assertion_needed(trial: Trial, *, known: bool) -> None:
    """With the client_id alone."""
    client = CertifiedClient(trial.site, known=known)
    code = client.code(trial.browser())
    asked = {**_redeemed(code), "client_id": client.client_id}
    error_of(client.http.post(client.path("token_endpoint"), data=asked), "invalid_client")
    client.tokens(client.redeem(code))


def refresh(trial: Trial, *, known: bool) -> None:
    """Of two clients; the new access token is bound, too."""
    first, second = (CertifiedClient(trial.site, known=known) for _ in range(2))
    said = first.sign_in(trial.browser(), scope="openid offline_access", prompt="consent")
    asked = {"grant_type": "refresh_token", "refresh_token": said["refresh_token"]}
    error_of(first.by(first.plain, **asked), *_NONE_SHOWN[known])
    invalid_grant(second.token(**asked))
    renewed: dict[str, Any] = {**first.tokens(first.token(**asked)), "claims": said["claims"]}
    first.userinfo(renewed)
    assert second.ask(renewed).status_code == 401


type Check = Callable[..., None]
_SHARED: Final[tuple[tuple[str, str, Check], ...]] = (
    (
        "discovery-end-point-verification",
        "The metadata: tokens bound to certificates, how clients are known, the addresses that ask for a certificate.",
        discovery,
    ),
    (
        "happy-flow",
        "The whole flow of two clients; a token with another's certificate, or with none, is refused.",
        happy_flow,
    ),
    ("access-token-type-header-case-sensitivity", "The resource takes the type of a token in any case.", any_case),
    ("ensure-holder-of-key-required", "A code is not redeemed without a certificate.", certificate_needed),
    ("ensure-authorization-code-is-bound-to-client", "A code is of no use to another client.", other_client),
    ("refresh-token", "Refresh with the certificate; without it never, nor for another client.", refresh),
)
_BOUND: Final = (
    "ensure-client-assertion-in-token-endpoint",
    "A code is not redeemed without an assertion, whatever certificate is shown.",
    assertion_needed,
)
_KNOWN: Final = (
    "ensure-client-id-in-token-endpoint",
    "One client's name with another's certificate, or with an assertion, is refused.",
    other_certificate,
)


def _plan(variant: str, *, known: bool) -> Plan:
    modules = Modules()
    for name, checks, check in (*_SHARED, _KNOWN if known else _BOUND):
        modules.add(f"{NAME}-{name}", checks)(partial(check, known=known))
    title = f"FAPI 2.0 Security Profile: {variant}"
    return Plan("fapi2-security-profile-final-test-plan", title, (modules,), variant=variant)


PLANS: Final = (_plan("sender_constrain=mtls", known=False), _plan("client_auth_type=mtls", known=True))
