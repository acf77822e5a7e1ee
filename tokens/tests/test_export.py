"""Everything held about a person: complete by construction, without secrets, bounded, recorded, and counted."""

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError, call_command
from django.db import models, transaction
from django.test import RequestFactory
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.mfa.totp.models import TotpFactor
from accounts.privacy import export
from accounts.privacy import units as deletions
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http import client_context
from tokens.purge import purge_expired
from tokens.sessions.models import Session
from tokens.tests.browser import ME, REFRESH, Member, Pair
from tokens.tests.second_factor import enrol
from tokens.tests.test_no_secret_leaks import every_table, spellings

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

DAY = 86_400
EXPORT = "/api/v1/access/me/export"
#: Columns that name a person without being a foreign key.
NAMES_A_PERSON = re.compile(r"(^|_)(user|actor|owner|person|holder)(_id)?$")
#: Models that know a user and are in no section, with the reason; by label.
EXEMPT: dict[str, str] = {
    "tokens.EverybodysEnd": "names the member of staff who ended everybody's sessions, as the event in their trail does"
}


def models_of_people() -> Iterator[type[models.Model]]:
    """Yield every model that refers to a user, or has a column for a user's id."""
    for model in apps.get_models(include_auto_created=True):
        for field in model._meta.concrete_fields:
            target = field.remote_field.model if field.remote_field else None
            if target is User or NAMES_A_PERSON.search(field.name):
                yield model
                break


def test_no_model_that_knows_a_person_is_left_out() -> None:
    """A new one has to be added to a section (``privacy.export.register``), or to the exemptions with its reason."""
    known = {model._meta.label for model in models_of_people()}
    assert {"tokens.Session", "accounts.AuditEvent", "admin.LogEntry", "accounts.User_groups"} <= known
    covered = {model._meta.label for model in export.covered()}
    assert not known - covered - EXEMPT.keys()
    assert not covered - known - {"accounts.User", "accounts.KeptTokens"}  # the latter are of an identity of theirs
    assert not EXEMPT.keys() - known


def test_a_section_has_one_owner() -> None:
    """Two applications cannot take each other's place."""
    with pytest.raises(ValueError, match="sessions"):
        export.register("sessions", lambda _: User.objects.values())


async def test_a_person_gets_everything_as_a_file(
    api: httpx.AsyncClient, member: Member, pair: Pair, settings: Settings
) -> None:
    """Profile, sessions, waiting mail and events, in no cache; and the next export has the event of this one."""
    await api.post("/api/v1/access/email/verify/resend", json={"email": member["email"]})
    answer = await api.get(EXPORT, headers=bearer(pair))
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert re.fullmatch(r'attachment; filename="account-\d{4}-\d\d-\d\d\.json"', answer.headers["content-disposition"])
    held = answer.json()
    assert (held["id"], held["incomplete"]) == (member["id"], [])
    found = held["sections"]
    assert set(found) == set(export._sections)
    assert [(row["email"], row["name"]) for row in found["account"]] == [(member["email"], "Mia")]
    assert [row["id"] for row in found["sessions"]] == [str(pair["session_id"])]
    assert [row["recipient"] for row in found["messages_waiting"]] == [member["email"]]
    assert [row["purpose"] for row in found["links_in_messages"]] == ["verify_email"]
    assert [row["event"] for row in found["events"]] == ["verification_requested", "sign_in", "sign_up"]
    again = (await api.get(EXPORT, headers=bearer(pair))).json()
    event = again["sections"]["events"][0]
    assert (event["event"], event["actor_id"], event["session_id"]) == (
        "data_exported", member["id"], str(pair["session_id"]),
    )  # fmt: skip


async def test_it_takes_a_recent_proof(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Ten minutes after the sign-in a stolen session is not enough (RFC 9470), one second before it is."""
    for after_s, status in ((599, 200), (601, 401)):
        with clock.shifted(after_s):
            fresh = await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]})
            pair = fresh.json()
            answer = await api.get(EXPORT, headers=bearer(pair))
        assert answer.status_code == status
    assert answer.json()["code"] == "step_up_required"


async def test_no_secret_is_in_it(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Neither the stored hash, nor what tokens, codes and recovery codes are recognised by."""
    app, codes = await enrol(api, pair)
    await api.post("/api/v1/access/email/verify/resend", json={"email": member["email"]})
    body = (await api.get(EXPORT, headers=bearer(pair))).content
    user = await User.objects.aget(pk=member["id"])
    session = await Session.objects.aget()
    hidden = {user.password.encode(), *spellings(bytes(session.secret)), app.secret.encode()}
    hidden |= {code.encode() for code in codes}
    hidden |= {code.encoded.encode() async for code in user.recovery_codes.all()}
    hidden |= spellings(bytes((await TotpFactor.objects.aget()).sealed))
    async for token in user.email_tokens.all():
        hidden |= spellings(bytes(token.nonce)) | spellings(bytes(token.digest))
    assert not [secret for secret in hidden if secret in body]
    found = json.loads(body)["sections"]
    assert (len(found["one_time_codes"]), len(found["recovery_codes"])) == (1, 10)


def test_a_section_is_read_when_it_has_rows(django_assert_num_queries: Any) -> None:
    """A row of each kind that the flows above do not leave; anybody who has none of them pays for none."""
    mia, ben = User.objects.create_user("mia@example.com"), User.objects.create_user("ben@example.com")
    mia.groups.add(Group.objects.create(name="support"))
    mia.user_permissions.add(Permission.objects.all()[0])
    users = ContentType.objects.get_for_model(User)
    LogEntry.objects.create(user=mia, content_type=users, object_id=str(ben.pk), action_flag=1)
    LogEntry.objects.create(
        user=mia, content_type=ContentType.objects.get_for_model(Group), object_id="1", action_flag=2
    )
    audit.record(audit.Event.USER_CHANGED, actor_id=mia.pk, user_id=ben.pk)
    held = export.collect(mia.pk).sections
    assert {name for name, rows in held.items() if rows} == {
        "account", "roles", "permissions", "events_caused", "admin_log",
    }  # fmt: skip
    assert held["roles"] == [{"name": "support"}]
    assert {frozenset(row) for row in held["permissions"]} == {frozenset({"application", "codename"})}
    assert [row["action_flag"] for row in held["admin_log"]] == [2, 1]
    with django_assert_num_queries(4):
        theirs = export.collect(ben.pk).sections
    assert [name for name, rows in theirs.items() if rows] == ["account", "events_by_others", "admin_log_about"]
    assert "address" not in theirs["events_by_others"][0]
    assert theirs.keys() == held.keys()


def test_what_is_left_of_somebody_gone_is_found() -> None:
    """Their account is no row any more; the events are."""
    gone = uuid.uuid4()
    audit.record(audit.Event.ACCOUNT_PURGED, user_id=gone)
    held = export.collect(gone, most=None).sections
    assert [name for name, rows in held.items() if rows] == ["events"]


async def test_a_long_history_is_cut_and_says_so(
    api: httpx.AsyncClient, member: Member, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the limit everything is there; one row more, and the newest are, with the section named."""
    assert await sync_to_async(audit.wait_until_written)()
    user_id = uuid.UUID(str(member["id"]))
    for most, incomplete in ((2, ()), (1, ("events",))):
        held = await sync_to_async(export.collect)(user_id, most=most)
        assert held.incomplete == incomplete
        assert [row["event"] for row in held.sections["events"]] == ["sign_in", "sign_up"][:most]
    assert export.MOST_ROWS == 5_000


async def test_nobody_else_gets_it_and_it_is_counted(api: httpx.AsyncClient, pair: Pair, throttled: None) -> None:
    """401 without a credential; five in an hour for one account, whatever its address."""
    assert (await api.get(EXPORT)).status_code == 401
    statuses = [(await api.get(EXPORT, headers=bearer(pair))).status_code for _ in range(6)]
    assert statuses == [200] * 5 + [429]


def printed(asked: str) -> dict[str, Any]:
    """Return what the command prints for ``asked``."""
    out = StringIO()
    call_command("export_user", asked, stdout=out)
    return dict(json.loads(out.getvalue()))


@contextmanager
def request_from(address: str) -> Iterator[None]:
    """Have what is recorded here come from a request of this client."""
    token = client_context.enter(RequestFactory(REMOTE_ADDR=address).get("/"))
    try:
        yield
    finally:
        client_context.leave(token)


def test_staff_print_the_same(make_person: Any) -> None:
    """By address, folded, or id; the staff's own address is in theirs only; recorded without an actor."""
    mia, staff = make_person("Mia@example.com"), make_person("staff@example.com")
    LogEntry.objects.log_actions(staff.pk, [mia], 2, change_message="Changed.")
    with request_from("192.0.2.77"):
        audit.record(audit.Event.USER_CHANGED, actor_id=staff.pk, user_id=mia.pk)
    held = printed("mia@EXAMPLE.com")
    assert held["id"] == printed(str(mia.pk))["id"] == str(mia.pk)
    assert held["sections"]["events"] == []
    assert [row["event"] for row in held["sections"]["events_by_others"]] == ["user_changed"]
    assert [row["change_message"] for row in held["sections"]["admin_log_about"]] == ["Changed."]
    assert "192.0.2.77" not in json.dumps(held)
    others = printed("staff@example.com")["sections"]
    assert [(row["event"], row["address"]) for row in others["events_caused"]] == [("user_changed", "192.0.2.77")]
    assert [row["change_message"] for row in others["admin_log"]] == ["Changed."]
    assert "mia@example.com" not in json.dumps(others).lower()
    assert AuditEvent.objects.filter(event="data_exported", actor_id=None, user_id=mia.pk).count() == 2
    for unknown in ("nobody@example.com", str(uuid.uuid4())):
        with pytest.raises(CommandError, match="No account"):
            printed(unknown)


def test_those_being_deleted_can_ask_too(make_person: Any) -> None:
    """By the address they had; when several had it in turn, by id."""
    people = []
    for _ in range(2):
        people.append(make_person("mia@example.com"))
        with transaction.atomic():
            deletions.request(user_id=people[-1].pk, old=people[-1].password, session_id=None)
        if len(people) == 1:
            assert printed("Mia@example.com")["sections"]["pending_deletion"][0]["email"] == "mia@example.com"
    with pytest.raises(CommandError, match=str(people[0].pk)):
        printed("mia@example.com")
    assert printed(str(people[0].pk))["id"] == str(people[0].pk)


@pytest.fixture
def make_person() -> Any:
    """Give a maker of people who cannot sign in."""
    return User.objects.create_user


async def test_of_a_purged_account_only_its_id_is_left(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """No table has the address, the name, or anything by the id but trail and admin's log, which name nobody."""
    root = await sync_to_async(User.objects.create_user)("root@example.com", is_superuser=True, is_staff=True)
    user = await User.objects.aget(pk=member["id"])
    await sync_to_async(lambda: LogEntry.objects.log_actions(root.pk, [user], 2, change_message="Changed."))()
    await User.objects.filter(pk=user.pk).aupdate(name="Mia of the seven names")
    await api.post("/api/v1/access/password/reset", json={"email": member["email"]})
    await enrol(api, pair)
    answer = await api.request("DELETE", ME, json={"password": PASSWORD}, headers=bearer(pair))
    assert answer.status_code == 204
    assert str(member["email"]).encode() in await sync_to_async(every_table)()
    with clock.shifted(8 * DAY):
        assert (await sync_to_async(purge_expired)()).accounts == 1
    left = await sync_to_async(every_table)()
    assert str(member["email"]).encode() not in left
    assert b"seven names" not in left
    held = await sync_to_async(export.collect)(user.pk, most=None)
    assert {name for name, rows in held.sections.items() if rows} == {"events", "admin_log_about"}
