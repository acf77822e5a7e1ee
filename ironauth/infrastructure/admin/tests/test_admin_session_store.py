"""The admin's sessions are kept under a digest of what the browser holds."""

import pytest
from django.contrib.sessions.models import Session

from ironauth.infrastructure.admin.session_store import KEY_CHARACTERS, SessionStore, stored_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


def opened() -> str:
    """Store a session and return what the browser gets."""
    store = SessionStore()
    store["who"] = "mia"
    store.create()
    assert store.session_key
    return store.session_key


def test_a_copy_of_the_table_opens_nothing() -> None:
    """The row's key is no cookie, and the cookie is no row's key."""
    known = opened()
    row = Session.objects.get()
    assert row.session_key == stored_key(known) != known
    assert len(row.session_key) == KEY_CHARACTERS
    assert SessionStore(known).load() == {"who": "mia"}
    thief = SessionStore(row.session_key)
    assert thief.load() == {}
    assert thief.session_key is None  # and is given another one


def test_a_row_of_djangos_own_store_opens_nothing() -> None:
    """What an older release had stored by the cookie's value is not found by it."""
    known = opened()
    Session.objects.update(session_key=known)
    assert SessionStore(known).load() == {}


def test_it_is_changed_renamed_and_deleted() -> None:
    """A session lives through its changes; a new name ends the old one, and deleting ends it."""
    known = opened()
    store = SessionStore(known)
    assert store.exists(known)
    store["more"] = 1
    store.save()
    store.cycle_key()
    renamed = store.session_key
    assert renamed is not None
    assert not store.exists(known)
    assert SessionStore(renamed).load() == {"who": "mia", "more": 1}
    store.flush()
    assert not Session.objects.exists()
    store.delete()
    store.delete(known)


async def test_it_does_the_same_without_blocking() -> None:
    """The ways of async code lead to the same rows."""
    store = SessionStore()
    await store.aset("who", "mia")
    await store.acreate()
    known = store.session_key
    assert known is not None
    assert (await Session.objects.aget()).session_key == stored_key(known)
    assert await store.aexists(known)
    assert await SessionStore(known).aload() == {"who": "mia"}
    await store.acycle_key()
    gone = SessionStore(known)
    assert await gone.aload() == {}
    assert gone.session_key is None
    await store.aflush()
    assert not await Session.objects.aexists()
    await store.adelete()
