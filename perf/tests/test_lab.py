"""The laboratory's command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perf.lab import EXPERIMENTS, PROGRAMS, find, listing
from perf.rig.site_setup import ROOT


def _lab(*arguments: str) -> subprocess.CompletedProcess[str]:
    # As an operator has it, without the tests' settings: what it starts has its own.
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, "-m", "perf.lab", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_it_lists_what_there_is() -> None:
    """Without a name, and with --list, every experiment and every program is told."""
    for arguments in ((), ("--list",)):
        done = _lab(*arguments)
        assert done.returncode == 0
        assert [line.split()[0] for line in done.stdout.splitlines()] == [*EXPERIMENTS, *PROGRAMS]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_there(name: str) -> None:
    """Each is a module of perf that runs by itself, and `make` has a shorter name for it."""
    assert (ROOT / "perf" / f"{name}.py").is_file() or (ROOT / "perf" / name / "__main__.py").is_file()
    assert (
        name in (ROOT / "Makefile").read_text(encoding="utf-8").partition("LAB_PROGRAMS := ")[2].split("\n")[0].split()
    )


def test_a_program_gets_its_own_options() -> None:
    """What stands behind its name is not judged here."""
    done = _lab("limits", "--help")
    assert done.returncode == 0
    assert "python -m perf.limits" in done.stdout


def test_the_list_has_durations_and_needs(tmp_path: Path) -> None:
    """The newest published run says how long; what none was published of is not guessed."""
    for day, seconds in ((20, 100.0), (21, 112.4)):
        (tmp_path / f"2026-11-{day}-serialization.json").write_text(
            json.dumps({"name": "serialization", "seconds": seconds})
        )
    lines = {line.split()[0]: line for line in listing(tmp_path)}
    assert "  112 s  fifty objects" in lines["serialization"]
    assert lines["oauth_flow"].endswith("(needs Postgres, Redis, C compiler, package index)")
    assert lines["flood"].split()[1] == "?"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_experiment_says_what_its_code_starts(name: str) -> None:
    """Who uses a server's starter needs that server."""
    experiments = Path(find(name).__file__)
    files = experiments.parent.glob("*.py") if experiments.name == "experiment.py" else [experiments]
    code = "".join(file.read_text() for file in files)
    starters = {
        "Postgres": ("PrivatePostgres", "start_postgres", "private_servers"),
        "Redis": ("PrivateRedis", "private_servers"),
        "C compiler": ("--no-binary",),
    }
    used = {what for what, names in starters.items() if any(each in code for each in names)}
    assert used == set(EXPERIMENTS[name].needs) - {"package index"}


def test_a_misspelt_experiment_is_refused_with_the_choice() -> None:
    """The message names what is unknown and what there is."""
    done = _lab("flod")
    assert done.returncode == 2
    assert "unknown experiment flod: choose from" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_experiment_has_a_hypothesis(name: str) -> None:
    """What is listed exists, and says beforehand what it expects."""
    experiment = find(name)
    assert len(experiment.HYPOTHESIS) > 20
    assert callable(experiment.measure)


def test_each_experiment_is_imported_without_settings() -> None:
    """The laboratory has no settings of Django: what needs them runs in a process of its own."""
    code = "from perf.lab import EXPERIMENTS, find; print(*(find(name).__name__ for name in EXPERIMENTS))"
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == len(EXPERIMENTS)
