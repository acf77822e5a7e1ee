"""The objects as msgspec Structs, which are the answer and need no serializer."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from perf.serialization.payload import Exercise


class NamedOut(msgspec.Struct, frozen=True):
    """Something an exercise refers to."""

    id: UUID
    name: str
    slug: str


class MuscleOut(msgspec.Struct, frozen=True):
    """A muscle group's part in an exercise."""

    id: UUID
    name: str
    share: float
    is_primary: bool


class ExerciseOut(msgspec.Struct, frozen=True):
    """One element of the answer."""

    id: UUID
    author_id: UUID | None
    name: str
    slug: str
    description: str
    difficulty: str
    is_public: bool
    rest_s: int
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None
    category: NamedOut
    muscles: list[MuscleOut]
    equipment: list[NamedOut]
    tags: list[str]
    steps: list[str]


def converted(exercises: Sequence[Exercise]) -> list[ExerciseOut]:
    """Make Structs of objects, attribute by attribute, as a DRF serializer reads them."""
    return msgspec.convert(exercises, list[ExerciseOut], from_attributes=True)
