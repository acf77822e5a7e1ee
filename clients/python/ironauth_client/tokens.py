"""Access tokens (RFC 9068), ID tokens (OpenID Connect Core §3.1.3.7) and logout tokens (Back-Channel Logout §2.6)."""

import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from joserfc.jwk import Key

from ironauth_client import jose
from ironauth_client.config import ID_ALGORITHMS, Config
from ironauth_client.errors import InsufficientScope, InvalidToken

ACCESS_TYP: Final = "at+jwt"
LOGOUT_TYP: Final = "logout+jwt"
LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"


@dataclass(frozen=True)
class Claims:
    """What a verified token says.

    ``organization_id``: the organisation that the person acts for, "" for none; ``organization_roles``: their roles
    there.
    """

    issuer: str
    subject: str
    expires_at: float
    client_id: str = ""
    session_id: str = ""
    token_id: str = ""
    scopes: frozenset[str] = frozenset()
    roles: tuple[str, ...] = ()
    key_thumbprint: str = ""
    everything: dict[str, Any] = field(default_factory=dict, repr=False)
    organization_id: str = ""
    organization_roles: tuple[str, ...] = ()

    def require(self, scopes: Iterable[str]) -> None:
        """Raise ``InsufficientScope`` unless the token has every one of ``scopes``."""
        missing = sorted(set(scopes) - self.scopes)
        if missing:
            raise InsufficientScope(f"the token lacks {' '.join(missing)}")


def access(token: str, key: Key, config: Config) -> Claims:
    """Return what an access token says.

    Args:
        token: Its text.
        key: The key that its ``kid`` names.
        config: The issuer, audience, algorithms and leeway.

    Raises:
        InvalidToken: Any check fails.
    """
    jose.header(token, typ=ACCESS_TYP, algorithms=config.algorithms)
    said = _claims(token, key, config.algorithms)
    claims = _judged(said, config, audience=config.expected_audience)
    for name in ("client_id", "jti"):
        _text(said, name)
    return claims


def identity(token: str, key: Key, config: Config, *, nonce: str) -> Claims:
    """Return what an ID token says that answers the sign-in with this nonce.

    Raises:
        InvalidToken: Any check fails.
    """
    jose.header(token, typ=None, algorithms=ID_ALGORITHMS)
    said = _claims(token, key, ID_ALGORITHMS)
    claims = _judged(said, config, audience=config.client_id)
    if not nonce or not hmac.compare_digest(_text(said, "nonce").encode(), nonce.encode()):
        raise InvalidToken("the ID token answers another sign-in")
    if said.get("azp", config.client_id) != config.client_id:
        raise InvalidToken("the ID token was made for another client")
    return claims


def logout(token: str, key: Key, config: Config) -> Claims:
    """Return what a logout token says; whether its ``token_id`` is new is for the caller to decide.

    Raises:
        InvalidToken: Any check fails.
    """
    jose.header(token, typ=LOGOUT_TYP, algorithms=ID_ALGORITHMS)
    said = _claims(token, key, ID_ALGORITHMS)
    claims = _judged(said, config, audience=config.client_id)
    events = said.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict) or "nonce" in said:
        raise InvalidToken("not a logout token")
    _text(said, "jti")
    return claims


def _claims(token: str, key: Key, algorithms: tuple[str, ...]) -> dict[str, Any]:
    return json_object(jose.payload(token, key, algorithms=algorithms))


def json_object(text: bytes) -> dict[str, Any]:
    """Return the claims in a payload. Raises ``InvalidToken`` if it is not one JSON object.

    Raises:
        InvalidToken: It is not.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidToken("the token has no claims") from error
    if not isinstance(found, dict):
        raise InvalidToken("the token has no claims")
    return found


def _judged(said: dict[str, Any], config: Config, *, audience: str) -> Claims:
    """Check what every kind of token has: who made it, for whose use, and when."""
    now = config.clock()
    if said.get("iss") != config.issuer:
        raise InvalidToken("the token is another issuer's")
    named = said.get("aud")
    if not audience or audience not in (named if isinstance(named, list) else [named]):
        raise InvalidToken("the token is for another audience")
    expires_at = number(said, "exp")
    if now >= expires_at + config.leeway_s:
        raise InvalidToken("the token has expired")
    for name in ("iat", "nbf"):
        if (name == "iat" or name in said) and number(said, name) > now + config.leeway_s:
            raise InvalidToken("the token is not valid yet")
    return claims_of(said, expires_at)


def claims_of(said: dict[str, Any], expires_at: float) -> Claims:
    """Return claims that have been verified, each in its type. Raises ``InvalidToken`` where one is of another.

    Raises:
        InvalidToken: A claim is of another type than the standard gives it.
    """
    cnf = said.get("cnf", {})
    if "cnf" in said and not (isinstance(cnf, dict) and isinstance(cnf.get("jkt"), str) and cnf["jkt"]):
        raise InvalidToken("the token is bound in a way that is not known here")  # never taken for a bearer token
    act = said.get("act", {})
    if not isinstance(act, dict) or act.get("kind", "client") != "client":
        # For their eyes, in the issuer's own pages: an application could not tell them from the person.
        raise InvalidToken("somebody who is no client acts as the person")
    return Claims(
        issuer=_text(said, "iss"),
        subject=_text(said, "sub"),
        expires_at=expires_at,
        client_id=_text(said, "client_id", ""),
        session_id=_text(said, "sid", ""),
        token_id=_text(said, "jti", ""),
        scopes=frozenset(_text(said, "scope", "").split()),
        roles=_names(said, "roles"),
        key_thumbprint=cnf.get("jkt", ""),
        everything=said,
        organization_id=_text(said, "org_id", ""),
        organization_roles=_names(said, "org_roles"),
    )


def _names(said: dict[str, Any], name: str) -> tuple[str, ...]:
    found = said.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InvalidToken(f"{name} are no list of names")
    return tuple(found)


def number(said: dict[str, Any], name: str) -> float:
    """Return a claim that is a time. Raises ``InvalidToken`` if it is missing or none.

    Raises:
        InvalidToken: It is missing, or no finite number.
    """
    value = said.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidToken(f"{name} is no time")
    return value


def _text(said: dict[str, Any], name: str, default: str | None = None) -> str:
    value = said.get(name, default)
    if not isinstance(value, str) or (default is None and not value):
        raise InvalidToken(f"{name} is missing or no text")
    return value
