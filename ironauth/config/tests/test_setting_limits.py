"""Both ends of every number among the settings, and that they agree with the code they protect."""

import re

import pytest
from django.core.exceptions import ImproperlyConfigured

import ironauth.settings
from accounts.passwords import formats
from ironauth.config import checks as configuration
from ironauth.config import hash_workers as setting_hash_workers
from ironauth.config.environment import Environment
from ironauth.config.table import LIMITS, SETTINGS
from ironauth.infrastructure.cache import memory as l1
from ironauth.infrastructure.hashing import argon2_bounds

READERS = {name: setting.kind for name, setting in SETTINGS.items() if setting.kind in ("whole", "number")}


def _read(name: str, value: float) -> float:
    environment = Environment({name: f"{value:f}" if READERS[name] == "number" else str(value)}, LIMITS)
    return float(getattr(environment, READERS[name])(name, default=1))


def test_every_number_has_a_limit() -> None:
    """The limits are those of the numbers that the settings read, no more and no less."""
    assert set(LIMITS) == set(READERS)


@pytest.mark.parametrize("name", LIMITS)
def test_both_ends_are_allowed(name: str) -> None:
    """The least and the most are accepted."""
    assert _read(name, LIMITS[name].least) == LIMITS[name].least
    assert _read(name, LIMITS[name].most) == LIMITS[name].most


@pytest.mark.parametrize("name", LIMITS)
def test_beyond_both_ends_is_refused(name: str) -> None:
    """One step less than the least and one more than the most stop the start with the variable's name."""
    step = 0.01 if READERS[name] == "number" else 1
    for value in (LIMITS[name].least - step, LIMITS[name].most + step):
        with pytest.raises(ImproperlyConfigured) as refused:
            _read(name, value)
        assert re.match(rf"{name} must be a (whole )?number from .* {LIMITS[name].unit} \(", str(refused.value))


def test_defaults_are_within() -> None:
    """What the settings use when nothing is set is allowed (the hash's cost is lowered for the suite)."""
    workers = setting_hash_workers.read(Environment({"IRONAUTH_HASH_WORKERS": "unix:/w"}, LIMITS), peppers={"k": b""})
    assert workers is not None
    within = {
        "IRONAUTH_HASH_WORKER_CONNECTIONS": workers.connections,
        "IRONAUTH_HASH_WORKER_TIMEOUT_S": workers.timeout_s,
    }
    for name, limit in LIMITS.items():
        default = within[name] if name in within else getattr(ironauth.settings, name)
        assert limit.least <= default <= limit.most, name


def test_own_hashes_can_be_read_again() -> None:
    """The most of each Argon2 parameter is what a stored hash may ask for: beyond it no password would verify."""
    assert LIMITS["IRONAUTH_ARGON2_TIME_COST"].most == argon2_bounds.MAX_TIME
    assert LIMITS["IRONAUTH_ARGON2_MEMORY_KIB"].most == argon2_bounds.MAX_MEMORY_KIB
    assert LIMITS["IRONAUTH_ARGON2_PARALLELISM"].most == argon2_bounds.MAX_LANES
    assert LIMITS["IRONAUTH_ARGON2_MEMORY_KIB"].least == min(memory for _, memory in configuration.ARGON2_FLOORS)


def test_some_password_is_long_enough_and_accepted() -> None:
    """The longest minimum is below the longest password."""
    assert LIMITS["IRONAUTH_PASSWORD_MIN_LENGTH"].most < formats.MAX_LENGTH


def test_invalidations_are_remembered_longer_than_entries_live() -> None:
    """An entry ends before the invalidations that it has to be compared with are forgotten."""
    assert LIMITS["IRONAUTH_L1_MAX_STALE_S"].most < l1.RECENT_S
