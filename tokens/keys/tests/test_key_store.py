"""The process's copy of the key set: how fresh it is, and that it outlives the database."""

import asyncio
import threading
import time
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from conftest import bearer
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db.unit_of_work import database
from tokens.errors import SigningKeyMissing
from tokens.keys import store as key_store_module
from tokens.keys.key_set import Family, KeyRecord
from tokens.keys.models import SigningKey
from tokens.keys.store import KeyStore, key_store, load_at_startup, read_records
from tokens.keys.units import create_first_keys, drop, rotate
from tokens.sessions import authentication

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


@pytest.fixture
def store(signing_key: str) -> KeyStore:
    """A worker's store, not subscribed to anything: what it knows it learns by itself."""
    return KeyStore()


def age(store: KeyStore, seconds: float) -> None:
    """Make the copy as old as if it had been loaded so long ago."""
    store._loaded_at = time.monotonic() - seconds
    store._tried_at = store._loaded_at


async def test_loads_on_first_use(store: KeyStore, signing_key: str) -> None:
    """The first use loads the set; the active key is the one the command made."""
    assert (await store.signing()).kid == signing_key
    assert len((await store.for_verifying()).verifying) == 2
    assert store.holds(signing_key)


async def test_one_load_for_all(store: KeyStore) -> None:
    """Many first uses at once share one reading and get the same set."""
    found = await asyncio.gather(*(store.for_verifying() for _ in range(20)))
    assert len({id(keys) for keys in found}) == 1


async def test_fresh_copy_is_not_reloaded(store: KeyStore) -> None:
    """A copy younger than 2.5 s is used as it is."""
    keys = await store.for_verifying()
    age(store, 2)
    assert await store.for_verifying() is keys
    assert store._reloading is None or store._reloading.done()


async def test_stale_while_revalidate(store: KeyStore) -> None:
    """Between 2.5 s and 5 s the old copy answers at once and a new one is loaded behind it."""
    keys = await store.for_verifying()
    age(store, 3)
    assert await store.for_verifying() is keys
    assert store._reloading is not None
    await store._reloading
    assert await store.for_verifying() is not keys


async def test_a_dropped_key_verifies_for_less_than_five_seconds(store: KeyStore, signing_key: str) -> None:
    """A worker that missed the message refuses a dropped key at the latest 5 s later, before anything is verified."""
    assert signing_key in (await store.for_verifying()).verifying
    await database().write(drop, signing_key)
    age(store, 5)
    assert signing_key not in (await store.for_verifying()).verifying
    assert not store.holds(signing_key)


async def test_a_message_makes_the_copy_outdated(store: KeyStore, signing_key: str) -> None:
    """After a message the copy is not used again, however young, neither to verify nor to publish."""
    for use in (store.for_verifying, store.for_publishing):
        before = await use()
        store.outdated()
        assert await use() is not before


async def test_a_message_during_a_reload(store: KeyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that becomes known while a reload runs is not taken for contained in it."""
    monkeypatch.setattr(key_store_module, "MAX_WAIT_S", 20.0)
    await store.for_verifying()
    age(store, 3)
    await store.for_verifying()
    await asyncio.sleep(0)  # the reload in the background begins
    kid = await _dropped_behind(store)
    assert kid not in (await store.for_verifying()).verifying


async def test_a_reload_that_began_before_a_change_is_not_enough(
    store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody who asks after the change waits for a reload that has begun since, not only for the one that runs."""
    await store.for_verifying()
    has_read, may_go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(key_store_module, "MAX_WAIT_S", 20.0)

    def slowly() -> list[KeyRecord]:
        found = read_records()
        has_read.set()
        may_go_on.wait(20)
        return found

    monkeypatch.setattr(key_store_module, "read_records", slowly)
    age(store, 3)
    await store.for_verifying()
    assert await asyncio.to_thread(has_read.wait, 20)
    kid = await _dropped_behind(store)
    asked = asyncio.ensure_future(store.for_verifying())
    await asyncio.sleep(0)
    may_go_on.set()
    assert kid not in (await asked).verifying


async def _dropped_behind(store: KeyStore) -> str:
    """Drop the active key while the store reloads, and say so; return its kid."""
    kid = (await SigningKey.objects.aget(state="active")).kid
    await database().write(drop, kid)
    store.outdated()
    return kid


async def test_the_process_store_hears_of_changes(signing_key: str) -> None:
    """A rotation in this process is in use with the next token."""
    assert (await key_store().signing()).kid == signing_key
    kid = await database().write(rotate, at_once=True)
    assert kid != signing_key
    assert (await key_store().signing()).kid == kid
    assert len((await key_store().for_publishing()).verifying) == 3


async def test_unknown_kid_is_asked_for_once_a_second(store: KeyStore) -> None:
    """A token with an unknown kid makes the set load again, at most once each second whatever arrives."""
    keys = await store.for_verifying()
    assert await store.for_unknown_kid() is None
    age(store, 1)
    newer = await store.for_unknown_kid()
    assert newer is not None
    assert newer is not keys
    assert await store.for_unknown_kid() is None


async def lose_database(settings: Any) -> None:
    """Make every unit of work fail as when the database does not answer in time."""
    await asyncio.to_thread(database().close)
    settings.IRONAUTH_DATABASE_TIMEOUT_S = 0.0


async def test_database_lost(store: KeyStore, settings: Any) -> None:
    """With the database gone the last copy signs, verifies and is published, however old; only the first try waits."""
    keys = await store.for_verifying()
    await lose_database(settings)
    age(store, 60)
    for _ in range(3):
        assert await store.for_verifying() is keys
        assert await store.for_publishing() is keys
    assert keys.active is not None
    assert (await store.signing()).kid == keys.active.kid
    settings.IRONAUTH_DATABASE_TIMEOUT_S = 2.0
    await store.for_verifying()
    assert store._reloading is not None
    await store._reloading
    assert await store.for_verifying() is not keys


async def test_never_loaded(store: KeyStore, settings: Any) -> None:
    """Without any copy and without database the answer is 503, and start-up goes on."""
    await lose_database(settings)
    with pytest.raises(Unavailable):
        await store.for_verifying()
    await load_at_startup()


async def test_no_key(db: None) -> None:
    """A server without key answers 503, and signs as soon as there is one."""
    store = KeyStore()
    with pytest.raises(SigningKeyMissing) as caught:
        await store.signing()
    assert (caught.value.status, caught.value.headers["Retry-After"]) == (503, "5")
    await load_at_startup()
    await database().write(create_first_keys)
    age(store, 1)
    assert (await store.signing()).kid


async def test_unreadable_private_part(store: KeyStore, signing_key: str, settings: Any) -> None:
    """When the master key is gone nothing is signed, and tokens still verify."""
    settings.IRONAUTH_MASTER_KEYS = {"t9": bytes(range(32))}
    assert signing_key in (await store.for_verifying()).verifying
    with pytest.raises(SigningKeyMissing):
        await store.signing()


async def test_changed_private_part(store: KeyStore, signing_key: str) -> None:
    """A private part that was tampered with is not used, and is no crash."""
    await SigningKey.objects.filter(pk=signing_key).aupdate(private_encrypted=bytes(60))
    with pytest.raises(SigningKeyMissing):
        await store.signing()


async def test_start_up(signing_key: str) -> None:
    """After start-up the set is there before the first request."""
    await load_at_startup()
    assert key_store().holds(signing_key)


@pytest.mark.parametrize("has_both", [False, True])
async def test_an_installation_older_than_rs256(signing_key: str, has_both: bool) -> None:
    """A start says how the keys are made that ID tokens of new clients need, and that discovery has to name."""
    if has_both:
        await database().write(create_first_keys, Family.RS256)
    with capture_logs() as lines:
        await load_at_startup()
    missing = [line for line in lines if line["event"] == "signing_key_missing"]
    assert [(line["log_level"], "--alg RS256" in line["remedy"]) for line in missing] == [("warning", True)] * (
        not has_both
    )
    assert "key_set_loaded" in [line["event"] for line in lines]


async def test_a_reload_ends_the_tokens_of_a_key_it_no_longer_has(
    api: httpx.AsyncClient, signing_key: str, pair: dict[str, Any]
) -> None:
    """A token that this process has verified is cold again once a reload finds its key gone, before any message."""
    assert (await api.get("/api/v1/access/verify", headers=bearer(pair))).status_code == 204
    token = pair["access_token"]
    kept = await database().write(rotate, at_once=True)
    assert authentication.peek(token) is not None
    await SigningKey.objects.filter(pk=signing_key).adelete()  # as another node's drop, whose message is late
    await key_store()._reload()
    assert (key_store().holds(signing_key), key_store().holds(kept)) == (False, True)
    assert authentication.peek(token) is None
    assert (await api.get("/api/v1/access/verify", headers=bearer(pair))).status_code == 401
