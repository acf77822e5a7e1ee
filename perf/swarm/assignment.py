"""What a run tells its Locust processes: a JSON file named in the environment; and the shapes of runs."""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

from perf.load.oauth_messages import Application
from perf.swarm.thresholds import Limits

Shape = Literal["constant", "ramp", "spike", "soak"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)
RAMP_STEPS: Final = 10
RAMP_SHARE: Final = 0.6  # of the run; the rest is spent at the top
CALM_SHARE: Final = 0.25  # of the peak, before and after a spike
SPIKE_FROM, SPIKE_TO = 0.4, 0.7  # of the run
SOAK_RAMP_S: Final = 60.0  # longest a soak takes to reach its level


@dataclass(frozen=True)
class Stage:
    """``users`` are wanted until ``until_s`` seconds after the start."""

    until_s: float
    users: int


def stages(shape: Shape, users: int, seconds: float) -> tuple[Stage, ...]:
    """Return the stages of ``shape``, ending at ``seconds``; ``users`` is the most there are at any time.

    Raises:
        ValueError: no user, no time, or an unknown shape.
    """
    if users < 1 or seconds <= 0:
        raise ValueError("a shape needs at least one user and some time")
    match shape:
        case "constant":
            return (Stage(seconds, users),)
        case "ramp":
            return (*_steps(users, seconds * RAMP_SHARE, RAMP_STEPS), Stage(seconds, users))
        case "spike":
            calm = math.ceil(users * CALM_SHARE)
            return (Stage(seconds * SPIKE_FROM, calm), Stage(seconds * SPIKE_TO, users), Stage(seconds, calm))
        case "soak":
            return (*_steps(users, min(SOAK_RAMP_S, seconds / 10), 4), Stage(seconds, users))
    raise ValueError(f"{shape} is no shape: choose from {', '.join(SHAPES)}")


def users_at(plan: tuple[Stage, ...], elapsed_s: float) -> int | None:
    """Return how many users there should be, None when the run is over."""
    return next((stage.users for stage in plan if elapsed_s < stage.until_s), None)


def _steps(users: int, until_s: float, count: int) -> list[Stage]:
    return [Stage(until_s * step / count, math.ceil(users * step / count)) for step in range(1, count + 1)]


VARIABLE = "IRONAUTH_SWARM"


class Assignment(msgspec.Struct, frozen=True):
    """One run. ``people`` have addresses by the pattern ``address`` and one ``password``.

    ``prefix`` begins the addresses of newcomers, unique to the run; ``think`` multiplies every think time and pause;
    ``rate`` is the requests per second of one service client; ``revocation``: whether a sign-out is known at once
    wherever the next request arrives, so that it can be checked; ``application``: the client people sign in at, where
    one could be made.
    """

    host: str
    shape: Shape
    users: int
    seconds: float
    spawn_rate: float
    processes: int
    people: int
    address: str
    password: str
    prefix: str
    think: float
    rate: float
    revocation: bool
    limits: Limits
    ledger: str
    result: str
    application: Application | None = None


def write(assignment: Assignment, path: Path) -> dict[str, str]:
    """Keep ``assignment`` in ``path`` and return the environment variable that names it."""
    path.write_bytes(msgspec.json.encode(assignment))
    return {VARIABLE: str(path)}


def read() -> Assignment:
    """Return this process' assignment.

    Raises:
        SystemExit: there is none: Locust was started by hand.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        raise SystemExit("This locustfile needs people and a server prepared: run python -m perf.swarm")
    return msgspec.json.decode(Path(path).read_bytes(), type=Assignment)
