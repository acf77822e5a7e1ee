"""What the staff lists accept in the query string."""

import re
from typing import Any, Final

from django.core.exceptions import ValidationError
from rest_framework import serializers

from accounts import names
from accounts.audit import queries as audit_queries
from accounts.audit.exporting import Format
from accounts.audit.recording import Event, Outcome
from accounts.fields import TextField
from accounts.invitations import queries as invitation_queries
from accounts.staff.roles import units as role_units
from accounts.users import inputs
from accounts.users.paging import DEFAULT_ORDERING, ORDERINGS
from ironauth.infrastructure.api import paging
from ironauth.infrastructure.db import networks

DEFAULT_PAGE_SIZE: Final = 50  # rows; a screenful or two
MAX_PAGE_SIZE: Final = 200  # rows; about 60 kB of JSON where they are users
_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
MAX_CURSOR: Final = 2048  # characters; ours stay below 600
_ORDERING_CHOICES: Final = tuple(f"{sign}{name}" for name in ORDERINGS for sign in ("", "-"))


def no_controls(text: str) -> None:
    """Refuse control characters, which no name has and Postgres may not even be asked for.

    Args:
        text: What was sent.

    Raises:
        ValidationError: Django's, where there is one.
    """
    if any(char < " " for char in text):
        raise ValidationError("Control characters cannot be searched for: leave them out.", code="search_character")


def _code(text: str) -> None:
    """Refuse what is no code of ours."""
    if not _CODE.fullmatch(text):
        raise ValidationError("A cause is a word like wrong_password.", code="invalid_cause")


def _network(text: str) -> None:
    """Refuse what is neither an address nor a network."""
    try:
        networks.network(text)
    except ValueError as error:
        raise ValidationError(
            "This is no address and no network: write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/48.", code="invalid_network"
        ) from error


class UserListInput(serializers.Serializer[Any]):
    """Query of ``GET /users``."""

    search = TextField(
        required=False,
        allow_blank=True,
        validate=no_controls,
        help_text="Words of the e-mail address or the name; all must occur.",
    )
    is_active = serializers.BooleanField(required=False, allow_null=True, default=None)
    is_staff = serializers.BooleanField(required=False, allow_null=True, default=None)
    being_deleted = serializers.BooleanField(
        required=False,
        allow_null=True,
        default=None,
        help_text=(
            "Only accounts in the days of grace after their owner's deletion, whose addresses of before `search` "
            "then looks at; or only others."
        ),
    )
    role = TextField(required=False, allow_blank=True, validate=no_controls, help_text="The exact name of a role.")
    ordering = serializers.ChoiceField(required=False, choices=_ORDERING_CHOICES, default=DEFAULT_ORDERING)
    cursor = TextField(required=False, allow_blank=True, help_text="From `next` or `previous` of another page.")
    page_size = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_PAGE_SIZE,
        default=DEFAULT_PAGE_SIZE,
        help_text="Rows of a page.",
    )

    def validate_search(self, text: str) -> str:
        """Cut nothing off, but refuse more than a name is long."""
        if len(text) > names.MAX_LENGTH:
            raise serializers.ValidationError(
                f"Search for at most {names.MAX_LENGTH} characters.", code="search_too_long"
            )
        return text

    def validate_cursor(self, text: str) -> str:
        """Refuse what is no cursor of ours for this ordering."""
        ordering = self.initial_data.get("ordering", DEFAULT_ORDERING)
        orderings = [ordering] if ordering in _ORDERING_CHOICES else _ORDERING_CHOICES  # a bad one is reported itself
        if len(text) > MAX_CURSOR or (text and not any(paging.belongs(text, ordering) for ordering in orderings)):
            raise serializers.ValidationError(
                "This cursor does not belong to this list and ordering: start without one.", code="invalid_cursor"
            )
        return text


class RoleListInput(serializers.Serializer[Any]):
    """Query of ``GET /roles``."""

    search = TextField(
        required=False, allow_blank=True, validate=no_controls, help_text="Words of the name; all must occur."
    )
    ordering = serializers.ChoiceField(required=False, choices=role_units.ORDERINGS, default=role_units.ORDERINGS[0])
    cursor = TextField(required=False, allow_blank=True, help_text="From `next` or `previous` of another page.")
    page_size = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_PAGE_SIZE,
        default=DEFAULT_PAGE_SIZE,
        help_text="Rows of a page.",
    )

    def validate_search(self, text: str) -> str:
        """Cut nothing off, but refuse more than a name is long."""
        if len(text) > inputs.MAX_ROLE_NAME:
            raise serializers.ValidationError(
                f"Search for at most {inputs.MAX_ROLE_NAME} characters.", code="search_too_long"
            )
        return text

    def validate_cursor(self, text: str) -> str:
        """Refuse what is no cursor of ours for this ordering."""
        ordering = self.initial_data.get("ordering", role_units.ORDERINGS[0])
        asked = [ordering] if ordering in role_units.ORDERINGS else role_units.ORDERINGS  # a bad one is reported itself
        if len(text) > MAX_CURSOR or (
            text and not any(paging.belongs(text, role_units.place_of(one)) for one in asked)
        ):
            raise serializers.ValidationError(
                "This cursor does not belong to this list and ordering: start without one.", code="invalid_cursor"
            )
        return text


class InvitationListInput(serializers.Serializer[Any]):
    """Query of ``GET /users/invitations``."""

    cursor = TextField(required=False, allow_blank=True, help_text="From `next` or `previous` of another page.")
    page_size = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_PAGE_SIZE,
        default=DEFAULT_PAGE_SIZE,
        help_text="Rows of a page.",
    )

    def validate_cursor(self, text: str) -> str:
        """Refuse what is no cursor of this list."""
        if len(text) > MAX_CURSOR or (text and not paging.belongs(text, invitation_queries.ORDERING)):
            raise serializers.ValidationError(
                "This cursor does not belong to this list: start without one.", code="invalid_cursor"
            )
        return text


class AuditFilters(serializers.Serializer[Any]):
    """What the audit trail is filtered by, listed or exported; all conditions have to hold."""

    person = serializers.UUIDField(required=False, help_text="Whose account the event is about, or who did it.")
    user = serializers.UUIDField(required=False, help_text="Whose account the event is about.")
    actor = serializers.UUIDField(required=False, help_text="Who did it.")
    session = serializers.UUIDField(required=False, help_text="The session it was done in, or to.")
    event = serializers.ChoiceField(required=False, choices=[event.value for event in Event])
    outcome = serializers.ChoiceField(required=False, choices=[outcome.value for outcome in Outcome])
    cause = TextField(
        required=False, validate=_code, help_text="Why it failed, e.g. `wrong_password`: `reason` of the details."
    )
    client = TextField(required=False, validate=no_controls, help_text="The client_id of the application.")
    network = TextField(
        required=False, validate=_network, help_text="The address it came from, or a network: `192.0.2.0/24`."
    )
    since = serializers.DateTimeField(required=False, help_text="Events from this time on.")
    until = serializers.DateTimeField(required=False, help_text="Events before this time.")

    def validate_network(self, text: str) -> str:
        """Return it in its standard form."""
        return networks.network(text) if text else text


class AuditExportInput(AuditFilters):
    """Query of ``GET /audit/export``."""

    format = serializers.ChoiceField(choices=[one.value for one in Format], help_text="What the file is.")


class AuditListInput(AuditFilters):
    """Query of ``GET /audit``."""

    cursor = TextField(required=False, allow_blank=True, help_text="From `next` or `previous` of another page.")
    page_size = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_PAGE_SIZE,
        default=DEFAULT_PAGE_SIZE,
        help_text="Rows of a page.",
    )

    def validate_cursor(self, text: str) -> str:
        """Refuse what is no cursor of this list."""
        if len(text) > MAX_CURSOR or (text and not paging.belongs(text, audit_queries.ORDERING)):
            raise serializers.ValidationError(
                "This cursor does not belong to this list: start without one.", code="invalid_cursor"
            )
        return text
