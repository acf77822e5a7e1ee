"""How many bytes a value takes in memory, without walking every one: what is encoded alike is as large."""

import sys
from collections.abc import Iterable
from typing import Final
from uuid import UUID

import msgspec

#: Values of one type whose MessagePack is as long, give or take so many bytes, are taken to be as large in memory.
ALIKE_BYTES: Final = 32
MAX_SIZES: Final = 1_024
_sizes: dict[tuple[type, int], int] = {}


def held_bytes(value: object) -> int:
    """Return about how many bytes ``value`` takes: as many as another of its type that is as long when encoded."""
    try:
        kind = type(value), len(msgspec.msgpack.encode(value)) // ALIKE_BYTES
    except (TypeError, ValueError, OverflowError):
        return _bytes_of(value)
    known = _sizes.get(kind)
    if known is None:
        known = _bytes_of(value)
        if len(_sizes) < MAX_SIZES:
            _sizes[kind] = known
    return known


def _bytes_of(value: object) -> int:
    """Return the bytes of ``value`` and what it holds; what every process has anyway counts for nothing."""
    if value is None or isinstance(value, bool | type) or not value:
        return 0
    parts: Iterable[object] = ()
    if isinstance(value, msgspec.Struct):
        parts = (getattr(value, name) for name in value.__struct_fields__)
    elif isinstance(value, UUID):
        parts = (value.int,)
    elif isinstance(value, dict):
        parts = (each for pair in value.items() for each in pair)
    elif isinstance(value, tuple | list | set | frozenset):
        parts = value
    return sys.getsizeof(value) + sum(map(_bytes_of, parts))
