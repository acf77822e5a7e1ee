"""Patroni as the kit has it: the version that deploy/patroni names with its hash, installed by the same command."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from perf.rig.processes import StartError
from perf.rig.site_setup import ROOT

#: What is installed there imports what Debian's package of it brings, and is started by that one's script.
PATRONI: Final = "patroni"
INSTALL_S: Final = 120


def install_patroni(folder: Path) -> None:
    """Install the kit's Patroni into ``folder`` as an operator does, from the package index.

    Raises:
        StartError: The package index gave something else, or nothing.
    """
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--root-user-action=ignore", "--target", str(folder / PATRONI), "--no-deps", "--require-hashes"]
    command += ["--requirement", str(ROOT / "deploy" / "patroni" / "requirements.txt")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode:
        raise StartError(f"Patroni was not installed: {done.stderr[:1000]}")
