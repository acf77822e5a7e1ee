"""Units of work on our copies of logos."""

from typing import Final, NamedTuple
from uuid import UUID

from django.db import transaction

from ironauth.infrastructure.core import clock
from tokens.clients.fetched.models import ClientLogo
from tokens.clients.models import OAuthClient


class Picture(NamedTuple):
    """A picture and its media type."""

    media: str
    content: bytes


#: What is kept of an address that had no picture when staff verified the client.
NO_PICTURE: Final = Picture("", b"")


def read(client_id: UUID, uri: str) -> Picture | None:
    """Return the copy that a client has of this address; None for none yet. 1 query.

    One without a media type is no picture: staff have verified the client while there was none.

    Args:
        client_id: The client.
        uri: Its ``logo_uri``.
    """
    found = ClientLogo.objects.filter(client=client_id, uri=uri).values_list("media", "content").first()
    return Picture(found[0], bytes(found[1])) if found is not None else None


def keep(client_id: UUID, uri: str, picture: Picture) -> None:
    """Store a client's copy instead of that of another address, unless its own has changed meanwhile.

    What is kept of this address stays: it is what people, and staff who verified the client, have seen.

    Args:
        client_id: The client.
        uri: Where the picture came from.
        picture: What was there.
    """
    with transaction.atomic():
        if OAuthClient.objects.select_for_update().filter(pk=client_id, logo_uri=uri).first() is None:
            return
        if ClientLogo.objects.filter(client=client_id, uri=uri).exists():
            return
        said = {"uri": uri, "media": picture.media, "content": picture.content, "fetched_at": clock.now()}
        ClientLogo.objects.update_or_create(client_id=client_id, defaults=said)
