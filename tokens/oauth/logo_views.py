"""GET /oauth/logo/{client_id}: our copy of a client's logo, for the pages that ask people about it."""

from http import HTTPStatus
from typing import Any, ClassVar, Final
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema

from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from tokens.clients import registry as clients
from tokens.clients.fetched import logos

#: The address names the address that the picture came from: another picture has another one.
_KEEP_S: Final = 86_400
_HEADERS: Final = {
    "Cache-Control": f"public, max-age={_KEEP_S}",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class LogoView(AsyncAPIView):
    """GET /oauth/logo/{client_id}."""

    authentication_classes: ClassVar[Any] = ()
    permission_classes = ()
    no_store = False

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest, client_id: UUID) -> HttpResponse:
        """Return the picture, of the type that it is; 404 for a client without one, or with that of another address.

        A document may name a new logo before its client's row does: the old picture is not shown as the new one. Ids
        of no client count for the network that they come from, as everywhere.
        """
        client = await clients.find_shown_to_stranger(str(client_id))
        if client is not None and request.query_params.get("of", client.logo_mark) != client.logo_mark:
            client = None
        picture = await logos.of(client) if client is not None else None
        if picture is None:
            return HttpResponse(status=HTTPStatus.NOT_FOUND, headers={"Cache-Control": "no-store"})
        return HttpResponse(picture.content, content_type=picture.media, headers=_HEADERS)
