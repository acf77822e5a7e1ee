"""The form of refresh tokens."""

import base64
import secrets
import uuid

import pytest
from django.test import override_settings

from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError, newest_master_key_id
from tokens.sessions import refresh_token

SESSION = uuid.UUID("0198f1d2-0000-7000-8000-000000000001")
SECRET = bytes(range(32))


def mint(**changes: object) -> str:
    """Return a token of generation 3 of the session above."""
    arguments = {"session_id": SESSION, "generation": 3, "secret": SECRET, "master_key_id": newest_master_key_id()}
    return refresh_token.mint(**{**arguments, **changes})  # type: ignore[arg-type] # a test's own mixture


def test_round_trip() -> None:
    """A minted token parses to what it was made from and is genuine."""
    parsed = refresh_token.parse(mint())
    assert parsed is not None
    assert (parsed.session_id, parsed.generation, len(parsed.mac)) == (SESSION, 3, 32)
    assert refresh_token.is_genuine(parsed, secret=SECRET, master_key_id=newest_master_key_id())


def test_deterministic() -> None:
    """The same generation always gives the same text: this is what makes a concurrent refresh harmless."""
    assert mint() == mint()
    assert len({mint(), mint(generation=4), mint(secret=bytes(32)), mint(session_id=uuid.uuid4())}) == 4


def test_length_and_alphabet() -> None:
    """A token is 70 base64url characters: safe in a cookie, a header and a form."""
    token = mint()
    assert len(token) == refresh_token.TOKEN_CHARACTERS == 70
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize("position", [0, 15, 16, 19, 20, 51])
def test_any_changed_byte(position: int) -> None:
    """A token with one byte changed, in id, generation or code, is not genuine."""
    raw = bytearray(base64.urlsafe_b64decode(mint() + "=="))
    raw[position] ^= 1
    parsed = refresh_token.parse(base64.urlsafe_b64encode(raw).decode().rstrip("="))
    assert parsed is not None
    assert not refresh_token.is_genuine(parsed, secret=SECRET, master_key_id=newest_master_key_id())


def test_needs_both_halves_of_the_key() -> None:
    """Neither the database's secret alone nor the server's key alone makes a genuine token."""
    parsed = refresh_token.parse(mint(secret=secrets.token_bytes(32)))
    assert parsed is not None
    assert not refresh_token.is_genuine(parsed, secret=SECRET, master_key_id=newest_master_key_id())
    with override_settings(IRONAUTH_MASTER_KEYS={"t1": secrets.token_bytes(32)}):
        parsed = refresh_token.parse(mint())
        assert parsed is not None
    assert not refresh_token.is_genuine(parsed, secret=SECRET, master_key_id=newest_master_key_id())


def test_master_key_gone() -> None:
    """A session whose master key has left the settings cannot be checked, and the error names the remedy."""
    parsed = refresh_token.parse(mint())
    assert parsed is not None
    with pytest.raises(MasterKeyMissingError, match="put it back"):
        refresh_token.is_genuine(parsed, secret=SECRET, master_key_id="gone")


@pytest.mark.parametrize(
    "text",
    ["", "x", "A" * 69, "A" * 71, "A" * 69 + "=", "A" * 69 + "+", "A" * 69 + " ", "\0" * 70, "ä" * 70, "A" * 100_000,
     "A" * 69 + "B", "A" * 69 + "\n"],
)  # fmt: skip
def test_malformed(text: str) -> None:
    """Anything but 70 canonical base64url characters is no refresh token."""
    assert refresh_token.parse(text) is None


def test_one_spelling() -> None:
    """The last character carries four unused bits; only the spelling with zeros is accepted."""
    token = mint()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    accepted = [c for c in alphabet if refresh_token.parse(token[:-1] + c) is not None]
    assert len(accepted) == 4  # the last character carries 2 bits


def test_hundred_thousand_secrets() -> None:
    """100,000 sessions have 100,000 different tokens (ASVS 7.2.3)."""
    assert len({mint(secret=secrets.token_bytes(32)) for _ in range(100_000)}) == 100_000
