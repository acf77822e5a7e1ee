"""Programs of other languages that use a client library, and the conversation with them."""

import asyncio
import json
import os
import shutil
import subprocess
from asyncio.subprocess import Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tokens.oauth.tests.clients.provider import Person
from tokens.oauth.tests.clients.told import Told

HERE = Path(__file__).parent
JAVASCRIPT, GO, SPRING = HERE / "javascript", HERE / "go", HERE / "spring"
PARTIES = HERE / "parties"
PYTHON = HERE / "default" / "python"
PATIENCE_S = 60.0  # for one program, on a machine with everything else to do
BUILD_S = 300.0  # Go compiles its own library the first time
LONGEST_LINE = 1 << 20


def node(folder: Path = JAVASCRIPT) -> str:
    """Return the command that runs programs of a folder; without it or its libraries skip, or in CI fail."""
    found = shutil.which("node")
    if found is None or not (folder / "node_modules" / ".installed-package-lock.json").exists():
        _missing("Node.js and its client libraries: sh .ci/find-node does, or says what is missing")
    assert found is not None
    return found


def go_program(source: Path, folder: Path) -> Path:
    """Build a program of ``go/`` into a folder and return it; skip where there is no Go, or one too old for it."""
    found = shutil.which("go")
    if found is None:
        pytest.skip("Go is not installed: its libraries were not tried (https://go.dev/dl/)")
    made = folder / "program"
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
    command = [found, "build", "-trimpath", "-o", str(made), "."]
    built = subprocess.run(
        command, cwd=source, env=environment, timeout=BUILD_S, capture_output=True, text=True, check=False
    )
    if "requires go >=" in built.stderr:
        pytest.skip(f"Go is too old, its libraries were not tried: {built.stderr.strip().splitlines()[-1]}")
    assert built.returncode == 0, built.stderr
    return made


def own_python(name: str = "relying-parties", folder: Path = PYTHON) -> str:
    """Return the Python of libraries that have an environment of their own; without it skip, or in CI fail.

    Args:
        name: The environment's.
        folder: Where its pins are.
    """
    kept = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    there = Path(kept, "ironauth-tests", name)
    pins, installed = folder / "requirements.txt", there / ".installed.txt"
    if not installed.exists() or installed.read_bytes() != pins.read_bytes():
        _missing(f"{name} of Python: sh .ci/find-relying-parties does, or says what is missing")
    return str(there / "bin" / "python")


def _missing(what: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"CI: every test must run, install {what}")
    pytest.skip(f"not installed: {what}")


async def start(*command: str | Path) -> Process:
    """Start a program that talks in lines."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *map(str, command), cwd=JAVASCRIPT, stdin=pipe, stdout=pipe, stderr=pipe, limit=LONGEST_LINE
    )


async def converse(
    person: Person, given: Mapping[str, Any], *command: str | Path, told: Told | None = None
) -> list[str]:
    """Run a program to its end, the person's browser going where it sends it; return the steps that passed.

    Fails with what the program said when its status is not 0, and when it takes longer than PATIENCE_S.

    Args:
        person: Who is signed in.
        given: What the program works with.
        command: The program.
        told: Where its client is told of sign-outs, if it is.
    """
    process = await start(*command)
    try:
        async with asyncio.timeout(PATIENCE_S):
            steps, said = await asyncio.gather(_steps(process, person, given, told), _all(process.stderr))
            status = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert status == 0, f"after {steps[-1:]}: {said}"
    return steps


async def _steps(process: Process, person: Person, given: Mapping[str, Any], told: Told | None) -> list[str]:
    steps: list[str] = []
    assert process.stdout is not None
    await tell(process, given)
    async for line in process.stdout:
        heard = json.loads(line)
        if "passed" in heard:
            steps.append(heard["passed"])
        elif "sign_out" in heard:
            assert told is not None
            await person.sign_out()
            await tell(process, await told.token())
        else:
            await tell(process, await person.visit(heard["visit"], heard.get("decision", "allow")))
    return steps


async def tell(process: Process, value: Any) -> None:
    """Send a program a line."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(value).encode() + b"\n")
    await process.stdin.drain()


async def _all(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    return (await stream.read()).decode()
