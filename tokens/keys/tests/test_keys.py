"""Key sets in memory and what is published of them."""

import json

import pytest

from tokens.keys.key_set import KeyRecord, build_key_set, new_key_pair, public_jwk
from tokens.tests.material import NOW


def record(alg: str = "EdDSA", *, active: bool = False, not_after: float | None = None) -> KeyRecord:
    """Return a new key as it comes from storage."""
    jwk, seed = new_key_pair(alg)
    return KeyRecord(jwk=jwk, active=active, seed=seed if active else None, not_after=not_after)


def test_published_members() -> None:
    """A published key has kty, crv, x, kid, use and alg, and nothing private (security-bar 32)."""
    keys = build_key_set([record(active=True), record()], now=NOW)
    for jwk in json.loads(keys.jwks)["keys"]:
        assert set(jwk) == {"kty", "crv", "x", "kid", "use", "alg"}
        assert (jwk["kty"], jwk["crv"], jwk["use"], jwk["alg"], len(jwk["kid"])) == (
            "OKP",
            "Ed25519",
            "sig",
            "EdDSA",
            43,
        )


def test_a_kid_is_never_taken_for_an_option() -> None:
    """One thumbprint in 64 begins with a hyphen; as an argument of a command it would be an option."""
    assert not any(new_key_pair("EdDSA")[0].kid.startswith("-") for _ in range(300))


def test_active_key_is_in_the_set() -> None:
    """The signing key is one that verifies, under the same name of the algorithm."""
    active = record("Ed25519", active=True)
    keys = build_key_set([record(), active], now=NOW)
    assert keys.active is not None
    assert keys.active.kid == active.jwk.kid
    assert keys.verifying[active.jwk.kid].alg == keys.active.alg == "Ed25519"


def test_without_a_readable_seed() -> None:
    """An active key whose private part does not open still verifies, and nothing signs."""
    jwk, _ = new_key_pair("EdDSA")
    keys = build_key_set([KeyRecord(jwk=jwk, active=True, seed=None, not_after=None)], now=NOW)
    assert keys.active is None
    assert keys.verifier(jwk.kid, NOW) is not None


def test_past_its_end() -> None:
    """A key past its end is neither published nor accepted."""
    over, retiring = record(not_after=NOW), record(not_after=NOW + 1)
    keys = build_key_set([over, retiring], now=NOW)
    assert set(keys.verifying) == {retiring.jwk.kid}
    assert [jwk["kid"] for jwk in json.loads(keys.jwks)["keys"]] == [retiring.jwk.kid]
    assert keys.verifier(retiring.jwk.kid, NOW + 1) is None


def test_etag_follows_the_content() -> None:
    """Equal sets have equal ETags, different sets different ones."""
    one, other = record(), record()
    assert build_key_set([one], now=NOW).etag == build_key_set([one], now=NOW + 5).etag
    assert build_key_set([one], now=NOW).etag != build_key_set([other], now=NOW).etag


def test_unknown_algorithm() -> None:
    """A key is made for what something here signs with."""
    with pytest.raises(ValueError, match="IRONAUTH_JWT_ALG"):
        public_jwk(bytes(32), "HS256")


def test_private_part_is_not_printed() -> None:
    """No representation of a key or a set shows the seed."""
    jwk, seed = new_key_pair("EdDSA")
    keys = build_key_set([KeyRecord(jwk=jwk, active=True, seed=seed, not_after=None)], now=NOW)
    for text in (repr(keys), str(keys.active), repr(keys.active)):
        assert seed.hex() not in text
        assert repr(seed) not in text
