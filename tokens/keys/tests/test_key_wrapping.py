"""Private keys at rest, and the keys derived from master keys."""

import secrets

import pytest
from django.conf import settings
from django.test import override_settings

from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError, derived_key, newest_master_key_id
from ironauth.infrastructure.crypto.sealing import SealBrokenError
from tokens.keys import wrapping
from tokens.keys.wrapping import seal, unseal
from tokens.sessions import refresh_token

SEED = bytes(range(32))


def test_round_trip() -> None:
    """What was sealed opens again, under the same kid."""
    master_key_id, sealed = seal(SEED, "kid")
    assert master_key_id == newest_master_key_id()
    assert unseal(master_key_id, sealed, "kid") == SEED


def test_sealed_text_shows_nothing() -> None:
    """The same seed seals to different bytes each time, and none of them contains it."""
    first, second = seal(SEED, "kid")[1], seal(SEED, "kid")[1]
    assert first != second
    assert SEED not in first
    assert len(first) == 12 + 32 + 16


def test_bound_to_its_row() -> None:
    """A sealed key moved to another kid does not open."""
    master_key_id, sealed = seal(SEED, "kid")
    with pytest.raises(SealBrokenError, match="rotate_signing_key --drop other"):
        unseal(master_key_id, sealed, "other")


@pytest.mark.parametrize("position", [0, 12, -1])
def test_changed(position: int) -> None:
    """A changed nonce, ciphertext or tag does not open."""
    master_key_id, sealed = seal(SEED, "kid")
    broken = bytearray(sealed)
    broken[position] ^= 1
    with pytest.raises(SealBrokenError):
        unseal(master_key_id, bytes(broken), "kid")
    with pytest.raises(SealBrokenError):
        unseal(master_key_id, b"", "kid")


def test_rotated_master_key() -> None:
    """With a newer master key in front, old seals open and new ones are made under the newer."""
    old_id, sealed = seal(SEED, "kid")
    ring = {"t2": secrets.token_bytes(32), **settings.IRONAUTH_MASTER_KEYS}
    with override_settings(IRONAUTH_MASTER_KEYS=ring):
        assert unseal(old_id, sealed, "kid") == SEED
        assert seal(SEED, "kid")[0] == "t2"
    with override_settings(IRONAUTH_MASTER_KEYS={"t2": ring["t2"]}), pytest.raises(MasterKeyMissingError):
        unseal(old_id, sealed, "kid")


def test_derived_keys_differ() -> None:
    """Each purpose has its own key, and none is the master key itself."""
    master_key_id = newest_master_key_id()
    sealing = derived_key(master_key_id, wrapping.PURPOSE)
    refreshing = derived_key(master_key_id, refresh_token.PURPOSE)
    assert len({sealing, refreshing, settings.IRONAUTH_MASTER_KEYS[master_key_id]}) == 3
    assert {len(sealing), len(refreshing)} == {32}
