"""What the account's page says after an identity was connected: that it is, and which other sessions have ended by it.

The browser comes back from the provider by an address, which has the words to be said and shows that we have made it.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from django.urls import reverse

from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.user_agents import short_name
from ironauth.infrastructure.crypto import stateless_token
from ironauth.infrastructure.crypto.master_keys import register_purpose

_PURPOSE: Final = register_purpose("ironauth connected identity")
#: Devices that are named; the others are counted.
MOST_NAMED: Final = 5
SECTION: Final = "identities"


class Connected(NamedTuple):
    """What is said: the provider's name, how many sessions have ended, and what some of them are called."""

    provider: str
    ended: int
    devices: tuple[str, ...]


_decoder: Final = msgspec.json.Decoder(Connected)


def address(*, user_id: UUID, provider: str, user_agents: Sequence[str]) -> str:
    """Return the address of the page that says it.

    Args:
        user_id: Whose page it is; nobody else is told.
        provider: What the provider is called.
        user_agents: Of the sessions that have ended.
    """
    names = tuple(dict.fromkeys(short_name(one) or "—" for one in user_agents))
    text = msgspec.json.encode(Connected(provider, len(user_agents), names[:MOST_NAMED])).decode()
    query = {"connected": text, "made": stateless_token.mint(_PURPOSE, b"", user_id.bytes + text.encode())}
    return f"{reverse('email-pages:account-row', kwargs={'section': SECTION})}?{urlencode(query)}"


def told(request: ApiRequest) -> dict[str, Any]:
    """Return what the page says of it, as ``connected``; nothing where the address is not one of ours.

    Args:
        request: For the page of the identities.
    """
    text, made = (request.query_params.get(name, "") for name in ("connected", "made"))
    if not made or stateless_token.parse(_PURPOSE, made, 0, signed_in(request).id.bytes + text.encode()) is None:
        return {}
    return {"connected": _decoder.decode(text)}
