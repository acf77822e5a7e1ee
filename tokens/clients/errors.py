"""What OAuth endpoints answer when they refuse: RFC 6749 §5.2 and the registry of error codes."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import ClassVar

from ironauth.infrastructure.core.errors import Conflict, DomainError


class OAuthError(DomainError):
    """A refusal with a registered ``error``; ``detail`` is its ``error_description``.

    Descriptions are sentences of ours: nothing a client has sent is repeated in them (RFC 6749 §5.2 limits their
    characters, and a page may show them).
    """

    status: ClassVar[int] = HTTPStatus.BAD_REQUEST
    error: ClassVar[str] = "invalid_request"
    detail = "The request is missing a parameter, repeats one, or is malformed."


class InvalidRequest(OAuthError):
    """A parameter is missing, repeated, or malformed (RFC 6749 §5.2, §4.1.2.1)."""


class InvalidClient(OAuthError):
    """The client is unknown, disabled, or did not prove who it is. 401; the challenge answers HTTP Basic only."""

    status = HTTPStatus.UNAUTHORIZED
    error = "invalid_client"
    detail = "The client is unknown, disabled, or its credentials are wrong."

    def __init__(self, detail: str | None = None, *, basic: bool = False) -> None:
        challenge: Mapping[str, str] = {"WWW-Authenticate": 'Basic realm="ironauth", charset="UTF-8"'} if basic else {}
        super().__init__(detail, headers=challenge)


class InvalidDpopProof(OAuthError):
    """The proof of possession is not good, or not for this request (RFC 9449 §5)."""

    error = "invalid_dpop_proof"
    detail = "The DPoP proof is not for this request, too old, or was used before: make a new one (RFC 9449)."


class InvalidTarget(OAuthError):
    """Tokens for an API that is not registered, or not for this client or grant (RFC 8707 §2, RFC 8693 §2.2.2)."""

    error = "invalid_target"
    detail = "No token is given out for that resource: name one that is registered here, and that this client may have."


class InvalidAuthorizationDetails(OAuthError):
    """Details that are malformed, of a type unknown or not for this client, or more than was granted (RFC 9396 §5)."""

    error = "invalid_authorization_details"
    detail = "authorization_details asks for what is unknown here, is not for this client, or was not granted."


class UnsupportedTokenType(OAuthError):
    """A token that cannot be revoked alone (RFC 7009 §2.2.1)."""

    error = "unsupported_token_type"
    detail = "A token got in exchange ends with the one it was got for, or by itself within minutes."


class AuthorizationPending(OAuthError):
    """Nobody has answered for the device yet (RFC 8628 §3.5)."""

    error = "authorization_pending"
    detail = "The person has not answered yet: ask again after the interval."


class SlowDown(OAuthError):
    """The device asks too often, and has to wait five seconds longer from now on (RFC 8628 §3.5)."""

    error = "slow_down"
    detail = "Asked too often: wait five seconds longer between two requests from now on."


class ExpiredToken(OAuthError):
    """Nobody has answered for the device in time (RFC 8628 §3.5)."""

    error = "expired_token"
    detail = "Nobody has answered in time: begin anew with another device code."


class InvalidGrant(OAuthError):
    """The code, token or other grant is unknown, used, expired, revoked, or another client's (RFC 6749 §5.2)."""

    error = "invalid_grant"
    detail = "The grant is unknown, used, expired, revoked, or was given to another client: ask for a new one."


class UnauthorizedClient(OAuthError):
    """The client may not use this grant or endpoint (RFC 6749 §5.2)."""

    error = "unauthorized_client"
    detail = "This client may not do that: its settings here do not name this grant."


class UnsupportedGrantType(OAuthError):
    """A grant this server does not know (RFC 6749 §5.2)."""

    error = "unsupported_grant_type"
    detail = "This grant is not supported: see grant_types_supported in the metadata."


class UnsupportedResponseType(OAuthError):
    """Anything but ``code`` (RFC 6749 §4.1.2.1)."""

    error = "unsupported_response_type"
    detail = "Only response_type=code is supported."


class InvalidScope(OAuthError):
    """A scope that does not exist, is malformed, or exceeds what was granted (RFC 6749 §5.2)."""

    error = "invalid_scope"
    detail = "The scope is missing or malformed, names nothing that this client may have, or more than was granted."


class AccessDenied(OAuthError):
    """The person, or the server, said no (RFC 6749 §4.1.2.1)."""

    error = "access_denied"
    detail = "The person has not allowed this."


class RequestNotSupported(OAuthError):
    """A request object by value (OpenID Connect Core §3.1.2.6)."""

    error = "request_not_supported"
    detail = "This client sends no request objects: send the parameters themselves, or push them to /oauth/par."


class InvalidRequestObject(OAuthError):
    """A request object that is not good, or not the client's (RFC 9101 §6.3)."""

    error = "invalid_request_object"
    detail = "The request object is not good, not for this server, or not signed by this client."


class RequestUriNotSupported(OAuthError):
    """A request object by reference that is not a pushed request (OpenID Connect Core §3.1.2.6)."""

    error = "request_uri_not_supported"
    detail = "Only the request_uri of a pushed request (RFC 9126) is supported."


class InvalidRequestUri(OAuthError):
    """An address of a request that is not registered, or has nothing that can be used (OIDC Core §3.1.2.6)."""

    error = "invalid_request_uri"
    detail = "There is no request object at request_uri that can be fetched from here."


class RegistrationNotSupported(OAuthError):
    """Registration in a request (OpenID Connect Core §3.1.2.6)."""

    error = "registration_not_supported"
    detail = "Clients are registered by staff here: leave the parameter registration out."


class LoginRequired(OAuthError):
    """Nobody may be asked, and nobody the client wants is signed in (OpenID Connect Core §3.1.2.6)."""

    error = "login_required"
    detail = "The person has to sign in first."


class ConsentRequired(OAuthError):
    """Nobody may be asked, and the person has not allowed this yet (OpenID Connect Core §3.1.2.6)."""

    error = "consent_required"
    detail = "The person has to allow this first."


class UnmetRequirements(OAuthError):
    """The person has not proved who they are in a way that the client has to have (OpenID Connect Core §5.5.1.1)."""

    error = "unmet_authentication_requirements"
    detail = "The person cannot prove who they are in the way that claims asks for as essential (acr)."


class InvalidClientMetadata(OAuthError):
    """What a client says about itself is not accepted (RFC 7591 §3.2.2)."""

    error = "invalid_client_metadata"
    detail = "The metadata is no JSON object, or has a member that is not accepted here."


class InvalidRedirectUri(OAuthError):
    """An address that the client wants to be answered at is not accepted (RFC 7591 §3.2.2)."""

    error = "invalid_redirect_uri"
    detail = "redirect_uris is missing, or has an address that cannot be registered."


class InvalidRegistrationToken(OAuthError):
    """The bearer token lets nobody register or manage a client (RFC 7592 §2.1, RFC 6750 §3.1)."""

    status = HTTPStatus.UNAUTHORIZED
    error = "invalid_token"
    detail = "The token is unknown, expired or used up, or the client has been deleted."

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})


class SessionsEnding(Conflict):
    """The client was disabled a moment ago: sessions of before are left, which would live again with it."""

    code = "client_sessions_ending"
    title = "Sessions are ending"
    detail = "The client's sessions are still being ended. Enable it when they have: the client says how many have."
