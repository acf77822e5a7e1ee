"""The client secret that Apple wants: a token signed with the team's key (ES256), made for each request."""

import re
from typing import Final, NamedTuple

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from ironauth.infrastructure.core import clock

LIFE_S: Final = 300  # seconds; Apple allows six months
_PARTS: Final = re.compile(
    r"(?P<team>\w{10})\s+(?P<key>\w{10})\s+"
    r"-----BEGIN PRIVATE KEY-----(?P<body>[A-Za-z0-9+/=\s]+)-----END PRIVATE KEY-----",
    re.ASCII,
)


class InvalidSecretError(Exception):
    """What was stored is no key to sign with; the text is for the operator."""


class _Parts(NamedTuple):
    """The stored secret, taken apart."""

    team: str
    key_id: str
    key: ECKey


def signed(stored: str, *, client_id: str, audience: str) -> str:
    """Return a client secret for the next minutes.

    Args:
        stored: Team ID, key ID and the .p8 file's text, with space between them.
        client_id: Ours at the provider.
        audience: The provider's issuer.

    Raises:
        InvalidSecretError: It is not of that form.
    """
    parts = _parts(stored)
    now = int(clock.unix())
    claims = {"iss": parts.team, "sub": client_id, "aud": audience, "iat": now, "exp": now + LIFE_S}
    return jwt.encode({"alg": "ES256", "kid": parts.key_id}, claims, parts.key)


def require_usable(stored: str) -> None:
    """Raise ``InvalidSecretError`` unless there is a key to sign with.

    Raises:
        InvalidSecretError: The secret is not of the form that ``signed`` takes.
    """
    _parts(stored)


def _parts(stored: str) -> _Parts:
    found = _PARTS.fullmatch(stored.strip())
    if found is None:
        raise InvalidSecretError(
            "Give the team ID, the key ID and the text of the .p8 file, with a space between them: ten letters and "
            "digits, ten more, and -----BEGIN PRIVATE KEY----- to -----END PRIVATE KEY-----."
        )
    body = "".join(found["body"].split())  # a text field makes one line of several
    pem = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"
    try:
        key = ECKey.import_key(pem)
    except (JoseError, ValueError, TypeError) as error:
        raise InvalidSecretError("The key in the .p8 file cannot be read: copy the file whole.") from error
    if key.curve_name != "P-256":
        raise InvalidSecretError("The key in the .p8 file is not on the curve P-256: take Apple's own file.")
    return _Parts(found["team"], found["key"], key)
