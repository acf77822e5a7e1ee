"""Ids of clients that strangers invent: they drop nothing of ours from memory, and count for their network."""

import uuid
from types import SimpleNamespace

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from conftest import bearer
from ironauth.infrastructure.cache import two_level as cache
from ironauth.infrastructure.cache.shared_entries import Asking
from ironauth.infrastructure.cache.two_level import token_cache
from tokens.clients import registry as clients
from tokens.clients.models import OAuthClient, client_tag
from tokens.oauth.tests.material import make_client
from tokens.tests.browser import VERIFY, Pair

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("throttled")]
LIMIT = 20  # invented ids in a quarter of an hour, for these tests


@pytest.fixture(autouse=True)
def _few(settings: Settings) -> None:
    settings.IRONAUTH_THROTTLE_BAD_REFRESHES = LIMIT


@pytest.fixture
async def wiki(transactional_db: None, signing_key: str) -> OAuthClient:
    """A client of ours."""
    return (await sync_to_async(make_client)())[0]


@pytest.mark.parametrize("path", ["/oauth/authorize", "/oauth/logout"])
async def test_they_count(api: httpx.AsyncClient, wiki: OAuthClient, path: str) -> None:
    """After as many invented ids as the limit a network gets 429 for one more; a client's own id is never refused."""
    for _ in range(LIMIT):
        answer = await api.get(path, params={"client_id": str(uuid.uuid4())})
        assert answer.status_code != 429
    refused = await api.get(path, params={"client_id": str(uuid.uuid4())})
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.headers["content-type"].startswith("text/html")
    for client_id in (str(wiki.pk), "no-id", ""):
        assert (await api.get(path, params={"client_id": client_id})).status_code in (200, 400)


@pytest.mark.parametrize("mark", ["", "?of=0123456789abcdef"])
async def test_they_count_where_a_logo_is_asked_for(api: httpx.AsyncClient, wiki: OAuthClient, mark: str) -> None:
    """As many invented ids as the limit are answered 404, one more 429; a client's own id never is."""
    for _ in range(LIMIT):
        assert (await api.get(f"/oauth/logo/{uuid.uuid4()}{mark}")).status_code == 404
    refused = await api.get(f"/oauth/logo/{uuid.uuid4()}{mark}")
    assert (refused.status_code, int(refused.headers["retry-after"]) >= 1) == (429, True)
    for _ in range(2):
        assert (await api.get(f"/oauth/logo/{wiki.pk}{mark}")).status_code == 404


async def test_they_drop_nothing_of_ours(
    api: httpx.AsyncClient, pair: Pair, wiki: OAuthClient, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """Ten times as many invented ids as the memory holds leave a token and a client known: neither is read again."""
    settings.IRONAUTH_L1_MIB = 1
    monkeypatch.setattr(token_cache()._l1, "max_stale_s", 600.0)  # 500 questions to a busy Redis may take five seconds
    monkeypatch.setattr(token_cache()._absent, "max_bytes", 50_000)
    assert (await api.get(VERIFY, headers=bearer(pair))).status_code == 204
    assert await clients.find(str(wiki.pk)) is not None
    ours = token_cache().entries
    for _ in range(500):
        assert await clients.find(str(uuid.uuid4())) is None
    assert token_cache().entries == ours
    assert len(token_cache()._absent) < 200
    assert token_cache()._absent.bytes <= 50_000
    monkeypatch.setattr(clients, "database", None)  # a question to it fails now
    monkeypatch.setattr("tokens.sessions.authentication.database", None)
    assert await clients.find(str(wiki.pk)) is not None
    assert (await api.get(VERIFY, headers=bearer(pair))).status_code == 204


async def test_an_id_that_names_none_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same invented id costs one reading, and a client made under it is known as soon as that is heard of."""
    invented = uuid.uuid4()
    assert await clients.find(str(invented)) is None
    with monkeypatch.context() as patch:
        patch.setattr(clients, "database", None)
        assert await clients.find(str(invented)) is None
    await sync_to_async(make_client)(id=invented)
    token_cache().drop(client_tag(str(invented)))  # what the feed does
    assert await clients.find(str(invented)) is not None


def test_the_memory_for_them_is_small() -> None:
    """What each process remembers of keys under which there is nothing takes 1 MiB."""
    assert cache.MAX_ABSENT_BYTES == 2**20
    assert token_cache()._absent.max_bytes == 2**20


async def test_a_client_is_no_matter_for_redis(wiki: OAuthClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the key that pairwise subjects are made with, which nobody who reads there may learn."""
    told: list[str] = []
    remote = SimpleNamespace(share=lambda key, _entry: told.append(key), clear=lambda: None, asking=Asking())
    monkeypatch.setattr(token_cache(), "_l2", remote)
    assert await clients.find(str(wiki.pk)) is not None
    assert told == []
