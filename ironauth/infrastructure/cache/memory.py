"""What this process holds in memory, and what it knows about invalidations: the rules that keep a copy honest.

Times are monotonic seconds unless a name says ``unix``. Positions and ids are those of the ``Invalidation`` table.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from ironauth.infrastructure.cache.sizes import held_bytes
from ironauth.infrastructure.cache.untracked import untrack
from ironauth.infrastructure.core import clock

#: How long an invalidation is remembered to refuse older copies from elsewhere, seconds, and how many at most: 20 MiB.
#: What was read before one that is forgotten is not believed.
RECENT_S = 900.0
MAX_RECENT: Final = 50_000
#: How often entries are looked at that have expired; seconds.
SWEEP_S: Final = 6.0
#: Stands for an invalidation whose id is not known: newer than every shared copy.
UNKNOWN_ID = 2**63 - 1
#: Entries that were used since the last look and are passed over, at most, to make room for one: a bound of its time.
MAX_PASSED: Final = 64
#: Bytes of an entry apart from its value, its key and its tags: the entry, its alias, their places in the maps; of each
#: tag apart from its text; and of the dict beside. Measured by ``test_the_bound_in_bytes_holds``.
ENTRY_BYTES, TAG_BYTES, BESIDE_BYTES = 330, 100, 260
#: How many of the oldest entries are looked at then: as many as come at 600 refreshes a second, in half a millisecond.
#: What is left over at a higher rate waits for the next look.
SWEPT = 4_000


class L1Entry(msgspec.Struct, gc=False):
    """A value, when its reading from the database began, the position known then, and what ends it.

    Attributes:
        alias: What else finds the entry, see `L1.add_alias`.
        beside: What others keep beside an entry with an alias (`L1.keep_beside`); gone with it.
        size: Bytes that it takes in memory, with all that is beside it.
        used: Since room was last made from here.
    """

    value: object
    checked_at: float
    as_of: int | None
    tags: tuple[str, ...]
    expires_at: float  # unix seconds
    alias: bytes = b""
    beside: dict[Any, Any] | None = None
    size: int = 0
    used: bool = False


class _Keys(msgspec.Struct, gc=False):
    """Keys of several entries with one tag. The collector walks sets, and dicts of dicts, but not this, nor its dict.

    One with a signing key's tag has every token, and the tags are as many as the tokens.
    """

    all: dict[str, None]


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
        #: Rises with every invalidation that becomes known, once what it ends is gone: who reads it without the lock
        #: while entries are being dropped, and so may see some of them, began before that invalidation.
        self.sequence = 0
        self._restarted = 0  # readings that began before this sequence must not be kept
        self._reaches = 0  # every id above it that is known is in _recent
        self._reaches_at = -math.inf  # and everything that became known after this (monotonic seconds)
        self._recent: OrderedDict[str, _Drop] = OrderedDict()  # the oldest first
        self._swept_at = 0.0
        self._stores: list[L1] = []

    def attach(self, store: "L1") -> None:
        """Have ``store`` lose its entries when their tags are invalidated."""
        with self.lock:
            self._stores.append(store)

    def apply(self, ids: Mapping[str, int]) -> None:
        """Remember that each tag was invalidated by the row of that id, and drop every entry that carries it."""
        with self.lock:
            now, sequence = time.monotonic(), self.sequence + 1
            for tag, row_id in ids.items():
                before = self._recent.get(tag)
                self._recent[tag] = _Drop(sequence, max(row_id, before.id if before else 0), now)
                self._recent.move_to_end(tag)
                for store in self._stores:
                    store.remove_tag(tag)
            self.sequence = sequence
            self._prune(now)

    def confirm(self, synced_at: float, position: int) -> None:
        """Everything committed before ``synced_at`` is applied, and everything up to ``position`` settled.

        A reading that ended after one that began later says nothing new, and takes nothing of it back.
        """
        with self.lock:
            if synced_at < self.synced_at:
                return
            self.position = position
            self.synced_at = synced_at
            self._prune(time.monotonic())

    def restart(self, synced_at: float, position: int, newest: int) -> None:
        """Forget all that was held: of what happened up to ``newest`` it is not known what it was.

        ``position`` lies below ``newest`` while an id between them may still be uncommitted. Shared copies read there
        may miss rows that are not in memory here, and will not be read again. Nor is any believed that was read before:
        the table may be an older one than theirs, whose positions say nothing.
        """
        with self.lock:
            self._forget_all()
            self._recent.clear()
            self._reaches, self._reaches_at = newest, time.monotonic()
            self.position = position
            self.synced_at = synced_at
            self.sequence = self._restarted

    def stop(self) -> None:
        """Go on without the feed: entries live by their own age alone, shared copies are neither read nor written."""
        with self.lock:
            self.synced_at = -math.inf
            self.position = None

    def clear(self) -> None:
        """Empty every L1, and keep what is being read now from entering."""
        with self.lock:
            self._forget_all()
            self.sequence = self._restarted

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

    def is_current(self, max_stale_s: float) -> bool:
        """Return whether everything that was committed ``max_stale_s`` ago is known."""
        return self.position is not None and self.synced_at >= time.monotonic() - max_stale_s

    def outdated(self, tags: Iterable[str], as_of: int, read_at: float) -> bool:
        """Return whether a shared copy may miss an invalidation this process knows of, or forgot. Needs the lock.

        Each of two rules suffices: by positions, whatever the clocks say, and by times, whatever table they are of.

        Args:
            tags: The copy's.
            as_of: The position at which it was read.
            read_at: When that was at the earliest; monotonic seconds of this process.
        """
        if self.position is None or as_of < self._reaches or read_at <= self._reaches_at:
            return True
        drops = (drop for tag in tags if (drop := self._recent.get(tag)) is not None)
        return any(drop.id > as_of or drop.at >= read_at for drop in drops)

    def _forget_all(self) -> None:
        """Drop everything; the caller raises ``sequence`` to ``_restarted`` when it has done the rest."""
        self._restarted = self.sequence + 1
        for store in self._stores:
            store.remove_all()

    def _prune(self, now: float) -> None:
        recent, known = self._recent, self.position or 0
        while recent:
            tag = next(iter(recent))
            drop = recent[tag]
            if now - drop.at <= RECENT_S and len(recent) <= MAX_RECENT:
                break
            del recent[tag]
            self._restarted = max(self._restarted, drop.sequence)
            # Ids heard from Redis may be made up, so that the position is the bound. It may have stood still, below a
            # row that was read: what was read elsewhere before that row was read at this position at most.
            settled = known if drop.id == UNKNOWN_ID else min(drop.id, known + 1)
            self._reaches = max(self._reaches, settled)
            self._reaches_at = drop.at
        if now - self._swept_at >= SWEEP_S:
            self._swept_at = now
            for store in self._stores:
                store.sweep()


class L1:
    """Entries by key that take at most ``max_bytes``; reads take no lock.

    Who has not been used lately makes room first (CLOCK, second chance): a reader only sets a flag, and room is made
    from the oldest on, where an entry with the flag loses it and becomes the newest.
    """

    def __init__(self, freshness: Freshness, *, max_bytes: int, max_stale_s: float) -> None:
        self.max_bytes = max_bytes
        self.max_stale_s = max_stale_s
        #: What the entries take, and how many that were good had to make room.
        self.bytes, self.evictions = 0, 0
        self._freshness = freshness
        self._entries: OrderedDict[str, L1Entry] = OrderedDict()
        self._tags: dict[str, str | _Keys] = {}  # a dict takes 200 bytes, and most tags have one key
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
        entry.used = True
        return entry.value

    def find(self, alias: bytes) -> L1Entry | None:
        """Return the entry with that alias if it may be used now, as ``peek`` judges it, else None."""
        entry = self._aliases.get(alias)
        if entry is None:
            return None
        oldest = time.monotonic() - self.max_stale_s
        if (entry.checked_at < oldest and self._freshness.synced_at < oldest) or entry.expires_at <= clock.unix():
            return None
        entry.used = True
        return entry

    def add_alias(self, key: str, value: object, alias: bytes) -> None:
        """Let ``alias`` find the entry of ``key`` while it is there, if its value is still this very ``value``."""
        with self._freshness.lock:
            entry = self._entries.get(key)
            if entry is None or entry.value is not value or entry.alias:
                return
            entry.alias, entry.beside = alias, {}
            self._aliases[alias] = entry
            self._grow(entry, BESIDE_BYTES)

    def keep_beside(self, alias: bytes, name: object, what: object, size: int, *, sequence: int | None = None) -> None:
        """Keep ``what`` beside the entry with that alias, if it is still there; its bytes count as the entry's.

        Args:
            alias: As in ``add_alias``.
            name: Where in ``L1Entry.beside``.
            what: What is kept.
            size: Bytes that it takes in memory.
            sequence: Where it began to be made, for what nothing at all may have been invalidated since.
        """
        with self._freshness.lock:
            if sequence not in (None, self._freshness.sequence):
                return
            entry = self._aliases.get(alias)
            if entry is not None and entry.beside is not None:
                entry.beside[name] = what
                self._grow(entry, size)

    def put(self, key: str, entry: L1Entry, *, sequence: int, read_at: float | None = None) -> bool:
        """Keep ``entry``, unless one of its tags was invalidated after ``sequence``, where its reading began.

        ``read_at`` is for one that another process has read, where it must not be outdated: see Freshness.outdated.
        """
        tags = sum(TAG_BYTES + len(tag) for tag in entry.tags)
        size = ENTRY_BYTES + len(key) + tags + held_bytes(entry.value)
        untrack(entry.value)
        with self._freshness.lock:
            if self._freshness.dropped_since(entry.tags, sequence):
                return False
            if read_at is not None and self._freshness.outdated(entry.tags, entry.as_of or 0, read_at):
                return False
            if size > self.max_bytes or time.monotonic() - entry.checked_at > RECENT_S:  # may be forgotten since then
                return False
            if key in self._entries:
                self._remove(key)
            self._make_room(size)
            self._entries[key] = entry
            for tag in entry.tags:
                self._add_tag(tag, key)
            entry.size = size
            self.bytes += size
            return True

    def remove_tag(self, tag: str) -> None:
        """Drop every entry that carries ``tag``. Needs the lock."""
        keys = self._tags.get(tag)
        if keys is None:
            return
        for key in (keys,) if isinstance(keys, str) else tuple(keys.all):
            self._remove(key)

    def remove_all(self) -> None:
        """Drop everything. Needs the lock."""
        self._entries.clear()
        self._tags.clear()
        self._aliases.clear()
        self.bytes = 0

    def sweep(self) -> None:
        """Drop what has expired among the oldest entries. Needs the lock.

        Every refresh leaves one that nobody asks for again: memory grew with each, up to ``max_bytes``.
        """
        now = clock.unix()
        entries = self._entries
        for key in [key for key, entry in islice(entries.items(), SWEPT) if entry.expires_at <= now]:
            self._remove(key)

    def _grow(self, entry: L1Entry, size: int) -> None:
        entry.size += size
        self.bytes += size
        self._make_room(0)

    def _make_room(self, size: int) -> None:
        """Let entries go until ``size`` bytes more may be taken."""
        passed, now = 0, 0.0
        while self.bytes + size > self.max_bytes:
            now = now or clock.unix()
            key = next(iter(self._entries))
            entry = self._entries[key]
            if entry.expires_at > now:
                if entry.used and passed < MAX_PASSED:
                    entry.used = False
                    self._entries.move_to_end(key)
                    passed += 1
                    continue
                self.evictions += 1
            self._remove(key)

    def _add_tag(self, tag: str, key: str) -> None:
        keys = self._tags.get(tag)
        if keys is None:
            self._tags[tag] = key
        elif isinstance(keys, _Keys):
            keys.all[key] = None
        elif keys != key:
            self._tags[tag] = _Keys({keys: None, key: None})

    def _remove(self, key: str) -> None:
        entry = self._entries.pop(key)
        self.bytes -= entry.size
        if entry.alias:
            del self._aliases[entry.alias]
            entry.alias, entry.beside = b"", None
        for tag in entry.tags:
            keys = self._tags.get(tag)
            if isinstance(keys, _Keys):
                keys.all.pop(key, None)
                if not keys.all:
                    del self._tags[tag]
            elif keys is not None:
                del self._tags[tag]


#: The process's knowledge.
freshness = Freshness()
