"""The cross-check over HTTP: refreshes at one connection, each of another person's session."""

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from perf.experiments.scale.sites import Key, Sites
from perf.load.closed_loop import run_load
from perf.load.sources import OK, TokenPair, post
from perf.rig.processes import Server, free_port
from perf.rig.site_setup import serve

POPULATION = 5_000  # sessions that take turns
WINDOWS = 6  # of each server in a round, in turns
WINDOW_S = 0.5  # a few hundred refreshes
_pair = msgspec.json.Decoder(TokenPair)


class RefreshAnybody:
    """One connection that refreshes a randomly chosen session each time, and keeps its next token."""

    def __init__(self, host: str, tokens: Sequence[str]) -> None:
        self._host = host
        self._tokens = list(tokens)
        self._random = random.Random(7)
        self._at = 0

    def next_request(self) -> bytes:
        """Return the next request; see ``Source``."""
        self._at = self._random.randrange(len(self._tokens))
        return post("/api/v1/access/refresh", self._host, {"refresh_token": self._tokens[self._at]})

    def accept(self, status: int, body: bytes) -> bool:
        """Check the answer; see ``Source``."""
        if status != OK:
            return False
        pair = _pair.decode(body)
        changed = pair.refresh_token != self._tokens[self._at]
        self._tokens[self._at] = pair.refresh_token
        return changed


def refresh_over_http(
    sites: Sites, sizes: Sequence[int], *, rounds: int, folder: Path, stack: ExitStack,
    say: Callable[[str], None],
) -> tuple[dict[Key, list[list[int]]], int]:  # fmt: skip
    """Return the latencies in ns of each round at these sizes, and how many answers were wrong.

    Afterwards the workers do not know the sessions' tokens any more: this comes last.
    """
    keys = [key for key in sites.keys if key[1] in sizes]
    say(f"refresh over HTTP at one connection, {len(keys)} servers")
    servers: dict[Key, tuple[Server, RefreshAnybody]] = {}
    for key in keys:
        name = f"{key[0]}-{key[1]}"
        environment = {**sites.environments[key], "IRONAUTH_LOG_LEVEL": "INFO"}
        server = serve(folder / f"serve-{name}.log", free_port(), environment, stack)
        tokens = sites.do(key, "tokens", count=POPULATION).tokens
        servers[key] = server, RefreshAnybody(server.host, tokens)
    taken: dict[Key, list[list[int]]] = {key: [] for key in keys}
    failed = 0
    for number in range(1 + rounds * WINDOWS):  # the first one is the warm-up
        for key, (server, source) in servers.items():
            result = run_load(server.address, [source], seconds=WINDOW_S)
            failed += result.failures.total() + result.shed + (not result.latencies_ns)
            if number % WINDOWS == 1:
                taken[key].append([])
            if number:
                taken[key][-1] += result.latencies_ns
    for server, _ in servers.values():
        server.stop()
    return taken, failed
