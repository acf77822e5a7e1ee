"""The laboratory's command line."""

import subprocess
import sys

import pytest

from perf.lab import EXPERIMENTS, find
from perf.rig.site_setup import ROOT


def _lab(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perf.lab", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_it_lists_what_there_is() -> None:
    """Without a name, and with --list, every experiment is told."""
    for arguments in ((), ("--list",)):
        done = _lab(*arguments)
        assert done.returncode == 0
        assert [line.split()[0] for line in done.stdout.splitlines()] == list(EXPERIMENTS)


def test_a_misspelt_experiment_is_refused_with_the_choice() -> None:
    """The message names what is unknown and what there is."""
    done = _lab("scal")
    assert done.returncode == 2
    assert "unknown experiment scal: choose from" in done.stderr


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_experiment_has_a_hypothesis(name: str) -> None:
    """What is listed exists, and says beforehand what it expects."""
    experiment = find(name)
    assert len(experiment.HYPOTHESIS) > 20
    assert callable(experiment.measure)
