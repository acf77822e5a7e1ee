"""What can be wrong with a request, each with the status and code a resource server answers (RFC 6750 §3.1)."""


class IronAuthError(Exception):
    """Base of all errors of this package."""

    status = 500
    code = "server_error"


class ProviderUnavailable(IronAuthError):
    """The IronAuth server did not answer, or not as its contract says."""

    status = 503
    code = "temporarily_unavailable"


class InvalidToken(IronAuthError):
    """The token is not one that this resource server accepts."""

    status = 401
    code = "invalid_token"


class InvalidProof(InvalidToken):
    """The DPoP proof does not prove possession of the token's key for this request (RFC 9449 §7.1)."""

    code = "invalid_dpop_proof"


class InsufficientScope(IronAuthError):
    """The token is good, but lacks a scope that the request needs."""

    status = 403
    code = "insufficient_scope"


def challenge(error: IronAuthError | None, scheme: str = "Bearer", *, said: str = "") -> str:
    """Return the value of ``WWW-Authenticate`` that answers an error, or a request without a token.

    Args:
        error: What is wrong; None for a request without a token.
        scheme: How the token came.
        said: Another parameter, ``name="value"``.
    """
    parameters = ", ".join(filter(None, ("" if error is None else f'error="{error.code}"', said)))
    return f"{scheme} {parameters}".rstrip()


class SignInFailed(IronAuthError):
    """A sign-in by redirect did not end well; the person may begin again."""

    status = 400
    code = "sign_in_failed"
