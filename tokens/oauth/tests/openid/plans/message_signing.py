"""FAPI 2.0 Message Signing, final: the modules of the Security Profile with signed requests and answers, and its own.

The variant is signed_non_repudiation (RFC 9101) and jarm, for clients with private_key_jwt and DPoP.
"""

import base64
import json
import time
from typing import Any, Final

from tokens.oauth.tests.openid.fapi2_client import Fapi2Client
from tokens.oauth.tests.openid.plans import fapi2_security
from tokens.oauth.tests.openid.plans.fapi2 import NAME, client_of
from tokens.oauth.tests.openid.registry import Modules, Plan, Trial
from tokens.oauth.tests.openid.relying_party import error_of

MODULES: Final = Modules()
PLAN: Final = Plan(
    "fapi2-message-signing-final-test-plan",
    "FAPI 2.0 Message Signing",
    (MODULES, *fapi2_security.PLAN.groups),
    mode="jwt",
    signed=True,
)
_BAD: Final = ("invalid_request_object", "invalid_request")
#: More than the 60 minutes that an object may live, and that its nbf may be past (§5.3.1).
OVER_60_S: Final = 70 * 60


def _refused(client: Fapi2Client, **changes: Any) -> None:
    """Check that a request object with these changes is refused when it is pushed, and one without them is not."""
    asked = client.request()
    error_of(client.push(_with(client, client.request_object(asked, **changes))), "invalid_request_object")
    client.pushed(asked)


def _with(client: Fapi2Client, text: str) -> dict[str, str]:
    return {"client_id": client.client_id, "request": text}


def _taken(trial: Trial, client: Fapi2Client, **changes: Any) -> None:
    """Walk through the whole flow with such a request object."""
    asked = client.request()
    uri = client.pushed(_with(client, client.request_object(asked, **changes)))
    client.finished(asked, client.code_of(trial.browser(), asked, uri))


@MODULES.add(
    f"{NAME}-ensure-request-object-with-multiple-aud-succeeds", "An object for this server and others is taken."
)
def multiple_audiences(trial: Trial) -> None:
    """The issuer, and another name."""
    client = client_of(trial)
    _taken(trial, client, aud=[client.metadata["issuer"], "https://other.example.com"])


@MODULES.add(
    f"{NAME}-ensure-request-object-with-nbf-8-seconds-in-the-future-is-accepted",
    "An object whose nbf is 8 seconds ahead is taken.",
)
def little_ahead(trial: Trial) -> None:
    """A clock that is a little fast."""
    _taken(trial, client_of(trial), nbf=int(time.time()) + 8)


@MODULES.add(f"{NAME}-ensure-request-object-without-exp-fails", "An object without exp is refused.")
def without_exp(trial: Trial) -> None:
    """With it, it is taken."""
    _refused(client_of(trial), exp=None)


@MODULES.add(f"{NAME}-ensure-request-object-without-nbf-fails", "An object without nbf is refused.")
def without_nbf(trial: Trial) -> None:
    """With it, it is taken."""
    _refused(client_of(trial), nbf=None)


@MODULES.add(f"{NAME}-ensure-expired-request-object-fails", "An object that has expired is refused.")
def expired(trial: Trial) -> None:
    """Five minutes ago."""
    now = int(time.time())
    _refused(client_of(trial), iat=now - 600, nbf=now - 600, exp=now - 300)


@MODULES.add(f"{NAME}-ensure-request-object-with-bad-aud-fails", "An object for another server is refused.")
def bad_audience(trial: Trial) -> None:
    """One whose name begins like ours, too."""
    client = client_of(trial)
    _refused(client, aud="https://other.example.com")
    _refused(client, aud=f"{client.metadata['issuer']}.example.com")


@MODULES.add(
    f"{NAME}-ensure-request-object-with-exp-over-60-fails", "An object that lives longer than 60 minutes is refused."
)
def lives_too_long(trial: Trial) -> None:
    """70 minutes."""
    _refused(client_of(trial), exp=int(time.time()) + OVER_60_S)


@MODULES.add(
    f"{NAME}-ensure-request-object-with-nbf-over-60-fails", "An object whose nbf is 60 minutes ago and more is refused."
)
def too_old(trial: Trial) -> None:
    """70 minutes."""
    _refused(client_of(trial), nbf=int(time.time()) - OVER_60_S)


@MODULES.add(f"{NAME}-ensure-signed-request-object-with-RS256-fails", "An object signed by RS256 is refused.")
def rs256(trial: Trial) -> None:
    """With the registered RSA key."""
    _refused(client_of(trial), alg="RS256")


@MODULES.add(f"{NAME}-ensure-request-object-signature-algorithm-is-not-none", "An object with alg none is refused.")
def unsigned(trial: Trial) -> None:
    """Its claims are right."""
    client = client_of(trial)
    _, claims, _ = client.request_object(client.request()).split(".")
    header = base64.urlsafe_b64encode(json.dumps({"alg": "none"}).encode()).rstrip(b"=").decode()
    error_of(client.push(_with(client, f"{header}.{claims}.")), *_BAD)


@MODULES.add(f"{NAME}-ensure-request-object-with-invalid-signature-fails", "An object with a bad signature is refused.")
def bad_signature(trial: Trial) -> None:
    """Some bits are others."""
    client = client_of(trial)
    head, claims, signature = client.request_object(client.request()).split(".")
    other = ("AAAA" if signature[:4] != "AAAA" else "BBBB") + signature[4:]
    error_of(client.push(_with(client, f"{head}.{claims}.{other}")), "invalid_request_object")


@MODULES.add(
    f"{NAME}-ensure-matching-key-in-authorization-request", "An object that another client's key has signed is refused."
)
def other_key(trial: Trial) -> None:
    """A client that is registered here."""
    other = client_of(trial, number=1)
    _refused(client_of(trial), key=other.key)


@MODULES.add(
    f"{NAME}-ensure-unsigned-request-at-par-endpoint-fails", "The parameters pushed without an object are refused."
)
def not_signed(trial: Trial) -> None:
    """The client is known by its assertion."""
    client = client_of(trial)
    client.signed = False
    error_of(client.push(client.request()), "invalid_request")
    client.signed = True
    client.pushed(client.request())


@MODULES.add(
    f"{NAME}-par-authorization-request-containing-request_uri", "An object with request_uri inside is refused."
)
def request_uri_inside(trial: Trial) -> None:
    """The address of another request."""
    _refused(client_of(trial), request_uri="https://app.example.com/request.jwt")
