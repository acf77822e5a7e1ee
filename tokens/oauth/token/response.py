"""What a request to the token endpoint is, and its answer: what all grants share."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Literal, NamedTuple, NoReturn

import msgspec

from accounts.lockout import rate_limits
from ironauth.infrastructure.cache.two_level import ReadMark
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.access import codec
from tokens.clients import subjects
from tokens.clients.errors import InvalidGrant, InvalidRequest
from tokens.clients.registry import Client
from tokens.details import lists as detail_lists
from tokens.keys.key_set import ActiveKey
from tokens.oauth import details as authorization_details
from tokens.oauth import id_tokens, targets
from tokens.oauth.endpoint import DETAILS, RESOURCE
from tokens.protocol import GrantType, Scope, scope_set
from tokens.resources.queries import Aim
from tokens.sessions import access_tokens
from tokens.sessions.client_sessions import access_token_s
from tokens.sessions.queries import OpenedSession


class TokenRequest(NamedTuple):
    """A request to the token endpoint whose client has proved who it is.

    Attributes:
        client: The client.
        parameters: The parameters of the form, without empty ones.
        context: Where the request comes from.
        jkt: The thumbprint of the key that the client has proved (RFC 9449); "" for none.
        x5t: The thumbprint of the certificate that its tokens are bound to (RFC 8705); "" for none. Never both.
    """

    client: Client
    parameters: Mapping[str, str]
    context: ClientContext
    jkt: str = ""
    x5t: str = ""

    def required(self, name: str) -> str:
        """Return a parameter; raise ``InvalidRequest`` when it is missing."""
        value = self.parameters.get(name)
        if value is None:
            raise InvalidRequest(f"The parameter {name} is missing.")
        return value

    @property
    def resources(self) -> str:
        """The APIs that the access token is to be for (RFC 8707), separated by spaces; "" where none is named."""
        return self.parameters.get(RESOURCE, "")

    @property
    def details(self) -> str:
        """The authorization details that the access token is to have (RFC 9396 §6), as they are stored; "" for none.

        Raises ``InvalidAuthorizationDetails`` for what is no list of them.
        """
        given = self.parameters.get(DETAILS)
        return authorization_details.read(given) if given is not None else ""

    @property
    def token_type(self) -> Literal["Bearer", "DPoP"]:
        """How the access token of the answer is used."""
        return "DPoP" if self.jkt else "Bearer"

    @property
    def thumbprint(self) -> str:
        """What stands for the key, or the certificate: no text is the digest of one of each."""
        return self.jkt or self.x5t

    @property
    def cnf(self) -> dict[str, str] | None:
        """What its access tokens say they are bound to; None for nothing."""
        return codec.confirmation(jkt=self.jkt, x5t=self.x5t)

    @property
    def session_jkt(self) -> str:
        """What a new session is bound to: a public client has no other proof (RFC 9449 §5, RFC 8705 §4)."""
        return self.thumbprint if self.client.is_public else ""


class TokenResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tokens (RFC 6749 §5.1, OpenID Connect Core §3.1.3.3); ``expires_in``: seconds the access token lives.

    ``scope`` is told even when nothing is left of it: left out, it would mean "as asked for".
    ``issued_token_type``: of an exchange (RFC 8693 §2.2.1). ``authorization_details``: as granted (RFC 9396 §7).
    """

    access_token: str
    token_type: Literal["Bearer", "DPoP"]
    expires_in: int
    scope: str
    refresh_token: str = ""
    id_token: str = ""
    issued_token_type: str = ""
    authorization_details: tuple[dict[str, Any], ...] = ()


async def id_key_for(client: Client, scopes: AbstractSet[str]) -> ActiveKey | None:
    """Return the key that signs the ID token; None where even all of ``scopes`` would ask for no ID token.

    It is asked for before the code is used up, when it is not known yet which of them the code was given for.

    Args:
        client: The client, which chose the algorithm.
        scopes: All scopes that may be granted.

    Raises:
        SigningKeyMissing: (503) there is no key to sign with.
    """
    return await id_tokens.signing_key(client) if Scope.OPENID in scopes else None


def life_s(client: Client, aim: Aim | None) -> int:
    """Return how long an access token of the client lives that is for this, in seconds.

    Args:
        client: The client.
        aim: What the token is for; None for this server's own audience.
    """
    own = access_token_s(client)
    return own if aim is None or aim.life_s is None else min(own, aim.life_s)


async def answer(
    asked: TokenRequest,
    opened: OpenedSession,
    key: ActiveKey,
    mark: ReadMark,
    *,
    scope: str,
    nonce: str = "",
    named: str = "",
    id_key: ActiveKey | None = None,
    aim: Aim | None = None,
    details: str = "",
) -> TokenResponse:
    """Return the tokens of a session's grant.

    Args:
        asked: The request to the token endpoint.
        opened: The session.
        key: What signs the access token.
        mark: Taken before the key was chosen and the session was read or stored.
        scope: What the access token may do.
        nonce: The authorization request's, "" for none.
        named: The personal claims that the authorization request named for the ID token.
        id_key: What signs the ID token, if it was looked up before.
        aim: What the access token is for; None for this server's own audience.
        details: Its authorization details, as they are stored; "" for none.
    """
    client = asked.client
    if aim is not None:
        scope, key = aim.scope_of(scope), await targets.key_for(aim, key)
    subject = subjects.subject_id(client, opened.account.id)
    access = access_tokens.of_session(
        opened,
        key,
        mark,
        subject=subject,
        scope=scope,
        life_s=life_s(client, aim),
        cnf=asked.cnf,
        aim=aim,
        details=details,
    )
    id_token = ""
    if Scope.OPENID in scope_set(scope):
        id_token = await id_tokens.mint(
            client=client,
            account=opened.account,
            scope=scope,
            session_id=opened.parent_id,
            authenticated_at=opened.authenticated_at,
            amr=opened.amr,
            nonce=nonce,
            named=named,
            access_token=access.text,
            key=id_key,
            organization=opened.organization,
        )
    refreshed = opened.refresh_token if GrantType.REFRESH_TOKEN in client.grants else ""
    told = detail_lists.stored(details) if details else ()
    return TokenResponse(
        access.text, asked.token_type, access.expires_in, scope, refreshed, id_token, authorization_details=told
    )


async def refuse(asked: TokenRequest) -> NoReturn:
    """Raise ``InvalidGrant``, or ``Throttled`` when too many came from the address of a public client.

    A client that has proved to be a confidential one is not counted: many people's tokens die behind its one address.
    """
    if asked.client.is_public:
        await rate_limits.admit(rate_limits.REFRESH, address=asked.context.address)
    raise InvalidGrant
