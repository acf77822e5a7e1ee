"""Claims about a person: which scope stands for which, and which of them a client asks for by name.

OpenID Connect Core §5.4 and §5.5. A claim that is asked for by name is told as if its scope had been asked for, where
the client may have that scope; so the person is asked for the same as ever.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from accounts.users.outputs import UserOut
from ironauth.infrastructure.core import strict_json
from tokens.clients.errors import InvalidRequest, InvalidScope
from tokens.oauth.endpoint import ORGANIZATION
from tokens.principal import ActiveOrganization
from tokens.protocol import Scope
from tokens.sessions.organizations import queries as organizations

BY_SCOPE: Final[Mapping[str, tuple[str, ...]]] = {
    Scope.PROFILE: (
        "name",
        "given_name",
        "family_name",
        "preferred_username",
        "zoneinfo",
        "locale",
        "updated_at",
    ),
    Scope.EMAIL: ("email", "email_verified"),
    Scope.ROLES: ("roles",),
    Scope.ORGANIZATION: ("org_id", "org_name", "org_slug", "org_roles"),
}
_SCOPE_OF: Final = {claim: scope for scope, claims in BY_SCOPE.items() for claim in claims}
#: Claims about the organization that a person acts for, and not about the person.
ABOUT_ORGANIZATIONS: Final = frozenset(BY_SCOPE[Scope.ORGANIZATION])
_OF_PEOPLE: Final = frozenset(_SCOPE_OF) - ABOUT_ORGANIZATIONS
_PLACES: Final = ("userinfo", "id_token")
_MALFORMED: Final = "claims is no JSON object as OpenID Connect Core, section 5.5, describes one."


class PersonalClaims(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a client may be told of the person beside who they are; what nobody asked for or said is left out."""

    name: str = ""
    given_name: str = ""
    family_name: str = ""
    preferred_username: str = ""
    zoneinfo: str = ""
    locale: str = ""
    updated_at: int = 0
    email: str = ""
    email_verified: bool | None = None
    roles: tuple[str, ...] | None = None
    org_id: str = ""
    org_name: str = ""
    org_slug: str = ""
    org_roles: tuple[str, ...] = ()


class AskedClaims(NamedTuple):
    """What the ``claims`` parameter amounts to.

    Attributes:
        scopes: The scopes that the claims belong to, sorted.
        in_id_token: The claims that the ID token is to have, sorted and separated by spaces.
        acr: The values of ``acr`` that were asked for, separated by spaces.
        needed_acr: Those of an essential ``acr``: one of them has to come (§5.5.1.1).
        sub: The person that was asked for, as the client knows them.
    """

    scopes: tuple[str, ...] = ()
    in_id_token: str = ""
    acr: str = ""
    needed_acr: str = ""
    sub: str = ""


def asked(text: str) -> AskedClaims:
    """Return what a ``claims`` parameter asks for; a claim that nobody here knows is ignored (§5.5).

    Args:
        text: The parameter as it was received.

    Raises:
        InvalidRequest: It is no JSON object, or a member of it has another form than §5.5.1 gives.
    """
    try:
        said = strict_json.loads(text)
    except strict_json.InvalidJson as error:
        raise InvalidRequest(_MALFORMED) from error
    if not isinstance(said, dict):
        raise InvalidRequest(_MALFORMED)
    userinfo, id_token = (_members(said.get(place)) for place in _PLACES)
    wanted = id_token.get("acr") or {}
    known = {claim for claim in (*userinfo, *id_token) if claim in _SCOPE_OF}
    return AskedClaims(
        scopes=tuple(sorted({str(_SCOPE_OF[claim]) for claim in known})),
        in_id_token=" ".join(sorted(known & id_token.keys())),
        acr=(acr := " ".join(_values(wanted))),
        needed_acr=acr if wanted.get("essential") is True else "",
        sub=next(iter(_values(id_token.get("sub"))), ""),
    )


def organization_of(given: Mapping[str, str], scope: str) -> str:
    """Return the organization that a request names; "" while there are none here, where the parameter means nothing.

    Args:
        given: The parameters, each once; this one among them.
        scope: What the request asks for.

    Raises:
        InvalidScope: Its scope lets the client know nothing of organizations.
        InvalidRequest: The name is longer than any.
    """
    if not organizations.is_on():
        return ""
    if not organizations.is_told(scope):
        raise InvalidScope("organization needs the scope organization: ask for that too.")
    if len(given[ORGANIZATION]) > organizations.NAME_CHARACTERS:
        raise InvalidRequest(f"organization is longer than {organizations.NAME_CHARACTERS} characters.")
    return given[ORGANIZATION]


def told(user: UserOut, names: frozenset[str], organization: ActiveOrganization | None = None) -> dict[str, Any]:
    """Return these claims about a person, by name.

    Args:
        user: The person.
        names: Names of claims; of others than those of ``BY_SCOPE`` nothing is told.
        organization: What they act for; None as a rule.
    """
    known = names & _OF_PEOPLE
    said = {name: value for name in known if (value := getattr(user, name)) not in ("", None)}
    if organization is not None:
        said |= {claim: value for claim, value in of_organization(organization).items() if claim in names}
    if "updated_at" in said:
        said["updated_at"] = int(said["updated_at"].timestamp())  # §5.1: a number, unlike the API's date
    return said


def of_organization(organization: ActiveOrganization) -> dict[str, Any]:
    """Return all claims about the organization that a person acts for, by name."""
    return {
        "org_id": str(organization.id),
        "org_name": organization.name,
        "org_slug": organization.slug,
        "org_roles": organization.roles,
    }


def allowed(scopes: frozenset[str]) -> frozenset[str]:
    """Return the claims that these scopes stand for."""
    return frozenset(claim for claim, scope in _SCOPE_OF.items() if scope in scopes)


def _members(part: object) -> Mapping[str, Any]:
    """Return the claims of one place, each with null or an object of what is wanted of it."""
    if part is None:
        return {}
    if not isinstance(part, dict) or not all(value is None or isinstance(value, dict) for value in part.values()):
        raise InvalidRequest(_MALFORMED)
    return part


def _values(wanted: Mapping[str, Any] | None) -> list[str]:
    """Return ``value`` and ``values`` of a claim, where they are texts without spaces."""
    listed = wanted.get("values", []) if wanted else []
    one = [wanted["value"]] if wanted and "value" in wanted else []
    every = [*one, *(listed if isinstance(listed, list) else [listed])]
    if not all(isinstance(value, str) and value and not value.split()[1:] for value in every):
        raise InvalidRequest(_MALFORMED)
    return every
