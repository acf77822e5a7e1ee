"""Filters by cause, client and network: they find what they say, by an index."""

import ipaddress
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from accounts.audit import queries
from accounts.audit.indexed import text_range
from accounts.audit.models import AuditEvent
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import id_at

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

CLIENT, OTHER = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
ADDRESSES = [
    "10.0.0.1", "10.127.255.255", "10.128.0.0", "100.0.0.1", "1.0.0.10", "192.0.2.0", "192.0.2.127", "192.0.2.128",
    "192.0.2.255", "192.0.20.1", "192.0.3.0", "2001:db8::1", "2001:db8:0:1::1", "2001:db8:1::1", "2001:db80::1",
    "2001:db9::", "fe80::1", "fe8::1", "fe80:1::1", "::1", "::ffff:10.0.0.1", "0.0.0.1", "255.255.255.255",
]  # fmt: skip
NETWORKS = [
    "10.0.0.0/8", "10.0.0.0/9", "192.0.2.0/24", "192.0.2.0/25", "192.0.2.128/25", "192.0.2.127/32", "192.0.2.1/32",
    "0.0.0.0/0", "128.0.0.0/1", "::/0", "2001:db8::/32", "2001:db8::/48", "2001:db8:1::/48", "2001:db8::/31",
    "fe80::/16", "fe80::/10", "::1/128", "::/16", "::ffff:0:0/96",
]  # fmt: skip


def store(**columns: Any) -> AuditEvent:
    """Store an event, each later than the one before."""
    at = clock.now() + timedelta(milliseconds=AuditEvent.objects.count())
    given = {"event": "sign_in", "outcome": "failure", "user_agent": "", "request_id": "", **columns}
    return AuditEvent.objects.create(id=id_at(at), at=at, **given)


def store_others(number: int) -> None:
    """Store events that no filter of these tests finds."""
    begun = clock.now() - timedelta(days=1)
    times = [begun + timedelta(milliseconds=count) for count in range(number)]
    AuditEvent.objects.bulk_create(
        AuditEvent(
            id=id_at(at), at=at, event="sign_out", outcome="success", user_agent="", request_id="", address="fe80::1"
        )
        for at in times
    )


def found(**filters: Any) -> list[uuid.UUID]:
    """Return the ids of the first page."""
    return [event.id for event in queries.page({"page_size": 50, **filters}).rows]


def plan(**filters: Any) -> str:
    """Return how the database finds the first page; Postgres may take an index although the table is small."""
    events = queries.filtered(filters).order_by()
    if connection.vendor == "sqlite" or "network" not in filters:
        events = events.order_by("-id")[:51]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET enable_seqscan = off")
            cursor.execute("SET enable_sort = off")
    try:
        return events.explain()
    finally:
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("RESET ALL")


@pytest.mark.each_case
@pytest.mark.parametrize("network", NETWORKS)
def test_a_range_of_texts_has_every_address_of_its_network(network: str) -> None:
    """And no other, where it is said to be exact."""
    wanted, texts = ipaddress.ip_network(network), text_range(network)
    if texts is None:
        assert network in ("0.0.0.0/0", "128.0.0.0/1", "::/0", "::/16", "::ffff:0:0/96", "fe80::/10")
        return
    for text in ADDRESSES:
        address = ipaddress.ip_address(text)
        inside = address.version == wanted.version and address in wanted
        ranged = texts.first <= text < texts.end
        assert ranged or not inside, text
        assert inside or not (ranged and texts.exact), text


@pytest.mark.each_case
@pytest.mark.parametrize("many", [queries.MANY, 1])
@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_finds_its_addresses(network: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever way is taken, newest first."""
    monkeypatch.setattr(queries, "MANY", many)
    stored = [(text, store(address=text).id) for text in ADDRESSES]
    store()
    wanted = ipaddress.ip_network(network)
    inside = [
        event_id
        for text, event_id in stored
        if ipaddress.ip_address(text).version == wanted.version and ipaddress.ip_address(text) in wanted
    ]
    assert found(network=network) == inside[::-1]


def test_details_are_found_together() -> None:
    """Each filter alone, and all of them with codes, a person and an export: the same events by every way."""
    person = uuid.uuid4()
    wrong = store(details={"reason": "wrong_password"}, address="192.0.2.1", user_id=person).id
    client = store(details={"client": CLIENT}, event="client_sign_in", outcome="success").id
    both = store(details={"reason": "wrong_password", "client": CLIENT}, address="198.51.100.1").id
    store(details={"client": OTHER, "reason": "no_account"})
    store(details={"clients": CLIENT, "why": "wrong_password"})
    store()
    assert found(cause="wrong_password") == [both, wrong]
    assert found(client=CLIENT) == [both, client]
    assert found(client=CLIENT, cause="wrong_password") == [both]
    assert found(client=CLIENT, event="client_sign_in", outcome="success") == [client]
    assert found(cause="wrong_password", network="192.0.2.0/24") == [wrong]
    assert found(cause="wrong_password", network="192.0.2.0/25", person=person) == [wrong]
    assert found(cause="wrong_password", user=uuid.uuid4()) == []
    assert found(client="nobody") == []
    exported = queries.filtered({"cause": "wrong_password", "network": "192.0.2.0/24"}, exporting=True)
    assert [event.id for event in exported] == [wrong]


@pytest.mark.each_case
@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({"cause": "wrong_password"}, "accounts_audit_cause"),
        ({"cause": "wrong_password", "event": "sign_in"}, "accounts_audit_"),
        ({"client": CLIENT}, "accounts_audit_client"),
        ({"network": "192.0.2.7/32"}, "accounts_audit_address"),
        ({"network": "192.0.2.0/24"}, "accounts_audit_address"),
        ({"network": "192.0.2.0/25"}, "accounts_audit_address"),
        ({"network": "2001:db8::/32"}, "accounts_audit_address"),
    ],
)
def test_an_index_finds_the_first_page(filters: dict[str, str], index: str) -> None:
    """Also of a table in which nearly every event is another one."""
    if connection.vendor == "postgresql":  # whose choice is by figures: those of an empty table may be there
        store_others(3_000)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE accounts_auditevent")
    store(details={"reason": "wrong_password", "client": CLIENT}, address="192.0.2.7")
    assert index in plan(**filters)


@pytest.mark.only_sqlite
def test_a_person_goes_before_a_cause() -> None:
    """SQLite, which knows no figures, is led to the rarer of the two."""
    assert "accounts_audit_user" in plan(cause="wrong_password", user=uuid.uuid4())
    assert "accounts_audit_cause" in plan(cause="wrong_password", event="sign_in")
