"""The credential of a request: a bearer token (RFC 6750 §2.1) or a DPoP-bound one (RFC 9449 §7.1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ironauth_client.errors import InvalidProof, InvalidToken


@dataclass(frozen=True)
class Presented:
    """A token, and what its request says of the key it is bound to."""

    token: str = field(repr=False)
    scheme: str = "bearer"
    proof: str = field(default="", repr=False)
    method: str = ""
    url: str = ""


def presented(authorization: Sequence[str], proofs: Sequence[str], *, method: str, url: str) -> Presented | None:
    """Return what a request presents; None where it presents nothing of ours.

    Args:
        authorization: The values of its ``Authorization`` headers.
        proofs: The values of its ``DPoP`` headers.
        method: Its method.
        url: Its whole address, as its client knows it.

    Raises:
        InvalidToken: The header is malformed, or there are several.
        InvalidProof: There is not exactly one proof where one is needed.
    """
    if not authorization:
        return None
    if len(authorization) > 1:
        raise InvalidToken("more than one Authorization header")
    scheme, _, token = authorization[0].strip().partition(" ")
    scheme, token = scheme.lower(), token.strip()
    if scheme not in ("bearer", "dpop"):
        return None
    if not token or " " in token:
        raise InvalidToken("the Authorization header has no token")
    if scheme == "bearer":
        return Presented(token)
    if len(proofs) != 1:
        raise InvalidProof("a DPoP token needs exactly one DPoP header")
    return Presented(token, scheme, proofs[0], method, url)
