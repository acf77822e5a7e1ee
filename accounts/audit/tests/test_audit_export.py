"""The trail as a file, over HTTP and from the admin: what is in it, who gets it, and what it leaves behind."""

import csv
import io
import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from accounts import email_address as emails
from accounts.audit import exporting
from accounts.audit import queries as audit_queries
from accounts.audit import recording as audit
from accounts.audit.exporting import Format
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event, Outcome
from accounts.conftest import MakeUser, SignIn
from accounts.users.models import User
from ironauth.infrastructure.core import clock, ids

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
AUDIT, EXPORT = "/api/v1/audit", "/api/v1/audit/export"
LIST = "admin:accounts_auditevent_changelist"
PERSON, OTHER, CLIENT = (uuid.UUID(int=n) for n in (1, 2, 3))
Call = Callable[..., Any]


@pytest.fixture
async def call(api: httpx.AsyncClient, transactional_db: None, make_user: MakeUser, sign_in: SignIn) -> Call:
    """A client of somebody who may read the trail and nothing else; what led there is not in it."""
    headers = await sign_in(await sync_to_async(make_user)("accounts.view_auditevent"))
    await sync_to_async(lambda: AuditEvent.objects.get_queryset()._raw_delete("default"))()

    async def get(path: str, **query: Any) -> httpx.Response:
        return await api.get(path, params=query, headers=headers)

    return get


def _event(**values: Any) -> None:
    at = clock.now()
    row = {
        "id": ids.id_at(at), "at": at, "event": "sign_in", "outcome": "success", "user_agent": "", "request_id": "",
    }  # fmt: skip
    AuditEvent(**(row | values)).save()


def _fill() -> None:
    failed: dict[str, Any] = {"outcome": "failure", "user_id": PERSON}
    _event(**failed, details={"n": 0, "reason": "wrong_password"}, address="192.0.2.7")
    _event(**failed, details={"n": 1, "reason": "deactivated"}, address="192.0.3.0")
    _event(actor_id=PERSON, user_id=OTHER, details={"n": 2}, address="2001:db8:0:1::5")
    _event(event="client_sign_in", details={"n": 3, "client": str(CLIENT)}, address=None)
    _event(event="sign_out", details={"n": 4, "client": str(OTHER)}, address="2001:db8:0:2::")


CASES: list[tuple[dict[str, str], list[int]]] = [
    ({"cause": "wrong_password"}, [0]),
    ({"cause": "deactivated", "event": "sign_in"}, [1]),
    ({"client": str(CLIENT)}, [3]),
    ({"network": "192.0.2.7"}, [0]),
    ({"network": "192.0.2.0/24"}, [0]),
    ({"network": "192.0.2.0/23"}, [0, 1]),
    ({"network": "2001:db8:0:1::/64"}, [2]),
    ({"network": "2001:DB8::/32"}, [2, 4]),
]


async def test_filters_over_http(call: Call) -> None:
    """Cause, client, network and person keep what they name, on a page and in a file; together all have to hold."""
    await sync_to_async(_fill)()
    cases = [*CASES, ({"person": str(PERSON)}, [0, 1, 2]), ({"person": str(OTHER), "network": "192.0.2.0/24"}, [])]
    for query, wanted in cases:
        page = (await call(AUDIT, **query)).json()["results"]
        assert sorted(one["details"]["n"] for one in page) == wanted, query
        lines = (await call(EXPORT, **query, format="jsonl")).text.splitlines()
        assert [json.loads(line)["details"]["n"] for line in lines] == wanted, query


@pytest.mark.parametrize(
    "query",
    [
        {"cause": "Wrong password"}, {"cause": ""}, {"client": ""}, {"client": "a\x00"}, {"network": "192.0.2.1/24"},
        {"network": "example.com"}, {"network": "192.0.2.256"}, {"person": "x"}, {"format": "xlsx"}, {"page_size": "5"},
        {"cursor": "x"},
    ],
)  # fmt: skip
async def test_bad_queries_of_an_export_are_refused(call: Call, query: dict[str, str]) -> None:
    """What cannot be meant is 400 and names its field; nothing is exported, and nothing in the trail says it was."""
    answer = await call(EXPORT, **({"format": "csv"} | query))
    assert (answer.status_code, [one["field"] for one in answer.json()["errors"]]) == (400, list(query))
    assert not await AuditEvent.objects.filter(event=Event.AUDIT_EXPORTED).aexists()


async def test_an_export_needs_a_format_and_the_right(
    call: Call, api: httpx.AsyncClient, make_user: MakeUser, sign_in: SignIn
) -> None:
    """Without a format 400; without the right to read the trail 403, whatever else is wrong; strangers get 401."""
    assert (await call(EXPORT)).json()["errors"][0]["field"] == "format"
    headers = await sign_in(await sync_to_async(make_user)("accounts.view_user"))
    for query in ({"format": "csv"}, {"format": "x"}):
        assert (await api.get(EXPORT, params=query, headers=headers)).status_code == 403
    assert (await api.get(EXPORT, params={"format": "csv"})).status_code == 401
    assert not await AuditEvent.objects.filter(event=Event.AUDIT_EXPORTED).aexists()


async def test_a_file_of_json_lines(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch by batch every event once, the oldest first, up to the beginning; the export is an event of its own."""
    monkeypatch.setattr(exporting, "BATCH", 2)
    await sync_to_async(_fill)()
    answer = await call(EXPORT, format="jsonl")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/jsonl")
    assert answer.headers["content-disposition"] == 'attachment; filename="audit.jsonl"'
    assert answer.headers["cache-control"] == "no-store"
    assert [json.loads(line)["details"]["n"] for line in answer.text.splitlines()] == [0, 1, 2, 3, 4]
    event = await AuditEvent.objects.alatest("id")
    assert (event.event, event.details) == ("audit_exported", {"format": "jsonl", "filters": []})
    assert event.actor_id is not None
    assert event.session_id is not None
    await call(EXPORT, format="csv", event="sign_in", network="192.0.2.7")
    event = await AuditEvent.objects.alatest("id")
    assert event.details == {"format": "csv", "filters": ["event=sign_in", "network=192.0.2.7/32"]}


@pytest.mark.parametrize("begins", ["=", "+", "-", "@", "\t=", "\r=", "\n=", " =", "\uff1d"])
def test_a_spreadsheet_computes_nothing(begins: str) -> None:
    """A cell that would be a formula begins with an apostrophe; one that would not is as it was."""
    hostile = f'{begins}HYPERLINK("https://evil.example","a"),\n"b"'
    _event(user_agent=hostile, request_id="a=b", details={"role": hostile})
    (file,) = [b"".join(exporting.parts(AuditEvent.objects.all(), Format.CSV, until=ids.first_id_at(clock.now())))]
    head, row = csv.reader(io.StringIO(file.decode(), newline=""))
    cells = dict(zip(head, row, strict=True))
    assert cells["user_agent"] == f"'{hostile}"
    assert cells["request_id"] == "a=b"
    assert json.loads(cells["details"])["role"] == hostile
    assert file.startswith(b'"id","at","event","outcome","actor"')


@pytest.mark.parametrize("form", list(Format))
def test_a_file_says_who_and_why(
    form: Format, make_user: MakeUser, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """Addresses as they are now and the reason stand at the end; who is gone, or being deleted, has no address."""
    actor, person, leaving = make_user(), make_user(), make_user()
    User.objects.filter(pk=person.pk).update(email="=new@example.com")
    User.objects.filter(pk=leaving.pk).update(email=f"x@{emails.STAND_IN_DOMAIN}")
    AuditEvent.objects.get_queryset()._raw_delete("default")
    reason = {"reason": "deactivated"}
    for actor_id, user_id, details in (
        (actor.pk, person.pk, reason), (None, leaving.pk, {}), (PERSON, None, {"reason": "=1"}),
    ):  # fmt: skip
        _event(actor_id=actor_id, user_id=user_id, details=details)
    parts = exporting.parts(AuditEvent.objects.all(), form, until=ids.first_id_at(clock.now()))
    head = next(parts)
    with django_assert_num_queries(1):
        text = (head + next(parts)).decode()
    archive = b"".join(exporting.archived(AuditEvent.objects.all(), until=ids.first_id_at(clock.now()))).decode()
    assert archive.count("\n") == 3
    assert "@" not in archive
    last = ["actor_email", "user_email", "reason"]
    if form is Format.CSV:
        lines = list(csv.reader(io.StringIO(text, newline="")))
        assert lines[0][-4:] == ["details", *last]
        assert json.loads(lines[1][-4]) == reason
        assert [line[-3:] for line in lines[1:]] == [
            [actor.email, "'=new@example.com", "deactivated"], ["", "", ""], ["", "", "'=1"],
        ]  # fmt: skip
        return
    rows = [json.loads(line) for line in text.splitlines()]
    assert [list(row)[-4:] for row in rows] == [["details", *last]] * 3
    assert [[row[name] for name in last] for row in rows] == [
        [actor.email, "=new@example.com", "deactivated"], [None, None, None], [None, None, "=1"],
    ]  # fmt: skip


def test_an_export_holds_one_batch(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """Nothing is read before it is asked for: a query for each part, and one that finds the end."""
    monkeypatch.setattr(exporting, "BATCH", 2)
    _fill()
    parts = exporting.parts(audit_queries.filtered({}), Format.JSON_LINES, until=ids.first_id_at(clock.now()))
    assert next(parts) == b""
    with django_assert_num_queries(1):
        assert next(parts).count(b"\n") == 2
    with django_assert_num_queries(3):
        assert [part.count(b"\n") for part in parts] == [2, 1]


def test_events_of_later_are_not_in_it() -> None:
    """An export ends at its beginning, or it would follow its own readers for as long as events are added."""
    until = ids.first_id_at(clock.now())
    with clock.shifted(1):
        audit.record(Event.SIGN_UP, outcome=Outcome.SUCCESS)
    assert list(exporting.parts(AuditEvent.objects.all(), Format.JSON_LINES, until=until)) == [b""]


def _numbers(client: Client, query: dict[str, str]) -> list[int]:
    listed = client.get(reverse(LIST), query)
    assert listed.status_code == 200, query
    events = listed.context["cl"].result_list
    return sorted(event.details["n"] for event in events if "n" in event.details)


def _exported(client: Client, form: str, query: dict[str, str]) -> bytes:
    answer: Any = client.get(reverse("admin:accounts_auditevent_export", args=[form]), query)
    assert answer.status_code == 200, query
    return b"".join(answer.streaming_content)


def test_filters_and_exports_of_the_admin(client: Client, root: User) -> None:
    """The list shows what its fields ask for, days and all, and the file has the same; both links carry the query."""
    _fill()
    today = f"{clock.now():%Y-%m-%d}"
    yesterday = f"{clock.now() - timedelta(days=1):%Y-%m-%d}"
    every = [0, 1, 2, 3, 4]
    cases: list[tuple[dict[str, str], list[int]]] = [
        *CASES, ({"since": today, "until": today}, every), ({"until": yesterday}, []), ({"since": yesterday}, every),
        ({"cause": "", "client": " ", "network": ""}, every), ({"q": str(PERSON), "outcome": "failure"}, [0, 1]),
        ({"q": str(PERSON), "network": "192.0.3.0/24", "hours": "1"}, [1]),
    ]  # fmt: skip
    for query, wanted in cases:
        assert _numbers(client, query) == wanted, query
        lines = [json.loads(line) for line in _exported(client, "jsonl", query).splitlines()]
        assert [line["details"]["n"] for line in lines if "n" in line["details"]] == wanted, query
    event = AuditEvent.objects.latest("id")
    assert (event.event, event.actor_id) == ("audit_exported", root.pk)
    assert event.details == {"format": "jsonl", "filters": ["hours=1", "network=192.0.3.0/24", "search=yes"]}
    page = client.get(reverse(LIST), {"network": "192.0.2.0/24", "p": "1"}).content.decode()
    for form in ("csv", "jsonl"):
        link = reverse("admin:accounts_auditevent_export", args=[form])
        assert f'href="{link}?network=192.0.2.0%2F24"' in page


@pytest.mark.parametrize(
    "query", [{"network": "x"}, {"cause": "x"}, {"since": "9999-99-99"}, {"until": "9999-12-31"}, {"client": "a\x00"}]
)
def test_bad_filters_of_the_admin_filter_nothing_and_export_nothing(
    client: Client, root: User, query: dict[str, str]
) -> None:
    """The list is shown with a note, and so is who asks for the file."""
    for address in (reverse(LIST), reverse("admin:accounts_auditevent_export", args=["csv"])):
        answer = client.get(address, query)
        assert (answer.status_code, answer.headers["location"].endswith("?e=1")) == (302, True)
    assert not AuditEvent.objects.filter(event=Event.AUDIT_EXPORTED).exists()


def test_rights_of_the_admins_export(client: Client, make_user: MakeUser) -> None:
    """Who may not see the list gets no file; who may gets it, by GET alone, in the formats there are."""
    address = reverse("admin:accounts_auditevent_export", args=["csv"])
    client.force_login(make_user("accounts.view_user", is_staff=True))
    assert client.get(address).status_code == 403
    assert not AuditEvent.objects.filter(event=Event.AUDIT_EXPORTED).exists()
    client.force_login(make_user("accounts.view_auditevent", is_staff=True))
    assert client.post(address).status_code in (403, 405)
    assert client.get(address.replace("csv", "xlsx")).status_code == 404
    assert _exported(client, "csv", {}).startswith(b'"id","at"')
