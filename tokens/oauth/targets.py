"""Which APIs a request wants tokens for, and whether it may have them (RFC 8707).

Nothing here asks the database where a request names no resource and its client is restricted to none.
"""

from typing import Final

from ironauth.infrastructure.db.unit_of_work import database
from tokens.clients.errors import InvalidScope, InvalidTarget
from tokens.clients.registry import Client
from tokens.keys.key_set import ActiveKey
from tokens.keys.store import key_store
from tokens.protocol import scope_set, scope_text
from tokens.resources import identifiers, queries
from tokens.resources.queries import Aim, Named

_UNSAID: Final = "This client is restricted to several APIs: name those it wants by the parameter resource."
_NO_AGREEMENT: Final = "These APIs verify different algorithms: ask for a token for each."


async def named(client: Client, asked: str, scope: str) -> tuple[str, tuple[Named, ...]]:
    """Return what is left of a scope, and the APIs that a request of a person's consent is for. No query, or 1.

    Args:
        client: Who asks.
        asked: The parameters ``resource``, separated by spaces.
        scope: What the client may have.

    Returns:
        No API for this server's own audience alone.

    Raises:
        InvalidTarget: One is not registered, or not for this client.
        InvalidScope: They offer nothing of the scope.
    """
    wanted = asked or _default(client)
    if not wanted:
        return scope, ()
    found = await database().read(queries.named, wanted, allowed=client.resources)
    if found is None:
        raise InvalidTarget
    left = scope if None in found else scope_text(scope_set(scope) & queries.offered(found))
    if not left:
        raise InvalidScope("The APIs that the request names offer nothing of the scope.")
    if found == (None,):
        return left, ()
    return left, tuple(
        Named(identifiers.own(), "", left)
        if one is None
        else Named(one.identifier, one.name, scope_text(scope_set(left) & queries.offered([one])))
        for one in found
    )


async def aim_of(client: Client, asked: str) -> Aim | None:
    """Return what a token is for that no grant bounds; None for this server's own audience, unsaid. No query, or 1.

    Args:
        client: Who asks.
        asked: The parameters ``resource``, separated by spaces.

    Raises:
        InvalidTarget: One is not registered, or not for this client; or they need tokens of their own.
    """
    wanted = asked or _default(client)
    if not wanted:
        return None
    found = await database().read(queries.named, wanted, allowed=client.resources)
    if found is None:
        raise InvalidTarget
    aim = queries.aim_at(found)
    if aim is None:
        raise InvalidTarget(_NO_AGREEMENT)
    return aim


async def key_for(aim: Aim | None, key: ActiveKey) -> ActiveKey:
    """Return the key that signs a token.

    Args:
        aim: What it is for.
        key: What signs the client's tokens for this server's own audience (``access_tokens.signing_key``).

    Raises:
        SigningKeyMissing: (503) there is none of the family.
    """
    return key if aim is None or aim.audience == identifiers.own() else await key_store().signing(aim.family)


def _default(client: Client) -> str:
    """Return what a request of the client is for that names nothing.

    Raises:
        InvalidTarget: It is restricted to several APIs, this server's own not among them.
    """
    if not client.resources or identifiers.own() in client.resources:
        return ""
    if len(client.resources) > 1:
        raise InvalidTarget(_UNSAID)
    return client.resources[0]
