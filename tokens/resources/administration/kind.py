"""Registered APIs as a kind of things that staff register."""

from collections.abc import Mapping
from typing import Any, Final

from accounts import names
from accounts.audit.recording import Event
from tokens.registered.kind import Kind
from tokens.resources import rules
from tokens.resources.administration.outputs import ResourceOut
from tokens.resources.models import ApiResource
from tokens.rights import ADD_RESOURCES, CHANGE_RESOURCES, DELETE_RESOURCES, VIEW_RESOURCES


def _tidied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {**values, **({"name": names.normalise(values["name"])} if "name" in values else {})}


RESOURCES: Final = Kind(
    model=ApiResource,
    out=ResourceOut,
    word="resource",
    rights={"GET": VIEW_RESOURCES, "POST": ADD_RESOURCES, "PATCH": CHANGE_RESOURCES, "DELETE": DELETE_RESOURCES},
    created=Event.RESOURCE_CREATED,
    changed=Event.RESOURCE_CHANGED,
    deleted=Event.RESOURCE_DELETED,
    told=lambda row: {"resource": row.identifier, "name": row.name},
    changeable=("name", "scopes", "signing_alg", "access_token_s", "for_self_registered", "active"),
    most=1_000,
    missing="There is no API with this id.",
    taken=rules.TAKEN,
    problems_of=rules.problems_of,
    tidied=_tidied,
)
