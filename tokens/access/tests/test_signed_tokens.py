"""Tokens for clients: what this server takes for one of its own when it comes back, and what it does not."""

import pytest

from tokens.access import signed_tokens
from tokens.tests.material import NOW, Issuer

CLAIMS = {"iss": "http://localhost:8000", "sub": "a"}


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    """A server with one active key."""
    return Issuer()


def test_a_token_is_one_of_its_kind_alone(issuer: Issuer) -> None:
    """A token of ours is taken as what its header says: no kind stands in for another, whatever its claims are."""
    assert issuer.keys.active is not None
    for made in ("JWT", "logout+jwt", "at+jwt"):
        token = signed_tokens.sign(CLAIMS, issuer.keys.active, typ=made)
        for wanted in ("JWT", "logout+jwt", "at+jwt"):
            found = signed_tokens.verified(token, issuer.keys, typ=wanted, now=NOW)
            assert found == (CLAIMS if made == wanted else None), (made, wanted)


@pytest.mark.parametrize(
    "changes", [{"crit": ["b64"]}, {"b64": True}, {"alg": "Ed25519"}, {"alg": "none"}, {"kid": "other"}, {"kid": 1}]
)
def test_its_header_is_ours(issuer: Issuer, changes: dict[str, object]) -> None:
    """A header this server never writes proves nothing, though its key has signed the token."""
    header = {**issuer.header, "typ": "JWT"}
    assert signed_tokens.verified(issuer.sign(header, CLAIMS), issuer.keys, typ="JWT", now=NOW) == CLAIMS
    assert signed_tokens.verified(issuer.sign({**header, **changes}, CLAIMS), issuer.keys, typ="JWT", now=NOW) is None
