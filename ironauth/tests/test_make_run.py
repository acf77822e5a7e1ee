"""``make run PORT=…``: its ports, the issuer that it sets for them, when it installs anew; and what make lists."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from ironauth.config import addresses as setting_addresses


def make(*arguments: str, env_file: str = os.devnull) -> subprocess.CompletedProcess[str]:
    """Run make without the caller's own variables and file of settings for it."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PORT", "MAKEFLAGS", "MAKELEVEL")}
    environment["IRONAUTH_ENV_FILE"] = env_file
    return subprocess.run(
        ["make", *arguments],
        cwd=settings.BASE_DIR,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("port", "issuer"),
    [
        ("80", "http://localhost"),
        ("8080", "http://localhost:8080"),
        ("9000", "http://localhost:9000"),
        ("443", "http://localhost:443"),
        ("65535", "http://localhost:65535"),
    ],
)
def test_the_issuer_of_a_port_is_accepted(port: str, issuer: str) -> None:
    """Each port's issuer is spelt as the settings want it, byte for byte: without http's own port."""
    (given,) = re.findall(r"IRONAUTH_ISSUER:-([^}]*)}", make("-n", "run", f"PORT={port}").stdout)
    assert setting_addresses.issuer(given, "IRONAUTH_ISSUER") == issuer


@pytest.mark.parametrize(
    ("lines", "asked", "port", "issuer"),
    [
        ("", [], "8000", []),
        ("IRONAUTH_SERVE_PORT=8765\n", [], "8765", []),  # the settings make the issuer of it
        ("DEBUG=1\nIRONAUTH_SERVE_PORT=1\nIRONAUTH_SERVE_PORT=8765\n", [], "8765", []),
        ("#IRONAUTH_SERVE_PORT=8765\n", [], "8000", []),
        ("IRONAUTH_SERVE_PORT=8765\n", ["PORT=9000"], "9000", ["http://localhost:9000"]),
        ("IRONAUTH_SERVE_PORT=8765\n", ["PORT=8000"], "8000", ["http://localhost:8000"]),
    ],
)
def test_the_file_of_settings_remembers_a_port(
    tmp_path: Path, lines: str, asked: list[str], port: str, issuer: list[str]
) -> None:
    """``make run`` serves it; a port that is asked for goes first."""
    file = tmp_path / "env"
    file.write_text(lines)
    told = make("-n", "run", *asked, env_file=str(file)).stdout
    assert re.findall(r"--port ([0-9]+)", told) == [port]
    assert re.findall(r"IRONAUTH_ISSUER:-([^}]*)}", told) == issuer


@pytest.mark.parametrize("port", ["0", "-1", "65536", "08000", "x", ""])
def test_what_is_no_port_is_refused(port: str) -> None:
    """One line says what is valid, before anything is installed or made."""
    result = make("run", f"PORT={port}", "ARGS=--help")  # serves nothing, should it come that far
    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == f"PORT={port} is no port: choose 1 to 65535"
    assert result.stdout == ""


def test_a_start_says_at_once_what_it_does() -> None:
    """The shell says it, in a pipe too, before any Python is loaded: on a busy machine that takes seconds."""
    recipe = make("-n", "run").stdout
    said, *others = (recipe.index(part) for part in ('echo "Starting IronAuth', "environment_file", "manage.py serve"))
    assert said < min(others)


def test_an_installation_counts_until_the_next_one_begins(tmp_path: Path) -> None:
    """What another release has replaced, or half replaced, is installed again on the way back."""
    requirements, programs = tmp_path / "requirements", tmp_path / ".venv" / "bin"
    requirements.mkdir()
    programs.mkdir(parents=True)
    shutil.copy(Path(settings.BASE_DIR) / "requirements" / "install.sh", requirements)
    for name in ("python", "pip"):
        (programs / name).write_text('#!/bin/sh\n[ "$1" != -m ] || [ ! -e "$0.fails" ]\n')
        (programs / name).chmod(0o755)

    def install(kind: str, release: str) -> str:
        for name in ("base", "otel"):
            (requirements / f"{name}.txt").write_text(f"{name} of {release}")
        done = subprocess.run(
            ["sh", requirements / "install.sh", kind], check=False, capture_output=True, text=True, timeout=60
        )
        return done.stdout + done.stderr

    assert "Installing requirements/otel.txt" in install("otel", "1")
    assert install("otel", "1") == install("base", "1") == ""
    assert "Installing" in install("base", "2")
    assert "Installing" in install("otel", "1")
    failing = programs / "python.fails"
    failing.touch()
    assert "pip could not install" in install("base", "2")
    failing.unlink()
    assert "Installing" in install("base", "1")


def test_help_all_lists_every_target() -> None:
    """Each with what it is for, the laboratory's programs too; `make help` lists some of them."""
    text = Path(settings.BASE_DIR, "Makefile").read_text(encoding="utf-8")
    programs = re.findall(r"^LAB_PROGRAMS := (.+)$", text, re.MULTILINE)[0].split()
    targets = {*re.findall(r"^([a-z0-9-]+):", text, re.MULTILINE), *programs}
    listed = re.findall(r"^make ([a-z0-9-]+) +\S+ ", make("help-all").stdout, re.MULTILINE)
    assert sorted(listed) == sorted(targets)
    assert set(re.findall(r"^make ([a-z0-9-]+) +\S+ ", make("help").stdout, re.MULTILINE)) < targets
