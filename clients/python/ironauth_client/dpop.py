"""DPoP proofs (RFC 9449 §4.3): the request comes from the holder of the key that the token is bound to."""

import base64
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from time import time
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from ironauth_client import jose
from ironauth_client.config import ID_ALGORITHMS, Config
from ironauth_client.errors import InvalidProof, InvalidToken
from ironauth_client.tokens import json_object, number

TYP: Final = "dpop+jwt"
PROOF_LIFE_S: Final = 60.0  # seconds a proof may be old; with the leeway, how long its jti is remembered
LONGEST_JTI: Final = 256
PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
KINDS: Final = ("OKP", "EC", "RSA")
PORTS: Final = {"http": 80, "https": 443}


class ReplayStore(Protocol):
    """Where proofs that were used are remembered; several processes share one that they can all reach."""

    def first_use(self, key: str, seconds: float) -> bool:
        """Remember ``key`` for some seconds; return whether it was not remembered. False where it cannot be."""
        ...


class MemoryReplayStore:
    """The proofs of one process. Full of proofs that could be replayed, it accepts no more."""

    def __init__(self, most: int = 100_000, clock: Callable[[], float] = time) -> None:
        self._most, self._clock = most, clock
        self._until: OrderedDict[str, float] = OrderedDict()
        self._lock = Lock()

    def first_use(self, key: str, seconds: float) -> bool:
        """Remember ``key``; return whether it was new and there was room."""
        now = self._clock()
        with self._lock:
            while self._until and next(iter(self._until.values())) <= now:
                self._until.popitem(last=False)
            if key in self._until or len(self._until) >= self._most:
                return False
            self._until[key] = now + seconds
            return True


def verify(
    proof: str, *, token: str, thumbprint: str, method: str, url: str, config: Config, replays: ReplayStore
) -> None:
    """Check a proof against the request it came with.

    Args:
        proof: The value of the request's one ``DPoP`` header.
        token: The access token.
        thumbprint: The key that the token is bound to (RFC 7638).
        method: The request's method.
        url: The request's address as its client knows it; query and fragment do not count.
        config: The leeway and the clock.
        replays: Where used proofs are remembered.

    Raises:
        InvalidProof: Any check fails.
    """
    try:
        said = _signed_by(proof, thumbprint)
        issued_at = number(said, "iat")
    except InvalidToken as error:
        raise InvalidProof(str(error)) from error
    jti, ath = said.get("jti"), said.get("ath")
    if not isinstance(jti, str) or not 0 < len(jti) <= LONGEST_JTI:
        raise InvalidProof("the proof has no jti")
    if said.get("htm") != method or not _same_address(said.get("htu"), url):
        raise InvalidProof("the proof is for another request")
    hashed = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=")
    if not isinstance(ath, str) or not hmac.compare_digest(ath.encode(), hashed):
        raise InvalidProof("the proof is for another token")
    now = config.clock()
    if not now - PROOF_LIFE_S - config.leeway_s <= issued_at <= now + config.leeway_s:
        raise InvalidProof("the proof is too old, or of the future")
    used = hashlib.sha256(f"{thumbprint} {jti}".encode()).hexdigest()
    if not replays.first_use(used, PROOF_LIFE_S + 2 * config.leeway_s + 1):
        raise InvalidProof("the proof was used before")


def _signed_by(proof: str, thumbprint: str) -> dict[str, Any]:
    """Return what a proof says that the key of this thumbprint has signed. Raises ``InvalidToken``."""
    head = jose.header(proof, typ=TYP, algorithms=ID_ALGORITHMS)
    jwk = head.get("jwk")
    if not isinstance(jwk, dict) or PRIVATE & set(jwk) or jwk.get("kty") not in KINDS:
        raise InvalidToken("the proof has no public key")
    try:
        key = KeySet.import_key_set({"keys": [jwk]}).keys[0]
        found = key.thumbprint()
    except (JoseError, ValueError, TypeError, KeyError, IndexError) as error:
        raise InvalidToken("the proof has no public key") from error
    if not thumbprint or not hmac.compare_digest(found.encode(), thumbprint.encode()):
        raise InvalidToken("the proof is of another key")
    return json_object(jose.payload(proof, key, algorithms=ID_ALGORITHMS))


def _same_address(said: object, url: str) -> bool:
    """Return whether both are one address by RFC 3986 §6.2.2 and §6.2.3, without query and fragment."""
    try:
        return isinstance(said, str) and _spelled(said) == _spelled(url)
    except ValueError:
        return False


def _spelled(url: str) -> tuple[str, str, int | None, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or PORTS.get(parts.scheme), parts.path or "/"
