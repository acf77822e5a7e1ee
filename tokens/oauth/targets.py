"""Which APIs a request wants tokens for, and whether it may have them (RFC 8707).

Nothing here asks the database where a request names no resource and its client is restricted to none.
"""

from typing import Final

from ironauth.infrastructure.db.unit_of_work import database
from tokens.clients.errors import InvalidRequest, InvalidScope, InvalidTarget
from tokens.clients.models import SCOPE_CHARACTERS
from tokens.clients.registry import Client
from tokens.keys.key_set import ActiveKey
from tokens.keys.store import key_store
from tokens.protocol import is_scope, scope_set, scope_text
from tokens.resources import identifiers, queries
from tokens.resources.models import ApiResource
from tokens.resources.queries import Aim, Named

_NOTHING: Final = "The APIs that the request names offer nothing of the scope."
_UNSAID: Final = "This client is restricted to several APIs: name those it wants by the parameter resource."
_NO_AGREEMENT: Final = "These APIs verify different algorithms: ask for a token for each."


async def named(client: Client, asked: str, scope: str, *, scopeless: bool = False) -> tuple[str, tuple[Named, ...]]:
    """Return what is granted of a scope, and the APIs that a request of a person's consent is for. No query, or 1.

    Args:
        client: Who asks.
        asked: The parameters ``resource``, separated by spaces.
        scope: What it asks for, as it was received; "" for none.
        scopeless: Whether none means none: what it asks for is said otherwise.

    Returns:
        No API for this server's own audience alone.

    Raises:
        InvalidTarget: One is not registered, or not for this client.
        OAuthError: As ``granted``.
    """
    wanted = asked or _default(client)
    without = scopeless and not scope
    if not wanted:
        return "" if without else granted(client, scope), ()
    found = await database().read(queries.named, wanted, allowed=client.resources)
    if found is None:
        raise InvalidTarget
    left = "" if without else granted(client, scope, found)
    if found == (None,):
        return left, ()
    return left, tuple(
        Named(identifiers.own(), "", left)
        if one is None
        else Named(one.identifier, one.name, scope_text(scope_set(left) & queries.offered([one])))
        for one in found
    )


def granted(client: Client, asked: str, apis: tuple[ApiResource | None, ...] = ()) -> str:
    """Return what is granted of a scope, as it is stored; what the client may not have is ignored (RFC 6749 §3.3).

    A request for registered APIs that names no scope asks for all that the client may have there, and the consent page
    lists that.

    Args:
        client: Whose scopes are the bound. One that staff have not made may have those of an API that is open to it.
        asked: The scope as it was received, "" for none.
        apis: What the token is for, as ``queries.named`` returns it; empty for this server's own audience.

    Raises:
        InvalidScope: A malformed one, none where it has to be said, and one of which nothing is left.
        InvalidRequest: A long one.
    """
    left = client.granted_here(asked) if not apis or None in apis else _granted_there(client, asked, apis)
    if len(left) > SCOPE_CHARACTERS:
        raise InvalidRequest(f"scope is longer than {SCOPE_CHARACTERS} characters.")
    return left


def _granted_there(client: Client, asked: str, apis: tuple[ApiResource | None, ...]) -> str:
    if asked and not is_scope(asked):
        raise InvalidScope
    may = client.scopes
    if client.api_scopes:
        may |= client.api_scopes & queries.of_self_registered(apis)
    offered = queries.offered(apis)
    left = scope_set(client.granted_of(asked, may)) & offered if asked else may & offered
    if not left:
        raise InvalidScope(_NOTHING)
    return scope_text(left)


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
