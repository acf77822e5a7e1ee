"""One-time codes: the published vectors, the window, and a secret that only its own row opens."""

import hashlib
import hmac
import re
import secrets
import uuid
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import segno
from django.conf import settings
from django.test import override_settings

from accounts.mfa.totp import codes as totp
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.crypto.sealing import SealBrokenError

# RFC 6238 appendix B, SHA-1. It shows eight digits; six are the last six of them (RFC 4226 §5.3).
SECRET = b"12345678901234567890"
VECTORS = [
    (59, "94287082"),
    (1_111_111_109, "07081804"),
    (1_111_111_111, "14050471"),
    (1_234_567_890, "89005924"),
    (2_000_000_000, "69279037"),
    (20_000_000_000, "65353130"),
]


@pytest.mark.parametrize(("at", "code"), VECTORS)
@pytest.mark.parametrize("late_by", [-2, -1, 0, 1, 2])
def test_vectors_of_the_rfc(monkeypatch: pytest.MonkeyPatch, at: int, code: str, late_by: int) -> None:
    """The code of a step is taken in that step and its neighbours, and two steps away no more."""
    step = at // 30
    late_by = max(late_by, 1 - step)  # no clock of ours stands before the epoch
    taken = abs(late_by) < 2
    monkeypatch.setattr(clock, "_source", lambda: at + 30.0 * late_by)
    assert totp.step_of(code[-6:], SECRET) == (step if taken else None)


def by_hand(secret: bytes, step: int) -> str:
    """Return the code of a step as RFC 4226 §5.3 computes it."""
    digest = hmac.new(secret, step.to_bytes(8, "big"), hashlib.sha1).digest()
    start = digest[19] & 15
    return f"{(int.from_bytes(digest[start : start + 4], 'big') & 0x7FFFFFFF) % 1_000_000:06}"


@pytest.mark.parametrize("size", [1, 10, 16, 20, 64, 80])
def test_secrets_of_any_length_are_counted_as_others_do(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The code that RFC 4226 §5.3 computes is right, of 80 bits and of more than a block too; others are not."""
    secret = bytes(range(1, size + 1))
    monkeypatch.setattr(clock, "_source", lambda: 60_000.0)
    near = [by_hand(secret, step) for step in (1_999, 2_000, 2_001)]
    assert [totp.step_of(code, secret) for code in near] == [1_999, 2_000, 2_001]
    assert totp.step_of(by_hand(secret, 1_998), secret) is None
    assert totp.step_of(by_hand(secret, 2_002), secret) is None


def test_the_window_ends_with_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """A code is taken until the last moment of the step after its own, and from the first of the one before."""
    for moment, taken in ((1169.9, False), (1170.0, True), (1259.9, True), (1260.0, False)):
        monkeypatch.setattr(clock, "_source", lambda moment=moment: moment)
        assert (totp.step_of("000000", SECRET) is None) or taken
        code = totp._app(SECRET).at(1200)
        assert (totp.step_of(code, SECRET) == 40) == taken, moment


@pytest.mark.parametrize(
    "text", ["", "12345", "1234567", "12345a", "\uff11\uff12\uff13\uff14\uff15\uff16", "-12345", "12345.", "\u0661" * 6]
)
def test_six_ascii_digits_are_a_code(text: str) -> None:
    """Digits of other scripts, signs and other lengths are not."""
    assert totp.is_code("123456")
    assert not totp.is_code(text)


def test_a_secret_opens_for_its_owner_alone() -> None:
    """Another person's id, changed bytes and a missing master key do not open it, and no two seals are alike."""
    owner, secret = uuid.uuid4(), totp.new_secret()
    key_id, sealed = totp.seal(secret, owner)
    assert len(secret) == 20
    assert secret not in sealed
    assert totp.unseal(key_id, sealed, owner) == secret
    assert totp.seal(secret, owner)[1] != sealed
    with pytest.raises(SealBrokenError):
        totp.unseal(key_id, sealed, uuid.uuid4())
    with pytest.raises(SealBrokenError):
        totp.unseal(key_id, sealed[:-1] + bytes([sealed[-1] ^ 1]), owner)
    with (
        override_settings(IRONAUTH_MASTER_KEYS={"other": secrets.token_bytes(32)}),
        pytest.raises(MasterKeyMissingError),
    ):
        totp.unseal(key_id, sealed, owner)


def test_what_the_app_is_told() -> None:
    """Host, address and secret, in the form apps read; an address cannot break out of it."""
    address = totp.uri(SECRET, "mia+x&secret=A?#/@example.com")
    parts = urlsplit(address)
    host = urlsplit(settings.IRONAUTH_ISSUER).netloc
    assert (parts.scheme, parts.netloc) == ("otpauth", "totp")
    assert unquote(parts.path) == f"/{host}:mia+x&secret=A?#/@example.com"
    assert parse_qs(parts.query) == {"secret": [totp.as_text(SECRET)], "issuer": [host]}


def test_the_picture_fits_a_strict_policy() -> None:
    """One SVG element without styles, scripts or addresses, readable on a dark page too."""
    picture = totp.qr_svg(totp.uri(SECRET, "mia@example.com"))
    assert picture.startswith("<svg ")
    assert set(re.findall(r"<(\w+)", picture)) == {"svg", "g", "path"}
    assert set(re.findall(r"([\w:-]+)=", picture)) <= {"width", "height", "class", "d", "transform", "stroke", "fill"}
    assert "#fff" in picture


@pytest.mark.parametrize("length", [1, 60, 250])
def test_the_picture_is_that_of_the_library(length: int) -> None:
    """Whatever the size of the code: each dark square is where its own writer draws it."""
    address = totp.uri(SECRET, f"{'x' * length}@example.com")
    code = segno.make(address, error="l", micro=False, mask=3)
    assert totp.qr_svg(address) == code.svg_inline(scale=4, dark="#000", light="#fff")
