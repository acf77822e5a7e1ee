"""What tokens may be for: asked inside the units of work that use a grant up, and of requests. One query each.

Nothing here is entered for a grant, a client and a request that name no resource.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from tokens.keys.key_set import Family
from tokens.protocol import Scope, scope_set, scope_text
from tokens.resources import identifiers
from tokens.resources.models import ApiResource

#: Scopes that every resource's tokens may have: they say who the person is, and how long the client may ask.
ABOUT_THE_PERSON: Final = frozenset(scope.value for scope in Scope if scope is not Scope.ACCOUNT)


class Aim(NamedTuple):
    """What an access token is made for.

    Attributes:
        audience: Its ``aud``: one text, or several.
        offered: The scopes that it may have; None for all of its grant's.
        family: What signs it.
        life_s: Seconds, at most; None where the resources do not say.
    """

    audience: str | tuple[str, ...]
    offered: frozenset[str] | None
    family: Family
    life_s: int | None

    def scope_of(self, scope: str) -> str:
        """Return what the token may have of a scope."""
        return scope if self.offered is None else scope_text(scope_set(scope) & self.offered)


class Named(NamedTuple):
    """A resource that a request names: ``scope``, what the request asks for of what it offers."""

    identifier: str
    name: str
    scope: str


def named(asked: str, *, allowed: Collection[str]) -> tuple[ApiResource | None, ...] | None:
    """Return the active resources of a list, in its order, None standing for this server's own API.

    Args:
        asked: Identifiers, separated by spaces.
        allowed: The identifiers that the client may name; empty for all.

    Returns:
        None where one is not registered, not active or not allowed, and for more than ``MAX_ASKED``.
    """
    wanted = identifiers.asked(asked)
    if (
        not wanted or len(wanted) > identifiers.MAX_ASKED or not "".join(wanted).isprintable()
    ):  # PostgreSQL takes no NUL
        return None
    if allowed and not set(wanted) <= set(allowed):
        return None
    rows = {row.identifier: row for row in ApiResource.objects.filter(identifier__in=wanted, active=True)}
    if not set(wanted) <= rows.keys() | {identifiers.own()}:
        return None
    return tuple(rows.get(one) for one in wanted)


def aimed(*, granted: str, asked: str, allowed: Collection[str]) -> Aim | None:
    """Return what a token of a grant is made for.

    Args:
        granted: The resources that the grant is for, separated by spaces; "" for this server's own API.
        asked: Those that the request names: less than the grant's, or "" for all of them.
        allowed: The identifiers that the client may name; empty for all.

    Returns:
        None where the grant is for others, one is not registered or not active any more, the client may not have it,
        or they do not agree on what signs a token.
    """
    given = identifiers.asked(granted) or (identifiers.own(),)
    if not set(identifiers.asked(asked)) <= set(given):
        return None
    found = named(asked or identifiers.joined(given), allowed=allowed)
    return None if found is None else aim_at(found)


def aim_at(resources: tuple[ApiResource | None, ...]) -> Aim | None:
    """Return what one token for all of these is like; None where they do not agree on what signs it.

    Args:
        resources: As ``named`` returns them.
    """
    families = {Family.ED25519 if one is None else Family(one.signing_alg) for one in resources}
    if len(families) != 1:
        return None
    audience = tuple(identifiers.own() if one is None else one.identifier for one in resources)
    lives = [one.access_token_s for one in resources if one is not None and one.access_token_s is not None]
    return Aim(
        audience=audience[0] if len(audience) == 1 else audience,
        offered=None if None in resources else offered(resources),
        family=families.pop(),
        life_s=min(lives, default=None),
    )


def offered(resources: Iterable[ApiResource | None]) -> frozenset[str]:
    """Return the scopes that tokens for these may have, of resources that are registered."""
    return ABOUT_THE_PERSON.union(*(one.scopes for one in resources if one is not None))


def names_of(given: Collection[str]) -> dict[str, str]:
    """Return what those of these identifiers are called that are registered. One query."""
    return dict(ApiResource.objects.filter(identifier__in=given).values_list("identifier", "name"))


def of_self_registered(resources: Iterable[ApiResource | None]) -> frozenset[str]:
    """Return the scopes that clients which staff have not made may have at these APIs, in addition to their own.

    A scope that another one of them has too, and keeps from such clients, is not among them: the token is for all.

    Args:
        resources: As ``named`` returns them; nothing where this server's own API is among them.
    """
    found = list(resources)
    if None in found:
        return frozenset()
    closed = {scope for one in found if one is not None and not one.for_self_registered for scope in one.scopes}
    return (
        frozenset(scope for one in found if one is not None and one.for_self_registered for scope in one.scopes)
        - closed
    )


def open_to_self_registered() -> frozenset[str]:
    """Return the scopes of all APIs that are open to clients which staff have not made. One query."""
    rows = ApiResource.objects.filter(for_self_registered=True, active=True)
    return frozenset(scope for scopes in rows.values_list("scopes", flat=True) for scope in scopes)


def all_active(audience: Iterable[str]) -> bool:
    """Return whether each of these is registered and active, or this server's own API. One query."""
    wanted = set(audience) - {identifiers.own()}
    return ApiResource.objects.filter(identifier__in=wanted, active=True).count() == len(wanted)


def unregistered(given: Iterable[str]) -> list[str]:
    """Return those identifiers that are neither registered nor this server's own. One query."""
    wanted = list(dict.fromkeys(given))
    known = set(ApiResource.objects.filter(identifier__in=wanted).values_list("identifier", flat=True))
    return [one for one in wanted if one not in known | {identifiers.own()}]
