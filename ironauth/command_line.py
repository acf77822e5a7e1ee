"""The command ``ironauth``, which makes projects, and what the ``manage.py`` of such a project runs."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command, execute_from_command_line

from ironauth import environment_file
from ironauth.config import asked_port
from ironauth.server import huge_pages
from ironauth.version import VERSION

TEMPLATE: Final = Path(__file__).resolve().parent / "project_template"
INTERRUPTED: Final = 130  # what a shell reports for a command ended by SIGINT


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``ironauth``; what cannot be done ends it with one line and status 1."""
    parser = argparse.ArgumentParser(prog="ironauth", description="Make a Django project with IronAuth in it.")
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("startproject", help="make a project: settings, URLs, a view, a profile model, secrets")
    start.add_argument("name", help="a Python package's name, for instance shop")
    start.add_argument("folder", nargs="?", type=Path, help="an existing folder (default: a new one of that name)")
    given = parser.parse_args(arguments)
    try:
        start_project(given.name, given.folder)
    except (CommandError, OSError) as error:
        sys.exit(f"ironauth startproject: {error}")


def start_project(name: str, folder: Path | None = None) -> Path:
    """Make a project and its secrets.

    Args:
        name: Of its package.
        folder: An existing one for it; without, one of that name is made here.

    Returns:
        The folder.

    Raises:
        CommandError: The name is no package's or is taken, or the folder is missing or has such files already.
        OSError: The folder cannot be written.
    """
    call_command("startproject", name, *([str(folder)] if folder else []), template=str(TEMPLATE), verbosity=0)
    made = (folder or Path(name)).resolve()
    environment_file.create(made / "var" / "env")
    sys.stdout.write(f"Made {made}. Next: cd {folder or name} && python manage.py serve --migrate\n")
    return made


def manage(settings_module: str) -> None:
    """Run a management command of a project; a configuration error and Ctrl-C end it without a traceback."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings_module)
    asked_port.tell(sys.argv)
    huge_pages.unblock_interrupts()
    if sys.argv[1:2] == ["serve"]:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the server listens for signals
        huge_pages.use_huge_pages()
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"Configuration: {error}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
