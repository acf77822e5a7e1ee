"""What the staff lists accept in the query string."""

import re
from types import MappingProxyType
from typing import Any, Final

from django.core.exceptions import ValidationError
from rest_framework import serializers

from accounts import names
from accounts.audit import queries as audit_queries
from accounts.audit.exporting import Format
from accounts.audit.recording import Event, Outcome
from accounts.fields import ChoiceField, TextField
from accounts.invitations import queries as invitation_queries
from accounts.lists import ListInput, SearchField, no_controls
from accounts.staff.roles import units as role_units
from accounts.users import inputs
from accounts.users.paging import DEFAULT_ORDERING, ORDERINGS
from ironauth.infrastructure.db import networks

_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_ORDERING_CHOICES: Final = tuple(f"{sign}{name}" for name in ORDERINGS for sign in ("", "-"))


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


_SEARCHED: Final = (
    "Words of the e-mail address or the names; all must occur. One of three characters or more is found anywhere, "
    "a shorter one where the address or a word of a name begins."
)


class UserListInput(ListInput):
    """Query of ``GET /users``."""

    places = MappingProxyType({ordering: ordering for ordering in _ORDERING_CHOICES})

    search = SearchField(most=names.MAX_LENGTH, help_text=_SEARCHED)
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
    ordering = ChoiceField(required=False, choices=_ORDERING_CHOICES, default=DEFAULT_ORDERING)


class RoleListInput(ListInput):
    """Query of ``GET /roles``."""

    places = MappingProxyType({ordering: role_units.place_of(ordering) for ordering in role_units.ORDERINGS})

    search = SearchField(most=inputs.MAX_ROLE_NAME, help_text="Words of the name; all must occur.")
    ordering = ChoiceField(required=False, choices=role_units.ORDERINGS, default=role_units.ORDERINGS[0])


class InvitationListInput(ListInput):
    """Query of ``GET /users/invitations``."""

    places = MappingProxyType({"": invitation_queries.ORDERING})


class AuditFilters(serializers.Serializer[Any]):
    """What the audit trail is filtered by, listed or exported; all conditions have to hold."""

    person = serializers.UUIDField(required=False, help_text="Whose account the event is about, or who did it.")
    user = serializers.UUIDField(required=False, help_text="Whose account the event is about.")
    actor = serializers.UUIDField(required=False, help_text="Who did it.")
    session = serializers.UUIDField(required=False, help_text="The session it was done in, or to.")
    event = ChoiceField(required=False, choices=[event.value for event in Event])
    outcome = ChoiceField(required=False, choices=[outcome.value for outcome in Outcome])
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

    format = ChoiceField(choices=[one.value for one in Format], help_text="What the file is.")


class AuditListInput(AuditFilters, ListInput):
    """Query of ``GET /audit``."""

    places = MappingProxyType({"": audit_queries.ORDERING})
