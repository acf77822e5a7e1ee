"""Modules of FAPI 2.0 about client assertions (RFC 7523): what proves a client, and what does not."""

import time
from typing import Any, Final

from tokens.oauth.tests.openid.fapi2_client import Fapi2Client
from tokens.oauth.tests.openid.plans.fapi2 import NAME, client_of
from tokens.oauth.tests.openid.registry import Modules, Trial
from tokens.oauth.tests.openid.relying_party import error_of

MODULES: Final = Modules()


def _refused_at_token(trial: Trial, client: Fapi2Client, known: dict[str, str]) -> None:
    """Check that a code is not given for this, and is for a good assertion afterwards."""
    code = client.code(trial.browser())
    error_of(
        client.redeem_with(code, known, client.proven("POST", "/oauth/token")), "invalid_client", "invalid_request"
    )
    client.tokens(client.redeem(code))


def _refused_at_par(client: Fapi2Client, **changes: Any) -> None:
    """Check that a request pushed with such an assertion is refused, and one with a good assertion is not."""
    answer = client.push(client.request(), known=client.authenticated(**changes))
    error_of(answer, "invalid_client", "invalid_request")
    client.pushed(client.request())


@MODULES.add(
    f"{NAME}-ensure-signed-client-assertion-with-RS256-fails",
    "An assertion signed by RS256 is refused; PS256, ES256 and EdDSA are taken.",
)
def rs256(trial: Trial) -> None:
    """With an RSA key whose registration names no algorithm."""
    client = client_of(trial, with_alg=False)
    _refused_at_token(trial, client, client.authenticated(alg="RS256"))
    _refused_at_par(client, alg="RS256")
    for alg in ("ES256", "EdDSA"):
        other = client_of(trial, alg=alg)
        other.pushed(other.request())


@MODULES.add(f"{NAME}-ensure-client-assertion-in-token-endpoint", "A code is not redeemed without an assertion.")
def none(trial: Trial) -> None:
    """With the client_id alone."""
    client = client_of(trial)
    _refused_at_token(trial, client, {"client_id": client.client_id})


@MODULES.add(
    f"{NAME}-ensure-client-assertion-with-exp-is-5-minutes-in-past-fails",
    "An assertion that expired five minutes ago is refused.",
)
def expired(trial: Trial) -> None:
    """Issued six minutes ago."""
    client = client_of(trial)
    now = int(time.time())
    _refused_at_token(trial, client, client.authenticated(iat=now - 360, exp=now - 300))


@MODULES.add(f"{NAME}-ensure-client-assertion-with-wrong-aud-fails", "An assertion for another server is refused.")
def wrong_audience(trial: Trial) -> None:
    """One whose name begins like ours, too."""
    client = client_of(trial)
    for audience in ("https://other.example.com", f"{client.metadata['issuer']}.example.com"):
        _refused_at_token(trial, client, client.authenticated(aud=audience))


@MODULES.add(f"{NAME}-ensure-client-assertion-with-no-sub-fails", "An assertion without sub is refused.")
def no_subject(trial: Trial) -> None:
    """With and without the client_id in the request."""
    client = client_of(trial)
    _refused_at_token(trial, client, client.authenticated(sub=None))
    _refused_at_token(trial, client, {**client.authenticated(sub=None), "client_id": client.client_id})


@MODULES.add(
    f"{NAME}-ensure-client-id-in-token-endpoint", "An assertion for one client, signed by another's key, is refused."
)
def other_key(trial: Trial) -> None:
    """The first client's code, the second one's name, the first one's key."""
    first, second = client_of(trial), client_of(trial, number=1)
    known = {**second.authenticated(key=first.key), "client_id": second.client_id}
    code = first.code(trial.browser())
    answer = first.redeem_with(code, known, first.proven("POST", "/oauth/token"))
    error_of(answer, "invalid_client", "invalid_grant")
    first.tokens(first.redeem(code))


@MODULES.add(
    f"{NAME}-par-ensure-jwt-client-assertions-nbf-8-seconds-in-the-future-is-accepted",
    "An assertion whose iat and nbf are 8 seconds ahead is taken.",
)
def little_ahead(trial: Trial) -> None:
    """A clock that is a little fast."""
    client = client_of(trial)
    ahead = int(time.time()) + 8
    client.pushed(client.request(), known=client.authenticated(iat=ahead, nbf=ahead, exp=ahead + 60))


@MODULES.add(
    f"{NAME}-par-ensure-jwt-client-assertions-nbf-over-60-seconds-in-the-future-fails",
    "An assertion whose iat and nbf are more than 60 seconds ahead is refused.",
)
def far_ahead(trial: Trial) -> None:
    """65 seconds; and nbf alone."""
    client = client_of(trial)
    ahead = int(time.time()) + 65
    _refused_at_par(client, iat=ahead, nbf=ahead, exp=ahead + 60)
    _refused_at_par(client, nbf=ahead, exp=ahead + 60)


@MODULES.add(f"{NAME}-par-test-array-as-audience-fails", "An assertion whose aud is a list is refused.")
def list_as_audience(trial: Trial) -> None:
    """With the issuer and another; with the issuer alone."""
    client = client_of(trial)
    issuer = client.metadata["issuer"]
    _refused_at_par(client, aud=[issuer, "https://other.example.com"])
    _refused_at_par(client, aud=[issuer])


@MODULES.add(
    f"{NAME}-par-test-par-endpoint-url-as-audience-fails",
    "An assertion whose aud is the endpoint for pushing is refused.",
)
def par_as_audience(trial: Trial) -> None:
    """The address that it is sent to."""
    client = client_of(trial)
    _refused_at_par(client, aud=client.path("pushed_authorization_request_endpoint"))


@MODULES.add(
    f"{NAME}-par-test-token-endpoint-url-as-audience-fails", "An assertion whose aud is the token endpoint is refused."
)
def token_endpoint_as_audience(trial: Trial) -> None:
    """When a request is pushed."""
    client = client_of(trial)
    _refused_at_par(client, aud=client.path("token_endpoint"))
