"""What the API says about people and roles; the field order is the contract's."""

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from accounts.users.models import User
    from accounts.users.paging import UserRow


class UserOut(msgspec.Struct, frozen=True, gc=False):
    """A person, as the person and staff see it; ``locale`` is the language they have chosen, "" for none."""

    id: uuid.UUID
    email: str
    name: str
    is_active: bool
    is_staff: bool
    is_superuser: bool
    email_verified: bool
    roles: tuple[str, ...]
    created_at: datetime
    # Entries of caches that the release before this one wrote have none of these.
    preferred_username: str = ""
    given_name: str = ""
    family_name: str = ""
    zoneinfo: str = ""
    locale: str = ""
    updated_at: datetime | None = None


class ActingOut(msgspec.Struct, frozen=True, gc=False):
    """The member of staff who is signed in as a person for support, and when that ends at the latest."""

    id: uuid.UUID
    email: str
    name: str
    until: datetime


class MeOut(UserOut, frozen=True):
    """The person behind a request; ``acting``: who of staff is signed in as them, null for the person themselves."""

    acting: ActingOut | None = None


class Account(msgspec.Struct, frozen=True):
    """A user with the epoch tokens are bound to; never leaves the server."""

    id: uuid.UUID
    session_epoch: int
    user: UserOut


class LanguageOut(msgspec.Struct, frozen=True):
    """The language a person has chosen, a code; "" where the browser's language is used."""

    language: str


class UserPage(msgspec.Struct, frozen=True):
    """One page of users; ``next`` and ``previous`` are addresses, null at the ends."""

    results: tuple[UserOut, ...]
    next: str | None
    previous: str | None


class RoleOut(msgspec.Struct, frozen=True):
    """A role (Django group) and the permissions it grants, as ``app_label.codename``."""

    name: str
    permissions: tuple[str, ...]


class RolePage(msgspec.Struct, frozen=True):
    """One page of roles; ``next`` and ``previous`` are addresses, null at the ends."""

    results: tuple[RoleOut, ...]
    next: str | None
    previous: str | None


class ExportOut(msgspec.Struct, frozen=True):
    """Everything held about a person, by section; ``incomplete`` names the sections that have more rows than given."""

    id: uuid.UUID
    made_at: datetime
    sections: dict[str, list[dict[str, Any]]]
    incomplete: tuple[str, ...]


#: The columns `account_of` expects, as paths from a user; the last one repeats the row for each role.
ACCOUNT_COLUMNS: Final = (
    "id",
    "session_epoch",
    "email",
    "name",
    "is_active",
    "is_staff",
    "is_superuser",
    "email_verified_at",
    "created_at",
    "preferred_username",
    "given_name",
    "family_name",
    "zoneinfo",
    "language",
    "updated_at",
    "groups__name",
)


def account_of(rows: Sequence[Sequence[Any]]) -> Account:
    """Return the account that ``ACCOUNT_COLUMNS`` of one user describe: one row, or one for each role."""
    user_id, epoch, email, name, is_active, is_staff, is_superuser, verified_at, created_at, *profile, _ = rows[0]
    user = UserOut(
        user_id,
        email,
        name,
        is_active,
        is_staff,
        is_superuser,
        verified_at is not None,
        tuple(sorted(row[-1] for row in rows if row[-1] is not None)),
        created_at,
        *profile,
    )
    return Account(id=user_id, session_epoch=epoch, user=user)


def me_out(user: UserOut, acting: ActingOut | None) -> MeOut:
    """Return what the API says about the person behind a request.

    Args:
        user: The person.
        acting: Who of staff is signed in as them, None for the person themselves.
    """
    return MeOut(**msgspec.structs.asdict(user), acting=acting)


def user_out(user: "User | UserRow", roles: Iterable[str]) -> UserOut:
    """Return what the API says about ``user``; the caller brings the role names, so nothing is queried here.

    Args:
        user: A user, or a row of a page of users.
        roles: The names of the user's roles, in any order.
    """
    return UserOut(
        id=user.id,
        email=user.email,
        name=user.name,
        is_active=user.is_active,
        is_staff=user.is_staff,
        is_superuser=user.is_superuser,
        email_verified=user.email_verified_at is not None,
        roles=tuple(sorted(roles)),
        created_at=user.created_at,
        preferred_username=user.preferred_username,
        given_name=user.given_name,
        family_name=user.family_name,
        zoneinfo=user.zoneinfo,
        locale=user.language,
        updated_at=user.updated_at,
    )


def account(user: "User", roles: Iterable[str]) -> Account:
    """Return ``user`` with its session epoch.

    Args:
        user: The user as stored.
        roles: The names of the user's roles, in any order.
    """
    return Account(id=user.id, session_epoch=user.session_epoch, user=user_out(user, roles))
