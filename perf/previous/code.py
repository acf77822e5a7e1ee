"""A release as files: its commands and its server."""

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from perf.previous import history
from perf.rig.processes import Server, StartError, free_port
from perf.rig.site_setup import prepare


@dataclass(frozen=True)
class Code:
    """A release in a folder, and the Python with its requirements."""

    folder: Path
    python: str
    environment: dict[str, str]

    def manage(self, *arguments: str) -> str:
        """Run a command of ``manage.py`` and return what it prints.

        Raises:
            StartError: it failed.
        """
        return prepare(["manage.py", *arguments], self.environment, folder=self.folder, python=self.python)

    def serve(self, log: Path, stack: ExitStack) -> str:
        """Start its server, which ``stack`` ends, and return its origin.

        Raises:
            StartError: it ended early or stayed silent.
        """
        port = free_port()
        command = [self.python, "manage.py", "serve", "--workers", "1", "--port", str(port)]
        server = Server(command, folder=self.folder, port=port, environment=self.environment, log=log)
        return f"http://{stack.enter_context(server).host}"


def python_for(code: Path) -> str:
    """Return the Python that runs a commit: ours, or one with its own requirements, installed in its folder.

    Raises:
        StartError: they could not be.
    """
    if not history.requirements_differ(code):
        return sys.executable
    done = subprocess.run(
        ["sh", "requirements/install.sh", "base"], cwd=code, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise StartError(f"its requirements could not be installed: {done.stdout}{done.stderr}")
    return str(code / ".venv" / "bin" / "python")
