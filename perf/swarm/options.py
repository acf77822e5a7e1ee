"""The command line of ``python -m perf.swarm``."""

import argparse
import ipaddress
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from perf.rig.arguments import Parser, number, whole_number
from perf.rig.site_setup import ROOT
from perf.swarm.assignment import SHAPES, Shape
from perf.swarm.thresholds import Limits

# The most users of each shape unless --users says otherwise; hash budget: journeys.py. A spike is meant to be too much.
USERS: Final[dict[Shape, int]] = {"constant": 40, "ramp": 80, "spike": 250, "soak": 40}
GENTLE_RATE: Final = (
    4.0  # users per second: each signs in at once; two hash threads do about 17, fewer on a busy machine
)
RESULTS: Final = ROOT / "perf" / "results"
MAX_USERS, MAX_SECONDS, MAX_PROCESSES = 2_000, 4 * 3_600, 16
SECONDS: Final = 60.0
WEB_PORT: Final = 8_089  # Locust's own default
# Long enough for each kind of journey at this pace, which takes the hash pool a third of what it can do.
QUICK_SECONDS, QUICK_THINK, QUICK_USERS_SHARE = 20.0, 0.25, 0.5
PATIENT_MS: Final = 5_000.0  # longer than a sign-in waits for a hash thread, its hash included
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
    _fill_in(given)
    users: int = given.users
    if given.people is not None and given.people < given.processes:
        parser.error(f"--people {given.people} is less than one for each process: give at least {given.processes}")
    if given.web_port is not None and not given.ui:
        parser.error("--web-port is for Locust's page: add --ui (make swarm-ui), or leave it out")
    given.spawn_rate = given.spawn_rate or (min(100.0, users / 2) if shape == "spike" else GENTLE_RATE)
    # Each process needs a few more: Locust does not share users out evenly at every moment. Our own cost nothing.
    given.people = given.people or (users + 5 * given.processes) * (1 if given.host else 2)
    given.settings = dict(given.set)
    given.limits = _limits(given, users)
    given.web_port = given.web_port or WEB_PORT
    return Options(**{each.name: getattr(given, each.name) for each in fields(Options)})


def _fill_in(given: argparse.Namespace) -> None:
    """Choose length, users and pace where they were left open: as the shape, and --quick, want them."""
    share = QUICK_USERS_SHARE if given.quick else 1.0
    given.users = round(USERS[given.shape] * share) if given.users is None else given.users
    given.seconds = given.seconds or (QUICK_SECONDS if given.quick else SECONDS)
    given.think = given.think or (QUICK_THINK if given.quick else 1.0)


def _limits(given: argparse.Namespace, users: int) -> Limits:
    """Return the thresholds: what is given, else what suits the shape, the users and the time."""
    spike = given.shape == "spike"
    allow_shed = spike if given.allow_shed is None else given.allow_shed
    least = MIN_REQUESTS_SHARE * users * given.seconds * (0.4 if spike else 1.0) / max(given.think, 1.0)
    return Limits(
        me_p95_ms=given.max_me_p95_ms,
        signin_p95_ms=given.max_signin_p95_ms or (PATIENT_MS if allow_shed or given.quick else 2_000.0),
        min_requests=math.floor(least) if given.min_requests is None else given.min_requests,
        late_percent=given.max_late_percent,
        allow_shed=allow_shed,
    )


def _parser() -> Parser:
    parser = Parser(prog="python -m perf.swarm", description="Send a Locust swarm to IronAuth.")
    _add_load(parser)
    server = parser.add_argument_group("server").add_argument
    server("--storage", choices=("sqlite", "postgres"), default="sqlite", help="postgres: with Redis, both private")
    server("--workers", type=whole_number(1, 64, 2), default=1, help="processes of the server (1)")
    server("--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", help="a setting of the server")
    server("--host", type=_loopback, metavar="URL", help="a server that runs already, on this machine")
    limits = parser.add_argument_group("thresholds: missing one makes the exit status 1").add_argument
    some_ms = number(0.1, 600_000, 100)
    limits("--max-me-p95-ms", type=some_ms, default=100.0, help="p95 of /me (100)")
    limits("--max-signin-p95-ms", type=some_ms, help="p95 of sign-in (2000; 5000 if quick or shedding is allowed)")
    least = "requests in all (a quarter of users times seconds; of a spike a tenth)"
    limits("--min-requests", type=whole_number(0, 1_000_000_000, 1_000), help=least)
    limits("--max-late-percent", type=number(0, 100, 5), default=5.0, help="constant-rate requests over 0.1 s late (5)")
    limits("--allow-shed", action=argparse.BooleanOptionalAction, help="whether 503 is all right (only in a spike)")
    page = parser.add_argument_group("Locust's page").add_argument
    page("--ui", action="store_true", help="open Locust's page instead of starting at once; Ctrl-C ends it")
    page("--web-port", type=whole_number(1, 65_535, WEB_PORT), help=f"its port on 127.0.0.1 ({WEB_PORT})")
    return parser


def _add_load(parser: Parser) -> None:
    add = parser.add_argument
    add("--shape", choices=SHAPES, default="constant", help="how the number of users changes (constant)")
    length = f"length of the run ({SECONDS:g}; quick {QUICK_SECONDS:g}); then all users finish"
    add("--seconds", type=number(1, MAX_SECONDS, SECONDS), help=length)
    most = "the most at any time (constant 40, ramp 80, spike 250, soak 40; quick half of it)"
    add("--users", type=whole_number(1, MAX_USERS, 40), help=most)
    spawned = f"users started per second ({GENTLE_RATE:g}; spike: half of them)"
    add("--spawn-rate", type=number(0.01, 100, GENTLE_RATE), help=spawned)
    add("--processes", type=whole_number(1, MAX_PROCESSES, 2), default=1, help="load generator processes (1)")
    add("--people", type=whole_number(1, 100_000, 200), help="people to prepare (enough for --users)")
    think = f"multiplies every think time and pause (1; quick {QUICK_THINK:g})"
    add("--think", type=number(0.01, 100, 0.5), help=think)
    add("--rate", type=number(0.1, 1_000, 5), default=5.0, help="requests per second of each service client (5)")
    add("--quick", action="store_true", help=f"{QUICK_SECONDS:g} s, short journeys; writes to raw/ of the results only")
    add("--results", type=Path, default=RESULTS, help="folder for reports and statistics (perf/results)")


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
