"""QR codes of addresses: module for module what segno makes, in a quarter of its time.

segno looks at each module several times: a code of 45 x 45 takes 2.3 ms of the event loop, here 0.6. Only some of the
modules say anything of the text, and how is the same for every code of a size: that is seen from one of segno's, once
for each size, and what is left to be done is the arithmetic of the codewords. Names and paragraphs are those of
ISO/IEC 18004.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import batched, chain, zip_longest
from operator import itemgetter
from typing import Any, Final, NamedTuple

import segno
from segno import consts

ERROR_LEVEL: Final = "M"  # 15 % of a code may be unreadable (§7.5.1): what apps are used to
#: Every reader takes any of the eight; weighing them up, as §7.8.3 has it, takes 6 ms.
MASK: Final = 3
QUIET_ZONE: Final = 4  # light modules on each side (§9.1)
SCALE: Final = 4  # pixels of a module's side
_VERSIONS: Final = range(1, 41)
_LONG_COUNT_FROM: Final = 10  # the version from which the number of characters has 16 bits (§7.4.1, table 3)
_NUMBERED_FROM: Final = 7  # the version from which a code says its version (§7.10)
_BYTE_MODE: Final = 0b0100
_PADS: Final = b"\xec\x11"  # §7.4.10
_FIELD: Final = 0b1_0001_1101  # the polynomial of GF(256) (§7.5.2)
_TIMING: Final = 6  # the row and the column of the timing patterns
_DARK: Final = re.compile(rb"\x01+")
_DIGITS: Final = bytes.maketrans(b"01", b"\x00\x01")


class _Blocks(NamedTuple):
    """``number`` blocks of a version have ``total`` codewords, ``data`` of which are the text's (§7.5.1, table 9)."""

    number: int
    total: int
    data: int


class _Symbol(NamedTuple):
    """What all codes of a version share: their side in modules, what an empty one shows, and where bits belong.

    ``spread``: returns for each module its bit, of the bits of the codewords and one more, which is 0.
    """

    side: int
    empty: int
    spread: Callable[[bytes], tuple[int, ...]]


def svg(text: str) -> str:
    """Return the code of an ASCII text as an SVG element without styles or scripts: a strict CSP shows it inline.

    It is what segno's ``svg_inline`` returns. Raises ``ValueError`` for a text longer than 2,331 characters.
    """
    rows = modules(text)
    strokes: list[str] = []  # one for each run of dark modules, by the way from the end of the last one
    x, y = -QUIET_ZONE, -QUIET_ZONE - 0.5
    for at, row in enumerate(rows):
        for run in _DARK.finditer(row):
            start, end = run.span()
            strokes.append(f"{start - x} {at - y}h{end - start}")
            x, y = end, at
    size = len(rows) + 2 * QUIET_ZONE
    return (
        f'<svg width="{SCALE * size}" height="{SCALE * size}" class="segno"><g transform="scale({SCALE})">'
        f'<path fill="#fff" d="M0 0h{size}v{size}h-{size}z"/>'
        f'<path class="qrline" stroke="#000" d="M{"m".join(strokes)}"/></g></svg>'
    )


def modules(text: str) -> list[bytes]:
    """Return the rows of the code, a byte for each module: 1 for a dark one. Errors as above."""
    content = text.encode("ascii")
    version = _version(len(content))
    symbol = _symbol(version)
    cells = (_spread(symbol, _codewords(content, version)) ^ symbol.empty).to_bytes(symbol.side**2)
    return [cells[at : at + symbol.side] for at in range(0, len(cells), symbol.side)]


def _version(length: int) -> int:
    """Return the smallest version that has room for so many bytes."""
    for version in _VERSIONS:
        if length + _header_bytes(version) <= _capacity(version):
            return version
    raise ValueError(f"A QR code has no room for {length} characters.")


def _header_bytes(version: int) -> int:
    """Return how many bytes mode, number of characters and terminator take together."""
    return 2 if version < _LONG_COUNT_FROM else 3


@cache
def _blocks(version: int) -> tuple[_Blocks, ...]:
    tables: Any = consts.ECC
    return tuple(_Blocks(*kind) for kind in tables[version][consts.ERROR_LEVEL_M])


@cache
def _capacity(version: int) -> int:
    return sum(kind.number * kind.data for kind in _blocks(version))


def _codewords(content: bytes, version: int) -> bytes:
    """Return the codewords in the order in which they stand in the code (§7.4 to §7.6)."""
    length, header = len(content), _header_bytes(version)
    start = _BYTE_MODE << 8 * (header - 1) | length  # four bits before, four after the text
    text = ((start << 8 * length | int.from_bytes(content)) << 4).to_bytes(header + length)
    # What fills it up no reader looks at; the 0 is segno's.
    padded = (text + b"\0" + _PADS * _capacity(version))[: _capacity(version)]
    data, errors, at = [], [], 0
    for kind in _blocks(version):
        for _ in range(kind.number):
            data.append(padded[at : at + kind.data])
            errors.append(_error_words(data[-1], kind.total - kind.data))
            at += kind.data
    return bytes(word for word in chain(*zip_longest(*data), *zip_longest(*errors)) if word is not None)


def _error_words(block: bytes, count: int) -> bytes:
    """Return the remainder of a block by the generator polynomial (§7.5.2)."""
    multiples, rest, top = _multiples(count), 0, 8 * (count - 1)
    below = (1 << top) - 1
    for word in block:
        rest = (rest & below) << 8 ^ multiples[word ^ rest >> top]
    return rest.to_bytes(count)


@cache
def _multiples(count: int) -> tuple[int, ...]:
    """Return the generator polynomial of so many error words by each element of the field, as numbers."""
    generator, root = [1], 1
    for _ in range(count):
        generator = [a ^ _times(root, b) for a, b in zip([*generator, 0], [0, *generator], strict=True)]
        root = _times(root, 2)
    return tuple(int.from_bytes(_times(factor, term) for term in generator[1:]) for factor in range(256))


def _times(a: int, b: int) -> int:
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a & 0x100:
            a ^= _FIELD
        b >>= 1
    return product


def _spread(symbol: _Symbol, codewords: bytes) -> int:
    """Return the bits where they belong, a byte for each module, as one number."""
    bits = f"{int.from_bytes(codewords):0{8 * len(codewords)}b}0".encode().translate(_DIGITS)
    return int.from_bytes(bytes(symbol.spread(bits)))


@lru_cache(maxsize=len(_VERSIONS))
def _symbol(version: int) -> _Symbol:
    """Return what codes of this version share, seen from one that segno made. About 10 ms."""
    sample = "a" * (_capacity(version) - _header_bytes(version))
    made = segno.make_qr(
        sample, error=ERROR_LEVEL, version=version, mode="byte", encoding="ascii", mask=MASK, boost_error=False
    )
    side, codewords = len(made.matrix), _codewords(sample.encode(), version)
    bit_of = [8 * len(codewords)] * side**2  # the 0 after the last one
    for bit, module in zip(
        range(8 * len(codewords)), _places(version, side), strict=False
    ):  # a few modules may be left over
        bit_of[module] = bit
    symbol = _Symbol(side, 0, itemgetter(*bit_of))
    return symbol._replace(empty=int.from_bytes(b"".join(made.matrix)) ^ _spread(symbol, codewords))


def _places(version: int, side: int) -> Iterator[int]:
    """Yield where the bits stand, one after the other: two columns at a time, upwards and downwards (§7.7.3)."""
    columns = [column for column in reversed(range(side)) if column != _TIMING]
    rows = range(side)
    for turn, pair in enumerate(batched(columns, 2)):
        for row in rows if turn % 2 else reversed(rows):
            yield from (row * side + column for column in pair if not _is_fixed(version, side, row, column))


def _is_fixed(version: int, side: int, row: int, column: int) -> bool:
    """Tell whether a module says nothing of the text: it is part of a pattern, or says how to read (§6.3)."""
    corner, low, numbers = range(9), range(side - 8, side), range(side - 11, side)  # with what says how to read
    if _TIMING in (row, column) or (row in corner and (column in corner or column in low)):
        return True
    if (row in low and column in corner) or (version >= _NUMBERED_FROM and _is_number(row, column, numbers)):
        return True
    centres: tuple[int, ...] = consts.ALIGNMENT_POS[version - 2] if version > 1 else ()
    near = tuple(next((at for at in centres if place in range(at - 2, at + 3)), 0) for place in (row, column))
    # There is no such pattern in the three corners that have a larger one.
    return all(near) and near not in ((_TIMING, _TIMING), (_TIMING, centres[-1]), (centres[-1], _TIMING))


def _is_number(row: int, column: int, numbers: range) -> bool:
    """Tell whether a module is part of the version's number, which stands beside two of the corners (§7.10)."""
    return (row < _TIMING and column in numbers) or (row in numbers and column < _TIMING)
