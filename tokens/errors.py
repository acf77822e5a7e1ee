"""What can go wrong with a credential, as domain errors with a stable code (RFC 6750 §3 challenges included)."""

from collections.abc import Sequence
from functools import lru_cache

from django.conf import settings
from django.utils.translation import gettext_noop as _

from ironauth.infrastructure.core.errors import (
    BEARER_CHALLENGE,
    BadRequest,
    NotAuthenticated,
    PermissionDenied,
    Unavailable,
)
from tokens.protocol import PROOF_ALGORITHMS

#: RFC 9449 §7.1: the challenge where a proof is missing or wrong.
DPOP_CHALLENGE = f'DPoP realm="ironauth", algs="{" ".join(PROOF_ALGORITHMS)}"'

#: The metadata of this server's own API (RFC 9728 §3).
METADATA_PATH = "/.well-known/oauth-protected-resource"

#: Seconds a client should wait before it asks a server without signing key again.
RETRY_AFTER_S = 5


def api_challenge() -> str:
    """Return the challenge of this server's own API (RFC 6750 §3), which names its metadata (RFC 9728 §5.1)."""
    return _challenge_at(settings.IRONAUTH_ISSUER)


@lru_cache(maxsize=4)  # one; tests have several
def _challenge_at(issuer: str) -> str:
    return f'{BEARER_CHALLENGE}, resource_metadata="{issuer}{METADATA_PATH}"'


class InvalidToken(NotAuthenticated):
    """The presented access token is not one of ours, not for us, expired, or its session is over.

    ``reason`` is for logs and tests: the answer is the same for all of them, so that it tells an attacker nothing.
    """

    code = "invalid_token"
    title = "Invalid access token"
    detail = "The access token is invalid, has expired or was revoked: refresh it or sign in again."

    def __init__(self, reason: str) -> None:
        super().__init__(headers={"WWW-Authenticate": f'{api_challenge()}, error="invalid_token"'})
        self.reason = reason


class UnknownKey(InvalidToken):
    """The token names a key this process does not hold: forged, or signed by a key made a moment ago."""


class UnprovedToken(InvalidToken):
    """The token is bound to a key (RFC 9449 §7.2) and came without proof of it, or is not bound and came with one."""

    detail = "The access token is not good with, or without, proof of a key: send it as its token_type says (RFC 9449)."

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.headers["WWW-Authenticate"] = f'{DPOP_CHALLENGE}, error="invalid_token"'


class UncertifiedToken(InvalidToken):
    """The token is bound to a certificate that the connection has not shown (RFC 8705 §3)."""

    detail = "The access token is bound to a certificate: send it by a connection that shows that one (RFC 8705)."


class InvalidProof(NotAuthenticated):
    """The proof of possession is missing, not for this request, too old, or was used before (RFC 9449 §4.3).

    ``reason`` is for logs and tests.
    """

    code = "invalid_dpop_proof"
    title = "Invalid DPoP proof"
    detail = "The DPoP proof is missing, not for this request, too old, or was used before: make a new one (RFC 9449)."

    def __init__(self, reason: str) -> None:
        super().__init__(headers={"WWW-Authenticate": f'{DPOP_CHALLENGE}, error="invalid_dpop_proof"'})
        self.reason = reason


class InsufficientScope(PermissionDenied):
    """The token is good, and was given for something else (RFC 6750 §3.1)."""

    code = "insufficient_scope"
    title = "Insufficient scope"
    detail = "This access token was not given for that: its application must ask for the scope named here."

    def __init__(self, scope: str) -> None:
        challenge = f'{api_challenge()}, error="insufficient_scope", scope="{scope}"'
        super().__init__(headers={"WWW-Authenticate": challenge}, members={"scope": scope})


class NotAdministering(PermissionDenied):
    """A client calls an act of staff with a token of its own, and nobody has let it administer."""

    code = "client_does_not_administer"
    title = "Client does not administer"
    detail = "This client may not administer: a superuser sets that, and the scopes, on its page in the admin."


class DelegatedToken(PermissionDenied):
    """A client acts for somebody with a token it got in exchange, and would change what is theirs alone."""

    code = "delegated_token"
    title = "Delegated token"
    detail = "A token got in exchange reads an account and changes nothing: use the one the person signed in with."


class ActingSession(PermissionDenied):
    """A member of staff is signed in as the person, and asks for more than to look."""

    code = "acting_session"
    title = "Not while signed in as somebody"
    detail = _("You are signed in as this person for support: you can look, and change nothing. End that first.")


class MalformedCredential(BadRequest):
    """The Authorization header does not follow RFC 6750 §2.1, or there are several (RFC 6750 §3.1)."""

    code = "invalid_request"
    title = "Malformed credential"
    detail = "Send exactly one header of the form `Authorization: Bearer <access token>`."

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": f'{BEARER_CHALLENGE}, error="invalid_request"'})


class TwoCredentials(MalformedCredential):
    """More than one access credential in one request: which one counts would be a guess (RFC 6750 §2)."""

    code = "two_credentials"
    title = "More than one credential"
    detail = "The request carries more than one access credential: send either the Authorization header or the cookie."


class CrossOrigin(PermissionDenied):
    """A cookie came along with an unsafe request that another site may have caused (CSRF)."""

    code = "cross_origin"
    title = "Cross-origin request refused"
    detail = _(
        "A request that changes something and is authenticated by cookie must come from this origin or from one "
        "listed in IRONAUTH_TRUSTED_ORIGINS."
    )


class InvalidRefreshToken(NotAuthenticated):
    """The refresh token cannot be used; one body for every reason.

    ``session_over``: whether the session it names has really ended, so that its cookies are worth clearing.
    """

    code = "invalid_refresh_token"
    title = "Invalid refresh token"
    detail = "The refresh token is invalid, has expired, was used before or was revoked: sign in again."

    def __init__(self, *, session_over: bool = False) -> None:
        super().__init__()
        self.session_over = session_over


class MfaRequired(NotAuthenticated):
    """The password is right, and a second factor has to be proved: with ``mfa_token``, by one of ``methods``."""

    code = "mfa_required"
    title = "Second factor required"
    detail = "Send a code of a second factor with the mfa_token to POST /api/v1/access/signin/mfa."

    def __init__(self, *, mfa_token: str, methods: Sequence[str]) -> None:
        super().__init__(members={"mfa_token": mfa_token, "methods": tuple(methods)})


class InvalidMfaToken(NotAuthenticated):
    """The token between password and second factor is no good any more; one body for every reason."""

    code = "invalid_mfa_token"
    title = "Invalid mfa_token"
    detail = "The mfa_token is invalid, has expired or was used before: sign in with the password again."


class SigningKeyMissing(Unavailable):
    """No key can sign a token now; the log names the remedy, the answer does not tell an outsider more."""

    title = "Sign-in is not available"
    detail = _("The server cannot issue tokens at the moment: try again later.")

    def __init__(self) -> None:
        super().__init__(retry_after_s=RETRY_AFTER_S)
