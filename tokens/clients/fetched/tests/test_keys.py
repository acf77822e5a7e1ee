"""Keys of clients at their addresses: fetched when they are needed, kept, and fetched again for one that is new."""

import asyncio
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from joserfc.jwk import ECKey

from ironauth.infrastructure.core import clock
from tokens.clients.fetched import keys as fetched_keys
from tokens.clients.fetched.tests.web import Web, web
from tokens.clients.models import OAuthClient
from tokens.clients.tests.test_client_assertion import asked, assertion
from tokens.oauth.tests.flow import Party
from tokens.oauth.tests.material import make_client

__all__ = ["web"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

URL = "https://bank.example.com/jwks.json"
KEYS = {kid: ECKey.generate_key("P-256", {"kid": kid}) for kid in ("k-1", "k-2", "k-3")}


def public(*kids: str) -> dict[str, Any]:
    return {"keys": [KEYS[kid].as_dict(private=False) for kid in kids]}


@pytest.fixture(autouse=True)
def _begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys were asked for anew."""
    monkeypatch.setattr(fetched_keys, "_asked_anew", {})


@pytest.fixture
async def bank(api: httpx.AsyncClient, signing_key: str, web: Web) -> Party:
    """A client whose keys are at an address."""
    web.has(URL, public("k-1"), "application/jwk-set+json")
    given = {"auth_method": "private_key_jwt", "jwks_uri": URL, "grants": ["client_credentials"], "scopes": ["reports"]}
    return Party(api, *await sync_to_async(make_client)(**given))


async def shown(bank: Party, kid: str, *, named: Any = None) -> int:
    """Return what comes of an assertion that this key has signed, under its name or another."""
    header = {"kid": named if named is not None else kid}
    return (await asked(bank, assertion(str(bank.client.pk), key=KEYS[kid], header=header))).status_code


async def test_fetched_once(bank: Party, web: Web) -> None:
    """The first assertion has them fetched; those after it do not, nor does one that another key has signed."""
    assert not web.asked
    assert [await shown(bank, "k-1") for _ in range(3)] == [200] * 3
    assert await shown(bank, "k-2", named="k-1") == 401
    assert web.asked == [URL]


async def test_kept_as_long_as_the_headers_say(bank: Party, web: Web) -> None:
    """Then they are fetched again, and what is not there any more is good no more."""
    assert await shown(bank, "k-1") == 200
    web.has(URL, public("k-2"))
    with clock.shifted(web.keep_s - 60):
        assert await shown(bank, "k-1") == 200
    with clock.shifted(web.keep_s + 1):
        assert await shown(bank, "k-1") == 401
        assert await shown(bank, "k-2") == 200


async def test_a_new_key(bank: Party, web: Web) -> None:
    """One that is not known is looked for at once, at most once a minute; the old one is good no more."""
    assert await shown(bank, "k-1") == 200
    web.has(URL, public("k-2"))
    assert await shown(bank, "k-2") == 200
    assert await shown(bank, "k-1") == 401
    web.has(URL, public("k-3"))
    assert await shown(bank, "k-3") == 401
    assert len(web.asked) == 2
    with clock.shifted(fetched_keys.ANEW_S + 1):
        assert await shown(bank, "k-3") == 200
    assert len(web.asked) == 3


async def test_invented_keys(bank: Party, web: Web) -> None:
    """Names of keys that are nowhere have this server ask once, also with many at a time."""
    assert await shown(bank, "k-1") == 200
    assert set(await asyncio.gather(*(shown(bank, "k-2", named=f"x-{at}") for at in range(5)))) == {401}
    assert len(web.asked) == 2
    assert await shown(bank, "k-1") == 200


async def test_a_lost_answer(bank: Party, web: Web) -> None:
    """Where the address does not answer, the keys that are known stay as long as they were to."""
    assert await shown(bank, "k-1") == 200
    web.lost(URL)
    assert await shown(bank, "k-2") == 401
    assert await shown(bank, "k-1") == 200
    with clock.shifted(web.keep_s + 1):
        assert await shown(bank, "k-1") == 401


async def test_no_answer(bank: Party, web: Web) -> None:
    """Without keys nobody is let in; a moment later they are asked for again."""
    web.lost(URL)
    assert [await shown(bank, "k-1") for _ in range(3)] == [401] * 3
    assert len(web.asked) == 1
    web.has(URL, public("k-1"))
    with clock.shifted(fetched_keys.REST_S + 1):
        assert await shown(bank, "k-1") == 200


@pytest.mark.parametrize(
    ("said", "media"),
    [
        (public("k-1"), "text/html"),
        (public("k-1")["keys"], "application/json"),
        ({"keys": {}}, "application/json"),
        ({"keys": []}, "application/json"),
        ({"keys": ["k-1", None]}, "application/json"),
        ({"keys": [KEYS["k-1"].as_dict(private=True)]}, "application/json"),
        ({"keys": [{**public("k-1")["keys"][0], "use": "enc"}]}, "application/json"),
        ({"keys": public("k-1")["keys"] * 11}, "application/json"),
        (b'{"keys": [], "keys": []}', "application/json"),
        (b"{", "application/json"),
        (b"\xff", "application/json"),
        ({"keys": public("k-1")["keys"], "x": "x" * 65_536}, "application/json"),
    ],
)
async def test_no_keys(bank: Party, web: Web, said: Any, media: str) -> None:
    """An answer that is no set of public keys for signatures lets nobody in."""
    web.has(URL, said, media)
    assert await shown(bank, "k-1") == 401


@pytest.mark.parametrize(
    "other",
    [{"kty": "OKP", "crv": "X25519", "x": "AA"}, {"kty": "new"}, {}, {**public("k-2")["keys"][0], "use": "enc"}],
)
async def test_other_keys_beside_them(bank: Party, web: Web, other: dict[str, Any]) -> None:
    """Keys for something else are ignored, as those of a kind that nobody here knows (RFC 7517 §5)."""
    web.has(URL, {"keys": [other, *public("k-1")["keys"]]})
    assert await shown(bank, "k-1") == 200


async def test_another_address(bank: Party, web: Web) -> None:
    """A change of the client counts at once, whatever was kept."""
    assert await shown(bank, "k-1") == 200
    client = await OAuthClient.objects.aget(pk=bank.client.pk)
    client.jwks_uri = f"{URL}?2"
    web.has(client.jwks_uri, public("k-2"))
    await sync_to_async(client.save)()
    assert await shown(bank, "k-1") == 401
    assert await shown(bank, "k-2") == 200


@pytest.mark.parametrize("kid", [..., ""])
async def test_keys_without_a_name(bank: Party, web: Web, kid: Any) -> None:
    """An assertion that names none, or nonsense, is tried with those there are, and has nothing fetched anew."""
    assert await shown(bank, "k-1", named=kid) == (200 if kid is ... else 401)
    assert len(web.asked) == 1
