"""Input fields: text exactly as JSON says, no guessing from numbers, no silent trimming of passwords."""

from collections.abc import Callable
from typing import Any, ClassVar, Final

from django.core.exceptions import ValidationError
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts import email_address as emails
from accounts import names

MOST_NAMED: Final = 20  # values that a refusal repeats
_PASSWORD_EXAMPLE: Final = "violet otter rides nine trams"  # noqa: S105 - an example for the API's documentation


@extend_schema_field({"type": "string"})
class TextField(serializers.Field[Any, Any, Any, Any]):
    """A JSON string; anything else, ``true`` and ``12`` too, is an error (DRF's ``CharField`` would convert them)."""

    default_error_messages: ClassVar[dict[str, Any]] = {
        "not_text": "Send a string.",
        "blank": "This field may not be blank.",
    }

    def __init__(
        self,
        *,
        allow_blank: bool = False,
        normalise: Callable[[str], str] = str,
        validate: Callable[[str], None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.allow_blank = allow_blank
        self.normalise = normalise
        self.validate = validate

    def to_internal_value(self, data: object) -> str:
        """Return the normalised text; raises DRF's ``ValidationError`` with the rule's own code."""
        if not isinstance(data, str):
            self.fail("not_text")
        text = self.normalise(data)
        if not text and not self.allow_blank:
            self.fail("blank")
        if self.validate is not None:
            try:
                self.validate(text)
            except ValidationError as error:
                raise serializers.ValidationError(error.message, code=error.code) from error
        return text

    def to_representation(self, value: str) -> str:
        """Return the text itself."""
        return value


@extend_schema_field({"type": "boolean"})
class FlagField(serializers.Field[Any, Any, Any, Any]):
    """JSON's true or false, nothing else (DRF's ``BooleanField`` takes ``"yes"``, ``"off"`` and 1 for one too)."""

    default_error_messages: ClassVar[dict[str, Any]] = {"not_flag": "Send true or false."}

    def to_internal_value(self, data: object) -> bool:
        """Return the flag; raises DRF's ``ValidationError`` for anything else."""
        if not isinstance(data, bool):
            self.fail("not_flag")
        return data

    def to_representation(self, value: bool) -> bool:
        """Return the flag itself."""
        return value


class ChoiceField(serializers.ChoiceField):
    """One of some values; the refusal of another names them, or says how many they are where they fill no line."""

    def __init__(self, choices: Any, **options: Any) -> None:
        super().__init__(choices, **options)
        values = [str(value) for value in self.choices]
        named = ", ".join(values) if len(values) <= MOST_NAMED else f"the {len(values)} values that /api/docs lists"
        self.error_messages["invalid_choice"] = f"Choose one of: {named}."


@extend_schema_field({"type": "string", "format": "email", "maxLength": emails.MAX_LENGTH})
class EmailField(TextField):
    """An address that an account may have (``emails``), in NFC."""

    def __init__(self, *, validate: Callable[[str], None] = emails.validate, **options: Any) -> None:
        super().__init__(normalise=emails.normalise, validate=validate, **options)


class NewEmailField(EmailField):
    """An address that an account may get."""

    def __init__(self, **options: Any) -> None:
        super().__init__(validate=emails.validate_new, **options)


@extend_schema_field({"type": "string", "maxLength": names.MAX_LENGTH})
class NameField(TextField):
    """A display name (``names``), in NFC; may be blank."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_blank=True, normalise=names.normalise, validate=names.validate, **options)


@extend_schema_field({"type": "string", "format": "password", "example": _PASSWORD_EXAMPLE})
class PasswordField(TextField):
    """A password, exactly as typed: NUL and spaces are part of it. Length is the policy's business."""
