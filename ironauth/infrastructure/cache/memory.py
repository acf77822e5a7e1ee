"""What this process holds in memory, and what it knows about invalidations: the rules that keep a copy honest.

Times are monotonic seconds unless a name says ``unix``. Positions and ids are those of the ``Invalidation`` table.
"""

import math
import threading
import time
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import msgspec

from ironauth.infrastructure.core import clock

#: How long an invalidation is remembered to refuse older copies from elsewhere; seconds. Shared copies live 5 s.
RECENT_S = 60.0
#: Stands for an invalidation whose id is not known: newer than every shared copy.
UNKNOWN_ID = 2**63 - 1
#: Share of a full L1 that makes room at once, oldest first: one by one, a dict's dead head makes eviction quadratic.
EVICTED_SHARE = 64
#: Share of `L1.max_entries` that may have an alias: what is kept beside these takes 1 KiB of each.
ALIASED_SHARE = 3
#: How many of the oldest entries are looked at every `RECENT_S` / 10 whether they have expired: as many as come at 600
#: refreshes a second, in half a millisecond. What is left over at a higher rate waits for the next look.
SWEPT = 4_000


class L1Entry(msgspec.Struct, gc=False):
    """A value, when its reading from the database began, the position known then, and what ends it.

    Attributes:
        alias: What else finds the entry, see `L1.add_alias`.
        beside: What others keep beside an entry with an alias; gone with it.
    """

    value: object
    checked_at: float
    as_of: int | None
    tags: tuple[str, ...]
    expires_at: float  # unix seconds
    alias: bytes = b""
    beside: dict[Any, Any] = {}


class _Drop(msgspec.Struct, frozen=True, gc=False):
    """The latest invalidation of a tag: its number in this process, the highest id, and when it became known."""

    sequence: int
    id: int
    at: float


class Freshness:
    """What the process knows about invalidations. One lock guards it and every L1's writes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: When the feed's last complete reading began; every invalidation committed before it has been applied.
        self.synced_at = -math.inf
        #: All ids up to it are known or will never exist; None while no feed runs.
        self.position: int | None = None
        #: Rises with every invalidation that becomes known.
        self.sequence = 0
        self._restarted = 0  # readings that began before this sequence must not be kept
        self._reaches = 0  # every id above it that is known and recent is in _recent
        self._recent: dict[str, _Drop] = {}
        self._pruned_at = 0.0
        self._stores: list[L1] = []

    def attach(self, store: "L1") -> None:
        """Have ``store`` lose its entries when their tags are invalidated."""
        with self.lock:
            self._stores.append(store)

    def apply(self, ids: Mapping[str, int]) -> None:
        """Remember that each tag was invalidated by the row of that id, and drop every entry that carries it."""
        now = time.monotonic()
        with self.lock:
            for tag, row_id in ids.items():
                self.sequence += 1
                before = self._recent.get(tag)
                self._recent[tag] = _Drop(self.sequence, max(row_id, before.id if before else 0), now)
                for store in self._stores:
                    store.remove_tag(tag)
            self._prune(now)

    def confirm(self, synced_at: float, position: int) -> None:
        """Everything committed before ``synced_at`` is applied, and everything up to ``position`` settled."""
        with self.lock:
            self.position = position
            self.synced_at = synced_at
            self._prune(time.monotonic())

    def restart(self, synced_at: float, position: int, newest: int) -> None:
        """Forget all that was held: of what happened up to ``newest`` it is not known what it was.

        ``position`` lies below ``newest`` while an id between them may still be uncommitted. Shared copies read there
        may miss rows that are not in memory here, and will not be read again.
        """
        with self.lock:
            self._forget_all()
            self._recent.clear()
            self._reaches = newest
            self.position = position
            self.synced_at = synced_at

    def stop(self) -> None:
        """Go on without the feed: entries live by their own age alone, shared copies are neither read nor written."""
        with self.lock:
            self.synced_at = -math.inf
            self.position = None

    def clear(self) -> None:
        """Empty every L1, and keep what is being read now from entering."""
        with self.lock:
            self._forget_all()

    def dropped_since(self, tags: Iterable[str], sequence: int) -> bool:
        """Return whether any of ``tags`` was invalidated, or all forgotten, after ``sequence``. Needs the lock."""
        if sequence < self._restarted:
            return True
        recent = self._recent
        return any((drop := recent.get(tag)) is not None and drop.sequence > sequence for tag in tags)

    def dropped_after(self, tags: Iterable[str], since: float) -> bool:
        """Return whether any of ``tags`` was invalidated after ``since`` (monotonic seconds), as far as is known."""
        recent = self._recent
        return any((drop := recent.get(tag)) is not None and drop.at > since for tag in tags)

    def outdated(self, tags: Iterable[str], as_of: int) -> bool:
        """Return whether a shared copy read at position ``as_of`` may miss an invalidation this process knows of."""
        if self.position is None or as_of < self._reaches:
            return True
        recent = self._recent
        return any((drop := recent.get(tag)) is not None and drop.id > as_of for tag in tags)

    def _forget_all(self) -> None:
        self.sequence += 1
        self._restarted = self.sequence
        for store in self._stores:
            store.remove_all()

    def _prune(self, now: float) -> None:
        if now - self._pruned_at < RECENT_S / 10:  # a look at every tag, so not at every invalidation
            return
        self._pruned_at = now
        known = self.position or 0
        for tag, drop in list(self._recent.items()):
            if now - drop.at > RECENT_S:
                del self._recent[tag]
                self._reaches = max(self._reaches, min(drop.id, known))  # ids heard from Redis may be made up
        for store in self._stores:
            store.sweep()


class L1:
    """Entries by key, at most ``max_entries`` of them; reads take no lock."""

    def __init__(self, freshness: Freshness, *, max_entries: int, max_stale_s: float) -> None:
        self.max_entries = max_entries
        self.max_stale_s = max_stale_s
        self._freshness = freshness
        self._entries: dict[str, L1Entry] = {}
        self._tags: dict[str, set[str]] = {}
        self._aliases: dict[bytes, L1Entry] = {}
        freshness.attach(self)

    def __len__(self) -> int:
        return len(self._entries)

    def peek(self, key: str) -> object | None:
        """Return the value of ``key`` if it may be used now, else None.

        It may while it was confirmed against the database within ``max_stale_s``, by its own reading or by the
        feed's, and before it expires.
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        oldest = time.monotonic() - self.max_stale_s
        if (entry.checked_at < oldest and self._freshness.synced_at < oldest) or entry.expires_at <= clock.unix():
            return None
        return entry.value

    def find(self, alias: bytes) -> L1Entry | None:
        """Return the entry with that alias if it may be used now, as ``peek`` judges it, else None."""
        entry = self._aliases.get(alias)
        if entry is None:
            return None
        oldest = time.monotonic() - self.max_stale_s
        if (entry.checked_at < oldest and self._freshness.synced_at < oldest) or entry.expires_at <= clock.unix():
            return None
        return entry

    def add_alias(self, key: str, value: object, alias: bytes) -> None:
        """Let ``alias`` find the entry of ``key`` while it is there, if its value is still this very ``value``.

        The oldest aliases make room for new ones.
        """
        with self._freshness.lock:
            entry = self._entries.get(key)
            if entry is None or entry.value is not value or entry.alias:
                return
            most = max(1, self.max_entries // ALIASED_SHARE)
            if len(self._aliases) >= most:
                for old in list(islice(self._aliases, max(1, most // EVICTED_SHARE))):
                    self._remove_alias(self._aliases[old])
            entry.alias = alias
            self._aliases[alias] = entry

    def put(self, key: str, entry: L1Entry, *, sequence: int) -> bool:
        """Keep ``entry``, unless one of its tags was invalidated after ``sequence``, where its reading began."""
        with self._freshness.lock:
            if self._freshness.dropped_since(entry.tags, sequence):
                return False
            if time.monotonic() - entry.checked_at > RECENT_S:  # invalidations since then may be forgotten
                return False
            if key in self._entries:
                self._remove(key)
            elif len(self._entries) >= self.max_entries:
                for old in list(islice(self._entries, max(1, self.max_entries // EVICTED_SHARE))):
                    self._remove(old)
            self._entries[key] = entry
            for tag in entry.tags:
                self._tags.setdefault(tag, set()).add(key)
            return True

    def remove_tag(self, tag: str) -> None:
        """Drop every entry that carries ``tag``. Needs the lock."""
        for key in tuple(self._tags.get(tag, ())):
            self._remove(key)

    def remove_all(self) -> None:
        """Drop everything. Needs the lock."""
        self._entries.clear()
        self._tags.clear()
        self._aliases.clear()

    def sweep(self) -> None:
        """Drop what has expired among the oldest entries. Needs the lock.

        Every refresh leaves one that nobody asks for again: memory grew with each, up to ``max_entries``.
        """
        now = clock.unix()
        entries = self._entries
        for key in [key for key in islice(entries, SWEPT) if entries[key].expires_at <= now]:
            self._remove(key)

    def _remove(self, key: str) -> None:
        entry = self._entries.pop(key)
        self._remove_alias(entry)
        for tag in entry.tags:
            keys = self._tags.get(tag)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del self._tags[tag]

    def _remove_alias(self, entry: L1Entry) -> None:
        if entry.alias:
            del self._aliases[entry.alias]
            entry.alias, entry.beside = b"", {}


#: The process's knowledge.
freshness = Freshness()
