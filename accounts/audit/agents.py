"""What a browser calls itself, in the trail's table: its usual phrases are a character each there.

Half of an event's row was that text, and nearly all of them say the same: ``Mozilla/5.0 (``, ``AppleWebKit/537.36``,
``(KHTML, like Gecko)``. A text of before stays what it is, and is read as it is.
"""

from typing import Any, Final

from django.db import models

#: How a text begins that is shortened, and the character by which it is known. No text from a request has a control
#: character (``client_context.printable``), so that one is never mistaken for what a browser said.
_BEGIN: Final = ("\x01", "Mozilla/5.0 (")
#: Rows are read by them for as long as events are kept: one may be added, none changed or taken away.
PHRASES: Final = {
    "\x02": ") AppleWebKit/537.36 (KHTML, like Gecko) Chrome/",
    "\x03": " Safari/537.36",
    "\x04": ") Gecko/20100101 Firefox/",
    "\x05": ") AppleWebKit/605.1.15 (KHTML, like Gecko) ",
    "\x06": " Safari/604.1",
    "\x07": " Safari/605.1.15",
    "\x0e": "Windows NT 10.0; Win64; x64",
    "\x0f": "Macintosh; Intel Mac OS X 10_15_7",
    "\x10": "X11; Linux x86_64",
    "\x11": "Linux; Android 10; K",
    "\x12": "iPhone; CPU iPhone OS ",
    "\x13": " like Mac OS X",
    "\x14": ".0.0.0",
}
_LONG: Final = str.maketrans(PHRASES)


def shortened(text: str) -> str:
    """Return what is stored of a text; ``whole`` gives the text again.

    Args:
        text: What a browser calls itself.
    """
    mark, begin = _BEGIN
    if not text.startswith(begin) or not text.isprintable():
        return text
    rest = text.removeprefix(begin)
    for character, phrase in PHRASES.items():
        rest = rest.replace(phrase, character)
    return mark + rest


def whole(stored: str) -> str:
    """Return the text of which ``stored`` is what ``shortened`` left, or ``stored`` itself.

    Args:
        stored: From the table.
    """
    mark, begin = _BEGIN
    return begin + stored.removeprefix(mark).translate(_LONG) if stored.startswith(mark) else stored


class AgentField(models.CharField):  # type: ignore[type-arg]  # not a generic when it runs
    """A column of such texts: whole in Python, shortened in the table. Only equality can be asked of it."""

    def deconstruct(self) -> Any:
        """Return what migrations know of it: the column is that of any text, and none has to be changed."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.CharField", args, kwargs

    def get_prep_value(self, value: Any) -> Any:
        """Return what is stored."""
        text = super().get_prep_value(value)
        return shortened(text) if isinstance(text, str) else text

    def from_db_value(self, value: str | None, *_: Any) -> str | None:
        """Return the whole text."""
        return None if value is None else whole(value)
