"""Token exchange (RFC 8693): a client that was shown a person's access token gets one to act for them elsewhere.

Delegation, never impersonation: the new token names the client, and those that acted before it, in ``act``. It may do
no more than the one that was shown, lives no longer, and ends with the same session.

A token for a registered API may be shown by the API itself and by the client that has it. What comes out is for the
same API, or fewer; for another one only where the setting ``resources`` of the client names that.
"""

from typing import Final, NamedTuple

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.access import codec
from tokens.access.codec import Actor
from tokens.clients import subjects
from tokens.clients.errors import (
    InvalidAuthorizationDetails,
    InvalidRequest,
    InvalidScope,
    InvalidTarget,
    UnauthorizedClient,
)
from tokens.errors import ActingSession, InvalidToken
from tokens.oauth import targets
from tokens.oauth.endpoint import DETAILS
from tokens.oauth.token import shown
from tokens.oauth.token.response import TokenRequest, TokenResponse, life_s
from tokens.principal import Principal
from tokens.protocol import Scope, scope_set, scope_text
from tokens.resources import identifiers
from tokens.resources.queries import Aim
from tokens.sessions import access_tokens, authentication
from tokens.sessions.access_tokens import IssuedToken

ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - RFC 8693 §3
#: Clients that may act for one another in a row; each makes the token 60 bytes longer.
MAX_ACTORS: Final = 4

log = get_logger()


class _Shown(NamedTuple):
    """What the token that was shown stands for, the client that acts with it, and the ``aud``."""

    person: Principal
    act: Actor | None
    audience: tuple[str, ...]


async def by_exchange(asked: TokenRequest) -> TokenResponse:
    """Exchange a person's access token for one with which the client acts for them. 1 query for a known token.

    Without ``scope`` it has all that both have, but not offline_access. Authorization details are not passed on: the
    person has allowed them to the client that asked.

    Raises:
        UnauthorizedClient: a public client.
        InvalidRequest: a token that is not good, not a person's, or bound to a key that was not proved, for another
            type, for an actor token, and for more than four actors in a row (RFC 8693 §2.2.2).
        InvalidTarget: an API that is not registered, or not for this client.
        InvalidScope: more than both have, and for none.
        InvalidAuthorizationDetails: any.
    """
    client = asked.client
    if client.is_public:
        raise UnauthorizedClient
    _check_types(asked)
    subject = await _shown(asked)
    aim = await _aim(asked, subject)
    scope = _scope(asked, subject.person, aim)
    key = await targets.key_for(aim, await access_tokens.signing_key(client))
    issued = access_tokens.of_person(
        subject.person,
        key,
        client_id=client.id,
        subject=subjects.subject_id(client, subject.person.id),
        scope=scope,
        life_s=life_s(client, aim),
        act=Actor(client.client_id, subject.act),
        cnf=asked.cnf,
        aim=aim,
    )
    await _tell(asked, subject.person, scope, aim)
    return _answer(asked, issued, scope)


def _check_types(asked: TokenRequest) -> None:
    """Raise for what is exchanged nowhere, or not here."""
    given = asked.parameters
    if DETAILS in given:
        raise InvalidAuthorizationDetails("A token got in exchange has no authorization details: leave them out.")
    if "actor_token" in given or "actor_token_type" in given:
        raise InvalidRequest("The client itself is who acts: leave actor_token and actor_token_type out.")
    if asked.required("subject_token_type") != ACCESS_TOKEN:
        raise InvalidRequest(f"Only access tokens of this server are exchanged: subject_token_type={ACCESS_TOKEN}.")
    if given.get("requested_token_type", ACCESS_TOKEN) != ACCESS_TOKEN:
        raise InvalidRequest(f"Only access tokens are given out: leave requested_token_type out, or {ACCESS_TOKEN}.")


async def _shown(asked: TokenRequest) -> _Shown:
    """Return what an access token stands for.

    Raises ``InvalidRequest`` for any other text, and for a token that this client, with this key, may not use.
    """
    token = asked.required("subject_token")
    try:
        person = authentication.known(token) or await _verified(token)
    except ActingSession as error:
        raise InvalidRequest("subject_token is of a member of staff who acts as the person.") from error
    except InvalidToken as error:
        raise InvalidRequest("subject_token is no access token of a person that is good now.") from error
    if person.jkt and person.jkt != asked.jkt:
        raise InvalidRequest("subject_token is bound to a key: send a proof of that key (RFC 9449).")
    if person.x5t and person.x5t != asked.x5t:
        raise InvalidRequest("subject_token is bound to a certificate: show that one (RFC 8705).")
    # The principal is this very text's, which was verified: its other claims need no second look.
    claims = codec.claims_of(token)
    audience = identifiers.listed(claims.aud)
    own = person.client_id == asked.client.client_id
    if not own and {identifiers.own(), *asked.client.serves}.isdisjoint(audience):
        raise InvalidRequest("subject_token is for another API: only that one, or who has the token, may exchange it.")
    acting, former = 0, claims.act
    while former is not None:
        acting, former = acting + 1, former.act
    if acting >= MAX_ACTORS:
        raise InvalidRequest("subject_token has been exchanged too often already.")
    return _Shown(person, claims.act, audience)


async def _verified(token: str) -> Principal:
    """Return who a token stands for that this process has not seen, whichever audience it is for."""
    principal = await shown.principal_of(token, await shown.decoded(token))
    if principal.acting is not None:
        raise ActingSession
    return principal


async def _aim(asked: TokenRequest, subject: _Shown) -> Aim | None:
    """Return what the new token is for; None for this server's own audience.

    Raises ``InvalidTarget`` for an API that is not registered or not for this client, and for one that the token shown
    is not for, unless that is for this server's own audience or the client's setting names the API.
    """
    names = " ".join(filter(None, (asked.resources, asked.parameters.get("audience"))))
    ours = identifiers.own() in subject.audience
    if not names and not ours:
        names = identifiers.joined(subject.audience)
    wanted = identifiers.asked(names)
    if not ours and not {*subject.audience, *asked.client.resources}.issuperset(wanted):
        raise InvalidTarget
    return await targets.aim_of(asked.client, names)


def _scope(asked: TokenRequest, person: Principal, aim: Aim | None) -> str:
    """Return the scope of the new token; raise ``InvalidScope`` for more than both have, or nothing."""
    both = scope_set(person.scope) & asked.client.scopes - {Scope.OFFLINE_ACCESS.value}
    both = both if aim is None or aim.offered is None else both & aim.offered
    wanted = scope_set(asked.parameters.get("scope", "")) or both
    if not wanted or not wanted <= both:
        raise InvalidScope
    return scope_text(wanted)


async def _tell(asked: TokenRequest, person: Principal, scope: str, aim: Aim | None) -> None:
    """Leave an event in the trail, and in the log; no token is given out without. It names the APIs, as a consent's."""
    details = {"client": asked.client.client_id, "from_client": person.client_id, "scope": scope.split()}
    if aim is not None and aim.audience != identifiers.own():
        details["resources"] = list(identifiers.listed(aim.audience))
    await database().write(
        audit.record, Event.TOKEN_EXCHANGED, user_id=person.id, session_id=person.session_id, details=details
    )
    log.info("token_exchanged", client_id=asked.client.client_id, session_id=str(person.session_id))


def _answer(asked: TokenRequest, issued: IssuedToken, scope: str) -> TokenResponse:
    return TokenResponse(issued.text, asked.token_type, issued.expires_in, scope, issued_token_type=ACCESS_TOKEN)
