"""Who the users of one load generator process may be: a slice of the prepared people that no other process has."""

from collections import deque


class Exhausted(Exception):
    """More users than prepared people; the message says what to change."""


class People:
    """The people ``index``, ``index + processes``, … of ``count``; ``address`` is a pattern with ``{serial}``.

    Whoever is taken is nobody else's until given back, so that a session list shows one session, one's own.

    Raises:
        ValueError: ``index`` is none of ``processes`` processes.
    """

    def __init__(self, address: str, count: int, *, index: int, processes: int) -> None:
        if not 0 <= index < processes:
            raise ValueError(f"process {index} is none of {processes}")
        self._free = deque(address.format(serial=serial) for serial in range(index, count, processes))
        self._all = len(self._free)

    def take(self) -> str:
        """Return the address of somebody who is not in use, longest unused first.

        Raises:
            Exhausted: everybody is in use.
        """
        if not self._free:
            raise Exhausted(f"all {self._all} people of this process are in use: prepare more, with --people")
        return self._free.popleft()

    def give_back(self, address: str) -> None:
        """Make somebody available again."""
        self._free.append(address)
