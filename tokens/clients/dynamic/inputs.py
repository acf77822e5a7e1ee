"""What staff send about tokens with which clients register themselves."""

from typing import Any, Final

from django.core.exceptions import ValidationError
from rest_framework import serializers

from accounts.fields import TextField
from accounts.lists import no_controls
from tokens.clients.dynamic.models import LABEL_CHARACTERS

MOST_USES: Final = 1_000
MOST_DAYS: Final = 365
USES: Final = 1  # where nothing is said
DAYS: Final = 7


def short(text: str) -> None:
    """Raise ``ValidationError`` for a text that the column does not take."""
    no_controls(text)
    if len(text) > LABEL_CHARACTERS:
        raise ValidationError(f"Write at most {LABEL_CHARACTERS} characters.", code="too_long")


class RegistrationTokenInput(serializers.Serializer[Any]):
    """Body of ``POST /clients/registration-tokens``."""

    name = TextField(validate=short, help_text=f"Who gets it; at most {LABEL_CHARACTERS} characters.")
    uses = serializers.IntegerField(
        required=False,
        default=USES,
        min_value=1,
        max_value=MOST_USES,
        help_text="How many clients may register with it.",
    )
    expires_in_days = serializers.IntegerField(
        required=False, default=DAYS, min_value=1, max_value=MOST_DAYS, help_text="When it ends."
    )
