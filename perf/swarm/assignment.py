"""What a run tells its Locust processes: a JSON file named in the environment."""

import os
from pathlib import Path

import msgspec

from perf.load.oauth_messages import Application
from perf.swarm.shapes import Shape
from perf.swarm.thresholds import Limits

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
