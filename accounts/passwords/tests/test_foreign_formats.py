"""Hashes that other systems made: recognised, judged within bounds, replaced at the next sign-in."""

import base64
import hashlib
from typing import Any

import bcrypt as bcrypt_library
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.hashers import BCryptSHA256PasswordHasher, PBKDF2PasswordHasher, ScryptPasswordHasher

from accounts.passwords import hashing
from accounts.passwords.formats import bcrypt, firebase, pbkdf2, salted_sha, scrypt
from accounts.passwords.formats.foreign import UnusableHashError, as_base64
from accounts.passwords.formats.recognised import stored_form

PASSWORD = "correct horse"
# https://github.com/firebase/scrypt, README: "Sample password hash"
FIREBASE = firebase.HashConfig(
    base64.b64decode("jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA=="),
    base64.b64decode("Bw=="),
    8,
    14,
)
FIREBASE_SALT = base64.b64decode("42xEC+ixf3L2lw==")
FIREBASE_HASH = base64.b64decode(
    "lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ=="
)


GENERATED: Any = bcrypt_library.gensalt(4)


def bcrypt_hash() -> str:
    """Return a hash as the library writes it."""
    return bcrypt_library.hashpw(PASSWORD.encode(), GENERATED).decode()


def phc_scrypt() -> str:
    """Return a PHC string of RFC 7914's parameters with few passes."""
    digest = hashlib.scrypt(PASSWORD.encode(), salt=b"salt" * 4, n=2**10, r=8, p=1, dklen=32)
    return f"$scrypt$ln=10,r=8,p=1${as_base64(b'salt' * 4)}${as_base64(digest)}"


def phc_pbkdf2() -> str:
    """Return a PHC string."""
    digest = hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), b"\x00\xffsalt", 1_000, 64)
    return f"$pbkdf2-sha512$i=1000,l=64${as_base64(b'\x00\xffsalt')}${as_base64(digest)}"


MADE_ELSEWHERE = {
    "bcrypt": bcrypt_hash,
    "bcrypt of PHP": lambda: bcrypt_hash().replace("$2b$", "$2y$"),
    "bcrypt of Django": lambda: "bcrypt$" + bcrypt_hash(),
    "bcrypt_sha256 of Django": lambda: BCryptSHA256PasswordHasher().encode(PASSWORD, GENERATED),
    "PBKDF2 of Django": lambda: PBKDF2PasswordHasher().encode(PASSWORD, "salt", 1_000),
    "scrypt of Django": lambda: ScryptPasswordHasher().encode(PASSWORD, "salt", n=2**10),
    "scrypt, PHC": phc_scrypt,
    "PBKDF2, PHC": phc_pbkdf2,
}


@pytest.mark.parametrize("kind", MADE_ELSEWHERE)
def test_recognised_and_judged(kind: str) -> None:
    """A right password is right and its hash to be replaced, a wrong one wrong; the stored form is stable."""
    encoded = stored_form(MADE_ELSEWHERE[kind]())
    assert stored_form(encoded) == encoded
    assert async_to_sync(hashing.verify_password)(PASSWORD, encoded) == hashing.Verdict(ok=True, needs_rehash=True)
    assert not async_to_sync(hashing.verify_password)(PASSWORD + "!", encoded).ok


def test_firebase_published_vector() -> None:
    """The sample of Firebase's own repository verifies; another password and another project's key do not."""
    encoded = firebase.stored(FIREBASE, FIREBASE_SALT, FIREBASE_HASH)
    assert stored_form(encoded) == encoded
    assert async_to_sync(hashing.verify_password)("user1password", encoded).ok
    assert not async_to_sync(hashing.verify_password)("user2password", encoded).ok
    other = firebase.stored(FIREBASE._replace(signer_key=bytes(64)), FIREBASE_SALT, FIREBASE_HASH)
    assert not async_to_sync(hashing.verify_password)("user1password", other).ok
    supabase = "$fbscrypt$" + encoded.removeprefix("firebase_scrypt$")
    assert stored_form(supabase) == encoded


def test_bcrypt_reads_72_bytes() -> None:
    """What made a bcrypt hash ignored all after 72 bytes, so a longer password still opens it."""
    encoded = stored_form(bcrypt_library.hashpw(b"a" * 72, bcrypt_library.gensalt(4)).decode())
    assert async_to_sync(hashing.verify_password)("a" * 80, encoded).ok
    assert not async_to_sync(hashing.verify_password)("a" * 71, encoded).ok


def at(cost: Any) -> str:
    """Return a bcrypt hash of a cost."""
    return f"$2b${cost:02}${'a' * 53}"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (at(bcrypt.MAX_ROUNDS + 1), UnusableHashError.COSTS),
        (at(3), UnusableHashError.COSTS),
        ("$2b$10$short", UnusableHashError.MALFORMED),
        (f"pbkdf2_sha256${pbkdf2.MAX_WORK + 1}$salt${'a' * 43}=", UnusableHashError.COSTS),
        (f"pbkdf2_sha256$999999999999$salt${'a' * 43}=", UnusableHashError.MALFORMED),
        (f"pbkdf2_sha256$0$salt${'a' * 43}=", UnusableHashError.COSTS),
        ("pbkdf2_sha256$10$salt$*", UnusableHashError.MALFORMED),
        (f"scrypt$1048576$salt$8$1${'a' * 86}==", UnusableHashError.COSTS),
        (f"scrypt$1000$salt$8$1${'a' * 86}==", UnusableHashError.COSTS),
        (f"$scrypt$ln=20,r=8,p=1$c2FsdHNhbHQ${'a' * 43}", UnusableHashError.COSTS),
        (f"$scrypt$ln=10,r=8,p={scrypt.MAX_LANES + 1}$c2FsdHNhbHQ${'a' * 43}", UnusableHashError.COSTS),
        ("$argon2id$v=19$m=99999999,t=3,p=1$c29tZXNhbHQ$aGFzaA", UnusableHashError.COSTS),
        ("firebase_scrypt$v=1,n=30,r=8,p=1,ss=Bw,sk=AAAA$AAAA$AAAA", UnusableHashError.COSTS),
        ("salted_sha$sha1$prefix$AAAA$" + "A" * 27, UnusableHashError.NOT_ALLOWED),
        ("5f4dcc3b5aa765d61d8327deb882cf99", UnusableHashError.UNKNOWN),
        ("md5$salt$5f4dcc3b5aa765d61d8327deb882cf99", UnusableHashError.UNKNOWN),
        ("", UnusableHashError.UNKNOWN),
    ],
)
def test_refused(text: str, code: str) -> None:
    """What is unknown, malformed, or beyond the bounds is refused with its reason."""
    with pytest.raises(UnusableHashError) as caught:
        stored_form(text)
    assert caught.value.code == code


def test_largest_costs_are_taken() -> None:
    """The bounds themselves are within."""
    assert stored_form(at(bcrypt.MAX_ROUNDS))
    assert stored_form(f"pbkdf2_sha256${pbkdf2.MAX_WORK}$salt${'a' * 43}=")
    assert stored_form(f"$scrypt$ln=17,r=8,p={scrypt.MAX_LANES}$c2FsdHNhbHQ${'a' * 43}")


@pytest.mark.parametrize("place", ["prefix", "suffix"])
def test_salted_sha_only_when_allowed(settings: Any, place: str) -> None:
    """With the setting such a hash is judged; when the setting is taken back it verifies nothing any more."""
    settings.IRONAUTH_SALTED_SHA_HASHES = True
    salted = b"salt" + PASSWORD.encode() if place == "prefix" else PASSWORD.encode() + b"salt"
    encoded = salted_sha.stored("SHA-256", place, b"salt", hashlib.sha256(salted).digest())
    assert stored_form(encoded) == encoded
    assert async_to_sync(hashing.verify_password)(PASSWORD, encoded).ok
    assert not async_to_sync(hashing.verify_password)(PASSWORD + "!", encoded).ok
    settings.IRONAUTH_SALTED_SHA_HASHES = False
    assert not async_to_sync(hashing.verify_password)(PASSWORD, encoded).ok
