"""QR codes are module for module those of a library that is known to be read."""

import pytest
import segno
from hypothesis import given, settings
from hypothesis import strategies as st

from accounts.mfa import qr_code


def by_segno(text: str) -> segno.QRCode:
    """Return the same code as segno makes it."""
    return segno.make_qr(text, error="M", mode="byte", encoding="ascii", mask=qr_code.MASK, boost_error=False)


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(max_codepoint=126, min_codepoint=32), min_size=1, max_size=300))
def test_any_text_is_the_code_segno_makes(text: str) -> None:
    """Of up to 300 characters: sizes with one kind of block and with two."""
    assert qr_code.modules(text) == [bytes(row) for row in by_segno(text).matrix]


@pytest.mark.parametrize("length", [1, 14, 15, 122, 123, 180, 181, 213, 214, 1_500, 2_330, 2_331])
def test_a_size_is_used_up_to_its_last_character(length: int) -> None:
    """The smallest and the largest size, and where one ends and the next begins, the longer count among them."""
    text = "x" * length
    assert qr_code.modules(text) == [bytes(row) for row in by_segno(text).matrix]
    assert qr_code.svg(text) == by_segno(text).svg_inline(scale=4, dark="#000", light="#fff")


def test_what_has_no_room_is_refused() -> None:
    """One character more than the largest code takes."""
    with pytest.raises(ValueError, match="2332"):
        qr_code.svg("x" * 2_332)
