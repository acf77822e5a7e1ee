"""The token between password and second factor."""

import base64
import secrets
import uuid

import pytest
from django.conf import settings
from django.test import override_settings

from accounts.users.services import Authenticated
from ironauth.infrastructure.core import clock
from tokens.sign_in import mfa_token

WHO = Authenticated(uuid.UUID(int=7), 41)


@pytest.fixture(autouse=True)
def _clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a second is a second."""
    now = float(int(clock.unix()))
    monkeypatch.setattr(clock, "_source", lambda: now)


def test_it_says_whose_password_was_right() -> None:
    """And under which epoch; each token has an id of its own."""
    token = mfa_token.mint(WHO)
    ticket = mfa_token.parse(token)
    assert ticket is not None
    assert (ticket.user_id, ticket.session_epoch) == (WHO.id, 41)
    assert ticket.expires_at == int(clock.unix()) + 300
    other = mfa_token.parse(mfa_token.mint(WHO))
    assert other is not None
    assert other.id != ticket.id


@pytest.mark.parametrize(("after_s", "good"), [(0, True), (299, True), (299.9, True), (300, False), (301, False)])
def test_it_lives_for_five_minutes(after_s: float, good: bool) -> None:
    """To the second."""
    token = mfa_token.mint(WHO)
    with clock.shifted(after_s):
        assert (mfa_token.parse(token) is not None) == good


def test_no_byte_of_it_can_be_changed() -> None:
    """Nor its length, nor its spelling."""
    token = mfa_token.mint(WHO)
    raw = base64.urlsafe_b64decode(token + "==")
    for position in range(len(raw)):
        changed = bytearray(raw)
        changed[position] ^= 1
        assert mfa_token.parse(base64.urlsafe_b64encode(changed).decode().rstrip("=")) is None
    spellings = (
        token[:-1],
        token + "=",
        token + "==",
        token[:-1] + chr(ord(token[-1]) + 1),
        token.replace("A", "Ä"),
        "",
    )
    for other in spellings:
        assert mfa_token.parse(other) is None


def test_a_master_key_is_changed_meanwhile() -> None:
    """With the older key still in the ring the token is good; without it, it is not."""
    token = mfa_token.mint(WHO)
    ring = {"t2": secrets.token_bytes(32), **settings.IRONAUTH_MASTER_KEYS}
    with override_settings(IRONAUTH_MASTER_KEYS=ring):
        assert mfa_token.parse(token) is not None
    with override_settings(IRONAUTH_MASTER_KEYS={"t2": ring["t2"]}):
        assert mfa_token.parse(token) is None
