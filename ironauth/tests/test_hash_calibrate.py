"""``manage.py hash_calibrate`` and what it measures with."""

import os
import re
import subprocess
import sys
from importlib import metadata
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError

from ironauth.config.checks import refuse_weak_argon2
from ironauth.infrastructure.hashing import argon2_build
from ironauth.settings_test import ENVIRONMENT

PROPOSED = re.compile(
    r"IRONAUTH_ARGON2_TIME_COST=(\d+)\nIRONAUTH_ARGON2_MEMORY_KIB=(\d+)\nIRONAUTH_ARGON2_PARALLELISM=1\n"
)


def calibrate(*arguments: str) -> str:
    """Run the command; return what it printed."""
    out = StringIO()
    call_command("hash_calibrate", *arguments, stdout=out)
    return out.getvalue()


def proposal(text: str) -> tuple[int, int]:
    """Return the proposed passes and KiB."""
    found = PROPOSED.search(text)
    assert found, text
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("pass_ms_per_mib", [0.05, 0.5, 5.0])
def test_the_proposal_is_the_most_memory_within_the_time(
    monkeypatch: pytest.MonkeyPatch, pass_ms_per_mib: float
) -> None:
    """On machines from quick to slow: never below the OWASP floor, and never longer than wanted where that can be."""

    def measured(*, time_cost: int, memory_kib: int, **_: Any) -> float:
        return pass_ms_per_mib * time_cost * memory_kib / 1024

    monkeypatch.setattr(argon2_build, "measure_ms", measured)
    text = calibrate("--target-ms", "100", "--threads", "2")
    passes, memory_kib = proposal(text)
    refuse_weak_argon2(time_cost=passes, memory_kib=memory_kib, parallelism=1)
    took = measured(time_cost=passes, memory_kib=memory_kib)
    if pass_ms_per_mib < 1:
        assert memory_kib == 64 * 1024
        assert took <= 105
        assert passes == 20 or measured(time_cost=passes + 1, memory_kib=memory_kib) > 105
        assert "Proposal, the most memory within the time" in text
    else:
        assert took > 105
        assert "No cost above the OWASP floor takes 100 ms here; the cheapest is" in text


def test_it_really_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real Argon2, threads and memory in the table, a cost comes out that settings accept."""
    text = calibrate("--target-ms", "5", "--memory-mib", "9", "--threads", "1")
    assert re.search(r"^ +9 MiB +\d+ +\d+ ms +[\d.]+/s +9 MiB", text, re.MULTILINE)
    passes, memory_kib = proposal(text)
    refuse_weak_argon2(time_cost=passes, memory_kib=memory_kib, parallelism=1)


@pytest.mark.parametrize(
    "argument",
    [
        *(f"--target-ms={text}" for text in ("0", "6000", "x", "", "nan", "inf", "-5", "1e3", "100ms")),
        *(f"--memory-mib={text}" for text in ("6", "2000", "x", "64.5", "-64")),
        *(f"--threads={text}" for text in ("0", "65", "x", "1.5", "٣")),
    ],
)
def test_options_that_are_no_number_in_range_are_one_line(argument: str) -> None:
    """The option is named with what it may be and with its default."""
    kind = "a number" if "target" in argument else "a whole number"
    with pytest.raises(
        CommandError, match=rf"^{argument.partition('=')[0]} must be {kind} from \d+ to \d+: leave it out for [\w]+$"
    ):
        calibrate(argument)


def test_it_ends_quietly_with_its_reader() -> None:
    """As before ``| head -1``: each line comes when it is known, and when nobody reads on the command just ends."""
    command = [
        sys.executable,
        "manage.py",
        "hash_calibrate",
        "--target-ms",
        "5",
        "--memory-mib",
        "32",
        "--threads",
        "1",
    ]
    environment = {**os.environ, **ENVIRONMENT, "DJANGO_SETTINGS_MODULE": "ironauth.settings"}
    with subprocess.Popen(
        command, cwd=settings.BASE_DIR, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        assert running.stderr
        assert running.stdout.readline().startswith("Argon2: ")
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait(timeout=60) == 141


@pytest.mark.parametrize(
    ("wheel", "native"),
    [
        ("Wheel-Version: 1.0\nTag: cp39-abi3-linux_x86_64\n", True),
        ("Wheel-Version: 1.0\nTag: cp39-abi3-manylinux_2_26_x86_64\nTag: cp39-abi3-manylinux_2_28_x86_64\n", False),
        ("Wheel-Version: 1.0\nTag: cp39-abi3-musllinux_1_2_aarch64\n", False),
        ("", False),
    ],
)
def test_a_build_for_this_cpu_is_told_from_the_portable_wheel(
    monkeypatch: pytest.MonkeyPatch, wheel: str, native: bool
) -> None:
    """By the platform tag that the installer recorded (PEP 427)."""

    class Installed(metadata.PathDistribution):
        def __init__(self) -> None:
            """Read nothing."""

        def read_text(self, filename: str) -> str | None:  # type: ignore[override] # narrower than the base's
            """Return the WHEEL file."""
            return wheel if filename == "WHEEL" else None

    monkeypatch.setattr(argon2_build, "distribution", lambda _name: Installed())
    assert argon2_build.is_native() is native


def test_an_unknown_build_counts_as_portable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package's records the hint is given rather than left out."""

    def missing(_name: str) -> Any:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(argon2_build, "distribution", missing)
    assert argon2_build.is_native() is False
