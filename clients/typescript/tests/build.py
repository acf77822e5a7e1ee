"""The package compiled, once for a run."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent
PATIENCE_S = 300  # the compiler on a machine with everything else to do


@cache
def built() -> Path:
    """Compile the package and return its folder; skip without Node.js or the compiler, or in CI fail."""
    npm = shutil.which("npm")
    if npm is None or not (PACKAGE / "node_modules" / ".installed-package-lock.json").exists():
        text = "what the TypeScript client is compiled with: sh .ci/find-node does it, or says what is missing"
        if os.environ.get("CI"):
            pytest.fail(f"CI: every test must run, install {text}")
        pytest.skip(f"not installed: {text}")
    assert npm is not None
    command = [npm, "run", "--silent", "build"]
    done = subprocess.run(command, cwd=PACKAGE, timeout=PATIENCE_S, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return PACKAGE


def run(*arguments: str, **environment: str) -> str:
    """Run Node.js in the package; return what it printed."""
    package = built()
    recent = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout >= "v20"
    flags = [] if recent else ["--experimental-global-webcrypto"]  # Debian's 18 has it behind a flag
    done = subprocess.run(
        ["node", *flags, *arguments], cwd=package, env={**os.environ, **environment}, timeout=PATIENCE_S,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
