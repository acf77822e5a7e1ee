"""The negative tests of RFC 9449 §4.3 at the resource, in its order: one module of the suite."""

import base64
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tokens.oauth.tests.openid.fapi2_client import Fapi2Client, key_pair
from tokens.oauth.tests.openid.plans.fapi2 import NAME, client_of
from tokens.oauth.tests.openid.registry import Modules, Trial
from tokens.oauth.tests.openid.site import ISSUER
from tokens.oauth.tests.proofs import new_key

MODULES: Final = Modules()
USERINFO: Final = "/oauth/userinfo"
HOUR_S: Final = 3_600


class Resource:
    """A client with a bound token, and how the resource takes its proofs."""

    def __init__(self, client: Fapi2Client, said: dict[str, Any]) -> None:
        self.client = client
        self.said = said

    def proof(self, **changes: Any) -> str:
        """Return a proof for a GET; changes as of ``proofs.proof``."""
        return self.client.proven("GET", USERINFO, **{"token": self.said["access_token"], **changes})

    def takes(self, what: str, *dpop: str, **how: Any) -> None:
        """Check that the resource answers."""
        answer = self.client.ask_with(self.said, *dpop, **how)
        assert answer.status_code == 200, (what, answer.status_code, answer.text)

    def refuses(self, what: str, *dpop: str, **how: Any) -> None:
        """Check that the resource refuses, and names the scheme in its challenge (RFC 9449 §7.1)."""
        answer = self.client.ask_with(self.said, *dpop, **how)
        assert answer.status_code in (400, 401), (what, answer.status_code)
        if answer.status_code == 401:
            assert "www-authenticate" in answer.headers, what


@MODULES.add(
    f"{NAME}-dpop-negative-tests",
    "Every check of RFC 9449 §4.3: claims, algorithms, keys, a second use, no proof.",
)
def negative_tests(trial: Trial) -> None:
    """A good proof works before, between and after."""
    client = client_of(trial)
    resource = Resource(client, client.sign_in(trial.browser()))
    _form(resource)
    _claims(resource)
    _algorithms(trial, resource)
    _addresses(trial, resource)
    _second_use_and_none(trial, resource)
    resource.takes("a good proof, after all", resource.proof())


def _form(resource: Resource) -> None:
    """One header, a JWT, with all it has to have (1 to 4)."""
    headers = {"Authorization": f"DPoP {resource.said['access_token']}", "DPOP": resource.proof()}
    assert resource.client.http.get(USERINFO, headers=headers).status_code == 200
    resource.refuses("two proofs", resource.proof(), resource.proof())
    resource.refuses("no JWT", resource.proof().replace(".", ""))
    for member in ("typ", "jwk"):
        resource.refuses(f"no {member}", resource.proof(header={member: None}))
    resource.refuses("no alg", _with_header(resource.proof(), alg=None))
    for claim in ("jti", "htm", "htu", "iat", "ath"):
        resource.refuses(f"no {claim}", resource.proof(**{claim: None}))
    resource.refuses("another typ", resource.proof(header={"typ": "jwt"}))


def _claims(resource: Resource) -> None:
    """For this method, this time and this token, by the key it is bound to (8, 11, 12)."""
    resource.refuses("another method", resource.proof(htm="PUT"))
    now = int(time.time())
    resource.refuses("an hour ahead", resource.proof(iat=now + HOUR_S))
    resource.refuses("an hour old", resource.proof(iat=now - HOUR_S))
    resource.refuses("another token", resource.proof(ath="A" * 43))
    resource.refuses("another key", resource.proof(key=new_key()))
    resource.takes("more than is known", resource.proof(header={"extra": "x"}, extra={"more": 1}))


def _algorithms(trial: Trial, resource: Resource) -> None:
    """A signature by an algorithm that counts, of the key in the header, which is public (5 to 7)."""
    head, claims, signature = resource.proof().split(".")
    resource.refuses("alg none", _with_header(f"{head}.{claims}.", alg="none"))
    other = signature[:-4] + ("AAAA" if signature[-4:] != "AAAA" else "BBBB")
    resource.refuses("a bad signature", f"{head}.{claims}.{other}")
    resource.refuses("a private key", resource.proof(header={"jwk": resource.client.holder.as_dict(private=True)}))
    rsa = client_of(trial)
    rsa.holder, rsa.holder_alg = key_pair("PS256", 7), "PS256"
    bound = Resource(rsa, rsa.sign_in(trial.browser()))
    bound.takes("PS256", bound.proof())
    bound.refuses("RS256", bound.proof(header={"alg": "RS256"}))


def _addresses(trial: Trial, resource: Resource) -> None:
    """For this address, without query and fragment, however it is spelled (9)."""
    resource.takes("a query in htu", resource.proof(htu=f"{ISSUER}{USERINFO}?a=b#c"))
    resource.takes("a query in the request", resource.proof(), query="?a=b")
    resource.refuses("another path", resource.proof(htu=f"{ISSUER}/oauth/other"))
    resource.refuses("another host", resource.proof(htu=f"https://other.example.com{USERINFO}"))
    with _should(trial):
        resource.takes("upper case", resource.proof(htu=ISSUER.upper() + USERINFO))
        resource.takes("the port of https", resource.proof(htu=f"{ISSUER}:443{USERINFO}"))


def _second_use_and_none(trial: Trial, resource: Resource) -> None:
    """Once; and not without."""
    jti = uuid.uuid4().hex
    resource.takes("the first use", resource.proof(jti=jti))
    with _should(trial):
        resource.refuses("the second use", resource.proof(jti=jti))
    resource.refuses("no proof")
    resource.refuses("no proof, as Bearer", scheme="Bearer")


@contextmanager
def _should(trial: Trial) -> Iterator[None]:
    """Note what fails here as a warning."""
    try:
        yield
    except AssertionError as failed:
        trial.should(False, str(failed))


def _with_header(proof: str, **changes: str | None) -> str:
    """Return a proof with other members in its header, under its old signature."""
    head, *rest = proof.split(".")
    members = json.loads(base64.urlsafe_b64decode(head + "=="))
    changed = {name: value for name, value in {**members, **changes}.items() if value is not None}
    return ".".join([base64.urlsafe_b64encode(json.dumps(changed).encode()).rstrip(b"=").decode(), *rest])
