"""What a picture is, by its first bytes: PNG, JPEG or WebP, and how large. Nothing else is shown as a logo.

No SVG: it is a document, with links and scripts. Nothing that moves: people could not stop it (WCAG 2.2.2). The numbers
are those that a browser will believe; it decodes.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Final

MOST_PIXELS: Final = 1_024  # of each side: 4 MiB when a browser has decoded it
_PNG: Final = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_MARKER: Final = 0xFF
_LENGTH: Final = 2  # bytes of the length of a segment of JPEG, which counts itself
_JPEG: Final = b"\xff\xd8\xff"
#: Markers of JPEG that say the size (ITU T.81, table B.1): start of a frame, of whichever kind.
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
#: Markers of segments that may be before it: tables (DHT, DAC, DQT, DRI), APP0 to APP15 and comments. Others have no
#: length, or are fill bytes, and a reader that does not know them as the browser does reads another size.
_SEGMENTS: Final = frozenset({0xC4, 0xCC, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)})
_ANIMATED: Final = 0x02  # the flag of WebP (RFC 9649 §2.7)


def media_of(content: bytes) -> str:
    """Return the media type of a picture that may be shown; "" for anything else, and for one that is too large.

    Args:
        content: The file.
    """
    for media, (begins, size) in _KINDS.items():
        if content.startswith(begins):
            try:
                sides = size(content)
            except (struct.error, IndexError):
                return ""
            return media if all(1 <= side <= MOST_PIXELS for side in sides) else ""
    return ""


def _png(content: bytes) -> tuple[int, ...]:
    """Return the sides; those of nothing for one that moves (APNG)."""
    return (0, 0) if b"acTL" in content else struct.unpack_from(">II", content, len(_PNG))


def _jpeg(content: bytes) -> tuple[int, ...]:
    """Return the sides that the first frame says; segments before it are skipped by their lengths (T.81 §B.1.1.4)."""
    at = 2
    while content[at] == _MARKER:
        marker = content[at + 1]
        if marker in _FRAMES:
            return struct.unpack_from(">HH", content, at + 5)
        (length,) = struct.unpack_from(">H", content, at + 2)
        if marker not in _SEGMENTS or length < _LENGTH:
            break
        at += 2 + length
    return (0, 0)


def _webp(content: bytes) -> tuple[int, ...]:
    """Return the sides of each of the three kinds (RFC 9649 §2)."""
    if content[8:12] != b"WEBP":
        return (0, 0)
    match content[12:16]:
        case b"VP8X" if not content[20] & _ANIMATED:
            return tuple(1 + int.from_bytes(content[at : at + 3].ljust(3, b"\xff"), "little") for at in (24, 27))
        case b"VP8L" if content[20:21] == b"/":
            (bits,) = struct.unpack_from("<I", content, 21)
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 " if content[23:26] == b"\x9d\x01\x2a":
            return tuple(side & 0x3FFF for side in struct.unpack_from("<HH", content, 26))
    return (0, 0)


_KINDS: Final[Mapping[str, tuple[bytes, Callable[[bytes], tuple[int, ...]]]]] = {
    "image/png": (_PNG, _png),
    "image/jpeg": (_JPEG, _jpeg),
    "image/webp": (b"RIFF", _webp),
}
