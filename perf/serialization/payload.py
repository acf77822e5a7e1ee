"""Fifty exercises of a training diary, about 55 kB as JSON: what a list endpoint would have read from its database.

The shape is that of the article this repeats: UUIDs, times, a nested object, and lists of objects and of texts. They
are made once and are the same in every process, so that no database and no chance is in the measurement.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import NAMESPACE_URL, UUID, uuid5

COUNT = 50  # objects, as in the article
_FIRST = datetime(2026, 1, 5, 6, 30, 15, 250_000, UTC)
_BODY = ("chest", "upper back", "shoulders", "triceps", "biceps", "quadriceps", "hamstrings", "calves", "core")
_GEAR = ("barbell", "dumbbells", "bench", "cable tower", "kettlebell", "pull-up bar", "resistance band")
_KINDS = ("strength", "mobility", "endurance", "plyometrics")
_LEVELS = ("beginner", "intermediate", "advanced")
_LABELS = ("home", "gym", "outdoors", "quiet", "warm-up", "partner", "rehab")
_STEPS = (
    "Set the feet under the hips and brace.",
    "Lower under control for three counts.",
    "Pause for one count without losing tension.",
    "Drive up and breathe out past the hardest point.",
)


@dataclass(frozen=True, slots=True)
class Named:
    """Something an exercise refers to."""

    id: UUID
    name: str
    slug: str


@dataclass(frozen=True, slots=True)
class Muscle:
    """A muscle group, and how much of the work it does (0 to 1)."""

    id: UUID
    name: str
    share: float
    is_primary: bool


@dataclass(frozen=True, slots=True)
class Exercise:
    """One row with everything that belongs to it."""

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
    category: Named
    muscles: list[Muscle]
    equipment: list[Named]
    tags: list[str]
    steps: list[str]


def exercises() -> list[Exercise]:
    """Make the objects; every call makes equal ones."""
    return [_exercise(serial) for serial in range(COUNT)]


def _exercise(serial: int) -> Exercise:
    kind, gear = _KINDS[serial % len(_KINDS)], _around(_GEAR, serial, 2)
    name = f"{kind.capitalize()} no. {serial + 1} with {gear[0]}"
    created = _FIRST + timedelta(hours=7 * serial, microseconds=serial)
    return Exercise(
        id=_id("exercise", serial),
        author_id=_id("author", serial % 7) if serial % 5 else None,
        name=name,
        slug=name.lower().replace(".", "").replace(" ", "-"),
        description=f"{name}: trains the {_BODY[serial % len(_BODY)]}. Stop if it hurts: «slow» beats heavy.",
        difficulty=_LEVELS[serial % len(_LEVELS)],
        is_public=serial % 3 != 0,
        rest_s=60 + 15 * (serial % 5),
        created_at=created,
        updated_at=created + timedelta(days=serial % 11),
        archived_at=created + timedelta(days=90) if serial % 10 == 0 else None,
        category=Named(_id("category", kind), kind.capitalize(), kind),
        muscles=[
            Muscle(_id("muscle", name), name, (0.5, 0.3)[place], place == 0)
            for place, name in enumerate(_around(_BODY, serial, 2))
        ],
        equipment=[Named(_id("equipment", name), name, name.replace(" ", "-")) for name in gear],
        tags=_around(_LABELS, serial, 3),
        steps=_around(_STEPS, serial, 2 + serial % 2),
    )


def _around(names: tuple[str, ...], start: int, count: int) -> list[str]:
    """Return ``count`` names from ``start`` on, going round."""
    return [names[(start + place) % len(names)] for place in range(count)]


def _id(kind: str, what: object) -> UUID:
    return uuid5(NAMESPACE_URL, f"https://ironauth.example/perf/{kind}/{what}")
