"""What clients asked of sessions and were told, as Porcupine judges it."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec

from perf.rig.processes import StartError

JUDGE: Final = Path(__file__).parent / "judge"
BUILD_S: Final = 180  # for Go's own library, the first time
JUDGE_S: Final = 120
#: Stands for the end of an operation of which nobody knows when, or whether, it takes effect.
NEVER: Final = 2**62
#: The generation of a session that the database does not have; no refresh token has it.
LOST: Final = -2


class Operation(msgspec.Struct):
    """One request about a session.

    Attributes:
        session: Its id.
        client: Who asked.
        act: ``open``, ``refresh`` or ``end``; or ``stored``, which is what the database has in the end.
        generation: Of the refresh token that was presented; of an opened session its first one; or the stored one.
        outcome: ``ok``, ``refused``, or ``unknown``: 503, or no answer. Of a stored session that has ended ``refused``.
        call: When it was sent, in nanoseconds of one clock.
        done: When it was answered; ``NEVER`` where the outcome is unknown.
    """

    session: str
    client: int
    act: str
    generation: int
    outcome: str
    call: int
    done: int


class History:
    """Operations of all sessions; what was tried in vain several times is one operation that began with the first."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._unknown: dict[tuple[str, str, int], Operation] = {}

    def note(self, operation: Operation) -> None:
        """Keep an operation; the same one with an unknown outcome is kept once, from its first try on."""
        if operation.outcome == "unknown":
            key = operation.session, operation.act, operation.generation
            if key in self._unknown:
                self._unknown[key].call = min(self._unknown[key].call, operation.call)
                return
            operation.done = NEVER
            self._unknown[key] = operation
        self.operations.append(operation)

    def stored(self, rows: Mapping[UUID, tuple[int, bool]]) -> None:
        """Note what the database has of each session, when nobody asks for anything any more.

        Args:
            rows: The generation of each session, and whether it has ended. One that is not there was lost.
        """
        now = time.monotonic_ns()
        for session in sorted({operation.session for operation in self.operations}):
            generation, ended = rows.get(UUID(session), (LOST, False))
            outcome = "refused" if ended else "ok"
            self.operations.append(Operation(session, 0, "stored", generation, outcome, now, now))

    @property
    def sessions(self) -> int:
        """Of how many sessions there is something to judge."""
        return len({operation.session for operation in self.operations})

    def judge(self, folder: Path) -> list[str]:
        """Return the sessions whose history is not linearizable, in the judge's words.

        Raises:
            StartError: Go is not installed, or the judge came to no end.
        """
        file = folder / "history.jsonl"
        write(file, self.operations)
        done = subprocess.run(
            [str(build(folder)), str(file)], capture_output=True, text=True, timeout=JUDGE_S, check=False
        )
        if done.returncode not in (0, 1):
            raise StartError(f"the judge ended with {done.returncode}: {done.stderr[:500]}")
        return done.stdout.splitlines()


def write(file: Path, operations: Iterable[Operation]) -> None:
    """Write operations as the judge reads them, one a line."""
    file.write_bytes(b"".join(msgspec.json.encode(operation) + b"\n" for operation in operations))


def fetch() -> None:
    """Fetch what the judge is compiled with, unless it is there; what compiles it may have no network.

    Raises:
        StartError: Go is not installed, or did not get it.
    """
    _go("mod", "download")


def build(folder: Path) -> Path:
    """Return the judge, which is compiled into ``folder`` unless it is there.

    Raises:
        StartError: Go is not installed, or did not compile it.
    """
    program = folder / "judge"
    if not program.exists():
        _go("build", "-trimpath", "-o", str(program), ".")
    return program


def _go(*arguments: str) -> None:
    go = shutil.which("go")
    if go is None:
        raise StartError("Go is not installed, which compiles the judge of histories: https://go.dev/dl/")
    environment = os.environ | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    done = subprocess.run(
        [go, *arguments], cwd=JUDGE, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    if done.returncode:
        raise StartError(f"the judge of histories was not compiled:\n{done.stderr[:2000]}")
