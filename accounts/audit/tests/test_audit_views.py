"""Reading the audit trail over HTTP and by command: filters, pages, order, and what it costs."""

import json
import os
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from accounts.audit import exporting
from accounts.audit import queries as audit_queries
from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event, Outcome
from accounts.conftest import MakeUser, SignIn
from accounts.management.commands import audit_export
from ironauth.infrastructure.api.paging import Cursor
from ironauth.infrastructure.core import clock, ids

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
AUDIT = "/api/v1/audit"
Call = Callable[..., Any]
PEOPLE = [uuid.UUID(int=n) for n in range(1, 4)]


@pytest.fixture
async def call(api: httpx.AsyncClient, transactional_db: None, make_user: MakeUser, sign_in: SignIn) -> Call:
    """A client of somebody who may read the trail and nothing else; what led there is not in it."""
    headers = await sign_in(await sync_to_async(make_user)("accounts.view_auditevent"))
    await sync_to_async(lambda: AuditEvent.objects.get_queryset()._raw_delete("default"))()

    async def get(**query: Any) -> httpx.Response:
        return await api.get(AUDIT, params=query, headers=headers)

    return get


def _fill() -> None:
    """Record twelve events, an hour apart, the newest an hour old."""
    for n in range(12):
        with clock.shifted(-3600 * (12 - n)):
            audit.record(
                (Event.SIGN_IN, Event.ROLE_GIVEN)[n % 2],
                outcome=(Outcome.SUCCESS, Outcome.FAILURE, Outcome.REFUSED)[n % 3],
                actor_id=PEOPLE[n % 3],
                user_id=PEOPLE[0] if n < 4 else PEOPLE[1],
                session_id=uuid.UUID(int=99) if n == 5 else None,
                details={"n": n},
            )


def _numbers(answer: httpx.Response) -> list[int]:
    assert answer.status_code == 200, answer.text
    return [event["details"]["n"] for event in answer.json()["results"]]


async def test_filters(call: Call) -> None:
    """Each filter keeps what it names, the newest first; together all have to hold."""
    await sync_to_async(_fill)()
    hour_6 = (clock.now() - timedelta(hours=6, minutes=30)).isoformat()
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({}, list(range(11, -1, -1))),
        ({"user": PEOPLE[0]}, [3, 2, 1, 0]),
        ({"actor": PEOPLE[2]}, [11, 8, 5, 2]),
        ({"session": uuid.UUID(int=99)}, [5]),
        ({"event": "role_given"}, [11, 9, 7, 5, 3, 1]),
        ({"outcome": "failure"}, [10, 7, 4, 1]),
        ({"since": hour_6}, [11, 10, 9, 8, 7, 6]),
        ({"until": hour_6}, [5, 4, 3, 2, 1, 0]),
        ({"event": "sign_in", "outcome": "success", "user": PEOPLE[1]}, [6]),
        ({"user": uuid.uuid4()}, []),
    ]
    for query, wanted in cases:
        assert _numbers(await call(**query)) == wanted, query


async def test_time_limits_are_exact(call: Call) -> None:
    """``since`` includes its moment, ``until`` does not."""
    await sync_to_async(audit.record)(Event.SIGN_UP, details={"n": 0})
    at = (await AuditEvent.objects.aget()).at
    tick = timedelta(microseconds=1)
    assert _numbers(await call(since=at.isoformat())) == [0]
    assert _numbers(await call(since=(at + tick).isoformat())) == []
    assert _numbers(await call(until=at.isoformat())) == []
    assert _numbers(await call(until=(at + tick).isoformat())) == [0]


async def test_what_an_event_looks_like(call: Call) -> None:
    """The fields and their order are the contract's."""
    with_ids: Any = {"actor_id": PEOPLE[0], "user_id": PEOPLE[1], "session_id": PEOPLE[2]}
    await sync_to_async(audit.record)(Event.ROLE_GIVEN, **with_ids, details={"role": "r"})
    stored = await AuditEvent.objects.aget()
    (event,) = (await call()).json()["results"]
    assert list(event) == [
        "id", "at", "event", "outcome", "actor", "user", "session", "ip", "user_agent", "request_id", "details",
    ]  # fmt: skip
    assert event["id"] == str(stored.pk)
    assert datetime.fromisoformat(event["at"]) == stored.at
    assert [event[name] for name in ("actor", "user", "session")] == [str(one) for one in PEOPLE]
    assert event["details"] == {"role": "r"}


async def test_pages_lead_to_one_another(call: Call, api: httpx.AsyncClient) -> None:
    """Walking forwards and back shows every event once, with the filters kept."""
    await sync_to_async(_fill)()
    seen, answer = [], await call(page_size=4, outcome="success")
    assert _numbers(answer) == [9, 6, 3, 0]
    assert (answer.json()["next"], answer.json()["previous"]) == (None, None)
    answer = await call(page_size=5)
    assert answer.json()["previous"] is None
    while True:
        seen += _numbers(answer)
        following = answer.json()["next"]
        if following is None:
            break
        answer = await call(**dict(httpx.URL(following).params))
    assert seen == list(range(11, -1, -1))
    back = await call(**dict(httpx.URL(answer.json()["previous"]).params))
    assert _numbers(back) == [6, 5, 4, 3, 2]
    first = await call(**dict(httpx.URL(back.json()["previous"]).params))
    assert _numbers(first) == [11, 10, 9, 8, 7]
    assert first.json()["previous"] is None


@pytest.mark.parametrize(
    "query",
    [
        {"user": "x"}, {"actor": ""}, {"session": "1"}, {"event": "nothing"}, {"outcome": "x"}, {"since": "yesterday"},
        {"until": "2026-99-01"}, {"since": "0001-01-01T00:00:00+14:00"}, {"page_size": 0}, {"page_size": 201},
        {"cursor": "x"}, {"cursor": "x" * 3000},
        {"cursor": Cursor("-created_at", "2026-01-01T00:00:00Z", uuid.uuid4(), backwards=False).encode()},
    ],
)  # fmt: skip
async def test_bad_queries_are_refused(call: Call, query: dict[str, Any]) -> None:
    """What cannot be meant is 400 and names its field."""
    answer = await call(**query)
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == list(query)


async def test_extreme_times_are_no_error(call: Call) -> None:
    """Times before 1970 and in the year 9999 are limits like any other."""
    await sync_to_async(_fill)()
    assert len(_numbers(await call(since="0001-01-01T00:00:00Z", until="9999-12-31T23:59:59Z"))) == 12


def test_a_page_is_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Whatever is filtered by, and however many events there are."""
    _fill()
    for filters in ({}, {"user": PEOPLE[0]}, {"event": "sign_in", "outcome": "failure"}):
        with django_assert_num_queries(1):
            audit_queries.page({**filters, "page_size": 50})


@pytest.mark.only_sqlite
@pytest.mark.parametrize(
    ("column", "index"),
    [
        ("actor_id", "accounts_audit_actor"),
        ("user_id", "accounts_audit_user"),
        ("session_id", "accounts_audit_session"),
        ("event", "accounts_audit_event"),
        ("outcome", "accounts_audit_outcome"),
    ],
)
def test_each_index_serves_its_filter(column: str, index: str) -> None:
    """The newest events of a filter come from its index, in order: nothing is sorted, no table is scanned."""
    value: Any = uuid.uuid4() if column.endswith("_id") else "x"
    plan = AuditEvent.objects.filter(**{column: value}).order_by("-id")[:51].explain()
    assert index in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.only_sqlite
@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({"user": PEOPLE[0], "event": "sign_in", "outcome": "failure"}, "accounts_audit_user"),
        ({"session": PEOPLE[0], "outcome": "failure"}, "accounts_audit_session"),
        ({"event": "sign_in", "outcome": "failure"}, "accounts_audit_outcome"),  # without statistics
    ],
)
def test_the_most_telling_filter_decides(filters: dict[str, Any], index: str) -> None:
    """Of several filters the one with the fewest events is searched by; the others are only checked."""
    with CaptureQueriesContext(connection) as captured:
        audit_queries.page({**filters, "page_size": 50})
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN QUERY PLAN " + captured.captured_queries[0]["sql"])
        plan = str(cursor.fetchall())
    assert index in plan
    assert "TEMP B-TREE" not in plan


def _exported(**options: str) -> list[dict[str, Any]]:
    out = StringIO()
    call_command("audit_export", stdout=out, **options)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_export(monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Every event once, the oldest first, a batch at a time; the limits are those of the API."""
    _fill()
    monkeypatch.setattr(exporting, "BATCH", 5)
    with django_assert_num_queries(4):
        lines = _exported()
    assert [line["details"]["n"] for line in lines] == list(range(12))
    since = (clock.now() - timedelta(hours=6, minutes=30)).astimezone(UTC)
    assert [line["details"]["n"] for line in _exported(since=since.isoformat())] == list(range(6, 12))
    assert [line["details"]["n"] for line in _exported(until=since.replace(tzinfo=None).isoformat())] == list(range(6))
    for bad in ("yesterday", "2026-13-01T00:00:00Z"):
        with pytest.raises(CommandError, match="--since"):
            _exported(since=bad)


def test_an_export_ends_quietly_with_its_reader() -> None:
    """As before ``| head -1``: no traceback, and what was not written yet is not written later either."""
    _fill()
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out, pytest.raises(SystemExit) as ended:
        call_command("audit_export", stdout=out)
    assert ended.value.code == 141


def test_an_export_leaves_what_may_not_be_settled() -> None:
    """An event that was written late stands before others: they are left to the next export, which has them all."""
    now = clock.now()
    cuts = [now, now + timedelta(seconds=70)]
    found: list[dict[str, Any]] = []
    late, on_time = ids.id_at(now - timedelta(seconds=5)), ids.id_at(now - timedelta(seconds=2))
    since: dict[str, str] = {}
    for cut, written in zip(cuts, (on_time, late), strict=True):
        AuditEvent(id=written, at=now, event="sign_in", outcome="failure", user_agent="", request_id="").save()
        with clock.shifted((cut - now).total_seconds()):
            found += _exported(**since)
            since = {"since": (clock.now() - timedelta(seconds=audit_export.SETTLED_S)).isoformat()}
    assert found == []
    with clock.shifted(200):
        assert [line["id"] for line in _exported(**since)] == [str(late), str(on_time)]


def test_lines_stay_lines() -> None:
    """Whatever is in a name or user agent, stored by whatever route, a line is one object of printable ASCII."""
    hostile = 'a\r\n{"event":"forged"}\x1b[2J\x7f\x85\u2028\u202e é'
    now = clock.now()
    AuditEvent(
        id=ids.id_at(now), at=now, event="sign_in", outcome="success", user_agent=hostile, request_id="",
        details={"role": hostile},
    ).save()  # fmt: skip
    out = StringIO()
    call_command("audit_export", stdout=out, until=(now + timedelta(seconds=1)).isoformat())
    (line,) = out.getvalue().splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["user_agent"] == json.loads(line)["details"]["role"] == hostile


async def test_hostile_headers_are_stored_inert(api: httpx.AsyncClient, transactional_db: None) -> None:
    """Control characters of a user agent are gone before it is stored, and it is bounded."""
    agent = b"evil\tagent \x85\xa0" + b"x" * 400
    body = {"email": "nobody@example.com", "password": "wrong"}
    await sync_to_async(call_command)("create_signing_key", stdout=StringIO())
    answer = await api.post("/api/v1/access/signin", json=body, headers=[(b"User-Agent", agent)])
    assert answer.status_code == 401
    assert await sync_to_async(audit.wait_until_written)()
    event = await AuditEvent.objects.aget(event="sign_in")
    assert event.user_agent.startswith("evilagent x")
    assert len(event.user_agent) <= 255


@pytest.mark.parametrize(("age_days", "left"), [(399, 1), (401, 0)])
def test_the_purge_keeps_what_the_setting_says(age_days: int, left: int) -> None:
    """400 days unless told otherwise; in batches, however many there are."""
    with clock.shifted(-age_days * 86_400):
        for _ in range(5):
            audit.record(Event.SIGN_UP)
    out = StringIO()
    call_command("purge_expired", batch=2, stdout=out)
    assert AuditEvent.objects.count() == left * 5
    assert f"audit_events={5 - left * 5}" in out.getvalue()
    assert connection.in_atomic_block is False
