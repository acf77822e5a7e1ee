"""What has passed in `make clients`: each program's version and steps, kept in ``ran.json``.

In a run of the suite nothing is kept, and less is tried.
"""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypedDict

#: The folder of this run of `make clients`; None in any other.
FOLDER: Final = Path(os.environ["IRONAUTH_TEST_CLIENTS"]) if os.environ.get("IRONAUTH_TEST_CLIENTS") else None
#: What a server is told whose clients hear of sign-outs on this machine.
NETWORKS: Final = "127.0.0.0/8"
FILE: Final = Path(__file__).with_name("ran.json")


class Ran(TypedDict):
    """One program's last run."""

    version: str
    steps: list[str]


def kept() -> dict[str, Ran]:
    """Return what has passed, by name."""
    found: dict[str, Ran] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def keep(name: str, version: str, steps: Iterable[str]) -> None:
    """Keep what a program has passed; what it passed before in this run stays.

    Args:
        name: The program.
        version: Its version.
        steps: What passed.
    """
    assert FOLDER is not None
    file = FOLDER / f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}.json"
    before = json.loads(file.read_text(encoding="utf-8"))[name]["steps"] if file.exists() else []
    said = Ran(version=version, steps=sorted({*before, *steps}))
    file.write_text(json.dumps({name: said}), encoding="utf-8")


def merge(names: Iterable[str]) -> list[str]:
    """Write what this run has kept into ``ran.json``; return the names that it has not tried.

    Args:
        names: All that there are.
    """
    assert FOLDER is not None
    fresh: dict[str, Ran] = {}
    for file in FOLDER.glob("*.json"):
        fresh |= json.loads(file.read_text(encoding="utf-8"))
    known = (kept() if FILE.exists() else {}) | fresh
    all_names = list(names)
    FILE.write_text(json.dumps({name: known[name] for name in all_names if name in known}, indent=1) + "\n")
    return [name for name in all_names if name not in fresh]
