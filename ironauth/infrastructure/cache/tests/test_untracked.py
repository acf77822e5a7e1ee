"""What the garbage collector is told not to walk."""

import gc
import uuid
import weakref

import msgspec

from ironauth.infrastructure.cache.untracked import untrack


class Inner(msgspec.Struct, frozen=True, gc=False):
    """A part that is not walked."""

    id: uuid.UUID


class Outer(msgspec.Struct, frozen=True, gc=False):
    """A value that is not walked."""

    id: uuid.UUID
    inner: Inner
    name: str = ""
    other: Inner | None = None


class Walked(msgspec.Struct, frozen=True):
    """A structure that the collector walks."""

    id: uuid.UUID
    parts: list[object]


def test_ids_of_structures_that_are_not_walked_are_not_either() -> None:
    """Those of the value and of its parts; again changes nothing."""
    value = Outer(uuid.uuid4(), Inner(uuid.uuid4()), other=Inner(uuid.uuid4()))
    assert value.other is not None
    ids = (value.id, value.inner.id, value.other.id)
    assert all(map(gc.is_tracked, ids))
    for _ in range(2):
        untrack(value)
        assert not any(map(gc.is_tracked, ids))


def test_everything_else_is_left_as_it_is() -> None:
    """What may be part of a cycle stays in sight, and so does what it refers to."""
    value = Walked(uuid.uuid4(), [])
    value.parts.append(value)
    untrack(value)
    untrack("text")
    untrack([uuid.uuid4()])
    assert gc.is_tracked(value)
    assert gc.is_tracked(value.id)
    assert gc.is_tracked(value.parts)


def test_an_id_that_is_not_walked_is_freed_with_its_last_reference() -> None:
    """It works and goes as any other does."""
    number = uuid.uuid4()
    value = Inner(number)
    gone = weakref.ref(number)
    untrack(value)
    assert uuid.UUID(str(value.id)) == number
    del number, value
    assert gone() is None
