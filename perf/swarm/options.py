"""The command line of ``python -m perf.swarm``."""

import argparse
import ipaddress
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from perf.rig.site_setup import ROOT
from perf.swarm.shapes import SHAPES, Shape
from perf.swarm.thresholds import Limits

# The most users of each shape unless --users says otherwise; hash budget: journeys.py. A spike is meant to be too much.
USERS: Final[dict[Shape, int]] = {"constant": 40, "ramp": 80, "spike": 250, "soak": 40}
GENTLE_RATE: Final = (
    4.0  # users per second: each signs in at once; two hash threads do about 17, fewer on a busy machine
)
RESULTS: Final = ROOT / "perf" / "results"
MAX_USERS, MAX_SECONDS, MAX_PROCESSES = 2_000, 4 * 3_600, 16
WEB_PORT: Final = 8_089  # Locust's own default
MIN_REQUESTS_SHARE: Final = 0.25  # per user and second; the journeys make about 2 when nothing is slow


@dataclass(frozen=True)
class Options:
    """What to do; ``host`` is None for a server of our own."""

    shape: Shape
    seconds: float
    users: int
    spawn_rate: float
    processes: int
    people: int
    think: float
    rate: float
    storage: Literal["sqlite", "postgres"]
    workers: int
    settings: dict[str, str]
    host: str | None
    limits: Limits
    ui: bool
    web_port: int
    quick: bool
    results: Path


def parse(arguments: list[str] | None = None) -> Options:
    """Read the command line (default: of this process). Raises ``SystemExit`` (2) when it makes no sense."""
    parser = _parser()
    given = parser.parse_args(arguments)
    shape: Shape = given.shape
    users: int = USERS[shape] if given.users is None else given.users
    for kept, wanted in _bounds(given, users):
        if not kept:
            parser.error(f"choose {wanted}")
    return Options(
        shape=shape,
        seconds=given.seconds,
        users=users,
        spawn_rate=given.spawn_rate or (min(100.0, users / 2) if shape == "spike" else GENTLE_RATE),
        processes=given.processes,
        # Each process needs a few more: Locust does not share users out evenly at every moment. Our own cost nothing.
        people=given.people or (users + 5 * given.processes) * (1 if given.host else 2),
        think=given.think,
        rate=given.rate,
        storage=given.storage,
        workers=given.workers,
        settings=dict(given.set),
        host=given.host,
        limits=_limits(given, users),
        ui=given.ui,
        web_port=given.web_port,
        quick=given.quick,
        results=given.results,
    )


def _bounds(given: argparse.Namespace, users: int) -> tuple[tuple[bool, str], ...]:
    """Return for each option whether it is inside its bounds, and what to choose where it is not."""
    return (
        (1 <= given.seconds <= MAX_SECONDS, f"--seconds from 1 to {MAX_SECONDS}"),
        (1 <= users <= MAX_USERS, f"--users from 1 to {MAX_USERS}"),
        (1 <= given.processes <= MAX_PROCESSES, f"--processes from 1 to {MAX_PROCESSES}"),
        (given.people is None or given.people >= given.processes, "--people: at least one for each process"),
        (given.spawn_rate is None or 0 < given.spawn_rate <= 100, "--spawn-rate up to 100"),
        (0.01 <= given.think <= 100, "--think from 0.01 to 100"),
        (0.1 <= given.rate <= 1_000, "--rate from 0.1 to 1000"),
        (1 <= given.workers <= 64, "--workers from 1 to 64"),
    )


def _limits(given: argparse.Namespace, users: int) -> Limits:
    """Return the thresholds: what is given, else what suits the shape, the users and the time."""
    spike = given.shape == "spike"
    allow_shed = spike if given.allow_shed is None else given.allow_shed
    least = MIN_REQUESTS_SHARE * users * given.seconds * (0.4 if spike else 1.0) / max(given.think, 1.0)
    return Limits(
        me_p95_ms=given.max_me_p95_ms,
        signin_p95_ms=given.max_signin_p95_ms or (5_000.0 if allow_shed else 2_000.0),
        min_requests=math.floor(least) if given.min_requests is None else given.min_requests,
        late_percent=given.max_late_percent,
        allow_shed=allow_shed,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.swarm", description="Send a Locust swarm to IronAuth.")
    add = parser.add_argument
    add("--shape", choices=SHAPES, default="constant", help="how the number of users changes (constant)")
    add("--seconds", type=float, default=60.0, help="length of the run (60); then all users finish")
    add("--users", type=int, help="the most at any time (constant 40, ramp 80, spike 250, soak 40)")
    add("--spawn-rate", type=float, help=f"users started per second ({GENTLE_RATE:g}; spike: half of them)")
    add("--processes", type=int, default=1, help="load generator processes (1)")
    add("--people", type=int, help="people to prepare (enough for --users)")
    add("--think", type=float, default=1.0, help="multiplies every think time and pause (1)")
    add("--rate", type=float, default=5.0, help="requests per second of each service client (5)")
    add("--quick", action="store_true", help="write to raw/ of the results only, which is not committed")
    add("--results", type=Path, default=RESULTS, help="folder for reports and statistics (perf/results)")
    server = parser.add_argument_group("server").add_argument
    server("--storage", choices=("sqlite", "postgres"), default="sqlite", help="postgres: with Redis, both private")
    server("--workers", type=int, default=1, help="processes of the server (1)")
    server("--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", help="a setting of the server")
    server("--host", type=_loopback, metavar="URL", help="a server that runs already, on this machine")
    limits = parser.add_argument_group("thresholds: missing one makes the exit status 1").add_argument
    limits("--max-me-p95-ms", type=float, default=100.0, help="p95 of /me (100)")
    limits("--max-signin-p95-ms", type=float, help="p95 of sign-in (2000; 5000 where shedding is allowed)")
    limits("--min-requests", type=int, help="requests in all (a quarter of users times seconds; of a spike a tenth)")
    limits("--max-late-percent", type=float, default=5.0, help="constant-rate requests over 0.1 s late (5)")
    limits("--allow-shed", action=argparse.BooleanOptionalAction, help="whether 503 is all right (only in a spike)")
    page = parser.add_argument_group("Locust's page").add_argument
    page("--ui", action="store_true", help="open Locust's page instead of starting at once; Ctrl-C ends it")
    page("--web-port", type=int, default=WEB_PORT, help=f"its port on 127.0.0.1 ({WEB_PORT})")
    return parser


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE")
    return name, value


def _loopback(text: str) -> str:
    """Return the origin in ``text``: http on a loopback address, because load belongs on one's own machine."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text} is no URL") from error
    host = url.hostname or ""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if url.scheme != "http" or not loopback or url.path not in ("", "/") or url.query or url.username:
        raise argparse.ArgumentTypeError(f"{text} is not http://127.0.0.1:PORT: the swarm only goes to this machine")
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port or 80}"
