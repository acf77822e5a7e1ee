"""What one server is asked, and what is remembered of its answers, without any input or output.

Each question is a generator that yields requests and is sent their answers: ``client`` runs the same ones in sync and
async code. What is remembered belongs to one process.
"""

import hashlib
import json
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from threading import Lock
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from joserfc.jwk import Key

from ironauth_client import dpop, jose, tokens
from ironauth_client.config import ID_ALGORITHMS, Config
from ironauth_client.errors import InvalidToken, ProviderUnavailable
from ironauth_client.presented import Presented
from ironauth_client.tokens import Claims

DISCOVERY: Final = "/.well-known/openid-configuration"
METADATA_S: Final = 3_600.0  # seconds the metadata are used before they are fetched again


@dataclass(frozen=True)
class Answer:
    """A whole answer: its status and its body."""

    status: int
    body: bytes

    def document(self) -> dict[str, Any]:
        """Return the JSON object in a successful answer. Raises ``ProviderUnavailable``."""
        try:
            found = json.loads(self.body) if self.status == HTTPStatus.OK else None
        except (ValueError, RecursionError) as error:
            raise ProviderUnavailable("the server's answer is no JSON") from error
        if not isinstance(found, dict):
            raise ProviderUnavailable(f"the server answered {self.status}")
        return found


T = TypeVar("T")  # in the form that Python 3.11 reads
Steps: TypeAlias = Generator[httpx.Request, Answer, T]


class Provider:
    """The memory of one server: its metadata, its keys, and the tokens it was asked about."""

    def __init__(self, config: Config, replays: dpop.ReplayStore | None = None) -> None:
        self.config = config
        self.replays = replays or dpop.MemoryReplayStore(clock=config.clock)
        self._metadata: Mapping[str, Any] = {}
        self._metadata_at = float("-inf")
        self._keys: dict[str, Key] = {}
        self._keys_at = self._tried_at = float("-inf")
        self._introspections: OrderedDict[bytes, tuple[float, dict[str, Any]]] = OrderedDict()
        self._writing = Lock()

    def metadata(self) -> Steps[Mapping[str, Any]]:
        """Return the server's metadata (OpenID Connect Discovery §4). Raises ``ProviderUnavailable``."""
        now = self.config.clock()
        if now - self._metadata_at >= METADATA_S:
            answer = yield httpx.Request("GET", self.config.issuer.rstrip("/") + DISCOVERY)
            found = answer.document()
            if found.get("issuer") != self.config.issuer:
                raise ProviderUnavailable("the server names another issuer")
            self._metadata, self._metadata_at = found, now
        return self._metadata

    def endpoint(self, name: str) -> Steps[str]:
        """Return an address out of the metadata, of the issuer's scheme. Raises ``ProviderUnavailable``."""
        address = (yield from self.metadata()).get(name)
        if not isinstance(address, str) or urlsplit(address).scheme != urlsplit(self.config.issuer).scheme:
            raise ProviderUnavailable(f"the server has no {name}")
        return address

    def has_fresh_key(self, kid: str) -> bool:
        """Return whether the key is known and the key set young."""
        return kid in self._keys and self.config.clock() - self._keys_at < self.config.keys_s

    def refresh_keys(self, kid: str) -> Steps[None]:
        """Fetch the key set for a kid, unless it was fetched or tried a moment ago. Raises ``ProviderUnavailable``.

        An answer that does not come is an error only where the key is not known by an earlier one.
        """
        now = self.config.clock()
        if self.has_fresh_key(kid) or now - self._tried_at < self.config.refetch_s:
            return
        self._tried_at = now
        try:
            address = yield from self.endpoint("jwks_uri")
            document = (yield httpx.Request("GET", address)).document()
            try:
                self._keys = jose.public_keys(document)
            except ValueError as error:
                raise ProviderUnavailable("the server shows no key set") from error
            self._keys_at = now
        except ProviderUnavailable:
            if not self._may_use(kid):
                raise

    def _may_use(self, kid: str) -> bool:
        return kid in self._keys and self.config.clock() - self._keys_at < self.config.stale_s

    def key(self, kid: str) -> Key:
        """Return a key.

        Raises:
            InvalidToken: The server has no such key.
            ProviderUnavailable: The server did not answer for so long that its keys are not to be trusted.
        """
        if self._may_use(kid):
            return self._keys[kid]
        if self.config.clock() - self._keys_at < self.config.stale_s:
            raise InvalidToken("the token is signed by an unknown key")
        raise ProviderUnavailable("the server's keys are not known")

    def kid(self, token: str, typ: str | None) -> str:
        """Return the key that a token names. Raises ``InvalidToken``."""
        algorithms = self.config.algorithms if typ == tokens.ACCESS_TYP else ID_ALGORITHMS
        kid = jose.header(token, typ=typ, algorithms=algorithms).get("kid")
        if not isinstance(kid, str):
            raise InvalidToken("the token names no key")
        return kid

    def judged(self, shown: Presented) -> Claims:
        """Return what a presented access token says; its key has been looked for. Raises ``IronAuthError``."""
        config = self.config
        claims = tokens.access(shown.token, self.key(self.kid(shown.token, tokens.ACCESS_TYP)), config)
        if (shown.scheme == "dpop") != bool(claims.key_thumbprint):
            raise InvalidToken("the token and its scheme do not belong together")
        if claims.key_thumbprint:
            dpop.verify(
                shown.proof,
                token=shown.token,
                thumbprint=claims.key_thumbprint,
                method=shown.method,
                url=shown.url,
                config=config,
                replays=self.replays,
            )
        return claims

    def introspect(self, token: str) -> Steps[dict[str, Any]]:
        """Return what the server says of a token (RFC 7662). Raises ``ProviderUnavailable``.

        An answer is remembered for ``introspection_s``, and never longer than the token lives.
        """
        config, now = self.config, self.config.clock()
        name = hashlib.sha256(token.encode()).digest()
        until, found = self._introspections.get(name, (0.0, {}))
        if now < until:
            return found
        address = yield from self.endpoint("introspection_endpoint")
        request = httpx.Request(
            "POST", address, data={"token": token, **self.client_form()}, headers=self.client_auth()
        )
        found = (yield request).document()
        if not isinstance(found.get("active"), bool):
            raise ProviderUnavailable("the server's introspection is none")
        until = min(now + config.introspection_s, found["exp"] if isinstance(found.get("exp"), int) else now + 1e9)
        with self._writing:
            self._introspections.pop(name, None)
            self._introspections[name] = (until, found)
            while len(self._introspections) > config.introspections:
                self._introspections.popitem(last=False)
        return found

    def client_auth(self) -> dict[str, str]:
        """Return the header that authenticates this client (RFC 6749 §2.3.1)."""
        if not self.config.client_secret:
            return {}
        pair = quote(self.config.client_id, safe=""), quote(self.config.client_secret, safe="")
        return {"Authorization": f"Basic {b64encode(':'.join(pair).encode()).decode()}"}

    def client_form(self) -> dict[str, str]:
        """Return what names this client in a form, where it has no secret."""
        return {} if self.config.client_secret else {"client_id": self.config.client_id}
