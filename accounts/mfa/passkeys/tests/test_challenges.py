"""Challenges the client keeps: genuine, for one purpose and one person, and 300 seconds long."""

import base64
import uuid

import pytest
from django.test import override_settings

from accounts.mfa.passkeys import challenges
from accounts.mfa.passkeys.challenges import Purpose
from ironauth.infrastructure.core import clock

MIA = uuid.uuid4()
KEYS = {"k1": bytes(range(32)), "k2": bytes(range(1, 33))}


def test_a_challenge_comes_back_as_it_was_made() -> None:
    """The token says whose it is, and what the authenticator was to sign."""
    token, value = challenges.mint(Purpose.STEP_UP, MIA)
    found = challenges.parse(token, Purpose.STEP_UP)
    assert found is not None
    assert (found.user_id, found.value) == (MIA, value)
    nobodys = challenges.parse(challenges.mint(Purpose.SIGN_IN)[0], Purpose.SIGN_IN)
    assert nobodys is not None
    assert nobodys.user_id is None


def test_no_two_challenges_are_alike() -> None:
    """Each has its own id and its own 256 bits to sign, which are no part of the token."""
    made = [challenges.mint(Purpose.SIGN_IN) for _ in range(100)]
    assert len({value for _, value in made}) == len({token for token, _ in made}) == 100
    assert all(len(value) == 32 and value not in base64.urlsafe_b64decode(token) for token, value in made)


@pytest.mark.parametrize("asked", Purpose)
@pytest.mark.parametrize("made", Purpose)
def test_a_challenge_is_good_for_its_purpose_alone(made: Purpose, asked: Purpose) -> None:
    """What was asked to sign in does not register, step up or stand in for a second factor, nor the other way."""
    token, _ = challenges.mint(made, MIA)
    assert (challenges.parse(token, asked) is not None) == (made is asked)


@pytest.mark.parametrize(("age_s", "good"), [(0, True), (299, True), (301, False)])
def test_a_challenge_lives_300_seconds(age_s: int, good: bool) -> None:
    """It is good until then and not after."""
    token, _ = challenges.mint(Purpose.SIGN_IN)
    with clock.shifted(age_s):
        assert (challenges.parse(token, Purpose.SIGN_IN) is not None) == good


def test_a_changed_token_is_none_of_ours() -> None:
    """Not one byte of it can be changed: id, time, user or authentication code."""
    token, _ = challenges.mint(Purpose.SIGN_IN)
    raw = base64.urlsafe_b64decode(token)
    for at in range(len(raw)):
        changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        assert challenges.parse(base64.urlsafe_b64encode(changed).decode(), Purpose.SIGN_IN) is None


@pytest.mark.parametrize("token", ["", "A" * 95, "A" * 96, "A" * 97, "é" * 96, "+" * 96, "=" * 96, "A" * 95 + "="])
def test_what_is_no_token_is_refused(token: str) -> None:
    """Any text may come, and none of it raises."""
    assert challenges.parse(token, Purpose.SIGN_IN) is None


def test_a_rotation_of_master_keys_ends_no_ceremony() -> None:
    """A token made under the older key is good for as long as that key is there."""
    with override_settings(IRONAUTH_MASTER_KEYS={"k1": KEYS["k1"]}):
        token, _ = challenges.mint(Purpose.SIGN_IN)
    with override_settings(IRONAUTH_MASTER_KEYS={"k2": KEYS["k2"], "k1": KEYS["k1"]}):
        assert challenges.parse(token, Purpose.SIGN_IN) is not None
    with override_settings(IRONAUTH_MASTER_KEYS={"k2": KEYS["k2"]}):
        assert challenges.parse(token, Purpose.SIGN_IN) is None
