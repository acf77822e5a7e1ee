"""Types of authorization details as a kind of things that staff register."""

from typing import Final

from accounts.audit.recording import Event
from tokens.details import rules
from tokens.details.administration.outputs import DetailTypeOut
from tokens.details.models import DetailType
from tokens.registered.kind import Kind
from tokens.rights import ADD_DETAIL_TYPES, CHANGE_DETAIL_TYPES, DELETE_DETAIL_TYPES, VIEW_DETAIL_TYPES

DETAIL_TYPES: Final = Kind(
    model=DetailType,
    out=DetailTypeOut,
    word="type",
    rights={
        "GET": VIEW_DETAIL_TYPES, "POST": ADD_DETAIL_TYPES, "PATCH": CHANGE_DETAIL_TYPES, "DELETE": DELETE_DETAIL_TYPES,
    },
    created=Event.DETAIL_TYPE_CREATED,
    changed=Event.DETAIL_TYPE_CHANGED,
    deleted=Event.DETAIL_TYPE_DELETED,
    told=lambda row: {"type": row.identifier},
    changeable=("words", "members", "unattended", "active"),
    most=rules.MOST_TYPES,
    missing="There is no type with this id.",
    taken=rules.TAKEN,
    problems_of=rules.problems_of,
)  # fmt: skip
