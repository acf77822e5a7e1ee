"""A field of forms for a list of texts, one to a line."""

from typing import Any, Final

from django import forms

MOST_CHARACTERS: Final = 100_000  # of the list as it is typed: fifty addresses of 2,000


class LinesField(forms.CharField):
    """A list of texts, one to a line; empty lines mean nothing."""

    widget = forms.Textarea

    def __init__(self, *, rows: int = 4, **named: Any) -> None:
        attrs = {"rows": rows, "cols": 70, "spellcheck": "false", "autocapitalize": "none"}
        widget = forms.Textarea(attrs=attrs)
        super().__init__(required=False, max_length=MOST_CHARACTERS, widget=widget, **named)

    def prepare_value(self, value: Any) -> Any:
        """Return the text of a list, and what was typed as it is."""
        return "\n".join(value) if isinstance(value, list | tuple) else value

    def to_python(self, value: Any) -> Any:
        """Return the lines."""
        return [line.strip(" \t\r") for line in (value or "").split("\n") if line.strip(" \t\r")]

    def validate(self, value: Any) -> None:
        """Leave the lines to the rules of what they are about."""

    def run_validators(self, value: Any) -> None:
        """Bound what is typed as a whole."""
        super().run_validators("\n".join(value))

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare lists: what was typed may have other line ends."""
        return bool(list(initial or []) != self.to_python(data))
