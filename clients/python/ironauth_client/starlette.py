"""Access tokens in Starlette and FastAPI: ``Accepts`` is called with a request, or is a FastAPI dependency."""

import logging
from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ironauth_client import metadata
from ironauth_client.client import AsyncClient
from ironauth_client.config import NOBODY_ASKS, Config
from ironauth_client.errors import IronAuthError, ProviderUnavailable, challenge
from ironauth_client.presented import presented
from ironauth_client.tokens import Claims

logger = logging.getLogger(__name__)


class Accepts:
    """Lets a request in that presents a good token, Bearer or DPoP.

    Args:
        client: The application's client, one for its event loop.
        scopes: What the token must have.
        revocation: Whether the server is asked, too, if the token was revoked.

    Raises:
        ValueError: The server is to be asked, and the configuration has no client that may ask.
    """

    def __init__(self, client: AsyncClient, *scopes: str, revocation: bool = False) -> None:
        if revocation and not client.provider.config.may_ask:
            raise ValueError(f"revocation=True: {NOBODY_ASKS}")
        self._client, self._scopes, self._revocation = client, scopes, revocation
        self._said = metadata.challenge_of(client.provider.config)

    async def __call__(self, request: Request) -> Claims:
        """Return what the token says.

        Raises:
            HTTPException: 401 without a good token, 403 without a scope, 503 where the server has to be asked in vain.
        """
        try:
            shown = presented(
                _all(request, "authorization"), _all(request, "dpop"), method=request.method, url=str(request.url)
            )
            if shown is None:
                raise HTTPException(401, headers={"WWW-Authenticate": challenge(None, said=self._said)})
            return await self._client.verify(shown, scopes=self._scopes, revocation=self._revocation)
        except IronAuthError as error:
            if isinstance(error, ProviderUnavailable):
                logger.warning("a token could not be checked: %s", error)
            scheme = "DPoP" if request.headers.get("authorization", "").lower().startswith("dpop ") else "Bearer"
            headers = (
                {"WWW-Authenticate": challenge(error, scheme, said=self._said)} if error.status in (401, 403) else None
            )
            raise HTTPException(error.status, str(error), headers) from error


def metadata_route(config: Config, *, scopes: Iterable[str] = (), name: str = "") -> Route:
    """Return the route of the API's metadata (RFC 9728), for the root of the application.

    Args:
        config: Of the API; its audience is the identifier that it was registered with.
        scopes: Those that a client may ask for.
        name: What people know the API by.
    """
    said = metadata.document(config, scopes=scopes, name=name)

    async def answer(_: Request) -> JSONResponse:
        return JSONResponse(said, headers={"Access-Control-Allow-Origin": "*"})

    return Route(metadata.path_of(config), answer)


def _all(request: Request, name: str) -> list[str]:
    found: list[str] = request.headers.getlist(name)
    return found
