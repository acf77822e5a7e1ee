"""Introspection as a JWT (RFC 9701): for who asks for it, with the plain answer inside."""

from typing import Any

import pytest
from asgiref.sync import sync_to_async

from ironauth.infrastructure.core import clock
from tokens.oauth.signed.responses import INTROSPECTION_MEDIA, INTROSPECTION_TYPE, is_asked
from tokens.oauth.signed.tests.material import read
from tokens.oauth.tests.flow import INTROSPECT, Party
from tokens.oauth.tests.walk import ISSUER

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning"),
]
SIGNED = {"Accept": INTROSPECTION_MEDIA}


async def signed(party: Party, token: str) -> dict[str, Any]:
    """Return the claims of a signed answer."""
    asks = Party(party.api, party.client, party.secret, SIGNED)
    answer = await asks.post(INTROSPECT, token=token)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == INTROSPECTION_MEDIA
    assert answer.headers["cache-control"] == "no-store"
    return await read(party.api, answer.text, typ=INTROSPECTION_TYPE)


async def test_the_plain_answer_inside(gateway: Party, wiki: Party, tokens: dict[str, Any], still_clock: float) -> None:
    """``aud`` is who asks; what the token stands for is inside, and nothing of it beside."""
    for party in (gateway, wiki):
        claims = await signed(party, tokens["access_token"])
        assert claims.keys() == {"iss", "aud", "iat", "token_introspection"}
        assert (claims["iss"], claims["aud"], claims["iat"]) == (ISSUER, str(party.client.pk), int(clock.unix()))
        assert claims["token_introspection"] == await party.introspect(tokens["access_token"])
        assert claims["token_introspection"]["active"] is True
    refresh = await signed(wiki, tokens["refresh_token"])
    assert refresh["token_introspection"]["active"] is True
    stranger = await signed(gateway, tokens["refresh_token"])
    assert stranger["token_introspection"] == {"active": False}
    assert (await signed(gateway, "nonsense"))["token_introspection"] == {"active": False}


async def test_errors_are_plain(gateway: Party, tokens: dict[str, Any]) -> None:
    """Who has not proved who it is, or asks nothing, gets the JSON of RFC 6749."""
    answer = await gateway.api.post(INTROSPECT, data={"token": tokens["access_token"]}, headers=SIGNED)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    asks = Party(gateway.api, gateway.client, gateway.secret, SIGNED)
    answer = await asks.post(INTROSPECT)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_a_key_that_is_missing(gateway: Party, tokens: dict[str, Any]) -> None:
    """Who asks for a signature never gets an unsigned answer."""
    gateway.client.authorization_signed_response_alg = "ES256"
    await sync_to_async(gateway.client.save)()
    asks = Party(gateway.api, gateway.client, gateway.secret, SIGNED)
    answer = await asks.post(INTROSPECT, token=tokens["access_token"])
    assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")


async def test_a_signed_answer_is_no_token(gateway: Party, tokens: dict[str, Any]) -> None:
    """It opens no API, and stands for nothing itself (RFC 9701 §8.1)."""
    asks = Party(gateway.api, gateway.client, gateway.secret, SIGNED)
    text = (await asks.post(INTROSPECT, token=tokens["access_token"])).text
    assert (await gateway.api.get("/api/v1/access/me", headers={"Authorization": f"Bearer {text}"})).status_code == 401
    assert await gateway.introspect(text) == {"active": False}


@pytest.mark.parametrize(
    ("accept", "asked"),
    [
        (INTROSPECTION_MEDIA, True),
        ("Application/Token-Introspection+JWT", True),
        (f"{INTROSPECTION_MEDIA};q=0.5", True),
        (f"application/json, {INTROSPECTION_MEDIA} ; q=1", True),
        (f"{INTROSPECTION_MEDIA};q=0", False),
        (f"{INTROSPECTION_MEDIA};q=0.000", False),
        ("application/jwt", False),
        ("application/json", False),
        ("*/*", False),
        ("application/*", False),
        ("", False),
        (";;,=,q=", False),
    ],
)
def test_who_asks_for_it(accept: str, asked: bool) -> None:
    """By its name, not by a range."""
    assert is_asked(accept) is asked
