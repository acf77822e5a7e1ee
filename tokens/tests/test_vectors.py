"""Published test vectors: RFC 8032, RFC 8037 and RFC 7638, and every case of Project Wycheproof."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import OKPKey, RSAKey

from tokens.access import codec
from tokens.errors import InvalidToken
from tokens.keys.key_set import ActiveKey, PublicJwk, import_private_key, import_public_key, public_jwk
from tokens.tests.material import NOW, Issuer, b64, good_payload

VECTORS = Path(__file__).parent / "vectors"
RFC: dict[str, dict[str, Any]] = {
    vector["id"]: vector for vector in json.loads((VECTORS / "rfc.json").read_text())["vectors"]
}
SEED = base64.urlsafe_b64decode(RFC["rfc8037-a1-private-jwk"]["jwk"]["d"] + "=")


def wycheproof(name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return every (group, test) of a Wycheproof file; the count it states must be there."""
    document = json.loads((VECTORS / "wycheproof" / name).read_text())
    cases = [(group, test) for group in document["testGroups"] for test in group["tests"]]
    assert len(cases) == document["numberOfTests"]
    return cases


def test_sources_are_unmodified() -> None:
    """The copied Wycheproof files are the ones SOURCE.txt names, byte for byte."""
    lines = (VECTORS / "wycheproof" / "SOURCE.txt").read_text().splitlines()[1:]
    for line in filter(None, lines):
        digest, name = line.split()
        assert hashlib.sha256((VECTORS / "wycheproof" / name).read_bytes()).hexdigest() == digest, name


def test_rfc_8037_a1_a2_key_pair() -> None:
    """The private key of A.1 gives the public key of A.2, and no ``d`` is in what is published."""
    jwk = public_jwk(SEED, "EdDSA")
    assert jwk.x == RFC["rfc8037-a2-public-jwk"]["jwk"]["x"]
    assert "d" not in PublicJwk.__struct_fields__


def test_rfc_8037_a3_thumbprint() -> None:
    """The kid of that key is the thumbprint of A.3 (RFC 7638 over OKP)."""
    assert public_jwk(SEED, "EdDSA").kid == RFC["rfc8037-a3-thumbprint"]["thumbprint"]


def test_rfc_7638_thumbprint() -> None:
    """The thumbprint function gives RFC 7638's own example for its RSA key."""
    vector = RFC["rfc7638-3.1-rsa-thumbprint"]
    assert RSAKey.import_key(vector["jwk"]).thumbprint() == vector["thumbprint"]


def test_rfc_8037_a4_sign_and_verify() -> None:
    """With the registry the codec uses, signing gives A.4's JWS byte for byte and A.5 verifies it."""
    vector = RFC["rfc8037-a4-jws"]
    registry = codec.REGISTRIES["EdDSA"]
    signed = jws.serialize_compact(vector["protected"], vector["payload"], import_private_key(SEED), registry=registry)
    assert signed == vector["jws"]
    public = import_public_key(RFC["rfc8037-a2-public-jwk"]["jwk"]["x"])
    assert jws.deserialize_compact(signed, public, registry=registry).payload == vector["payload"].encode()


@pytest.mark.parametrize("name", [name for name in RFC if name.startswith("rfc8032-")])
def test_rfc_8032(name: str) -> None:
    """The signature of RFC 8032 §7.1 comes out byte for byte, and verifies."""
    vector = RFC[name]
    key = import_private_key(bytes.fromhex(vector["seed"]))
    algorithm = codec.REGISTRIES["Ed25519"].get_alg("Ed25519")
    message, signature = bytes.fromhex(vector["msg_hex"]), bytes.fromhex(vector["sig"])
    assert algorithm.sign(message, key) == signature
    assert algorithm.verify(message, signature, import_public_key(b64(bytes.fromhex(vector["public"]))))


@pytest.mark.parametrize("alg", ["EdDSA", "Ed25519"])
def test_wycheproof_ed25519(alg: str) -> None:
    """All 151 Ed25519 cases come out as Wycheproof says, through the verify function the codec uses."""
    algorithm = codec.REGISTRIES[alg].get_alg(alg)
    cases = wycheproof("ed25519_test.json")
    assert len(cases) == 151
    for group, test in cases:
        key = import_public_key(group["publicKeyJwk"]["x"])
        verified = algorithm.verify(bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"]), key)
        assert verified is (test["result"] == "valid"), test


@pytest.mark.parametrize(
    "name", ["json_web_signature_test.json", "json_web_key_test.json", "json_web_crypto_test.json"]
)
def test_wycheproof_tokens(name: str) -> None:
    """Not one Wycheproof token, valid for its own key or not, passes as an access token."""
    issuer = Issuer()
    refused = 0
    for _, test in wycheproof(name):
        token = test.get("jws") or test.get("jwe")
        if not isinstance(token, str):
            continue
        with pytest.raises(InvalidToken):
            codec.decode(token, issuer.keys, now=NOW)
        refused += 1
    assert refused > 20


def test_no_warning_and_no_filter() -> None:
    """Signing and verifying under the deprecated name warns nobody, while joserfc's own registry still would."""
    issuer = Issuer("EdDSA")
    assert codec.decode(issuer.sign(issuer.header, good_payload()), issuer.keys, now=NOW)
    assert isinstance(issuer.keys.active, ActiveKey)
    with pytest.warns(UserWarning, match="RFC 9864"):
        jws.serialize_compact({"alg": "EdDSA"}, b"", OKPKey.generate_key(), algorithms=["EdDSA"])
