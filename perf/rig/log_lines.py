"""Lines of a server's log as a report quotes them: what happened and why, without the machine on which it did."""

import json
import re
from typing import Any, Final

LONGEST: Final = 200  # characters of a reason
#: A file of the machine: an absolute path with at least two folders, not the path of an address.
_PATH: Final = re.compile(r"(?<![\w:/.<>-])/(?:[\w.@+-]+/)+[\w.@+-]*")
#: Fields that say why, the first that a line has.
_REASONS: Final = ("cause", "reason", "error", "exception")


def quoted(line: str) -> str:
    """Return a line of the log for a report: level, event and a reason of one line, without paths of the machine.

    Of a traceback only its last line is kept, which names the exception. A line that is no JSON is cut, and loses its
    paths too.
    """
    try:
        event: Any = json.loads(line)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        return without_paths(line.strip())[:LONGEST]
    said = f"{event.get('level', 'no level')}: {event.get('event', 'no event')}"
    why = next((str(event[name]) for name in _REASONS if event.get(name)), "")
    last = next((text.strip() for text in reversed(why.splitlines()) if text.strip()), "")
    return f"{said}: {without_paths(last)[:LONGEST]}" if last else said


def without_paths(text: str) -> str:
    """Return a text with the name of the file alone where it has the path of one."""
    return _PATH.sub(lambda found: found[0].rstrip("/").rpartition("/")[2], text)
