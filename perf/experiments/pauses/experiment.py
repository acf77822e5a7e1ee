"""Fifty thousand live tokens in one worker, refreshed and used at a rate: the garbage collector's pauses."""

import math
import urllib.request
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from perf.findings import Check, Finding, Table, at_most
from perf.lab import Lab
from perf.load.closed_loop import run_load
from perf.load.fixed_rate import FixedRateResult, run_fixed
from perf.load.sources import OK, TokenPair, get, post
from perf.pauses.watch import TICK_S, Pauses
from perf.rig.processes import Server, StartError, free_port
from perf.rig.site_setup import prepare_site, serve, site_environment

HYPOTHESIS = (
    "With 50,000 live tokens in a worker and 300 requests a second, a third of them refreshes, the garbage collector "
    "never takes more than 5 ms at a time: it walks as many objects as with none."
)
WANTED_MS: Final = 5.0
TOKENS, QUICK_TOKENS = 50_000, 2_000
SECONDS, QUICK_SECONDS = 75.0, 5.0  # a busy worker makes a full round a minute
RATE: Final = 300.0  # requests a second; every third is a refresh
CONNECTIONS: Final = 8
FEW: Final = 100  # sessions that are used first
FILL_S: Final = 550.0
#: Far more than the tokens take, and a life that none of them ends in.
SETTINGS: Final = {"IRONAUTH_PERF_ENDPOINTS": "1", "IRONAUTH_L1_MIB": "256", "IRONAUTH_ACCESS_TOKEN_S": "3600"}
_pair = msgspec.json.Decoder(TokenPair)
_pauses = msgspec.json.Decoder(Pauses)


class Using:
    """Refreshes the sessions it is given, one after the other, and asks who each new token's person is."""

    def __init__(self, host: str, refresh_tokens: Sequence[str], *, questions: int, again: bool) -> None:
        """Begin with the first session.

        Args:
            host: Of the server.
            refresh_tokens: One of each session.
            questions: How many are asked with each access token.
            again: Whether the first session follows the last.
        """
        self._host = host
        self._waiting = deque(refresh_tokens)
        self._questions = questions
        self._again = again
        self._left = 0
        self._access = ""
        self._refreshed: list[str] = []

    @property
    def refresh_tokens(self) -> list[str]:
        """The refresh tokens that are good now, but for one that is under way."""
        return [*self._waiting, *self._refreshed]

    def next_request(self) -> bytes | None:
        """Return the next request; see ``Source``."""
        if self._left:
            return get("/api/v1/access/me", self._host, self._access)
        if not self._waiting:
            return None
        return post("/api/v1/access/refresh", self._host, {"refresh_token": self._waiting.popleft()})

    def accept(self, status: int, body: bytes) -> bool:
        """Check the answer; see ``Source``."""
        if status != OK:
            return False
        if self._left:
            self._left -= 1
            return b'"email"' in body
        pair = _pair.decode(body)
        self._access, self._left = pair.access_token, self._questions
        (self._waiting if self._again else self._refreshed).append(pair.refresh_token)
        return True


def measure(lab: Lab) -> Finding:
    """Fill the worker, watch it at rest and at work; seven minutes."""
    tokens, seconds = (QUICK_TOKENS, QUICK_SECONDS) if lab.quick else (TOKENS, SECONDS)
    port = free_port()
    environment = site_environment(lab.folder, port=port, hash_threads=1) | SETTINGS
    opened = prepare_site(environment, people=tokens // 2, sessions=True)
    server = serve(lab.folder / "serve.log", port, environment, lab.stack)
    empty = watched(server, [one.refresh_token for one in opened[:FEW]], seconds / 4)
    lab.say(f"few tokens   {told(empty.pauses)}")
    refresh_tokens = [*empty.refresh_tokens, *(one.refresh_token for one in opened[FEW:])]
    for _ in range(2):  # the token of before stays good
        refresh_tokens = fill(server, refresh_tokens)
    full = watched(server, refresh_tokens, seconds)
    lab.say(f"many tokens  {told(full.pauses)}")
    return finding(empty.pauses, full.pauses, full.result, tokens)


class Watched(msgspec.Struct):
    """What one span of work showed."""

    pauses: Pauses
    result: FixedRateResult
    refresh_tokens: list[str]


def fill(server: Server, refresh_tokens: Sequence[str]) -> list[str]:
    """Refresh every session once and use each new token once; return the refresh tokens.

    Raises:
        StartError: An answer was wrong, or it took too long.
    """
    sources = [Using(server.host, share, questions=1, again=False) for share in shared_out(refresh_tokens)]
    result = run_load(server.address, sources, seconds=FILL_S)
    successors = [token for source in sources for token in source.refresh_tokens]
    if result.failures or len(successors) < len(refresh_tokens):
        raise StartError(f"{len(successors)} of {len(refresh_tokens)} refreshed: {dict(result.failures)}")
    return successors


def watched(server: Server, refresh_tokens: Sequence[str], seconds: float) -> Watched:
    """Use and refresh at the rate, and return what the worker saw meanwhile."""
    sources = [Using(server.host, share, questions=2, again=True) for share in shared_out(refresh_tokens)]
    asked(server)
    result = run_fixed(server.address, sources, rate=RATE, seconds=seconds)
    pauses = asked(server)
    return Watched(pauses, result, [token for source in sources for token in source.refresh_tokens])


def shared_out(refresh_tokens: Sequence[str]) -> list[Sequence[str]]:
    """Return a share of them for each connection."""
    return [refresh_tokens[number::CONNECTIONS] for number in range(CONNECTIONS)]


def asked(server: Server) -> Pauses:
    """Return what the worker saw since it was asked last."""
    with urllib.request.urlopen(f"http://{server.host}/perf/pauses", timeout=30) as answer:
        return _pauses.decode(answer.read())


def part(values: Sequence[int], share: float) -> float:
    """Return the milliseconds that such a share of ``values`` (ns) does not exceed; 0 for none."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] / 1e6 if values else 0.0


def told(pauses: Pauses) -> str:
    """Return a line about one span."""
    longest = max((part(walls, 1) for walls in pauses.walls), default=0.0)
    return f"{pauses.entries:,} tokens, {pauses.tracked:,} objects walked, longest pause {longest:.2f} ms"


def finding(empty: Pauses, full: Pauses, result: FixedRateResult, tokens: int) -> Finding:
    """Put what was seen into a table, and hold it against the bound.

    Args:
        empty: With few tokens.
        full: With many.
        result: What the clients saw then.
        tokens: How many there had to be.
    """
    rows = [
        _row(f"{title}, generation {generation}", seen.walls[generation], seen.cpus[generation])
        for title, seen in (("few tokens", empty), (f"{full.entries:,} tokens", full))
        for generation in range(3)
    ]
    columns = ("collections", "how many", "p99.9 ms", "longest ms", "p99.9 CPU ms", "longest CPU ms")
    held = [
        (f"{title}", f"{seen.tracked:,}", f"{part(seen.late, 0.999):.2f}", f"{part(seen.late, 1):.2f}")
        for title, seen in (("few tokens", empty), (f"{full.entries:,} tokens", full))
    ]
    cpu_ms = max(part(cpus, 1) for cpus in full.cpus)
    checks = [
        at_most(f"longest pause by the collector, {full.entries:,} live tokens, CPU time", WANTED_MS, cpu_ms, " ms"),
        Check("live tokens", tokens, full.entries),
    ]
    return Finding(
        [
            Table("Pauses by the garbage collector", columns, rows),
            Table("The event loop", ("with", "objects walked in a full round", "late: p99.9 ms", "longest ms"), held),
        ],
        checks,
        notes=[
            (
                f"{RATE:g} requests a second at fixed times, every third a refresh; `/me`, refresh: p99.9 "
                f"{part(result.latencies, 0.999):.2f} ms, longest {part(result.latencies, 1):.2f} ms."
            ),
            (
                f"The loop is looked at every {1000 * TICK_S:g} ms; late is whatever held it: collections, requests, "
                "other processes that had its CPU. CPU times are of the collecting thread alone, so a busy machine "
                "does not lengthen them by as much."
            ),
        ],
        data={"few": empty, "many": full, "latencies": result.latencies},
        failed=sum(result.failures.values()),
    )


def _row(title: str, walls: Sequence[int], cpus: Sequence[int]) -> tuple[str, ...]:
    figures = (part(walls, 0.999), part(walls, 1), part(cpus, 0.999), part(cpus, 1))
    return (title, f"{len(walls):,}", *(f"{figure:.2f}" for figure in figures))
