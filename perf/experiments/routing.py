"""A million live tokens over sixteen workers: what the hot lane answers, where a token keeps its worker and where not.

A simulation with the map of tokens as it is (`ironauth.infrastructure.cache.memory`), and nginx' own arithmetic.
"""

import bisect
import random
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ironauth.infrastructure.cache.memory import L1, Freshness, L1Entry
from perf.findings import Check, Finding, Table, at_most
from perf.lab import Lab

HYPOTHESIS = (
    "Where nginx sends a token to the same worker, sixteen workers with 256 MiB each answer nine tenths of requests "
    "for a million live tokens from the hot lane. What is left is the first use of each token. On one socket "
    "they answer less than a fifth."
)
WORKERS: Final = 16
TOKENS, QUICK_TOKENS = 1_000_000, 20_000
#: Of a token and its answers, as the help of IRONAUTH_L1_MIB says; a test compares it with the real ones.
TOKENS_A_MIB: Final = 360
WANTED: Final = 0.90
#: Requests with each token in its ten minutes; 10 are the habits of docs/operate/sizing.md, 20 one in half a minute.
USES: Final = (10, 20, 50)
JUDGED_USES: Final = 20
SIZES_MIB: Final = (128, 256)
JUDGED_MIB: Final = 256
POINTS: Final = 160  # of each server on nginx' ring (ngx_http_upstream_hash_module)
SEED: Final = 20261128
_LIFE_S: Final = 86_400.0


class Ring:
    """nginx' consistent hash over sockets (ketama), as ``hash … consistent`` computes it."""

    def __init__(self, sockets: Sequence[str]) -> None:
        """Lay each socket's points out."""
        points = []
        for number, path in enumerate(sockets):
            before = 0
            for _ in range(POINTS):
                before = zlib.crc32(path.encode() + b"\0" + struct.pack("<I", before))
                points.append((before, number))
        points.sort()
        self._hashes = [hashed for hashed, _ in points]
        self._numbers = [number for _, number in points]

    def worker_of(self, key: bytes) -> int:
        """Return the number of the socket for a key: that of the first point from its hash on."""
        at = bisect.bisect_left(self._hashes, zlib.crc32(key))
        return self._numbers[at % len(self._numbers)]


class Seen(NamedTuple):
    """What one worker saw: requests, those that its memory knew, and good tokens that had to make room."""

    requests: int
    known: int
    evicted: int

    @property
    def share(self) -> float:
        """The part of the requests that the hot lane answers."""
        return self.known / self.requests


def sockets(count: int) -> list[str]:
    """Return the paths of the workers' sockets, as deploy/nginx has them."""
    return [f"/run/ironauth/worker-{number}.sock" for number in range(count)]


def shares(tokens: int, workers: int, draw: random.Random) -> Counter[int]:
    """Return how many of so many random tokens each worker gets."""
    ring = Ring(sockets(workers))
    return Counter(ring.worker_of(draw.randbytes(32).hex().encode()) for _ in range(tokens))


def served(tokens: int, *, mib: int, requests: int, is_new: Callable[[], bool], draw: random.Random) -> Seen:
    """Let one worker answer requests for tokens drawn at random, and count those that it knows.

    Args:
        tokens: That are live, of those that this worker is asked about.
        mib: Its memory for them.
        requests: How many are counted, after it has seen each token once.
        is_new: Whether the next request is the first with its token, which takes the place of one that ends.
        draw: Where chance comes from.
    """
    known = Freshness()
    store = L1(known, max_bytes=mib * 2**20, max_stale_s=_LIFE_S)
    live = list(range(tokens))
    newest = tokens
    value = sized_value()

    def ask(number: int) -> bool:
        key = str(number)
        if store.peek(key) is not None:
            return True
        entry = L1Entry(value, time.monotonic(), 0, ("s" + key, "u" + key), time.time() + _LIFE_S)
        store.put(key, entry, sequence=0)
        return False

    for number in live:
        ask(number)
    evicted, hits = store.evictions, 0
    for _ in range(requests):
        at = draw.randrange(tokens)
        if is_new():
            live[at] = newest
            newest += 1
        hits += ask(live[at])
    return Seen(requests, hits, store.evictions - evicted)


def sized_value() -> str:
    """Return a value with which an entry takes as much as a token and its answers do."""
    store = L1(Freshness(), max_bytes=2**20, max_stale_s=_LIFE_S)
    store.put("100000", L1Entry("", time.monotonic(), 0, ("s100000", "u100000"), time.time() + 60), sequence=0)
    return "x" * (2**20 // TOKENS_A_MIB - store.bytes)


def measure(lab: Lab) -> Finding:
    """Share the tokens out, and let the fullest worker answer; a minute on a quiet machine."""
    tokens = QUICK_TOKENS if lab.quick else TOKENS
    draw = random.Random(SEED)
    counts = sorted(shares(tokens, WORKERS, draw).values())
    rows = []
    judged = 0.0
    scale = tokens / TOKENS  # a quick run has less memory as well
    for mib in SIZES_MIB:
        room = max(1, round(mib * scale))
        for uses in USES:
            addressed = served(counts[-1], mib=room, requests=4 * counts[-1], is_new=chance(1 / uses, draw), draw=draw)
            # On one socket this worker gets one in sixteen requests for each token, and holds the latest of all.
            shared = shared_socket(tokens, uses=uses, mib=room, draw=draw)
            rows.append([f"{mib}", f"{uses}", f"{1 - 1 / uses:.0%}", f"{addressed.share:.1%}", f"{shared:.1%}"])
            lab.say(f"{mib} MiB, {uses} uses: {addressed.share:.1%} addressed, {shared:.1%} on one socket")
            if (mib, uses) == (JUDGED_MIB, JUDGED_USES):
                judged = addressed.share
    columns = ["MiB a worker", "uses of a token", "at most known", "known to the fullest worker", "on one socket"]
    return Finding(
        [Table(f"{tokens:,} live tokens over {WORKERS} workers", columns, rows)],
        [
            Check(f"known to the fullest worker, {JUDGED_MIB} MiB, {JUDGED_USES} uses", WANTED, judged),
            at_most("the fullest worker's tokens, of what fits", 1.0, counts[-1] / (JUDGED_MIB * scale * TOKENS_A_MIB)),
        ],
        notes=[
            (
                f"nginx' ring of {POINTS} points for each worker gives it {counts[0]:,} to {counts[-1]:,} tokens "
                f"({tokens // WORKERS:,} on average). {JUDGED_MIB} MiB hold {JUDGED_MIB * TOKENS_A_MIB:,}."
            ),
            (
                "The first use of a token at its worker is answered by the API lane, so at most 1 - 1 / uses is known. "
                f"A worker that goes has a sixteenth of the tokens, {100 / WORKERS:.1f} % of the requests for a moment."
            ),
        ],
        data={"tokens of each worker": counts, "rows": rows},
    )


def chance(part: float, draw: random.Random) -> Callable[[], bool]:
    """Return what is true in that part of the cases."""
    return lambda: draw.random() < part


def shared_socket(tokens: int, *, uses: int, mib: int, draw: random.Random) -> float:
    """Return the part that one of the workers knows where requests go anywhere.

    It is the first to see a token at this worker as often as the token is new, or was not asked about here before.
    """
    known = served(tokens, mib=mib, requests=tokens // 4, is_new=chance(WORKERS / uses, draw), draw=draw)
    return known.share
