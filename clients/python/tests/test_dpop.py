"""DPoP proofs against a fake issuer and a fake holder of a key."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from ironauth_client import Client, InvalidProof, InvalidToken, MemoryReplayStore
from ironauth_client.presented import Presented, presented
from ironauth_client.testing import FakeHolder, FakeIssuer

URL = "https://api.example.com/orders"
AGO, AHEAD = -600, 600


@pytest.fixture
def issuer() -> FakeIssuer:
    return FakeIssuer()


@pytest.fixture
def holder() -> FakeHolder:
    return FakeHolder()


@pytest.fixture
def verifier(issuer: FakeIssuer) -> Iterator[Client]:
    with Client(issuer.config(), transport=issuer.transport) as client:
        yield client


@pytest.fixture
def token(issuer: FakeIssuer, holder: FakeHolder) -> str:
    return issuer.access_token(cnf={"jkt": holder.thumbprint})


def shown(token: str, proof: str, url: str = URL) -> Presented:
    return Presented(token, "dpop", proof, "GET", url)


def test_a_good_proof_is_accepted_once(verifier: Client, holder: FakeHolder, token: str) -> None:
    """Query, case of the host and default port do not count; the second use is a replay."""
    proof = holder.proof(token, "GET", URL)
    assert verifier.verify(shown(token, proof, "https://API.example.com:443/orders?page=2")).subject == "person-1"
    with pytest.raises(InvalidProof, match="before"):
        verifier.verify(shown(token, proof))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"htm": "POST"}, "another request"),
        ({"htu": "https://api.example.com/other"}, "another request"),
        ({"htu": "http://api.example.com/orders"}, "another request"),
        ({"htu": "https://api.example.com:8443/orders"}, "another request"),
        ({"htu": "https://api.example.com:x/orders"}, "another request"),
        ({"htu": None}, "another request"),
        ({"ath": None}, "another token"),
        ({"ath": "x"}, "another token"),
        ({"iat": AGO}, "too old"),
        ({"iat": AHEAD}, "too old"),
        ({"iat": None}, "iat"),
        ({"jti": None}, "jti"),
        ({"jti": "x" * 257}, "jti"),
        ({"header": {"typ": "JWT"}}, "type"),
        ({"header": {"jwk": None}}, "public key"),
        ({"header": {"jwk": {"kty": "oct", "k": "AA"}}}, "public key"),
        ({"header": {"jwk": {"kty": "EC", "crv": "P-256"}}}, "public key"),
        ({"header": {"jwk": FakeHolder().key.as_dict(private=True)}}, "public key"),
        ({"header": {"jwk": FakeHolder().key.as_dict(private=False)}}, "another key"),
    ],
)
def test_a_wrong_proof_is_refused(
    verifier: Client, holder: FakeHolder, token: str, changes: dict[str, Any], why: str
) -> None:
    """One thing is wrong with each, and what is refused is remembered by nobody."""
    if changes.get("iat") in (AGO, AHEAD):  # seconds from the moment of the test, not of its collection
        changes = {"iat": time.time() + changes["iat"]}
    with pytest.raises(InvalidProof, match=why):
        verifier.verify(shown(token, holder.proof(token, "GET", URL, **changes)))


def test_a_token_and_its_scheme_belong_together(verifier: Client, issuer: FakeIssuer, holder: FakeHolder) -> None:
    """A bound token is no bearer token, and one that is not bound proves nothing by a proof."""
    bound, free = issuer.access_token(cnf={"jkt": holder.thumbprint}), issuer.access_token()
    with pytest.raises(InvalidToken, match="belong"):
        verifier.verify(bound)
    with pytest.raises(InvalidToken, match="belong"):
        verifier.verify(shown(free, holder.proof(free, "GET", URL)))


def test_another_holders_proof_is_refused(verifier: Client, token: str) -> None:
    """A thief of the token signs a proof with a key of its own."""
    with pytest.raises(InvalidProof, match="another key"):
        verifier.verify(shown(token, FakeHolder().proof(token, "GET", URL)))


def test_a_full_store_accepts_nothing_until_proofs_age() -> None:
    """It fails closed, and has room again in the second in which the oldest can no longer be replayed."""
    now = [0.0]
    store = MemoryReplayStore(most=2, clock=lambda: now[0])
    assert [store.first_use(key, 60) for key in ("a", "a", "b", "c")] == [True, False, True, False]
    now[0] = 59.9
    assert not store.first_use("c", 60)
    now[0] = 60.0
    assert store.first_use("c", 60)


@pytest.mark.parametrize(
    ("authorization", "proofs"),
    [
        (["Bearer a", "Bearer b"], []),
        (["Bearer"], []),
        (["Bearer a b"], []),
        (["DPoP a"], []),
        (["DPoP a"], ["p", "q"]),
    ],
)
def test_a_malformed_header_is_refused(authorization: list[str], proofs: list[str]) -> None:
    """Two credentials, none after the scheme, or not exactly one proof; other schemes and none are left to others."""
    assert presented([], [], method="GET", url=URL) is presented(["Basic x"], [], method="GET", url=URL) is None
    assert presented(["bearer a"], [], method="GET", url=URL) == Presented("a")
    with pytest.raises(InvalidToken):
        presented(authorization, proofs, method="GET", url=URL)
