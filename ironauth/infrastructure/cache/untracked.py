"""Taking values out of the sight of Python's cyclic garbage collector, which walks all it tracks in each full round.

There are a few of these for each live token, so that its rounds took longer with every token: 20,000 of them held the
event loop for 110 ms. ``gc=False`` keeps msgspec's structures out, and CPython itself leaves out tuples and dicts of
plain values. ``UUID`` is a class of Python's own, which has no such switch, although it refers to an integer alone.
"""

import ctypes
from types import UnionType
from typing import Union, get_args, get_origin
from uuid import UUID

import msgspec

# What CPython does with tuples of plain values (docs.python.org/3/c-api/gcsupport.html); again changes nothing.
_untrack = ctypes.pythonapi.PyObject_GC_UnTrack
_untrack.argtypes, _untrack.restype = [ctypes.py_object], None
_names: dict[type, tuple[str, ...]] = {}


def untrack(value: object) -> None:
    """Have the collector not walk the UUIDs in ``value`` and its parts that are structures which it does not walk.

    A UUID refers to nothing but its number: it can be part of no cycle, and is freed when the last reference goes.
    """
    for name in _with_ids(type(value)):
        part = getattr(value, name)
        if type(part) is UUID:
            _untrack(part)
        elif part is not None:
            untrack(part)


def _with_ids(kind: type) -> tuple[str, ...]:
    """Return the fields of a structure that is not walked that may be a UUID, or a structure that may have some."""
    known = _names.get(kind)
    if known is None:
        known = _names[kind] = ()  # of a structure within itself
        if issubclass(kind, msgspec.Struct) and kind.__struct_config__.gc is False:
            fields = msgspec.structs.fields(kind)
            known = _names[kind] = tuple(field.name for field in fields if any(map(_has_ids, _members(field.type))))
    return known


def _has_ids(kind: object) -> bool:
    return kind is UUID or (isinstance(kind, type) and bool(_with_ids(kind)))


def _members(kind: object) -> tuple[object, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
