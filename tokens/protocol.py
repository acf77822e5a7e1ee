"""The words of the protocol: values that clients send and discovery advertises, each with its source."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final


class GrantType(StrEnum):
    """How a client comes by tokens. No implicit, no password grant (RFC 9700 §2.1.2, §2.4)."""

    AUTHORIZATION_CODE = "authorization_code"
    REFRESH_TOKEN = "refresh_token"  # noqa: S105 - RFC 6749 §6, not a password
    CLIENT_CREDENTIALS = "client_credentials"
    DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"  # RFC 8628 §3.4
    TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - RFC 8693 §2.1


class ResponseMode(StrEnum):
    """How the answer to an authorization request gets to the client (OAuth 2.0 Form Post Response Mode).

    Those of JWTs are of JARM §2.3; ``jwt`` is ``query.jwt`` where the answer is a code.
    """

    QUERY = "query"
    FORM_POST = "form_post"
    JWT = "jwt"
    QUERY_JWT = "query.jwt"
    FORM_POST_JWT = "form_post.jwt"


#: Modes in which the answer is one signed JWT, the parameter ``response``.
SIGNED_MODES: Final = frozenset({ResponseMode.JWT, ResponseMode.QUERY_JWT, ResponseMode.FORM_POST_JWT})


class Scope(StrEnum):
    """What a client may ask for. ``account``: everything the person may do with their own account here."""

    OPENID = "openid"
    PROFILE = "profile"
    EMAIL = "email"
    ROLES = "roles"
    ORGANIZATION = "organization"
    OFFLINE_ACCESS = "offline_access"
    ACCOUNT = "account"


#: What a client gets unless staff say otherwise: who the person is, and staying signed in.
DEFAULT_SCOPES: Final = (Scope.OPENID, Scope.PROFILE, Scope.EMAIL, Scope.OFFLINE_ACCESS)
#: Characters of a scope token: RFC 6749 §3.3.
SCOPE_TOKEN: Final = r"[\x21\x23-\x5B\x5D-\x7E]+"  # noqa: S105 - a pattern
#: Characters that one scope may have here: a consent page shows it.
MAX_SCOPE: Final = 64
_ONE_SCOPE: Final = re.compile(SCOPE_TOKEN)
_SCOPE: Final = re.compile(f"{SCOPE_TOKEN}(?: {SCOPE_TOKEN})*")


def is_scope(text: str) -> bool:
    """Return whether the text is a list of scopes as RFC 6749 §3.3 spells one."""
    return _SCOPE.fullmatch(text) is not None


def problem_of_scopes(given: Sequence[str]) -> str | None:
    """Return what is wrong with a list of scopes as somebody configures one, with its remedy; None for a good one."""
    if len(set(given)) == len(given) and all(len(one) <= MAX_SCOPE and _ONE_SCOPE.fullmatch(one) for one in given):
        return None
    return (
        f"A scope is one word of 1 to {MAX_SCOPE} printable ASCII characters without quotes and backslashes "
        "(RFC 6749 §3.3), each once: correct the list."
    )


def scope_set(text: str) -> frozenset[str]:
    """Return the scopes of a space-separated list (RFC 6749 §3.3); order and repetition mean nothing."""
    return frozenset(text.split())


def scope_text(scopes: frozenset[str] | set[str]) -> str:
    """Return scopes as they are stored and sent: sorted, so that equal sets are equal texts."""
    return " ".join(sorted(scopes))


#: Where tokens are asked for; clients may name it as the audience of an assertion (RFC 7523 §3).
TOKEN_PATH: Final = "/oauth/token"  # noqa: S105 - a path
#: What proofs of possession may be signed with (RFC 9449 §4.2): by a key pair, never by a secret that both sides know.
PROOF_ALGORITHMS: Final = ("ES256", "EdDSA", "Ed25519", "RS256", "PS256")
#: Seconds an ID token is good for: it is looked at once, in the moment it arrives.
ID_TOKEN_S: Final = 600
