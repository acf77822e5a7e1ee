"""What Locust's own statistics do not count, added up over the processes of a run."""

from typing import Any, Self

import msgspec


class Tally(msgspec.Struct):
    """Counters of one process, or of all of them.

    ``answers``: requests by process; ``shed``: answers 503 with ``Retry-After`` by name; ``gave_up``: journeys ended
    by too many of them; ``renewed``: access tokens that expired and were refreshed; ``journeys``: those completed, by
    class; ``starts`` and ``late``: of constant-rate users, and how many began over 0.1 s after their time;
    ``latest_ms``: the worst of them.
    """

    answers: dict[str, int] = {}
    shed: dict[str, int] = {}
    journeys: dict[str, int] = {}
    gave_up: int = 0
    renewed: int = 0
    starts: int = 0
    late: int = 0
    latest_ms: float = 0.0
    accounts_made: int = 0
    accounts_closed: int = 0
    sessions_opened: int = 0
    sessions_closed: int = 0
    busy_generator: int = 0

    def count(self, counter: str, key: str, by: int = 1) -> None:
        """Add to one of the counters that have keys."""
        counts: dict[str, int] = getattr(self, counter)
        counts[key] = counts.get(key, 0) + by

    def add(self, other: Self) -> None:
        """Add the counters of another process to this one's; of ``latest_ms`` the greater counts."""
        for name in self.__struct_fields__:
            theirs: Any = getattr(other, name)
            if isinstance(theirs, dict):
                for key, by in theirs.items():
                    self.count(name, key, by)
            elif name == "latest_ms":
                self.latest_ms = max(self.latest_ms, theirs)
            else:
                setattr(self, name, getattr(self, name) + theirs)

    def take(self) -> dict[str, Any]:
        """Return the counters in built-in types, ready to be sent, and start again from zero."""
        taken: dict[str, Any] = msgspec.to_builtins(self)
        self.clear()
        return taken

    def clear(self) -> None:
        """Start again from zero."""
        for name, value in msgspec.structs.asdict(type(self)()).items():
            setattr(self, name, value)

    @property
    def late_percent(self) -> float:
        """The share of constant-rate starts that were late; 0 when there were none."""
        return 100 * self.late / self.starts if self.starts else 0.0


def tally_from(sent: Any) -> Tally:
    """Return what another process sent. Raises ``msgspec.ValidationError`` when it is no tally."""
    return msgspec.convert(sent, Tally)
