"""Access tokens in Starlette and FastAPI: ``Accepts`` is called with a request, or is a FastAPI dependency."""

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ironauth_client.client import AsyncClient
from ironauth_client.errors import IronAuthError, challenge
from ironauth_client.presented import presented
from ironauth_client.tokens import Claims


class Accepts:
    """Lets a request in that presents a good token, Bearer or DPoP.

    Args:
        client: The application's client, one for its event loop.
        scopes: What the token must have.
        revocation: Whether the server is asked, too, if the token was revoked.
    """

    def __init__(self, client: AsyncClient, *scopes: str, revocation: bool = False) -> None:
        self._client, self._scopes, self._revocation = client, scopes, revocation

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
                raise HTTPException(401, headers={"WWW-Authenticate": challenge(None)})
            return await self._client.verify(shown, scopes=self._scopes, revocation=self._revocation)
        except IronAuthError as error:
            scheme = "DPoP" if request.headers.get("authorization", "").lower().startswith("dpop ") else "Bearer"
            headers = {"WWW-Authenticate": challenge(error, scheme)} if error.status in (401, 403) else None
            raise HTTPException(error.status, str(error), headers) from error


def _all(request: Request, name: str) -> list[str]:
    found: list[str] = request.headers.getlist(name)
    return found
