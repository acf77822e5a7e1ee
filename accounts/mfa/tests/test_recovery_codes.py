"""Recovery codes as text: made, and read the way people type them."""

import pytest

from accounts.mfa.recovery import codes as recovery_codes


def test_ten_codes() -> None:
    """Of sixteen characters in four groups; a hundred sets have no code twice, and no set two that begin alike."""
    seen: set[str] = set()
    for _ in range(100):
        codes = recovery_codes.new_codes()
        assert len(codes) == len({code[:4] for code in codes}) == 10
        assert all(recovery_codes.normalised(code) == code.replace("-", "") for code in codes)
        seen.update(codes)
    assert len(seen) == 1_000


@pytest.mark.parametrize(
    "typed", ["0a1b-2c3d-4e5f-6g7h", "0A1B2C3D4E5F6G7H", " oalb 2c3d-4e5f 6g7h\t", "OAIB\u20132C3D\u20134E5F\u20136G7H"]
)
def test_read_as_typed(typed: str) -> None:
    """Case, spaces, dashes, and letters that look like digits do not matter."""
    assert recovery_codes.normalised(typed) == "0a1b2c3d4e5f6g7h"
    assert recovery_codes.selector("0a1b2c3d4e5f6g7h") == "0a1b"


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "123456",
        "0a1b-2c3d-4e5f-6g7",
        "0a1b-2c3d-4e5f-6g7hj",
        "0a1b-2c3d-4e5f-6g7u",
        "0a1b-2c3d-4e5f-6g7\x00",
        "x" * 100_000,
    ],
)
def test_anything_else_is_none(typed: str) -> None:
    """Too short, too long, or with a character that no code has."""
    assert recovery_codes.normalised(typed) is None
