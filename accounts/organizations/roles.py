"""The roles of an organisation, each in one entry that says what it may do there, and with members of which roles."""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Role(enum.StrEnum):
    """What somebody is in an organisation."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"


class Act(enum.StrEnum):
    """What a role may allow. Reading the organisation and leaving it need no more than a membership."""

    SEE_MEMBERS = "see_members"
    INVITE = "invite"
    MANAGE_MEMBERS = "manage_members"
    RENAME = "rename"
    DELETE = "delete"


class RoleRights(NamedTuple):
    """What a role may do.

    Attributes:
        acts: What it allows.
        over: The roles that it may give, take away and remove.
    """

    acts: frozenset[Act] = frozenset()
    over: frozenset[Role] = frozenset()


_NOTHING: Final = RoleRights()
RIGHTS: Final[Mapping[str, RoleRights]] = MappingProxyType({
    Role.OWNER: RoleRights(frozenset(Act), frozenset(Role)),
    Role.ADMIN: RoleRights(
        frozenset({Act.SEE_MEMBERS, Act.INVITE, Act.MANAGE_MEMBERS}), frozenset({Role.ADMIN, Role.MEMBER})
    ),
    Role.MEMBER: _NOTHING,
})  # fmt: skip
CHOICES: Final = tuple((role.value, role.value.capitalize()) for role in Role)


def may(role: str, act: Act) -> bool:
    """Tell whether a role allows an act; a role of another release allows nothing.

    Args:
        role: The role.
        act: What is asked for.
    """
    return act in RIGHTS.get(role, _NOTHING).acts


def is_over(role: str, other: str) -> bool:
    """Tell whether members of ``role`` decide about those of ``other``, and may give that role.

    Args:
        role: Of who acts.
        other: Of who it is done to, or the role that is given.
    """
    return other in RIGHTS.get(role, _NOTHING).over
