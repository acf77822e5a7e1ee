"""The same server with other settings, side by side: what each costs warm /me, on the hot lane and through the view."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from ironauth.config.checks import default_hash_threads
from perf.bench.measuring import load_round
from perf.load.sources import Constant, Source, TokenPair, get
from perf.load.workloads import Site
from perf.rig.processes import Server, free_port, pin
from perf.rig.site_setup import prepare_site, serve, site_environment
from perf.summary import Round, Spread, ratios, spread

CONNECTIONS = 16
PEOPLE = CONNECTIONS
LANES = {"hot lane": "1", "DRF view": "0"}
type Key = tuple[str, str]  # lane and variant
type Rounds = dict[Key, list[Round]]


def start_variants(folder: Path, variants: Mapping[str, Mapping[str, str]], stack: ExitStack) -> dict[Key, Server]:
    """Start a server for each variant's settings on each lane, all on one SQLite database and the first core.

    The load is to come from this process, which is pinned to the last core. ``stack`` ends the servers.

    Raises:
        StartError: a preparing command failed, or a server did not start.
    """
    cores = os.sched_getaffinity(0)
    port = free_port()
    environment = site_environment(folder, port=port, hash_threads=default_hash_threads())
    prepare_site(environment, people=PEOPLE)
    servers: dict[Key, Server] = {}
    for lane, hot in LANES.items():
        for name, settings in variants.items():
            own = {**environment, **settings, "IRONAUTH_HOT_LANE": hot}
            log = log_of(folder, (lane, name))
            servers[lane, name] = serve(log, port if not servers else free_port(), own, stack)
    for server in servers.values():
        pin(server.pid, {min(cores)})
    os.sched_setaffinity(0, {max(cores)})
    return servers


def log_of(folder: Path, key: Key) -> Path:
    """Return where the server of ``key`` writes its log."""
    return folder / f"{'-'.join(key).replace(' ', '-').replace(',', '')}.log"


def measure_variants(
    servers: Mapping[Key, Server], *, rounds: int, seconds: float, say: Callable[[str], None], first: int = 1
) -> Rounds:
    """Load the servers in turn, each round beginning with another; ``first``: the first round's number."""
    pairs = Site(next(iter(servers.values()))).sign_in(CONNECTIONS)
    found: Rounds = {key: [] for key in servers}
    items = list(servers.items())
    for number in range(first, first + rounds):
        start = number % len(items)
        for key, server in items[start:] + items[:start]:
            found[key].append(load_round(server, _sources(server, pairs), seconds=seconds))
        say(f"round {number}: " + ", ".join(f"{key[1]} {each[-1].rate:,.0f}/s" for key, each in found.items()))
    return found


def lost_percent(rounds: Rounds, key: Key, base: str, figure: str) -> Spread | None:
    """Return what a variant costs against ``base`` on its lane, in percent, round by round.

    ``figure`` "rate": requests/s lost; "server_cpu_us": the part of a request's CPU time that goes to it. None where
    nothing was measured.
    """
    own = [getattr(each, figure) for each in rounds[key]]
    without = [getattr(each, figure) for each in rounds[key[0], base]]
    share = ratios(own, without) if figure == "rate" else ratios(without, own)
    return None if share is None else Spread(*(100 - 100 * part for part in (share.median, share.high, share.low)))


def percent_text(lost: Spread | None) -> str:
    """Return a loss as tables show it; "" for None."""
    return "" if lost is None else f"{lost.median:.1f} % ({lost.low:.1f} to {lost.high:.1f})"


def medians(rounds: Rounds, figure: str) -> dict[str, float]:
    """Return the median of a figure by "lane, variant", for a plot."""
    return {", ".join(key): spread([getattr(one, figure) for one in each]).median for key, each in rounds.items()}


def rows(rounds: Rounds, base: str, more: Mapping[Key, Sequence[str]]) -> list[list[str]]:
    """Return a row for each variant of each lane, with ``more`` cells at its end; `COLUMNS` names the others."""
    table = []
    for key, each in rounds.items():
        rate, cpu = spread([one.rate for one in each]), spread([one.server_cpu_us for one in each])
        added = cpu.median - spread([one.server_cpu_us for one in rounds[key[0], base]]).median
        table.append(
            [
                ", ".join(key),
                f"{rate.median:,.0f} ({rate.low:,.0f}-{rate.high:,.0f})",
                "" if key[1] == base else percent_text(lost_percent(rounds, key, base, "rate")),
                f"{cpu.median:.1f}",
                "" if key[1] == base else f"{added:+.1f}",
                f"{spread([one.p99_ms for one in each]).median:.2f}",
                *more.get(key, ()),
            ]
        )
    return table


#: What the cells of `rows` are, after the first.
COLUMNS = ("requests/s (low-high)", "lost", "server CPU µs/request", "added µs", "p99 ms")


def wrong(rounds: Rounds) -> int:
    """Return how many answers were not 200."""
    return sum(one.failed + one.shed for each in rounds.values() for one in each)


def _sources(server: Server, pairs: list[TokenPair]) -> list[Source]:
    return [Constant(get("/api/v1/access/me", server.host, pair.access_token)) for pair in pairs]
