"""Read the pins of ``requirements/*.txt`` in the form in which ``requirements/compile.sh`` has them written."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PIN = re.compile(r"^([a-z0-9-]+)==([^\s;\\]+)", re.MULTILINE)
MARKER = re.compile(r"^(\S+==\S+) ; [^\\\n]*", re.MULTILINE)


def pins(text: str) -> list[tuple[str, str]]:
    """Return name and version of every pin, those for other platforms included, in the file's order."""
    return PIN.findall(text)


def without_markers(text: str) -> str:
    """Return the requirements as needed on every platform: Windows' too, wherever they are looked at."""
    return MARKER.sub(r"\1 ", text)
