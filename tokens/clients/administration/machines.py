"""Clients that administer: with a token of their own, or with that of a person who has signed in with them.

Which scopes count is read from the client as it is now, so that what is taken from it is gone as soon as a disabled
client is.
"""

from typing import Literal
from uuid import UUID

import msgspec
from django.http import HttpRequest

from accounts.access.scopes import SCOPES
from tokens.access.codec import AccessClaims
from tokens.access.credentials import Credential
from tokens.clients import dpop
from tokens.clients import registry as clients
from tokens.clients.certificates import presented as certificates
from tokens.errors import InsufficientScope, InvalidToken, NotAdministering, UnprovedToken
from tokens.protocol import scope_set


class ClientsOwnToken(InvalidToken):
    """A good token that a client has for itself (RFC 6749 §4.4). Most readers of tokens want a person behind it."""

    def __init__(self, claims: AccessClaims) -> None:
        super().__init__("session")
        self.claims = claims


class Machine(msgspec.Struct, frozen=True):
    """A client that calls an act of staff with a token of its own; stands in for Django's user on the API lane.

    Attributes:
        id: The client's id.
        scope: What the token allows.
        authenticated_at: When the client proved its secret or key to get the token; unix seconds.
    """

    id: UUID
    scope: str
    authenticated_at: int
    session_id: None = None
    acting: None = None
    is_authenticated: Literal[True] = True
    is_anonymous: Literal[False] = False
    is_active: Literal[True] = True
    is_staff: Literal[False] = False
    is_machine: Literal[True] = True

    @property
    def pk(self) -> UUID:
        """The client's id, under Django's name for it."""
        return self.id


async def admitted(request: HttpRequest, credential: Credential, claims: AccessClaims, *, scope: str | None) -> Machine:
    """Return the machine behind a verified token. No query, 2 for a client not seen before; 1 more with a proof.

    Args:
        request: The request, which may have a proof in its DPoP header.
        credential: The token as it was sent.
        claims: What the token says.
        scope: The scope that covers what is asked; None where that is no act of staff.

    Raises:
        InvalidToken: (401) It is no act of staff, the client is disabled, or the token came as a browser's cookie.
        UncertifiedToken: (401) The token is bound to a certificate that was not shown.
        UnprovedToken: (401) The token is bound to a key that was not proved, or is not bound and a proof came with it.
        InvalidProof: (401) The proof is not good, or was used before.
        NotAdministering: (403) Nobody has let the client administer.
        InsufficientScope: (403) The token, or by now the client, has not the scope.
    """
    client = await clients.find(claims.client_id)
    if scope is None or client is None or claims.sub != client.id or claims.act is not None or credential.from_cookie:
        raise InvalidToken("session")
    await _prove(request, credential, claims)
    if not client.administers:
        raise NotAdministering
    if scope not in scope_set(claims.scope) & client.scopes:
        raise InsufficientScope(scope)
    return Machine(id=client.id, scope=claims.scope, authenticated_at=claims.iat)


async def _prove(request: HttpRequest, credential: Credential, claims: AccessClaims) -> None:
    """Raise ``UnprovedToken`` unless the token is bound to no key, or its key was proved for this very request.

    Raises ``UncertifiedToken`` for one that is bound to a certificate which the request has not shown.
    """
    if not credential.with_proof:
        if claims.jkt:
            raise UnprovedToken("bound")
        if claims.x5t:
            certificates.require_shown(request, claims.x5t)
        return
    proof = dpop.verified(request, token=credential.token)
    if proof.jkt != claims.jkt:
        raise UnprovedToken("key")
    await dpop.require_agreed(proof, claims.client_id)
    await dpop.consume(proof)


async def administration_of(claims: AccessClaims) -> frozenset[str]:
    """Return the scopes of the administration that a person's token has; none for one that was got in exchange.

    Args:
        claims: What the token of an OAuth client says.
    """
    if claims.act is not None:
        return frozenset()
    asked = scope_set(claims.scope) & SCOPES.keys()
    client = await clients.find(claims.client_id) if asked else None
    return asked & client.scopes if client is not None and client.administers else frozenset()
