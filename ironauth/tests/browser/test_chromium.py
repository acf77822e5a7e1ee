"""What a machine without a browser hears: one line and how to get one, and no pass where nothing may be skipped."""

import os
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from ironauth.tests.browser import chromium
from ironauth.tests.services import BinaryMissing


def looked_for(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the gate's search with the programs of one folder."""
    return subprocess.run(
        ["/bin/sh", ".ci/find-browser"],
        cwd=settings.BASE_DIR,
        env={"PATH": str(path), **environment},
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("name", chromium.NAMES)
def test_the_gate_finds_what_the_tests_do(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under each name that a system may have it under."""
    program = tmp_path / name
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=None)
    assert chromium.find_chromium() == str(program)
    found = looked_for(tmp_path, CI="true")
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_none_is_said_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the package; with CI=true it is a failure."""
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(BinaryMissing, match="apt-get install chromium"):
        chromium.find_chromium()
    found = looked_for(tmp_path)
    (line,) = found.stdout.splitlines()
    assert (found.returncode, found.stderr) == (1, "")
    assert "SKIPPED" in line
    assert "apt install chromium" in line
    assert looked_for(tmp_path, CI="true").returncode == 2
