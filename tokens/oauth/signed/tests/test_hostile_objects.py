"""Request objects whose members are of every type and length: no answer is an error of ours."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from ironauth.tests.sweep import HOSTILE
from tokens.clients.models import OAuthClient
from tokens.oauth.signed.tests.material import claims_of, make_bank, push, request_object, signed, signed_as
from tokens.oauth.tests.material import REDIRECT_URI
from tokens.oauth.tests.walk import AUTHORIZE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


@pytest.fixture
async def bank(signing_key: str) -> OAuthClient:
    """A client of FAPI 2.0 Message Signing."""
    return await sync_to_async(make_bank)()


#: Values of every type that JSON has, and texts that hurt readers.
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 10**40, 1.5, 1e300, "", "\x00", "\ud800", "x" * 3_000, [], [[]], [1], ["a", "b"], {},
    {"a": {"a": []}},
    *HOSTILE.values(),
)  # fmt: skip


@pytest.mark.live
async def test_every_claim_by_every_value(api: httpx.AsyncClient, bank: OAuthClient) -> None:
    """Well signed, whatever is inside: an answer of 201 or 400, and in an address a page or an error, none of ours."""
    own = await sync_to_async(make_bank)(require_par=False, profile="oauth2.1")
    good = claims_of(own)
    for name in (*good, "iat", "jti", "sub", "claims", "prompt", "max_age", "dpop_jkt", "id_token_hint", "resource"):
        for value in VALUES:
            text = signed({**good, name: value})
            answer = await api.get(AUTHORIZE, params={"client_id": str(own.pk), "request": text})
            assert answer.status_code in (200, 303, 400, 414), (name, value, answer.text)
            if answer.status_code == 303:
                assert answer.headers["location"].startswith(REDIRECT_URI), (name, value)
    for value in VALUES:
        for name in ("exp", "aud", "redirect_uri", "claims", "state"):
            answer = await push(api, bank, request_object(bank, **{name: value}))
            assert answer.status_code in (201, 400), (name, value, answer.text)


async def test_hostile_headers(api: httpx.AsyncClient, bank: OAuthClient) -> None:
    """A member of the header of any type is refused or means nothing."""
    for name in ("typ", "alg", "kid", "jwk", "jku", "x5c", "x5u", "crit", "b64", "cty"):
        for value in VALUES:
            answer = await push(api, bank, signed_as(claims_of(bank), **{name: value}))
            assert answer.status_code in (201, 400), (name, value, answer.text)
