"""What is a picture that may be shown: by its first bytes, and no larger than the bound."""

import struct

import pytest

from tokens.clients.fetched.pictures import MOST_PIXELS, media_of


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\0\0\0"


def jpeg(width: int, height: int, marker: int = 0xC0) -> bytes:
    application = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + bytes(9)
    return b"\xff\xd8" + application + bytes([0xFF, marker]) + struct.pack(">HBHH", 17, 8, height, width) + bytes(10)


def webp_extended(width: int, height: int) -> bytes:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + sides


def webp_lossless(width: int, height: int) -> bytes:
    bits = (width - 1) | (height - 1) << 14
    return b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", bits)


def webp_lossy(width: int, height: int) -> bytes:
    return b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)


KINDS = {
    "image/png": (png,),
    "image/jpeg": (jpeg, lambda width, height: jpeg(width, height, 0xC2)),
    "image/webp": (webp_extended, webp_lossless, webp_lossy),
}
EACH = [(media, make) for media, makers in KINDS.items() for make in makers]


@pytest.mark.parametrize(("media", "make"), EACH)
@pytest.mark.parametrize("sides", [(1, 1), (48, 48), (MOST_PIXELS, 1), (1, MOST_PIXELS), (MOST_PIXELS, MOST_PIXELS)])
def test_a_picture(media: str, make: object, sides: tuple[int, int]) -> None:
    """Each kind, up to the bound on either side."""
    assert media_of(make(*sides)) == media  # type: ignore[operator]


@pytest.mark.parametrize(("media", "make"), EACH)
@pytest.mark.parametrize("sides", [(MOST_PIXELS + 1, 1), (1, MOST_PIXELS + 1), (16_000, 16_000)])
def test_too_large(media: str, make: object, sides: tuple[int, int]) -> None:
    """One pixel more, on either side."""
    assert media_of(make(*sides)) == ""  # type: ignore[operator]


@pytest.mark.parametrize("marker", [0xC4, 0xCC, 0xDB, 0xDD, 0xE0, 0xEF, 0xFE])
def test_what_may_be_before_a_frame(marker: int) -> None:
    """Tables, data of applications and comments are passed over, as browsers do."""
    assert media_of(b"\xff\xd8\xff" + bytes([marker]) + b"\0\4ab" + jpeg(48, 48)[2:]) == "image/jpeg"
    assert media_of(b"\xff\xd8\xff" + bytes([marker]) + b"\0\2" + jpeg(48, 48)[2:]) == "image/jpeg"


@pytest.mark.parametrize(
    "marker", [0x00, 0x01, 0x02, 0xBF, 0xC8, *range(0xD0, 0xDB), 0xDC, 0xDE, 0xDF, 0xF0, 0xFD, 0xFF]
)
def test_two_sizes(marker: int) -> None:
    """What a browser reads otherwise than we do may not be before a frame: it would believe the larger size."""
    large = struct.pack(">HBHH", 17, 8, 65_535, 65_535) + bytes(10)
    hidden = b"\xff\xd8\xff" + bytes([marker]) + b"\xff\xc0" + large
    (length,) = struct.unpack_from(">H", hidden, 4)
    assert media_of(hidden.ljust(4 + length, b"\0") + jpeg(16, 16)[2:]) == ""
    shifted = b"\xff\xd8\xff" + bytes([marker]) + b"\xc0" + large
    (length,) = struct.unpack_from(">H", shifted, 4)
    assert media_of(shifted.ljust(4 + length, b"\0") + jpeg(16, 16)[2:]) == ""


@pytest.mark.parametrize("length", [b"\0\0", b"\0\1"])
def test_no_length(length: bytes) -> None:
    """A segment's length counts itself: one below two is none."""
    assert media_of(b"\xff\xd8\xff\xe0" + length + b"\xff" * 2 + jpeg(48, 48)[2:]) == ""


def test_nothing_moves() -> None:
    """Neither APNG nor animated WebP: the other flags and chunks are taken."""
    assert media_of(png(48, 48) + bytes(4) + b"\0\0\0\4gAMA" + bytes(8)) == "image/png"
    assert media_of(png(48, 48) + bytes(4) + b"\0\0\0\x08acTL\0\0\0\2" + bytes(8)) == ""
    for flags in range(0x40):
        extended = bytearray(webp_extended(48, 48))
        extended[20] = flags
        assert media_of(bytes(extended)) == ("" if flags & 0x02 else "image/webp")


@pytest.mark.parametrize(("media", "make"), EACH)
def test_cut_off(media: str, make: object) -> None:
    """A file that ends before its size is said is no picture, wherever it ends; nothing is raised."""
    whole = make(48, 48)  # type: ignore[operator]
    found = [media_of(whole[:end]) for end in range(len(whole))]
    assert set(found) <= {"", media}
    assert set(found[: len(whole) // 2]) == {""}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"<?xml version='1.0'?><svg/>", b"GIF89a\1\0\1\0", b"BM",
        b"<html>", b"RIFF\0\0\0\0WAVE", b"\xff\xd8\xff", png(0, 1), png(1, 0), jpeg(1, 1, 0xC4),
        b"\xff\xd8\xff\xe0\0\0",
        b"RIFF\0\0\0\0WEBPVP8?" + bytes(30), b"\xff\xd8\xff" + b"\xff" * 60_000,
    ],
)  # fmt: skip
def test_no_picture(content: bytes) -> None:
    """Anything else: documents that can do something, other kinds, and sizes of nothing."""
    assert media_of(content) == ""
