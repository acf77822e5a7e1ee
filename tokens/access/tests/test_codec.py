"""Access tokens: what is written, and everything that must be refused."""

import base64
import hashlib
import hmac
import json
import warnings
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from joserfc import jws

from tokens.access import codec
from tokens.access.codec import AccessClaims
from tokens.errors import InvalidToken, UnknownKey, api_challenge
from tokens.tests.material import NOW, Issuer, b64, good_payload


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    """A server with one active key."""
    return Issuer()


def refusal(issuer: Issuer, token: str, now: float = NOW) -> str:
    """Return why ``token`` is refused."""
    with pytest.raises(InvalidToken) as caught:
        codec.decode(token, issuer.keys, now=now)
    assert caught.value.status == 401
    return caught.value.reason


def encoded(issuer: Issuer) -> str:
    """Return a token as the server itself writes it."""
    assert issuer.keys.active is not None
    return codec.encode(msgspec.convert(good_payload(), AccessClaims), issuer.keys.active)


@pytest.mark.parametrize("alg", ["EdDSA", "Ed25519"])
def test_round_trip(alg: str) -> None:
    """A token says after decoding what it said before encoding, under either name of the algorithm."""
    issuer = Issuer(alg)
    verified = codec.decode(encoded(issuer), issuer.keys, now=NOW)
    assert msgspec.to_builtins(verified.claims) == good_payload(roles=("editors",))
    assert verified.kid == issuer.jwk.kid


@pytest.mark.parametrize("alg", ["EdDSA", "Ed25519"])
def test_written_as_the_library_writes_it(alg: str) -> None:
    """Text and signature are those of joserfc's own serialisation."""
    issuer = Issuer(alg)
    assert issuer.keys.active is not None
    claims = msgspec.convert(good_payload(), AccessClaims)
    header = {"alg": alg, "kid": issuer.jwk.kid, "typ": "at+jwt"}
    registry = jws.JWSRegistry(algorithms=[alg])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that RFC 9864 deprecates the name EdDSA
        expected = jws.serialize_compact(header, msgspec.json.encode(claims), issuer.keys.active.key, registry=registry)
    assert encoded(issuer) == expected


def test_shape(issuer: Issuer) -> None:
    """The header is alg, kid and typ at+jwt; the claims are RFC 9068's and ours, without nbf."""
    header, payload, _ = (base64.urlsafe_b64decode(part + "==") for part in encoded(issuer).split("."))
    assert json.loads(header) == {"alg": "EdDSA", "kid": issuer.jwk.kid, "typ": "at+jwt"}
    assert set(json.loads(payload)) == {
        "iss", "sub", "aud", "client_id", "iat", "exp", "jti", "sid", "scope", "epoch", "roles",
    }  # fmt: skip


def test_good_token_signed_elsewhere(issuer: Issuer) -> None:
    """The tests' own signer makes tokens the codec accepts, so that what it refuses is refused for its defect."""
    assert codec.decode(issuer.sign(issuer.header, good_payload()), issuer.keys, now=NOW).claims.jti == "j" * 22


@pytest.mark.parametrize("typ", ["AT+JWT", "application/at+jwt", "Application/AT+jwt"])
def test_typ_is_a_media_type(issuer: Issuer, typ: str) -> None:
    """Case does not matter in typ, and the application/ prefix may be there (RFC 7515 §4.1.9)."""
    assert codec.decode(issuer.sign(issuer.header | {"typ": typ}, good_payload()), issuer.keys, now=NOW)


@pytest.mark.parametrize(
    "typ",
    ["JWT", "jwt", "dpop+jwt", "logout+jwt", "at+jwt ", "application/application/at+jwt", "", None, 1, ["at+jwt"]],
)
def test_typ_must_be_an_access_token(issuer: Issuer, typ: Any) -> None:
    """Any other kind of token, ID token included, is refused although its signature is good (ASVS 9.2.2)."""
    assert refusal(issuer, issuer.sign(issuer.header | {"typ": typ}, good_payload())) == "typ"


def test_typ_is_required(issuer: Issuer) -> None:
    """A token without typ is refused."""
    header = {name: value for name, value in issuer.header.items() if name != "typ"}
    assert refusal(issuer, issuer.sign(header, good_payload())) == "typ"


@pytest.mark.parametrize("crit", [[], ["alg"], ["exp"], ["b64"], "alg", None, {}, 1])
def test_crit_in_any_form(issuer: Issuer, crit: Any) -> None:
    """A header with crit is refused whatever it holds: RFC 7515 §4.1.11 forbids an empty one and one that names alg."""
    assert refusal(issuer, issuer.sign(issuer.header | {"crit": crit}, good_payload())) == "crit"


@pytest.mark.parametrize("b64_value", [True, False])
def test_b64_header(issuer: Issuer, b64_value: bool) -> None:
    """An unencoded-payload header (RFC 7797) is refused."""
    assert refusal(issuer, issuer.sign(issuer.header | {"b64": b64_value}, good_payload())) == "crit"


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "", "HS256", "RS256", "ES256", "Ed448", "eddsa", None, 5, []])
def test_foreign_algorithm(issuer: Issuer, alg: Any) -> None:
    """A key verifies under its own algorithm alone, whatever the signature is worth."""
    assert refusal(issuer, issuer.sign(issuer.header | {"alg": alg}, good_payload())) == "alg"


@pytest.mark.parametrize(("made_for", "claimed"), [("EdDSA", "Ed25519"), ("Ed25519", "EdDSA")])
def test_one_name_per_key(made_for: str, claimed: str) -> None:
    """A key verifies under the name it was published with and no other."""
    issuer = Issuer(made_for)
    assert refusal(issuer, issuer.sign(issuer.header | {"alg": claimed}, good_payload())) == "alg"


def test_migration_of_the_name() -> None:
    """While keys of both names are published, tokens under both verify, each with its own key."""
    old, new = Issuer("EdDSA"), Issuer("Ed25519")
    keys = type(old.keys)({**old.keys.verifying, **new.keys.verifying}, new.keys.active, b"", "")
    for issuer in (old, new):
        assert codec.decode(issuer.sign(issuer.header, good_payload()), keys, now=NOW).kid == issuer.jwk.kid


def test_unsigned(issuer: Issuer) -> None:
    """A token of alg none with an empty or a made-up signature is refused."""
    parts = [b64(json.dumps(part).encode()) for part in (issuer.header | {"alg": "none"}, good_payload())]
    for signature in ("", "AA", b64(b"\0" * 64)):
        refusal(issuer, ".".join([*parts, signature]))


@pytest.mark.parametrize("secret", ["x", "raw", "jwks"])
def test_hmac_with_the_public_key(issuer: Issuer, secret: str) -> None:
    """A MAC under any spelling of the public key is no signature (RFC 8725 §2.1)."""
    raw = {
        "x": issuer.jwk.x.encode(),
        "raw": base64.urlsafe_b64decode(issuer.jwk.x + "="),
        "jwks": issuer.keys.jwks,
    }[secret]
    signing_input = ".".join(
        b64(json.dumps(part).encode()) for part in (issuer.header | {"alg": "HS256"}, good_payload())
    )
    mac = hmac.digest(raw, signing_input.encode(), hashlib.sha256)
    assert refusal(issuer, f"{signing_input}.{b64(mac)}") == "alg"


def test_rsa_with_embedded_key(issuer: Issuer) -> None:
    """An RS256 token that brings its own public key is refused."""
    generate_private_key(65_537, 2_048)
    header = issuer.header | {"alg": "RS256", "jwk": {"kty": "RSA", "e": "AQAB", "n": "AQAB"}}
    assert refusal(issuer, issuer.sign(header, good_payload())) == "alg"


@pytest.mark.parametrize("kid", ["other", "genuine"])
def test_key_in_the_header_is_never_used(issuer: Issuer, kid: str) -> None:
    """jwk, jku, x5u and x5c of an attacker do not make the attacker's signature good (ASVS 9.1.3)."""
    thief = Issuer()
    header = thief.header | {
        "kid": issuer.jwk.kid if kid == "genuine" else thief.jwk.kid,
        "jwk": msgspec.to_builtins(thief.jwk),
        "jku": "http://127.0.0.1:9/jwks.json",
        "x5u": "http://127.0.0.1:9/cert.pem",
        "x5c": ["MIIB"],
    }
    assert refusal(issuer, thief.sign(header, good_payload())) == ("signature" if kid == "genuine" else "kid")


@pytest.mark.parametrize(
    "kid",
    [
        "", "../../../../dev/null", "/etc/passwd", "x' OR '1'='1", "x'; DROP TABLE tokens_signingkey; --",
        "http://127.0.0.1:9/", "${jndi:ldap://127.0.0.1:9/a}", "a" * 2_000, "\0", "\u202e", "none",
    ],
)  # fmt: skip
def test_kid_injection(issuer: Issuer, kid: str) -> None:
    """A kid is looked up in memory and means nothing else."""
    with pytest.raises(UnknownKey):
        codec.decode(issuer.sign(issuer.header | {"kid": kid}, good_payload()), issuer.keys, now=NOW)


@pytest.mark.parametrize("kid", [None, 1, [], {}, True])
def test_kid_of_a_wrong_type(issuer: Issuer, kid: Any) -> None:
    """A kid that is not text is refused before the key set is asked."""
    assert refusal(issuer, issuer.sign(issuer.header | {"kid": kid}, good_payload())) == "kid"


def test_retired_key() -> None:
    """A retiring key verifies until the second before its end, and not from its end on."""
    issuer = Issuer(not_after=NOW + 100)
    token = issuer.sign(issuer.header, good_payload())
    assert codec.decode(token, issuer.keys, now=NOW + 99)
    assert refusal(issuer, token, now=NOW + 100) == "kid"


# ------------------------------------------------------------------ text
@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "...",
        "a.b",
        "a.b.c.d",
        "a..c",
        ".b.c",
        "a.b.",
        "a b.c.d",
        "a.b.c\n",
        "a.b.c=",
        "ä.b.c",
        "a.b+.c/",
    ],
)
def test_text(issuer: Issuer, text: str) -> None:
    """Anything that is not three base64url words joined by dots is refused before it is parsed."""
    assert refusal(issuer, text) == "text"


def test_size(issuer: Issuer) -> None:
    """The longest token within 4,096 characters is looked at, the next longer one is not (rfc8725bis §3.15)."""
    tokens = [issuer.sign(issuer.header, good_payload(scope="s" * room)) for room in range(2_500, 2_700)]
    longest = [token for token in tokens if len(token) <= codec.MAX_TOKEN_BYTES][-1]
    following = next(token for token in tokens if len(token) > codec.MAX_TOKEN_BYTES)
    assert (len(longest), len(following)) in {(4_096, 4_097), (4_095, 4_097), (4_096, 4_098)}
    assert codec.decode(longest, issuer.keys, now=NOW)
    assert refusal(issuer, following) == "text"


def test_non_canonical_base64(issuer: Issuer) -> None:
    """Of all spellings of the same signature bytes only the canonical one is accepted."""
    token = issuer.sign(issuer.header, good_payload())
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    # 64 bytes are 86 characters: the last one carries 2 of its 6 bits, the other 4 must be zero.
    first = alphabet.index(token[-1])
    spellings = [token[:-1] + alphabet[first + low] for low in range(1, 16)]
    assert len({base64.urlsafe_b64decode(s.rsplit(".", 1)[1] + "==") for s in [*spellings, token]}) == 1
    for spelling in spellings:
        refusal(issuer, spelling)


def test_changed_anywhere(issuer: Issuer) -> None:
    """A token with any one character changed is refused."""
    token = encoded(issuer)
    for position in range(0, len(token), 7):
        if token[position] != ".":
            changed = token[:position] + ("A" if token[position] != "A" else "B") + token[position + 1 :]
            refusal(issuer, changed)


def test_refusals_look_alike(issuer: Issuer) -> None:
    """Whatever is wrong with a token, the answer is the same."""
    answers = set()
    for token in ("x", issuer.sign(issuer.header, good_payload(exp=1)), Issuer().sign(issuer.header, good_payload())):
        with pytest.raises(InvalidToken) as caught:
            codec.decode(token, issuer.keys, now=NOW)
        error = caught.value
        answers.add((error.status, error.code, error.title, error.detail, error.headers["WWW-Authenticate"]))
    assert answers == {
        (
            401,
            "invalid_token",
            InvalidToken.title,
            InvalidToken.detail,
            f'{api_challenge()}, error="invalid_token"',
        )
    }
