"""Shell blocks of our pages, run as typed: their `manage.py` is ours, on the storage of the tests."""

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from conftest import process_environment
from ironauth.tests.docs.blocks import ROOT

PATIENCE_S = 60.0  # for one block, on a machine with everything else to do
TYPED = ".venv/bin/python manage.py"


def found(program: str) -> str:
    """Return where a program is; without it skip, or in CI fail."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin"))
    where = shutil.which(program, path=path)
    if where is None:
        if os.environ.get("CI"):
            pytest.fail(f"CI: every test must run, install {program}")
        pytest.skip(f"{program} is not installed")
    assert where is not None
    return where


def surroundings(script: str, **variables: str) -> dict[str, str]:
    """Return the environment of a reader's shell: the server's settings for our commands, else hardly anything."""
    ours = process_environment() if TYPED in script else {"HOME": os.environ.get("HOME", "/")}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"))
    return {**ours, "PATH": path, "PYTHONPATH": str(ROOT / "clients" / "python"), **variables}


def shell(script: str, folder: Path, **variables: str) -> str:
    """Run a block in ``folder``; return what it printed. A command that fails ends it, and the test."""
    text = script.replace(TYPED, f"{sys.executable} {ROOT / 'manage.py'}")
    done = subprocess.run(
        ["sh", "-eu"], input=text, cwd=folder, env=surroundings(script, **variables), timeout=PATIENCE_S,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def running(script: str, folder: Path, port: int, **variables: str) -> Iterator[None]:
    """Run a block that starts a server, until it listens and for as long as the caller needs it.

    At the end nobody listens on the port: what the shell has started ends after the shell does.
    """
    log = folder / f"{port}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["sh", "-euc", script], cwd=folder, env=surroundings(script, **variables), stdout=file, stderr=file,
            start_new_session=True,
        )  # fmt: skip
    try:
        wait(port, listening=True, log=log, ended=lambda: process.poll() is not None)
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=PATIENCE_S)
        wait(port, listening=False, log=log)


def wait(port: int, *, listening: bool, log: Path, ended: Callable[[], bool] = lambda: False) -> None:
    """Wait until somebody listens on a port, or nobody any more; fail with the log where that does not come."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with socket.socket() as probe:
            if (probe.connect_ex(("127.0.0.1", port)) == 0) == listening:
                return
        assert not ended(), log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def commands(script: str, folder: Path, **variables: str) -> str:
    """Run a block of our commands in this process, which takes a tenth of the time; return what they printed.

    Knows comments, lines that go on, ``$NAME`` and ``"$NAME"``, ``<`` and ``>``; anything else of a shell is an error.
    """
    printed = ""
    for line in script.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert line.startswith(f"{TYPED} "), line
        assert not {"|", ";", "&&", "&"} & set(words), line
        words = [variables[word[1:]] if word.startswith("$") else word for word in words[2:]]
        into = from_file = None
        if ">" in words:
            into = words[words.index(">") + 1]
            words = words[: words.index(">")]
        if "<" in words:
            from_file = words[words.index("<") + 1]
            words = words[: words.index("<")]
        out = StringIO()
        with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", StringIO((folder / from_file).read_text() if from_file else ""))
            call_command(*words, stdout=out)
        if into is None:
            printed += out.getvalue()
        else:
            (folder / into).write_text(out.getvalue(), encoding="utf-8")
    return printed
