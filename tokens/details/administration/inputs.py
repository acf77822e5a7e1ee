"""What the API accepts about types of authorization details. Which values one may have is said in ``details.rules``."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.fields import FlagField, TextField
from accounts.lists import no_controls
from tokens.details.lists import MAX_TYPE
from tokens.details.words import MAX_CHARACTERS

_WORDS = f"At most {MAX_CHARACTERS} characters: for the consent page, with required members in braces."
_MEMBER = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["text", "integer", "flag", "texts", "object"]},
        "required": {"type": "boolean", "default": False},
        "values": {"type": "array", "items": {"type": "string"}, "description": "What a text may be; none: any."},
        "members": {"type": "object", "description": "Those of an object, declared alike.", "additionalProperties": {}},
    },
    "required": ["kind"],
    "additionalProperties": False,
}


@extend_schema_field({"type": "object", "additionalProperties": _MEMBER})
class MembersField(serializers.Field[Any, Any, Any, Any]):
    """A declaration; ``details.members`` judges it."""

    default_error_messages = {"not_members": "Send an object with a declaration for each member."}

    def to_internal_value(self, data: object) -> Any:
        """Return the declaration as it was sent."""
        if not isinstance(data, dict):
            self.fail("not_members")
        return data

    def to_representation(self, value: Any) -> Any:
        """Return the declaration itself."""
        return value


class DetailTypePatchInput(serializers.Serializer[Any]):
    """Body of ``PATCH /authorization-details-types/{id}``; a field that is not sent stays as it is."""

    words = TextField(required=False, validate=no_controls, help_text=_WORDS)
    members = MembersField(
        required=False, help_text="What an object of the type may have beside its type; nothing else is accepted."
    )
    unattended = FlagField(
        required=False, help_text="Whether applications may have it for themselves (client_credentials); at first not."
    )
    active = FlagField(required=False, help_text="Without it nobody gets it any more.")


class DetailTypeCreateInput(DetailTypePatchInput):
    """Body of ``POST /authorization-details-types``."""

    identifier = TextField(
        validate=no_controls, help_text=f"The `type` in requests, at most {MAX_TYPE} ASCII characters. It stays."
    )
    words = TextField(validate=no_controls, help_text=_WORDS)
