"""What an access token may say: strict JSON, every claim, exact times."""

import json
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from tokens.access import codec
from tokens.errors import InvalidToken
from tokens.tests.material import NOW, Issuer, good_payload


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


@pytest.mark.parametrize(
    "payload",
    [
        b"\xef\xbb\xbf" + json.dumps(good_payload()).encode(),
        json.dumps(good_payload()).encode("utf-16"),
        json.dumps(good_payload()).encode("utf-32-le"),
        b"[]", b'"x"', b"1", b"null", b"{", b"\xff", b"[" * 2_900, json.dumps(good_payload()).encode() + b"x",
        json.dumps(good_payload())[:-1].encode() + b', "exp": 9999999999}',
        json.dumps(good_payload())[:-1].encode() + b', "epoch": NaN}',
    ],
    ids=["bom", "utf16", "utf32", "list", "text", "number", "null", "cut", "latin1", "deep", "tail", "twice", "nan"],
)  # fmt: skip
def test_payload_is_one_strict_object(issuer: Issuer, payload: bytes) -> None:
    """The payload is one JSON object in UTF-8, without byte order mark, repeated member or NaN, though well signed."""
    assert refusal(issuer, issuer.sign(issuer.header, payload)) == "payload"


def test_header_is_one_strict_object(issuer: Issuer) -> None:
    """The same holds for the header: a repeated alg could mean two things."""
    good = json.dumps(issuer.header).encode()
    for header in (
        b"\xef\xbb\xbf" + good,
        good[:-1] + b', "alg": "EdDSA"}',
        b"[]",
        b"{",
        b"[" * 2_000,
        good.decode().encode("utf-16"),
    ):
        assert refusal(issuer, issuer.sign(header, good_payload())) == "header"


@pytest.mark.parametrize("claim", sorted(good_payload()))
def test_claim_missing(issuer: Issuer, claim: str) -> None:
    """Every claim we issue is required."""
    assert refusal(issuer, issuer.sign(issuer.header, good_payload(**{claim: ...}))) == "claims"


@pytest.mark.parametrize("value", [None, 1.5, True, {}, ["a", 1], [None]], ids=repr)
@pytest.mark.parametrize("claim", sorted(good_payload()))
def test_claim_of_a_wrong_type(issuer: Issuer, claim: str, value: Any) -> None:
    """Every claim has exactly one type; a boolean is no number and a list no text."""
    assert refusal(issuer, issuer.sign(issuer.header, good_payload(**{claim: value}))) == "claims"


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("iss", "https://evil.example"), ("iss", ""), ("iss", "http://localhost:8000/"), ("iss", "http://localhost:80"),
        ("aud", "https://evil.example"), ("aud", ""), ("aud", "http://localhost:800"), ("aud", "http://localhost:8000/x"),
    ],
)  # fmt: skip
def test_wrong_issuer_or_audience(issuer: Issuer, claim: str, value: str) -> None:
    """The claims iss and aud are compared whole: no prefix, no trailing slash, not empty."""
    assert refusal(issuer, issuer.sign(issuer.header, good_payload(**{claim: value}))) == claim


@pytest.mark.parametrize(
    ("aud", "reason"),
    [
        (["https://api.example.com"], "aud"), (["http://localhost:8000/", "HTTP://localhost:8000"], "aud"), ([], "aud"),
        (["http://localhost:8000", 3], "claims"), ({}, "claims"), (None, "claims"),
    ],
)  # fmt: skip
def test_a_list_without_our_audience(issuer: Issuer, aud: Any, reason: str) -> None:
    """A token for other APIs opens nothing here (RFC 8707 §2)."""
    assert refusal(issuer, issuer.sign(issuer.header, good_payload(aud=aud))) == reason


@pytest.mark.parametrize("aud", [["http://localhost:8000"], ["https://api.example.com", "http://localhost:8000"]])
def test_a_list_with_our_audience(issuer: Issuer, aud: list[str]) -> None:
    """A token for several APIs is one for ours too."""
    found = codec.decode(issuer.sign(issuer.header, good_payload(aud=aud)), issuer.keys, now=NOW)
    assert found.claims.aud == tuple(aud)


@override_settings(IRONAUTH_AUDIENCE="https://api.example.com")
def test_audience_is_a_setting(issuer: Issuer) -> None:
    """The audience is IRONAUTH_AUDIENCE, not the issuer."""
    assert refusal(issuer, issuer.sign(issuer.header, good_payload(aud=settings.IRONAUTH_ISSUER))) == "aud"
    assert codec.decode(issuer.sign(issuer.header, good_payload()), issuer.keys, now=NOW)


def test_expiry_is_exact(issuer: Issuer) -> None:
    """A token is good until just before exp and refused in the very second (RFC 7519 §4.1.4)."""
    token = issuer.sign(issuer.header, good_payload(exp=NOW))
    assert codec.decode(token, issuer.keys, now=NOW - 0.001)
    assert refusal(issuer, token, now=NOW) == "exp"
    assert refusal(issuer, token, now=NOW + 61) == "exp"


@pytest.mark.parametrize("claim", ["iat", "nbf"])
def test_from_the_future(issuer: Issuer, claim: str) -> None:
    """The claims iat and nbf may be 60 s ahead of this clock and not 61 s."""
    assert codec.decode(issuer.sign(issuer.header, good_payload(**{claim: NOW + 60})), issuer.keys, now=NOW)
    assert refusal(issuer, issuer.sign(issuer.header, good_payload(**{claim: NOW + 61}))) == claim


@pytest.mark.parametrize("claim", ["sub", "sid"])
@pytest.mark.parametrize("value", ["", "me", "00000000-0000-0000-0000-00000000000g", "' OR 1=1"])
def test_ids_are_uuids(issuer: Issuer, claim: str, value: str) -> None:
    """The claims sub and sid are UUIDs or the token is refused."""
    assert refusal(issuer, issuer.sign(issuer.header, good_payload(**{claim: value}))) == "claims"


@pytest.mark.parametrize("claim", ["jti", "client_id"])
def test_empty_claim(issuer: Issuer, claim: str) -> None:
    """An empty jti or client_id is refused."""
    assert refusal(issuer, issuer.sign(issuer.header, good_payload(**{claim: ""}))) == "claims"
