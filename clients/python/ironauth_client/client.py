"""The two faces of this package: ``Client`` for sync and ``AsyncClient`` for async code, with the same methods."""

import asyncio
from collections.abc import Iterable, Mapping
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx

from ironauth_client import tokens
from ironauth_client.config import Config
from ironauth_client.dpop import ReplayStore
from ironauth_client.errors import InvalidToken, ProviderUnavailable
from ironauth_client.presented import Presented
from ironauth_client.provider import Answer, Provider, Steps
from ironauth_client.tokens import Claims

T = TypeVar("T")  # in the form that Python 3.11 reads
LONGEST_ANSWER: Final = 256 * 1024  # bytes; more is refused while it arrives


class _Body:
    """An answer on its way, bounded in length and time."""

    def __init__(self, limit_s: float) -> None:
        self._parts = bytearray()
        self._deadline = monotonic() + limit_s

    def add(self, part: bytes) -> None:
        self._parts += part
        if len(self._parts) > LONGEST_ANSWER or monotonic() > self._deadline:
            raise ProviderUnavailable("the server's answer is too long, or comes too slowly")

    def answer(self, status: int) -> Answer:
        return Answer(status, bytes(self._parts))


class Client:
    """Verifies tokens in sync code; one for a whole process, its methods may be called from any thread."""

    def __init__(
        self, config: Config, *, replays: ReplayStore | None = None, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.provider = Provider(config, replays)
        self._http = httpx.Client(timeout=config.timeout_s, transport=transport)
        self._lock = Lock()

    def verify(self, shown: str | Presented, *, scopes: Iterable[str] = (), revocation: bool = False) -> Claims:
        """Return what an access token says.

        Args:
            shown: The token; with ``presented`` also its DPoP proof.
            scopes: What the token must have.
            revocation: Whether the server is asked, too, if the token was revoked.

        Raises:
            InvalidToken: The token is not to be accepted.
            InvalidProof: Its DPoP proof is not.
            InsufficientScope: It lacks a scope.
            ProviderUnavailable: The server had to be asked and did not answer.
        """
        shown = Presented(shown) if isinstance(shown, str) else shown
        self._find_key(shown.token, tokens.ACCESS_TYP)
        claims = self.provider.judged(shown)
        claims.require(scopes)
        if revocation:
            _still_active(self.introspect(shown.token))
        return claims

    def verify_identity(self, token: str, *, nonce: str) -> Claims:
        """Return what an ID token says. Raises ``InvalidToken`` or ``ProviderUnavailable``."""
        key = self.provider.key(self._find_key(token, None))
        return tokens.identity(token, key, self.provider.config, nonce=nonce)

    def verify_logout(self, token: str) -> Claims:
        """Return what a logout token says. Raises ``InvalidToken`` or ``ProviderUnavailable``."""
        key = self.provider.key(self._find_key(token, tokens.LOGOUT_TYP))
        return tokens.logout(token, key, self.provider.config)

    def introspect(self, token: str) -> dict[str, Any]:
        """Return what the server says of a token, now or ``introspection_s`` ago. Raises ``ProviderUnavailable``."""
        return self.run(self.provider.introspect(token))

    def metadata(self) -> Mapping[str, Any]:
        """Return the server's metadata. Raises ``ProviderUnavailable``."""
        return self.run(self.provider.metadata())

    def _find_key(self, token: str, typ: str | None) -> str:
        kid = self.provider.kid(token, typ)
        if not self.provider.has_fresh_key(kid):
            with self._lock:  # one fetch for all that wait
                self.run(self.provider.refresh_keys(kid))
        return kid

    def run(self, steps: Steps[T]) -> T:
        """Ask the server what ``steps`` ask; return what they find. Raises ``ProviderUnavailable``."""
        try:
            request = next(steps)
            while True:
                try:
                    answer = self._answer(request)
                except ProviderUnavailable as error:
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as end:
            found: T = end.value
            return found

    def _answer(self, request: httpx.Request) -> Answer:
        body = _Body(self.provider.config.timeout_s)
        request.extensions = {"timeout": self._http.timeout.as_dict()}
        try:
            response = self._http.send(request, stream=True)
            try:
                for part in response.iter_bytes():
                    body.add(part)
            finally:
                response.close()
        except httpx.HTTPError as error:
            raise ProviderUnavailable(f"the server does not answer: {type(error).__name__}") from error
        return body.answer(response.status_code)

    def close(self) -> None:
        """Close connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """Verifies tokens in async code; one for each event loop."""

    def __init__(
        self, config: Config, *, replays: ReplayStore | None = None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.provider = Provider(config, replays)
        self._http = httpx.AsyncClient(timeout=config.timeout_s, transport=transport)
        self._lock = asyncio.Lock()

    async def verify(self, shown: str | Presented, *, scopes: Iterable[str] = (), revocation: bool = False) -> Claims:
        """Return what an access token says; arguments and errors are those of ``Client.verify``."""
        shown = Presented(shown) if isinstance(shown, str) else shown
        kid = self.provider.kid(shown.token, tokens.ACCESS_TYP)
        if not self.provider.has_fresh_key(kid):
            async with self._lock:
                await self.run(self.provider.refresh_keys(kid))
        claims = self.provider.judged(shown)
        claims.require(scopes)
        if revocation:
            _still_active(await self.introspect(shown.token))
        return claims

    async def introspect(self, token: str) -> dict[str, Any]:
        """Return what the server says of a token, now or ``introspection_s`` ago. Raises ``ProviderUnavailable``."""
        return await self.run(self.provider.introspect(token))

    async def run(self, steps: Steps[T]) -> T:
        """Ask the server what ``steps`` ask; return what they find. Raises ``ProviderUnavailable``."""
        try:
            request = next(steps)
            while True:
                try:
                    answer = await self._answer(request)
                except ProviderUnavailable as error:
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as end:
            found: T = end.value
            return found

    async def _answer(self, request: httpx.Request) -> Answer:
        body = _Body(self.provider.config.timeout_s)
        request.extensions = {"timeout": self._http.timeout.as_dict()}
        try:
            response = await self._http.send(request, stream=True)
            try:
                async for part in response.aiter_bytes():
                    body.add(part)
            finally:
                await response.aclose()
        except httpx.HTTPError as error:
            raise ProviderUnavailable(f"the server does not answer: {type(error).__name__}") from error
        return body.answer(response.status_code)

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()


def _still_active(said: Mapping[str, Any]) -> None:
    if said["active"] is not True:
        raise InvalidToken("the token was revoked")
