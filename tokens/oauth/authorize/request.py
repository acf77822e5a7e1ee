"""What a client asks for when it sends somebody to /oauth/authorize, and whether it may.

First of all where the answer may go: before client and redirect URI are known to belong together nothing is redirected
(RFC 6749 §4.1.2.1, RFC 9700 §4.11). Everything after that is answered there.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec
from django.conf import settings
from django.http import QueryDict
from django.utils.translation import gettext_noop as _

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import DomainError
from tokens.access import codec
from tokens.clients import redirect_uris
from tokens.clients import registry as clients
from tokens.clients.errors import (
    InvalidRequest,
    OAuthError,
    RegistrationNotSupported,
    RequestNotSupported,
    RequestUriNotSupported,
    UnauthorizedClient,
    UnsupportedResponseType,
)
from tokens.clients.models import SCOPE_CHARACTERS, OAuthClient
from tokens.clients.registry import Client
from tokens.errors import InvalidToken
from tokens.oauth import claims, details, id_tokens, targets
from tokens.oauth.claims import AskedClaims
from tokens.oauth.details import Asked
from tokens.oauth.endpoint import DETAILS, MAX_BYTES, ORGANIZATION, RESOURCE
from tokens.oauth.models import NONCE_CHARACTERS
from tokens.protocol import GrantType, ResponseMode, Scope
from tokens.resources.queries import Named

HINT_CHARACTERS: Final = 254  # the longest address there is; a longer hint names nobody
SELECT_ACCOUNT: Final = "select_account"
PROMPTS: Final = ("none", "login", "consent", SELECT_ACCOUNT)  # OpenID Connect Core §3.1.2.1
ACR_CHARACTERS: Final = 255  # a dozen names; two are known here
CREATE: Final = "create"  # Initiating User Registration via OpenID Connect 1.0 §4.1: where people may sign up
CHALLENGE_METHOD: Final = "S256"
_SHA256: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # base64url: RFC 7636 §4.2, RFC 9449 §10
_SECONDS: Final = re.compile(r"[0-9]{1,9}")  # thirty years
_PRINTABLE: Final = re.compile(r"[^\x00-\x1f\x7f]*")
_STATE_INSIDE: Final = re.compile(r"[\x20-\x7e]{0,2000}")  # of a request object: RFC 6749 §A.5, what fits an address


class Target(NamedTuple):
    """Where the answer goes, once that is known to be safe, and what is repeated there. ``client_id``: who hears it."""

    redirect_uri: str
    response_mode: str = ResponseMode.QUERY.value
    state: str = ""
    client_id: str = ""


class Unanswerable(OAuthError):
    """There is nowhere to send the answer: a page says what is wrong (RFC 6749 §4.1.2.1)."""


class Finished(Unanswerable):
    """The request was pushed, and was answered before, or has expired."""

    detail = _("The application's request has expired or was used before: start again from there.")


class Refused(DomainError):
    """The client gets an error: ``reason``, at ``target``."""

    status = HTTPStatus.SEE_OTHER

    def __init__(self, reason: OAuthError, target: Target) -> None:
        super().__init__(reason.detail)
        self.reason = reason
        self.target = target


class AuthorizationRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request that has been checked against its client. Empty texts where nothing was asked.

    Attributes:
        max_age: Seconds.
        hint_sub: The person that the client believes is there, as it knows them.
        id_claims: The personal claims that the ID token is to have, separated by spaces.
        pushed: The digest of the handle it was pushed under.
        resources: The APIs that it names (`targets`); none for this server's own audience alone.
        details: Its authorization details (`oauth.details`).
        organization: The id or slug of the organization that the person is to act for.
        needed_acr: Values of ``acr``, separated by spaces, of which one has to come; "" for none.
    """

    client_id: str
    redirect_uri: str
    response_mode: str
    state: str
    scope: str
    nonce: str
    code_challenge: str
    dpop_jkt: str
    prompt: tuple[str, ...]
    max_age: int | None
    login_hint: str
    hint_sub: str
    acr_values: str = ""
    id_claims: str = ""
    pushed: str = ""
    resources: tuple[Named, ...] = ()
    details: tuple[Asked, ...] = ()
    organization: str = ""
    needed_acr: str = ""

    @property
    def target(self) -> Target:
        """Where the answer goes."""
        return Target(self.redirect_uri, self.response_mode, self.state, self.client_id)

    @property
    def silent(self) -> bool:
        """Whether nobody may be asked anything."""
        return "none" in self.prompt

    @property
    def wants_choice(self) -> bool:
        """Whether the person is to say which of their accounts it is for."""
        return SELECT_ACCOUNT in self.prompt and not self.wants_sign_up

    @property
    def wants_sign_up(self) -> bool:
        """Whether the person is to make an account."""
        return CREATE in self.prompt

    @property
    def wants_second_factor(self) -> bool:
        """Whether a device that was kept does not stand in for it: a new sign-in is asked for, or ``aal2``."""
        return "login" in self.prompt or self.max_age is not None or id_tokens.AAL2 in self.acr_values.split()

    def wants_sign_in(self, authenticated_at: datetime) -> bool:
        """Return whether somebody who proved who they are at ``authenticated_at`` has to do so again."""
        if "login" in self.prompt or self.wants_sign_up:
            return True
        return self.max_age is not None and clock.now() - authenticated_at > timedelta(seconds=self.max_age)


async def client_of(query: QueryDict) -> Client:
    """Return who sent the person here.

    Raises:
        Unanswerable: no client, several, or one that is not enabled.
    """
    if len(named := query.getlist("client_id")) != 1:
        raise Unanswerable(_("The request does not name its application: client_id is missing, or was sent twice."))
    return await enabled_client(named[0])


async def enabled_client(client_id: str) -> Client:
    """Return the client of this id.

    Raises:
        Unanswerable: It is not enabled, or never was.
        Throttled: (429) instead, when too many of those came from one network.
    """
    client = await clients.find_for_stranger(client_id)
    if client is None:
        raise Unanswerable(_("The application is not known here: client_id names none, or one that is disabled."))
    return client


def target_of(client: Client, query: QueryDict) -> Target:
    """Return where the answer may go.

    A request object is refused later. What it names of ``response_mode`` and ``state`` is used to answer that, where
    they are not parameters too. It is not verified, and never decides where the answer goes.

    Args:
        client: The client that the request names.
        query: The parameters, not yet judged.

    Raises:
        Unanswerable: unless the client has registered exactly that.
    """
    uris = query.getlist("redirect_uri")
    if len(uris) != 1 or not uris[0]:
        raise Unanswerable(_("The request does not say where to continue: redirect_uri is missing, or was sent twice."))
    if not redirect_uris.matches(client.redirect_uris, uris[0]):
        raise Unanswerable(
            _(
                "The application has not registered the address it wants to continue at (redirect_uri). Go back to it, "
                "and tell the people who run it."
            )
        )
    inside = _unverified_object(_only(query, "request")) if "request" in query else {}
    mode, state = (_only(query, name) if name in query else inside.get(name, "") for name in ("response_mode", "state"))
    known = mode if mode in set(ResponseMode) else ResponseMode.QUERY.value
    return Target(uris[0], known, state if _PRINTABLE.fullmatch(state) else "", client.public_id)


def check(client: Client, given: Mapping[str, str], target: Target, *, pushed: bool) -> AuthorizationRequest:
    """Return the request that these parameters make, if the client may make it.

    Args:
        client: Who asks.
        given: The parameters, each once.
        target: Where the answer goes.
        pushed: Whether the client sent them itself (RFC 9126).

    Raises:
        OAuthError: What the client is to hear: the first error that applies, in the order of this function.
    """
    if not all(_PRINTABLE.fullmatch(text) for pair in given.items() for text in pair):
        raise InvalidRequest("A parameter has control characters in it.")
    _refuse_unsupported(client, given, pushed=pushed)
    scope, named = given.get("scope", ""), _claims(given)
    return AuthorizationRequest(
        client_id=client.public_id,
        redirect_uri=target.redirect_uri,
        response_mode=target.response_mode,
        state=target.state,
        code_challenge=_code_challenge(client, given),
        scope=_asked(client, scope, named.scopes) if is_aimed(client, given) else scope_of(client, scope, named.scopes),
        prompt=_prompt(given.get("prompt", "")),
        max_age=_max_age(given.get("max_age")),
        nonce=_at_most(given.get("nonce", ""), "nonce", NONCE_CHARACTERS),
        dpop_jkt="" if client.dpop == OAuthClient.Policy.OFF else _thumbprint(given.get("dpop_jkt", "")),
        acr_values=_at_most(f"{given.get('acr_values', '')} {named.acr}".strip(), "acr_values", ACR_CHARACTERS),
        needed_acr=named.needed_acr,
        id_claims=named.in_id_token,
        login_hint=hint if len(hint := given.get("login_hint", "")) <= HINT_CHARACTERS else "",
        hint_sub=named.sub,
        organization=claims.organization_of(given, scope) if ORGANIZATION in given else "",
    )


async def aimed(
    client: Client, request: AuthorizationRequest, *, asked: str = "", detailed: str = ""
) -> AuthorizationRequest:
    """Return the request with its authorization details and the APIs that it names, and what is granted there.

    Args:
        client: Who asks.
        request: The request, judged but for this.
        asked: The parameters ``resource``, separated by spaces.
        detailed: The parameter ``authorization_details``.

    Raises:
        OAuthError: As ``targets.named`` and ``details.asked``.
    """
    wanted = await details.asked(client, detailed)
    scope, resources = await targets.named(client, asked, request.scope, scopeless=bool(wanted))
    return msgspec.structs.replace(request, scope=scope, resources=resources, details=wanted)


async def with_hint(client: Client, request: AuthorizationRequest, token: str | None) -> AuthorizationRequest:
    """Return the request, of the person an ID token names if there is one; it may have expired.

    Args:
        client: The client that the token must have been made for.
        request: The request, judged but for this.
        token: The ``id_token_hint``; None without one.

    Raises:
        InvalidRequest: a token this server did not make for this client.
    """
    if token is None:
        return request
    hint = await id_tokens.read_hint(token)
    if hint is None or hint.client_id != client.public_id:
        raise InvalidRequest("id_token_hint is no ID token that this server has given to this client.")
    return msgspec.structs.replace(request, hint_sub=hint.sub)


def _refuse_unsupported(client: Client, given: Mapping[str, str], *, pushed: bool) -> None:
    """Raise for what this server does not do, or not for this client."""
    if "request" in given:
        raise RequestNotSupported
    if "request_uri" in given:
        raise RequestUriNotSupported
    if "registration" in given:
        raise RegistrationNotSupported
    if client.require_par and not pushed:
        raise InvalidRequest("This client has to push its requests first (RFC 9126): POST them to /oauth/par.")
    if GrantType.AUTHORIZATION_CODE not in client.grants:
        raise UnauthorizedClient
    if "response_type" not in given:
        raise InvalidRequest("response_type is missing: send response_type=code.")
    if given["response_type"] != "code":
        raise UnsupportedResponseType
    if given.get("response_mode", ResponseMode.QUERY) not in set(ResponseMode):
        raise InvalidRequest(f"response_mode is none of {', '.join(ResponseMode)}.")


def _code_challenge(client: Client, given: Mapping[str, str]) -> str:
    """Return the PKCE challenge, "" without one from a client that need not send it (RFC 7636 §4.3, §4.4.1)."""
    challenge, method = given.get("code_challenge"), given.get("code_challenge_method")
    if challenge is None:
        if client.require_pkce:
            raise InvalidRequest("PKCE is required (RFC 7636): send code_challenge and code_challenge_method=S256.")
        if method is not None:
            raise InvalidRequest("code_challenge_method was sent without code_challenge.")
        return ""
    if method != CHALLENGE_METHOD:  # without one it would be plain
        raise InvalidRequest("Only code_challenge_method=S256 is supported, and it must be sent.")
    if not _SHA256.fullmatch(challenge):
        raise InvalidRequest("code_challenge is not the base64url of a SHA-256, 43 characters without padding.")
    return challenge


def scope_of(client: Client, asked: str, implied: tuple[str, ...] = ()) -> str:
    """Return what is granted of a scope, as it is stored; what the client may not have is ignored (RFC 6749 §3.3).

    Args:
        client: Whose scopes are the bound.
        asked: The parameter as it was received.
        implied: Scopes of claims that were asked for by name; what the client may not have of them is ignored.

    Raises:
        InvalidScope: As ``Client.granted_here``.
        InvalidRequest: A long one.
    """
    return _at_most(client.granted_here(_asked(client, asked, implied)), "scope", SCOPE_CHARACTERS)


def is_aimed(client: Client, given: Mapping[str, str]) -> bool:
    """Return whether the scope of a request is judged with what else it asks for (``aimed``).

    Args:
        client: Who asks.
        given: The parameters, each once.
    """
    return RESOURCE in given or DETAILS in given or bool(client.resources)


def _asked(client: Client, asked: str, implied: tuple[str, ...]) -> str:
    """Return the scope that is asked for, with those of claims that were asked for by name; "" for none."""
    return " ".join((asked, *(scope for scope in implied if scope in client.scopes))) if asked else ""


def _claims(given: Mapping[str, str]) -> AskedClaims:
    """Return the claims that are asked for by name; only OpenID Connect has the parameter (Core §5.5)."""
    if "claims" not in given or Scope.OPENID not in given.get("scope", "").split():
        return AskedClaims()
    return claims.asked(given["claims"])


def prompts() -> tuple[str, ...]:
    """Return what a client may ask for by ``prompt``."""
    return (*PROMPTS, CREATE) if settings.IRONAUTH_SIGN_UP == "open" else PROMPTS


def _prompt(asked: str) -> tuple[str, ...]:
    """Return what is to be asked; `none` excludes all else (OpenID Connect Core §3.1.2.1)."""
    wanted = tuple(dict.fromkeys(asked.split()))
    if not set(wanted) <= set(prompts()):
        raise InvalidRequest(f"prompt is not made of {', '.join(prompts())}.")
    if "none" in wanted and len(wanted) > 1:
        raise InvalidRequest("prompt=none excludes every other prompt.")
    return wanted


def _max_age(asked: str | None) -> int | None:
    if asked is not None and not _SECONDS.fullmatch(asked):
        raise InvalidRequest("max_age is not a number of seconds.")
    return None if asked is None else int(asked)


def _thumbprint(asked: str) -> str:
    if asked and not _SHA256.fullmatch(asked):
        raise InvalidRequest("dpop_jkt is not the thumbprint of a key (RFC 9449).")
    return asked


def _at_most(value: str, name: str, longest: int) -> str:
    if len(value) > longest:
        raise InvalidRequest(f"{name} is longer than {longest} characters.")
    return value


def _unverified_object(text: str) -> Mapping[str, str]:
    """Return ``response_mode`` and ``state`` of a request object (OpenID Connect Core §6.1), "" where it has none.

    Args:
        text: The object as it was received. An unsigned one ends where others have their signature.
    """
    try:
        said = codec.payload_of(f"{text}none" if text.endswith(".") else text, longest=MAX_BYTES)
    except InvalidToken:
        said = {}
    mode, state = ((given if isinstance(given := said.get(name), str) else "") for name in ("response_mode", "state"))
    return {"response_mode": mode, "state": state if _STATE_INSIDE.fullmatch(state) else ""}


def _only(query: QueryDict, name: str) -> str:
    """Return the value of a parameter that was sent once, "" otherwise."""
    return values[0] if len(values := query.getlist(name)) == 1 else ""
