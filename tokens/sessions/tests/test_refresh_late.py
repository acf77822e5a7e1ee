"""A refresh that was answered 503 and gets through afterwards, when its client has long gone on."""

import threading
from uuid import UUID

import httpx
import pytest

from ironauth.infrastructure.core.errors import Unavailable
from tokens.sessions import queries as session_queries
from tokens.sessions.models import Session
from tokens.sessions.queries import StoredSession
from tokens.sessions.refresh import units as refresh_units
from tokens.sessions.refresh.units import Rotation
from tokens.tests.browser import REFRESH, Pair, me

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.only_postgres]


async def test_a_late_refresh_is_no_reuse(api: httpx.AsyncClient, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its query waits for a cable; the client asks again, twice; what it sees then is no theft, and ends nothing."""
    find, rotate = session_queries.find, refresh_units.rotate
    repaired, over, judged = threading.Event(), threading.Event(), list[Exception]()
    held: list[UUID] = []

    def find_late(session_id: UUID) -> StoredSession | None:
        if not held:
            held.append(session_id)
            repaired.wait(20)
        return find(session_id)

    def rotate_watched(**presented: object) -> Rotation:
        try:
            return rotate(**presented)  # type: ignore[arg-type]  # handed on as they came
        except Unavailable as error:
            judged.append(error)
            over.set()
            raise

    monkeypatch.setattr(session_queries, "find", find_late)
    monkeypatch.setattr(refresh_units, "rotate", rotate_watched)
    assert (await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]})).status_code == 503
    fresh = (await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]})).json()
    fresh = (await api.post(REFRESH, json={"refresh_token": fresh["refresh_token"]})).json()
    repaired.set()
    assert over.wait(10), "the first refresh never got through"
    assert len(judged) == 1
    assert (await Session.objects.aget()).revoked_at is None
    assert await me(api, fresh) == 200
    # In time it is what it looks like.
    assert (await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]})).status_code == 401
    assert (await Session.objects.aget()).revoke_reason == "reuse"
