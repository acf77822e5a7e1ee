"""Builds of the Argon2 bindings in folders of their own, of the very version that is installed."""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Final

from perf.rig.processes import StartError

PACKAGE: Final = "argon2-cffi-bindings"
NATIVE_FLAGS: Final = MappingProxyType({"CFLAGS": "-O3 -march=native"})  # as requirements/argon2-native.sh
BUILD_S: Final = 300  # longest that fetching or compiling the bindings may take


def install(folder: Path, kind: str, environment: Mapping[str, str] = MappingProxyType({})) -> Path:
    """Install the pinned bindings into ``folder``, from the wheel or from source; return it. Raises ``StartError``."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--no-cache-dir", "--target", str(folder), kind, PACKAGE]
    command.append(f"{PACKAGE}=={version(PACKAGE)}")
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise StartError(
            f"{PACKAGE} could not be installed ({reason}): this experiment needs the package index and a C compiler "
            "with the Python headers (Debian: apt install gcc python3-dev)"
        )
    return folder
