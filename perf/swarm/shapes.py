"""How many users there are at which second of a run: pure arithmetic, played by ``locustfile.Swarm``."""

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

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
