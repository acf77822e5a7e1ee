"""What the API accepts about signing keys."""

from typing import Any

from rest_framework import serializers

from accounts.fields import ChoiceField
from tokens.keys.key_set import Family
from tokens.keys.models import SigningKey

FAMILIES = [family.value for family in Family]


class FamilyInput(serializers.Serializer[Any]):
    """Body of ``POST /keys`` and ``POST /keys/rotate``."""

    family = ChoiceField(
        required=False, choices=FAMILIES, default=Family.ED25519.value, help_text="Access tokens are signed by ed25519."
    )


class KeyListInput(serializers.Serializer[Any]):
    """Query of ``GET /keys``."""

    family = ChoiceField(required=False, choices=FAMILIES)
    state = ChoiceField(required=False, choices=SigningKey.State.choices)
