"""A field of forms for what is typed as JSON."""

import json
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from ironauth.infrastructure.core import strict_json


class JsonField(forms.CharField):
    """JSON; the rules of what it is about judge what it says."""

    #: Rows of the text area.
    rows: ClassVar[int]
    #: Characters that may be typed.
    most: ClassVar[int]
    #: What an empty field means.
    empty: ClassVar[str]
    #: What to write, for those whose JSON cannot be read.
    remedy: ClassVar[str]

    def __init__(self, **named: Any) -> None:
        attrs = {"rows": self.rows, "cols": 70, "spellcheck": "false", "autocapitalize": "none"}
        super().__init__(required=False, max_length=self.most, widget=forms.Textarea(attrs=attrs), **named)

    def prepare_value(self, value: Any) -> Any:
        """Return an object as it is read most easily, and what was typed as it is."""
        return json.dumps(value, indent=2) if isinstance(value, dict) else value

    def to_python(self, value: Any) -> Any:
        """Return the parsed JSON."""
        try:
            return strict_json.loads(self.empty if value in self.empty_values else value)
        except strict_json.InvalidJson as error:
            raise ValidationError(f"This {error} {self.remedy}", code="json") from error

    def validate(self, value: Any) -> None:
        """Leave the value to the rules of what it is about."""

    def run_validators(self, value: Any) -> None:
        """Leave the length to the widget's limit and the rules."""

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare what the JSON says."""
        try:
            return bool(initial != self.to_python(data))
        except ValidationError:
            return True
