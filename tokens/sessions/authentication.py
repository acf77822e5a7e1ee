"""DRF authentication by access token.

Warm: the token's jti finds the principal in this process. The *whole* token must be the one that was verified (a jti is
no secret), and ``exp`` is checked again. No SQL, no Redis, no thread. Cold: the signature and every
claim are verified, then the session is confirmed through the cache, whose staleness bound is the revocation delay; or
another worker vouches for both (``access.remembered``). A token is warm at once in the process that issued it.
"""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import msgspec
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from accounts.access.scopes import SCOPES
from accounts.users.invariants import sub_tag
from ironauth.infrastructure.cache.two_level import Loaded, ReadMark, token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from tokens.access import codec
from tokens.access.codec import AccessClaims, VerifiedToken
from tokens.access.credentials import access_credential
from tokens.access.remembered import CACHE_PREFIX, recognised
from tokens.clients import dpop, subjects
from tokens.clients import registry as clients
from tokens.clients.administration import machines
from tokens.clients.administration.machines import ClientsOwnToken
from tokens.clients.certificates import presented as certificates
from tokens.clients.models import client_tag
from tokens.errors import (
    ActingSession,
    DelegatedToken,
    InsufficientScope,
    InvalidToken,
    UnknownKey,
    UnprovedToken,
    api_challenge,
)
from tokens.keys.key_set import kid_tag
from tokens.keys.store import key_store
from tokens.principal import Principal, organization_tag
from tokens.sessions.acting import units as acting
from tokens.sessions.ends import of_clients
from tokens.sessions.models import FIRST_PARTY_CLIENT, FIRST_PARTY_SCOPE, sid_tag
from tokens.sessions.organizations import queries as organizations
from tokens.sessions.queries import LiveSession


class AccessTokenAuthentication(BaseAuthentication):
    """``request.user`` and ``request.auth`` become a ``Principal`` that may do what its person may do here.

    A token that another application got for less is refused: what it may do, it may do elsewhere. A view has
    ``token_scope = None`` whose answer says no more than any token's scope; ``takes_proofs = False`` if it cannot tell
    which request a proof is for; ``takes_delegated = False`` when its answer is for the person alone.

    A view of staff has ``scope_of(request)``: the scope of the administration that covers what is asked. Clients that
    administer may use it, for a person or by themselves (``clients.administration.machines``).

    A session in which a member of staff acts as the person (``acting``) is refused by every view for every method but
    those of its ``while_acting``, and by every other reader of tokens that does not ask for such sessions.
    """

    #: The detail of the error for a request without a credential.
    missing_credential = "No access token was found: send it as Authorization: Bearer <token>, or sign in with cookies."

    async def authenticate(self, request: Request) -> tuple[Principal, Principal] | None:  # type: ignore[override] # async
        """Return the principal twice, None without a credential; for acts of staff it may be a ``Machine``.

        Raises ``InvalidToken`` (401) and whatever ``access.credentials.access_credential`` raises;
        ``InsufficientScope`` and ``DelegatedToken`` (403); ``Unavailable`` (503) when a new token's session cannot be
        looked up.
        """
        http = request._request  # noqa: SLF001 - DRF's request only delegates, slowly
        header = http.META.get("HTTP_AUTHORIZATION", "")
        if header[:7] == "Bearer " and "HTTP_COOKIE" not in http.META:
            # A text that was verified before needs no look at its alphabet, and there is no second credential.
            principal = _by_digest(digest_of(header[7:]))
            if principal is not None:
                return _admitted(principal, request)
        credential = access_credential(http)
        if credential is None:
            return None
        try:
            if credential.with_proof:
                if not getattr(request.parser_context["view"], "takes_proofs", True):
                    raise UnprovedToken("view")
                return _admitted(await by_proof(http, credential.token), request)
            return _admitted(await by_text(credential.token, of_staff_too=True, request=http), request)
        except ClientsOwnToken as found:
            machine = await machines.admitted(http, credential, found.claims, scope=_administers(request))
            return cast("tuple[Principal, Principal]", (machine, machine))

    def authenticate_header(self, request: Request) -> str:
        """Return the challenge of a request without credential (RFC 6750 §3)."""
        return api_challenge()


def _admitted(principal: Principal, request: Request) -> tuple[Principal, Principal]:
    """Return the principal twice; raise ``InsufficientScope`` when its token was not given for what is asked.

    Raises ``DelegatedToken`` where one got in exchange would change an account, and by that outlive the exchange, and
    ``ActingSession`` for what the view has not declared open to staff who act as the person.
    """
    if principal.acting is not None:
        asked = "GET" if request.method == "HEAD" else request.method
        if asked not in getattr(request.parser_context["view"], "while_acting", ()):
            raise ActingSession
    held = principal.scope.split()
    if principal.delegated or FIRST_PARTY_SCOPE not in held:
        view, administered = request.parser_context["view"], _administers(request)
        if administered in principal.administration:
            return principal, principal
        wanted = getattr(view, "token_scope", FIRST_PARTY_SCOPE)
        if wanted is not None and not {wanted, FIRST_PARTY_SCOPE}.intersection(held):
            raise InsufficientScope(administered or wanted)
        may = request.method in SAFE_METHODS and getattr(view, "takes_delegated", True)
        if principal.delegated and wanted == FIRST_PARTY_SCOPE and not may:
            raise DelegatedToken
    return principal, principal


def _administers(request: Request) -> str | None:
    """Return the scope of the administration that covers what is asked; None where that is no act of staff."""
    scope_of = getattr(request.parser_context["view"], "scope_of", None)
    return scope_of(request) if scope_of is not None else None


async def by_text(token: str, *, of_staff_too: bool = False, request: HttpRequest | None = None) -> Principal:
    """Return the principal of a token that any holder may use, or the one who shows its certificate.

    Args:
        token: The text.
        of_staff_too: As in ``verify``.
        request: What the token came with; None where nothing vouches for a certificate.

    Raises:
        UnprovedToken: (401) it is bound to a key; ``UncertifiedToken`` to a certificate that was not shown.
        ActingSession: (403) as ``verify``.
        InvalidToken: (401) as ``verify``, and ``Unavailable`` (503).
    """
    principal = _by_digest(digest_of(token)) or await verify(token, of_staff_too=of_staff_too)
    if principal.jkt:
        raise UnprovedToken("bound")
    if principal.x5t:
        certificates.require_shown(request, principal.x5t)
    return principal


async def by_proof(request: HttpRequest, token: str) -> Principal:
    """Return the principal of a token that came with a proof of its key for this very request, and use up the proof.

    1 query more than ``verify``.

    Args:
        request: The request with the proof in its DPoP header.
        token: The access token, not yet judged.

    Raises:
        InvalidProof: (401) the proof is not good.
        UnprovedToken: (401) it is of another key.
        InvalidToken: (401) as ``verify``, and ``Unavailable`` (503).
    """
    proof = dpop.verified(request, token=token)
    principal = known(token) or await verify(token)
    if principal.jkt != proof.jkt:
        raise UnprovedToken("key")
    await dpop.require_agreed(proof, principal.client_id)
    await dpop.consume(proof)
    return principal


def peek(token: str) -> Principal | None:
    """Return the principal of a token this process verified before and may still trust; synchronous, no I/O.

    None for a token that is bound to a key or a certificate: its text alone lets nobody in, here or in the hot lane.
    """
    digest = digest_of(token)
    principal = _by_digest(digest)
    if principal is not None:
        return principal
    found = _in_cache(token, digest)
    return found if found is not None and not found.is_bound else None


def known(token: str) -> Principal | None:
    """Return the principal of a token this process verified before, also of a bound one; it lets nobody in. No I/O."""
    return _by_digest(digest := digest_of(token)) or _in_cache(token, digest)


def _in_cache(token: str, digest: bytes) -> Principal | None:
    """Return the principal that the cache has for this very text, found by the id in it."""
    try:
        jti = codec.payload_of(token).get("jti")  # it finds the token in the cache, and is trusted for nothing else
    except InvalidToken:
        return None
    found = token_cache().peek(f"{CACHE_PREFIX}{jti}")
    if isinstance(found, Principal) and hmac.compare_digest(found.digest, digest) and clock.unix() < found.exp:
        if not found.is_bound:  # found without decoding its claims (3 µs) next time
            token_cache().add_alias(f"{CACHE_PREFIX}{jti}", found, digest)
        return found
    return None


def digest_of(token: str) -> bytes:
    """Return what stands for the token in memory: it opens nothing."""
    return hashlib.sha256(token.encode()).digest()


def _by_digest(digest: bytes) -> Principal | None:
    """Return the principal of a token recognised before, if it may still be used."""
    entry = token_cache().find(digest)
    return None if entry is None else cast("Principal", entry.value)


def answers_of(token: bytes) -> dict[Any, Any] | None:
    """Return what the hot lane has recorded for a token that may be used now; None for one that `peek` does not know.

    The very same dict while the token stands for the same principal, and none from the instant on that it ends.
    """
    digest = hashlib.sha256(token).digest()
    entry = token_cache().find(digest)
    if entry is None and peek(token.decode("ascii")) is not None:
        entry = token_cache().find(digest)
    return None if entry is None else entry.beside


async def verify(token: str, verified: VerifiedToken | None = None, *, of_staff_too: bool = False) -> Principal:
    """Verify everything about a token, confirm its session, and remember the result.

    A token of staff who act as a person is never remembered: each use asks the row, and whether they still may.

    Args:
        token: The text.
        verified: What ``decoded`` has said about it, if it was asked already.
        of_staff_too: Whether the caller knows what to do where a member of staff acts as the principal.

    Raises:
        InvalidToken: (401) the token is not good, or its session is over.
        ActingSession: (403) a member of staff acts as the person, and the caller has not asked for such.
        Unavailable: (503) the session cannot be looked up.
    """
    digest = digest_of(token)
    if asked := verified is None:
        if isinstance(found := await recognised(token, digest), Principal):
            return found
        verified = found or await decoded(token)

    async def load() -> Loaded[Principal]:
        return await confirmed(verified, digest)

    claims = verified.claims
    if claims.sid is None:  # a client's own token: nobody is behind it
        raise ClientsOwnToken(claims)
    if claims.staff is not None:
        if not of_staff_too:
            raise ActingSession
        return await _acted_as(claims, verified.kid, digest)
    tags = (sid_tag(claims.sid), sub_tag(await user_of(claims)))
    principal = await token_cache().fetch(CACHE_PREFIX + claims.jti, load, Principal, tags=tags, asked=asked)
    if not hmac.compare_digest(principal.digest, digest):
        principal = (await load()).value  # another genuine token of the same jti: not ours to make, but not this one
    # The key may have been dropped while the session was looked up, after the drop had emptied the cache.
    if not key_store().holds(verified.kid):
        token_cache().drop(kid_tag(verified.kid))
        raise InvalidToken("kid")
    return principal


async def decoded(token: str, decode: Callable[..., VerifiedToken] = codec.decode) -> VerifiedToken:
    """Return what the token says, whether or not its session lives; of an unknown key, by a newer key set.

    Args:
        token: The text.
        decode: What judges it: only the provider takes tokens for other audiences than ours.

    Raises:
        InvalidToken: (401) it is not ours.
    """
    store = key_store()
    try:
        return decode(token, await store.for_verifying(), now=clock.unix())
    except UnknownKey:
        newer = await store.for_unknown_kid()
        if newer is None:
            raise
        return decode(token, newer, now=clock.unix())


async def confirmed(verified: VerifiedToken, digest: bytes) -> Loaded[Principal]:
    """Return the principal of a verified token whose session lives. 1 query, 2 of organizations; 2 more for clients.

    Args:
        verified: What the token says.
        digest: Of its text.

    Raises:
        InvalidToken: (401) the session is over.
    """
    claims = verified.claims
    if claims.sid is None:
        raise InvalidToken("session")
    live = await database().read(organizations.live_account, claims, user_id=await user_of(claims))
    if live is None:
        raise InvalidToken("session")
    await of_clients.require_client(live.client_id, claims)
    loaded = _loaded(claims, verified.kid, live, digest)
    if not _may_administer(claims):
        return loaded
    administration = await machines.administration_of(claims)
    return replace(loaded, value=msgspec.structs.replace(loaded.value, administration=administration))


def _may_administer(claims: AccessClaims) -> bool:
    """Return whether the token has scopes that let its client administer, if that may."""
    return claims.client_id != FIRST_PARTY_CLIENT and not SCOPES.keys().isdisjoint(claims.scope.split())


async def _acted_as(claims: AccessClaims, kid: str, digest: bytes) -> Principal:
    """Return the principal a member of staff acts as; raise ``InvalidToken`` when that is over. 6 queries at most.

    A session whose actor may no longer act ends, for good.
    """
    if claims.sid is None or claims.client_id != FIRST_PARTY_CLIENT:
        raise InvalidToken("act")
    found = await database().read(acting.look, session_id=claims.sid, user_id=claims.sub, epoch=claims.epoch)
    if found is None or str(found.live.actor_id) != claims.staff:
        raise InvalidToken("session")
    if found.by is None:
        await database().write(acting.lose, session_id=claims.sid, user_id=claims.sub, actor_id=found.live.actor_id)
        raise InvalidToken("session")
    if not key_store().holds(kid):
        raise InvalidToken("kid")
    return msgspec.structs.replace(_loaded(claims, kid, found.live, digest).value, acting=found.by)


async def user_of(claims: AccessClaims) -> UUID:
    """Return whose the token is.

    Raises:
        InvalidToken: (401) a client of it is not, or no longer, one of ours.
    """
    if claims.client_id == FIRST_PARTY_CLIENT:
        return claims.sub
    # A client that acts for another one acts as long as that one may.
    client, *others = [await clients.find(name) for name in claims.holders]
    if client is None or None in others:
        raise InvalidToken("client")
    return subjects.user_of(client, claims.sub)


def keep_issued(token: str, claims: AccessClaims, *, kid: str, live: LiveSession, mark: ReadMark) -> None:
    """Let a token this process has just made be used without verifying it first: it need not be asked what it says.

    Nothing is kept when the key or the session was invalidated since ``mark``. Its first use takes 0.1 ms, not 1.5.

    Args:
        token: The text.
        claims: What it says.
        kid: The key that signed it.
        live: Its session.
        mark: Taken before the key was chosen and the session was read or stored.
    """
    if not key_store().holds(kid) or claims.sid is None or claims.staff is not None or _may_administer(claims):
        return
    token_cache().put_if_current(CACHE_PREFIX + claims.jti, _loaded(claims, kid, live, digest_of(token)), mark)


def _loaded(claims: AccessClaims, kid: str, live: LiveSession, digest: bytes) -> Loaded[Principal]:
    """Return who a token of a session stands for, and what ends that."""
    if claims.sid is None:
        raise ValueError("a token without a session stands for nobody")
    principal = Principal(
        user=live.account.user,
        subject=claims.sub,
        session_id=claims.sid,
        client_id=claims.client_id,
        scope=claims.scope,
        jti=claims.jti,
        exp=claims.exp,
        epoch=claims.epoch,
        digest=digest,
        authenticated_at=int(live.authenticated_at.timestamp()),
        amr=live.amr,
        jkt=claims.jkt,
        x5t=claims.x5t,
        delegated=claims.act is not None and claims.staff is None,
        organization=live.organization,
    )
    tags: tuple[str, ...] = (sid_tag(claims.sid), sub_tag(live.account.id), kid_tag(kid))
    tags = (*tags, *map(organization_tag, filter(None, (claims.org_id,))))
    if claims.client_id != FIRST_PARTY_CLIENT:  # one got in exchange ends with the client of its session, too
        tags = (*tags, *map(client_tag, dict.fromkeys((*claims.holders, live.client_id))))
    return Loaded(value=principal, tags=tags, expires_at=float(claims.exp))
