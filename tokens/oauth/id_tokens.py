"""ID tokens (OpenID Connect Core §2): they tell a client who has signed in, when, and how.

They leave out what userinfo answers: a client that gets an access token with the ID token asks there (§5.4). A client
whose software does not ask there may have those claims here too, always or where its request names them.
"""

import base64
import hashlib
from collections.abc import Collection
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from django.conf import settings

from accounts.users.outputs import Account
from ironauth.infrastructure.core import clock
from tokens.access import signed_tokens
from tokens.clients import subjects
from tokens.clients.registry import Client
from tokens.keys.key_set import ALGORITHMS, ActiveKey, Family
from tokens.keys.store import key_store
from tokens.oauth import claims
from tokens.oauth.claims import PersonalClaims
from tokens.principal import ActiveOrganization
from tokens.protocol import ID_TOKEN_S, Scope, scope_set
from tokens.sign_in.proofs import MULTIPLE

TYP: Final = "JWT"
#: Authenticator assurance levels (NIST SP 800-63B): one factor; two, or a passkey that has verified its user.
AAL1, AAL2 = ACR_VALUES = ("aal1", "aal2")


class IdClaims(PersonalClaims, frozen=True, omit_defaults=True, kw_only=True):
    """The claims of one ID token; times in unix seconds. ``auth_time`` is left out where nobody knows it.

    ``sid``: the SSO session, as in logout tokens. ``amr``: RFC 8176. ``acr``: one of ``ACR_VALUES``. ``at_hash``:
    the access token it came with.
    """

    iss: str
    sub: str
    aud: str
    iat: int
    exp: int
    amr: tuple[str, ...]
    auth_time: int = 0
    acr: str = ""
    nonce: str = ""
    sid: str = ""
    at_hash: str = ""


class Hint(msgspec.Struct, frozen=True):
    """The person an ID token names, to which client, and in which SSO session; both as that client knows them."""

    sub: str
    client_id: str
    sid: UUID | None


async def mint(
    *,
    client: Client,
    account: Account,
    scope: str,
    session_id: UUID | None,
    authenticated_at: datetime,
    amr: str,
    nonce: str = "",
    access_token: str = "",
    named: str = "",
    key: ActiveKey | None = None,
    organization: ActiveOrganization | None = None,
) -> str:
    """Return a signed ID token.

    Args:
        client: The client it is for.
        account: Whose it is.
        scope: What the client was given.
        session_id: The SSO session in which the person signed in, if any.
        authenticated_at: When they did.
        amr: How, as a session keeps it.
        nonce: The authorization request's, "" for none.
        access_token: The one that is issued with it, if any.
        named: The personal claims that the request named, separated by spaces.
        key: From ``signing_key``, where that was asked before.
        organization: What the person acts for; told by the scope ``organization``, as the client has to compare it.

    Raises:
        SigningKeyMissing: (503) there is no key to sign with.
        ValueError: The scope openid is missing: nobody asked for an ID token then (§3.1.2.1).
    """
    scopes = scope_set(scope)
    if Scope.OPENID not in scopes:
        raise ValueError("an ID token needs the scope openid")
    key = key or await signing_key(client)
    now = int(clock.unix())
    personal = claims.allowed(scopes) if named or client.id_token_claims else frozenset()
    if not client.id_token_claims:
        personal &= frozenset(named.split())
    if organization is not None and Scope.ORGANIZATION in scopes:
        personal |= claims.ABOUT_ORGANIZATIONS
    said = IdClaims(
        iss=settings.IRONAUTH_ISSUER,
        sub=subjects.subject_of(client, account.id),
        aud=client.public_id,
        iat=now,
        exp=now + ID_TOKEN_S,
        auth_time=int(authenticated_at.timestamp()),
        amr=tuple(amr.split()),
        acr=acr_of(amr.split()),
        nonce=nonce,
        sid=subjects.sid_of(client, session_id) if session_id is not None else "",
        at_hash=at_hash(access_token, key.alg) if access_token else "",
        **(claims.told(account.user, personal, organization) if personal else {}),
    )
    return signed_tokens.sign(said, key, typ=TYP)


def acr_of(amr: Collection[str]) -> str:
    """Return the level of how somebody has proved who they are.

    Args:
        amr: The methods (RFC 8176).
    """
    return AAL2 if MULTIPLE in amr else AAL1


def meets(amr: Collection[str], needed: str) -> bool:
    """Return whether one of the levels that a client has to have was reached: two factors are one factor, too.

    Args:
        amr: The methods by which the person has proved who they are (RFC 8176).
        needed: Values of ``acr``, separated by spaces; "" for none.
    """
    reached = ACR_VALUES[: ACR_VALUES.index(acr_of(amr)) + 1]
    return not needed or not set(reached).isdisjoint(needed.split())


async def signing_key(client: Client) -> ActiveKey:
    """Return the key that signs this client's ID tokens now.

    Raises:
        SigningKeyMissing: (503) there is no such key.
    """
    return await key_store().signing(Family(client.id_token_alg))


def at_hash(access_token: str, alg: str) -> str:
    """Return the left half of the access token's hash, base64url, by the hash of ``alg``.

    OpenID Connect Core §3.1.3.6. Of Ed25519 that is SHA-512 (security-bar finding 4), of ES256 and RS256 SHA-256.

    Args:
        access_token: The token that the ID token is sent with.
        alg: The algorithm that signs the ID token.
    """
    digest = (hashlib.sha512 if alg in ALGORITHMS else hashlib.sha256)(access_token.encode()).digest()
    return base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()


async def read_hint(token: str) -> Hint | None:
    """Return what an ``id_token_hint`` says; None for anything but an ID token of this server.

    It may have expired (RP-Initiated Logout §2, OpenID Connect Core §3.1.2.1), and is known as long as the key that
    signed it is. It proves nothing about who sends it.

    Raises:
        Unavailable: (503) the database cannot be asked.
    """
    payload = signed_tokens.verified(token, await key_store().for_verifying(), typ=TYP, now=clock.unix())
    if payload is None or payload.get("iss") != settings.IRONAUTH_ISSUER:
        return None
    try:
        found = msgspec.convert(payload, IdClaims)
        return Hint(found.sub, found.aud, UUID(found.sid) if found.sid else None)
    except ValueError:  # msgspec's, and that of an id that is none: nothing this server ever signed
        return None
