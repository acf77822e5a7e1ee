"""Which kind of second factor judges what was sent."""

import pytest

from accounts.mfa.factors import FACTORS
from accounts.users import second_factors
from accounts.users.proofs import Evidence


@pytest.mark.parametrize(
    ("shown", "kind"),
    [
        (Evidence(code="123456"), "Totp"),
        (Evidence(code="aaaa-bbbb"), "RecoveryCodes"),
        (Evidence(challenge_token="c", credential={}), "Passkeys"),
        (Evidence(code="123456", challenge_token="c", credential={}), "Passkeys"),
    ],
)
def test_a_passkey_goes_before_a_code(shown: Evidence, kind: str) -> None:
    """What is sent is judged by one kind: a code by its form, and a passkey's answer before any code."""
    assert type(next(factor for factor in FACTORS if factor.accepts(shown))).__name__ == kind


def test_without_kinds_nobody_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no kind is registered, a query of users fails instead of finding nobody with a second factor."""
    monkeypatch.setattr(second_factors, "_kinds", {})
    with pytest.raises(RuntimeError, match="No second factor is registered"):
        second_factors.columns()
