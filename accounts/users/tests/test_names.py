"""Display names."""

import pytest
from django.core.exceptions import ValidationError

from accounts import names


@pytest.mark.parametrize("name", ["", "Mia", "O'Brien-Smith, Jr.", "李小龍", "می\u200cن", "😀 Zoë", "a" * 150])
def test_names_of_people_are_accepted(name: str) -> None:
    """Any script, punctuation, joiners and emoji are names; so is none."""
    names.validate(names.normalise(name))


@pytest.mark.parametrize(
    "name", ["a\x00b", "a\r\nb", "tab\there", "\x1b[31mred", "\u202eecila", "a\u2028b", "\ud800", "a" * 151]
)
def test_names_that_forge_lines_or_are_too_long_are_refused(name: str) -> None:
    """Controls, line separators and direction overrides are refused, and more than 150 characters."""
    with pytest.raises(ValidationError):
        names.validate(names.normalise(name))


UNSEEN = ("\u200b", "\u3164", "\ufeff\u200f", "\u200d", "\u2800", "\U000e0041\U000e007f", "\u115f \u1160", "\ufe0f")


@pytest.mark.parametrize("name", UNSEEN)
def test_names_of_which_nothing_is_seen_are_refused(name: str) -> None:
    """One letter beside them makes a name; joiners inside one stay."""
    with pytest.raises(ValidationError) as caught:
        names.validate(names.normalise(name))
    assert caught.value.code == "name_unseen"
    for seen in ("a", "\u674e", "\u0645", "\U0001f600"):
        names.validate(names.normalise(f"{seen}{name}"))


def test_names_are_stored_composed_and_trimmed() -> None:
    """One name has one spelling in the database."""
    assert names.normalise("  Jose\u0301 ") == "José"


def test_far_too_long_names_are_not_normalised() -> None:
    """Thousands of combining marks come back untouched, since ordering them takes quadratic time, and are refused."""
    name = "a" + "\u0301\u0316" * 15_000
    assert names.normalise(name) is name
    with pytest.raises(ValidationError):
        names.validate(names.normalise(name))
