"""APIs that tests register, and what they ask about tokens."""

from typing import Any, Final

import httpx

from tokens.oauth.tests.flow import Party
from tokens.resources.models import ApiResource

ORDERS: Final = "https://api.example.com/orders"
MAIL: Final = "https://mail.example.com"
USERINFO: Final = "/oauth/userinfo"


def make_api(identifier: str = ORDERS, **fields: Any) -> ApiResource:
    """Register an API."""
    given = {"name": "Orders", "scopes": ["orders:read", "shared"], **fields}
    return ApiResource.objects.create(identifier=identifier, **given)


async def refused(answer: httpx.Response, error: str = "invalid_target", status: int = 400) -> None:
    """The answer is a refusal of this kind."""
    assert (answer.status_code, answer.json()["error"]) == (status, error), answer.text


async def is_active(party: Party, token: str) -> bool:
    """Return what introspection says of a token."""
    return bool((await party.introspect(token))["active"])
