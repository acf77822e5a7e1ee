"""What a token stands for, asked by clients (RFC 7662): one answer for everything that is not active, no oracle.

A client may ask about its own tokens, a resource server about everybody's access tokens for the APIs that it is. These
are looked up where the API itself looks. So a warm one costs no query, and a revoked one is inactive within the same
bound.

The hot lane repeats the answer to a question that a client asks again (`answer_to`). It is kept beside the cache's
entry of the token, and counts as long as that entry does, the client is unchanged, and the secret has not ended.
"""

import hashlib
import math
import secrets
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

import msgspec
from django.conf import settings
from django.core.exceptions import TooManyFieldsSent

from accounts.users.outputs import UserOut
from ironauth.infrastructure.api.parsers import form_of
from ironauth.infrastructure.cache.memory import L1Entry
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.hot_lane import Question
from tokens.access import codec
from tokens.access.codec import AccessClaims, Actor, VerifiedToken
from tokens.access.remembered import CACHE_PREFIX
from tokens.clients import authentication as client_authentication
from tokens.clients import registry as clients
from tokens.clients import subjects
from tokens.clients import tokens as client_tokens
from tokens.clients.errors import OAuthError
from tokens.clients.registry import Client
from tokens.details import lists as detail_lists
from tokens.details import queries as detail_queries
from tokens.errors import InvalidToken
from tokens.oauth.endpoint import unique_parameters
from tokens.oauth.token import shown
from tokens.principal import Principal
from tokens.protocol import Scope, scope_set, scope_text
from tokens.resources import identifiers
from tokens.sessions import authentication, refresh_token
from tokens.sessions.refresh import queries as refresh_queries
from tokens.sessions.refresh_token import ParsedRefreshToken

#: The whole answer for a token that is not active, or not the caller's to ask about (RFC 7662 §2.2).
INACTIVE = b'{"active":false}'
#: How a body begins, or goes on, whose token is read without decoding the form.
_TOKEN: Final = b"token="
#: Questions about one token that are remembered at once: one of each client that asks, as each of them spells it.
MAX_QUESTIONS: Final = 8
#: Bytes that a question takes in memory beside its answer: its digest, the place of it, and who has asked until when.
ASKED_BYTES: Final = 260
#: Bytes of a body that is looked at here: a token of 4 KiB at most, and what goes with it.
MAX_BODY: Final = 6_144
#: Of this process alone, so that nobody outside can tell what a digest begins with: the time in which one is found, or
#: not, says nothing about a secret.
_KEY: Final = secrets.token_bytes(32)


class Introspection(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an active token stands for (RFC 7662 §2.2), or ``active`` alone; times in unix seconds.

    ``sub``: who the person is, for good. ``username``: their e-mail address, for people to read, where the token has
    the scope email and the address is verified: of another one nobody knows whose it is. ``sid``: the session.
    ``token_type``: left out for a refresh token. ``auth_time`` and ``amr`` as in ID tokens, for a person's tokens.
    ``org_id``, ``org_roles``: the organization that the person acts for, and their roles there.
    """

    active: bool
    iss: str = ""
    client_id: str = ""
    sub: str = ""
    exp: int = 0
    scope: str = ""
    username: str = ""
    token_type: str = ""
    aud: str | tuple[str, ...] | None = None
    iat: int | None = None
    jti: str = ""
    sid: UUID | None = None
    auth_time: int | None = None
    amr: tuple[str, ...] = ()
    cnf: dict[str, str] | None = None
    act: Actor | None = None
    authorization_details: tuple[dict[str, Any], ...] = ()
    org_id: UUID | None = None
    org_roles: tuple[str, ...] = ()


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """A question that was answered: who asked, until when the secret counts (unix seconds), and the answer."""

    client: Client
    until: float
    answer: object


async def introspect(*, token: str, caller: Client) -> Introspection | None:
    """Return what ``token`` stands for, None when it is not active or not the caller's to ask about.

    No query for an access token this process knows, one for others and for a refresh token.

    Args:
        token: A text of any kind, not yet judged.
        caller: The client that asks, authenticated.

    Raises:
        Unavailable: (503) that cannot be asked: "inactive" would be a guess.
    """
    parsed = refresh_token.parse(token)
    if parsed is not None:
        return await _of_refresh_token(parsed, caller)
    found = await _of_access_token(token)
    return found if found is not None and _may_ask(caller, found) else None


def _may_ask(caller: Client, found: Introspection) -> bool:
    """Return whether the token is the caller's own, or for an API that the caller is."""
    if found.client_id == caller.client_id:
        return True
    audience = identifiers.listed(found.aud or ())
    return caller.resource_server and not frozenset(audience).isdisjoint(caller.serves or (identifiers.own(),))


async def _of_access_token(token: str) -> Introspection | None:
    """Return what an active access token stands for."""
    try:
        principal = authentication.known(token)
        if principal is None:
            verified = await shown.decoded(token)
            if verified.claims.sid is None:
                return await _of_client_token(token, verified)
            # The caller is told of staff who act as the person, in ``act``.
            principal = await shown.principal_of(token, verified)
            if not codec.is_own(verified.claims.aud):
                _recognise(shown.CACHE_PREFIX + principal.jti, principal, token)
        elif principal.is_bound:  # the API finds the others by their text alone, and so does the hot lane
            _recognise(CACHE_PREFIX + principal.jti, principal, token)
    except InvalidToken:
        return None
    # The principal is this very text's, which was verified: its other claims need no second look.
    return _of_person(codec.claims_of(token), principal)


def _of_person(claims: AccessClaims, principal: Principal) -> Introspection:
    return msgspec.structs.replace(
        _of_claims(claims),
        username=_username(principal.user, scope_set(claims.scope)),
        sid=claims.sid,
        auth_time=principal.authenticated_at or None,
        amr=tuple(principal.amr.split()),
    )


async def _of_client_token(token: str, verified: VerifiedToken) -> Introspection | None:
    if not await client_tokens.is_active(verified):
        return None
    key = client_tokens.CACHE_PREFIX + verified.claims.jti
    _recognise(key, token_cache().peek(key), token)
    return _of_claims(verified.claims)


def _of_claims(claims: AccessClaims) -> Introspection:
    """Return what the token itself says."""
    return Introspection(
        active=True,
        iss=claims.iss,
        client_id=claims.client_id,
        sub=str(claims.sub),
        exp=claims.exp,
        scope=claims.scope,
        token_type="DPoP" if claims.jkt else "Bearer",
        aud=claims.aud,
        iat=claims.iat,
        jti=claims.jti,
        cnf=claims.cnf,
        act=claims.act,
        authorization_details=claims.authorization_details,
        org_id=claims.org_id,
        org_roles=claims.org_roles,
    )


def _username(user: UserOut, scopes: AbstractSet[str]) -> str:
    return user.email if Scope.EMAIL in scopes and user.email_verified else ""


async def _of_refresh_token(parsed: ParsedRefreshToken, caller: Client) -> Introspection | None:
    """Return what a refresh token that would be accepted now stands for, to its own client alone."""
    session = await database().read(refresh_queries.usable, parsed=parsed, grace_s=caller.grace_s())
    if session is None or session.client_id != caller.client_id:
        return None
    scopes = scope_set(caller.allowed_of(session.scope))
    left: str | None = ""
    if session.details:
        types = caller.authorization_details_types
        left = await database().read(detail_queries.given_out, granted=session.details, asked="", allowed=types)
    return Introspection(
        active=True,
        iss=settings.IRONAUTH_ISSUER,
        client_id=session.client_id,
        sub=subjects.subject_of(caller, session.account.id),
        exp=int(session.idle_expires_at.timestamp()),
        scope=scope_text(scopes),
        username=_username(session.account.user, scopes),
        sid=session.id,
        auth_time=int(session.authenticated_at.timestamp()) or None,
        amr=tuple(session.amr.split()),
        authorization_details=detail_lists.stored(left) if left else (),
    )


def answer_to(question: Question) -> tuple[object, int | None]:
    """Return the answer to a question that a client has asked before, with the right secret; None where there is none.

    None too where the token, the client or its secret is not what it was, as far as this process has to know. The
    second is how many invalidations are known, where the token was recognised, and its answer is not there: a token
    that is asked about for the first time is seldom asked about again.
    """
    token = _token_in(question.body)
    if token is None:
        return None, None
    digest = _digest(question)  # made also where it is not needed: nobody can time whether a token is known
    entry = _entry_of(token)
    if entry is None or entry.beside is None:
        return None, None
    asked: _Asked | None = entry.beside.get(digest)
    if asked is None or clients.known(asked.client.client_id) is not asked.client or clock.unix() >= asked.until:
        return None, token_cache().mark().sequence
    return asked.answer, None


def keep(question: Question, answer: object, size: int, mark: int) -> None:
    """Keep what the view has just answered to a question it has admitted, unless that may not be given again.

    That is an answer to a client that proved itself in another way than by a secret (an assertion is used up, a
    certificate is the connection's), a signed one, and one during which anything was invalidated.

    Args:
        question: What was asked.
        answer: What is given again.
        size: Bytes that it takes in memory.
        mark: Returned by ``answer_to`` before the view began.
    """
    token = _token_in(question.body)
    entry = None if token is None else _entry_of(token)
    beside = None if entry is None else entry.beside
    if token is None or entry is None or beside is None or b"jwt" in question.accept.lower():
        return
    if token_cache().mark().sequence != mark:
        return
    parameters: dict[str, str] = {}
    with suppress(OAuthError, TooManyFieldsSent, UnicodeDecodeError):
        parameters = unique_parameters(form_of(question.body.decode()))
    shown_secret = client_authentication.shown_secret(question.authorization.decode("latin1"), parameters)
    if parameters.get("token") != token.decode("latin1") or shown_secret is None:
        return
    client = clients.known(shown_secret[0])
    secret = client_authentication.right_secret(client, shown_secret[1])
    digest = _digest(question)
    if client is None or secret is None or (len(beside) >= MAX_QUESTIONS and digest not in beside):
        return
    until = math.inf if secret.expires_at is None else secret.expires_at
    more = 0 if digest in beside else size + ASKED_BYTES
    token_cache().keep_beside(entry.alias, digest, _Asked(client, until, answer), more, sequence=mark)


def _token_in(body: bytes) -> bytes | None:
    """Return the token of a form as most clients write it; None where there is none."""
    if len(body) > MAX_BODY:
        return None
    begin = 0 if body.startswith(_TOKEN) else body.find(b"&" + _TOKEN) + 1
    if not begin and not body.startswith(_TOKEN):
        return None
    begin += len(_TOKEN)
    end = body.find(b"&", begin)
    return body[begin:] if end < 0 else body[begin:end]


def _entry_of(token: bytes) -> L1Entry | None:
    """Return the cache's entry of an access token, if it counts now."""
    cache = token_cache()
    entry = cache.find(hashlib.sha256(token).digest())
    return cache.find(_alias(token)) if entry is None else entry


def _recognise(key: str, value: object, token: str) -> None:
    """Let the hot lane find the entry by this token, which was verified, and nobody else: the API would let it in."""
    token_cache().add_alias(key, value, _alias(token.encode()))


def _alias(token: bytes) -> bytes:
    """Return what an entry is found by that the API must not find: no text has it as its plain digest."""
    return hashlib.blake2b(token, key=_KEY, digest_size=32, person=b"token").digest()


def _digest(question: Question) -> bytes:
    """Return what stands for the whole question, secret included: it opens nothing, and tells nothing."""
    return hashlib.blake2b(b"\r\n".join(question), key=_KEY, digest_size=32, person=b"question").digest()
