"""Django's admin and the audit trail: what is done there is recorded, and the trail can only be read there."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event, Outcome
from accounts.conftest import PASSWORD, MakeUser
from accounts.outbox.models import OutgoingMail
from accounts.users.models import User
from ironauth.infrastructure.admin.read_only import breakable
from ironauth.infrastructure.core import clock

pytestmark = [pytest.mark.django_db, pytest.mark.storage]
NEW_PASSWORD = "seven amber kites over Lyon"
LIST = "admin:accounts_auditevent_changelist"
USERS = "admin:accounts_user_changelist"


@pytest.fixture
def done(root: User) -> Callable[[], list[tuple[Any, ...]]]:
    """What has been recorded since everybody was there: event, outcome, account and details; the actor is the root."""
    before = set(AuditEvent.objects.values_list("pk", flat=True))

    def since() -> list[tuple[Any, ...]]:
        rows = AuditEvent.objects.exclude(pk__in=before).order_by("id")
        assert {row.actor_id for row in rows} <= {root.pk}
        assert {row.address for row in rows} <= {"127.0.0.1"}
        return [(row.event, row.outcome, row.user_id, row.details) for row in rows]

    return since


Done = Callable[[], list[tuple[Any, ...]]]


def _fields(user: User, **changes: Any) -> dict[str, Any]:
    """Return what the form of a user sends."""
    fields: dict[str, Any] = {"email": user.email, "name": user.name, "is_active": "on", "groups": [], **changes}
    inline = {f"sessions-{name}": "0" for name in ("TOTAL_FORMS", "INITIAL_FORMS", "MIN_NUM_FORMS", "MAX_NUM_FORMS")}
    return {**inline, **{name: value for name, value in fields.items() if value is not None}}


def test_adding_a_user(client: Client, done: Done) -> None:
    """One event for the new account, without anything that was typed."""
    body = {"email": "new@example.com", "name": "N", "usable_password": "true"}
    answer = client.post(
        reverse("admin:accounts_user_add"), {**body, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    )
    assert answer.status_code == 302, answer.content
    assert done() == [("user_created", "success", User.objects.get(email="new@example.com").pk, {})]


def test_changing_a_user(client: Client, make_user: MakeUser, done: Done) -> None:
    """The names of the changed fields; saving a form unchanged, or one with an error, leaves nothing."""
    user, role = make_user(), Group.objects.create(name="support")
    address = reverse("admin:accounts_user_change", args=[user.pk])
    assert client.post(address, _fields(user)).status_code == 302
    assert client.post(address, _fields(user, email="no address")).status_code == 200
    assert done() == []
    assert client.post(address, _fields(user, name="New", groups=[role.pk])).status_code == 302
    details = {"fields": ["groups", "name"], "roles_given": ["support"]}
    assert done() == [("user_changed", "success", user.pk, details)]
    assert not OutgoingMail.objects.exists()
    assert client.post(address, _fields(user, name="New", groups=[role.pk], email="new@example.com")).status_code == 302
    assert list(OutgoingMail.objects.values_list("kind", "recipient")) == [("email_changed", user.email)]


def test_what_others_rely_on_is_recorded_with_its_value(
    client: Client, make_user: MakeUser, permission: Callable[[str], Permission], done: Done
) -> None:
    """Whether somebody is staff, a superuser or active, and which roles and permissions were given and taken."""
    user, roles = make_user("accounts.view_user"), [Group.objects.create(name=name) for name in ("old", "new")]
    user.groups.add(roles[0])
    fields = _fields(
        user, is_staff="on", is_superuser="on", is_active=None, groups=[roles[1].pk],
        user_permissions=[permission("accounts.verify_email").pk],
    )  # fmt: skip
    assert client.post(reverse("admin:accounts_user_change", args=[user.pk]), fields).status_code == 302
    assert done() == [
        (
            "user_changed",
            "success",
            user.pk,
            {
                "fields": ["groups", "is_active", "is_staff", "is_superuser", "user_permissions"],
                "is_active": False,
                "is_staff": True,
                "is_superuser": True,
                "roles_given": ["new"],
                "roles_taken": ["old"],
                "permissions_given": ["accounts.verify_email"],
                "permissions_taken": ["accounts.view_user"],
            },
        )
    ]


def test_nobody_sets_their_own_password_without_the_old_one(client: Client, root: User, done: Done) -> None:
    """However the address spells who one is: a stolen session is not to keep the account."""
    body = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}
    for spelling in (str(root.pk), root.pk.hex, str(root.pk).upper()):
        answer = client.post(reverse("admin:auth_user_password_change", args=[spelling]), body)
        assert answer.headers["location"] == reverse("admin:password_change")
    assert done() == []
    assert User.objects.get(pk=root.pk).password == root.password


def test_changing_an_address_is_told_to_the_old_one(client: Client, make_user: MakeUser, root: User) -> None:
    """As when the person does it; not when the rest of the form is changed, nor when the form has an error."""
    user = make_user(email="old@example.com")
    address = reverse("admin:accounts_user_change", args=[user.pk])
    for fields, status in (
        ({"name": "New"}, 302), ({"email": root.email}, 200), ({"email": "OLD@example.com"}, 302),
        ({"email": "new@example.com"}, 302),
    ):  # fmt: skip
        assert client.post(address, _fields(user, **fields)).status_code == status
    sent = list(OutgoingMail.objects.values_list("kind", "recipient", "user_id"))
    assert sent == [("email_changed", "OLD@example.com", user.pk)]


def test_setting_a_password(client: Client, make_user: MakeUser, done: Done) -> None:
    """Setting a password, and taking it away, is an event of its own."""
    user = make_user()
    address = reverse("admin:auth_user_password_change", args=[user.pk])
    body = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}
    assert client.post(address, body).status_code == 302
    assert client.post(address, {"usable_password": "false", "unset-password": "1"}).status_code == 302
    assert done() == [("password_changed", "success", user.pk, {})] * 2
    user.refresh_from_db()
    assert not user.has_usable_password()


def test_changing_ones_own_password(client: Client, root: User, done: Done) -> None:
    """The actor is the account's own person."""
    body = {"old_password": PASSWORD, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}
    assert client.post(reverse("admin:password_change"), body).status_code == 302
    assert done() == [("password_changed", "success", root.pk, {})]


def test_deleting_users(client: Client, make_user: MakeUser, done: Done) -> None:
    """One by its page, two by the list: an event for each."""
    one, two, three = make_user(), make_user(), make_user()
    assert client.post(reverse("admin:accounts_user_delete", args=[one.pk]), {"post": "yes"}).status_code == 302
    body = {"action": "delete_selected", "_selected_action": [two.pk, three.pk], "post": "yes"}
    assert client.post(reverse(USERS), body).status_code == 302
    assert sorted(done(), key=str) == sorted(
        (("user_deleted", "success", user_id, {}) for user_id in (one.pk, two.pk, three.pk)), key=str
    )
    assert not User.objects.filter(email__startswith="user-").exists()


@pytest.mark.parametrize(
    ("action", "event", "details"),
    [
        ("end_all_sessions", "sessions_ended", {}),
        ("deactivate", "user_changed", {"fields": ["is_active"], "is_active": False}),
        ("activate", "user_changed", {"fields": ["is_active"], "is_active": True}),
    ],
)
def test_actions_on_users(
    client: Client, make_user: MakeUser, done: Done, action: str, event: str, details: dict[str, Any]
) -> None:
    """An event for each of the selected, once it is confirmed; none for those it does not concern."""
    users = [make_user(is_active=action != "activate").pk for _ in range(2)]
    body = {"action": action, "_selected_action": users}
    client.post(reverse(USERS), body)
    if action != "activate":  # which asks nothing
        assert done() == []
        client.post(reverse(USERS), {**body, "confirmed": "yes"})
    if action != "end_all_sessions":  # a second time there is nothing left to do
        client.post(reverse(USERS), {**body, "confirmed": "yes"})
    assert sorted(done(), key=str) == sorted(((event, "success", one, details) for one in users), key=str)


def test_roles(client: Client, done: Done) -> None:
    """Making, changing and deleting a role are recorded by its name."""
    assert client.post(reverse("admin:accounts_role_add"), {"name": "support"}).status_code == 302
    role = Group.objects.get(name="support")
    address = reverse("admin:accounts_role_change", args=[role.pk])
    assert client.post(address, {"name": "helpers"}).status_code == 302
    assert client.post(reverse("admin:accounts_role_delete", args=[role.pk]), {"post": "yes"}).status_code == 302
    assert done() == [
        ("role_created", "success", None, {"role": "support"}),
        ("role_changed", "success", None, {"role": "helpers", "fields": ["name"]}),
        ("role_deleted", "success", None, {"role": "helpers"}),
    ]


def test_a_superuser_made_by_command_is_recorded(db: None) -> None:
    """Anybody who has every right does not appear unseen."""
    user = User.objects.create_superuser("super@example.com", PASSWORD)
    (event,) = AuditEvent.objects.all()
    assert (event.event, event.actor_id, event.user_id) == ("user_created", None, user.pk)
    assert event.details == {"email_verified": True, "is_staff": True, "is_superuser": True}


def _enter(client: Client, email: str, password: str = PASSWORD) -> int:
    body = {"username": email, "password": password}
    return client.post(reverse("admin:login"), body, headers={"user-agent": "B/1"}).status_code


def test_signing_in_to_the_admin(client: Client, make_user: MakeUser) -> None:
    """Success, wrong password, unknown address, inactive, no staff, signing out: one event each."""
    staff, plain = make_user(is_staff=True), make_user()
    gone = make_user(is_staff=True, is_active=False)
    assert _enter(client, staff.email, "wrong") == 200
    assert _enter(client, "nobody@example.com") == 200
    assert _enter(client, gone.email) == 200
    assert _enter(client, plain.email) == 200
    assert _enter(client, staff.email) == 302
    client.post(reverse("admin:logout"))
    client.post(reverse("admin:logout"))
    rows = AuditEvent.objects.order_by("id").values_list("event", "outcome", "actor_id", "user_id")
    assert list(rows) == [
        ("admin_sign_in", "failure", None, staff.pk),
        ("admin_sign_in", "failure", None, None),
        ("admin_sign_in", "failure", None, gone.pk),
        ("admin_sign_in", "refused", plain.pk, plain.pk),
        ("admin_sign_in", "success", staff.pk, staff.pk),
        ("admin_sign_out", "success", staff.pk, staff.pk),
    ]
    assert set(AuditEvent.objects.filter(event="admin_sign_in").values_list("user_agent", flat=True)) == {"B/1"}


def test_the_list_has_a_frozen_query_count(
    client: Client, root: User, make_user: MakeUser, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """Sixty events of thirty people cost what one event costs."""
    audit.record(Event.SIGN_IN, actor_id=root.pk, user_id=root.pk)
    client.get(reverse(LIST))
    with django_assert_num_queries(5):  # session, its user, count, page, people
        client.get(reverse(LIST))
    for user in [make_user() for _ in range(30)]:
        audit.record(Event.SIGN_IN, actor_id=user.pk, user_id=user.pk)
        audit.record(Event.ROLE_GIVEN, actor_id=root.pk, user_id=user.pk)
    with django_assert_num_queries(5):
        page = client.get(reverse(LIST)).content.decode()
    assert breakable(user.email) in page


def test_filters_and_search(client: Client, root: User, make_user: MakeUser) -> None:
    """By code, outcome, time; by a person's address or id, as actor or as account; by a session's id."""
    person, gone, session = make_user(email="pia@example.com"), uuid.uuid4(), uuid.uuid4()
    with clock.shifted(-90_000):
        audit.record(Event.SIGN_IN, user_id=person.pk, outcome=Outcome.FAILURE)
    audit.record(Event.ROLE_GIVEN, actor_id=person.pk, user_id=gone)
    audit.record(Event.SIGN_OUT, session_id=session)
    cases = {
        "event=sign_in": ["sign_in"],
        "outcome=failure": ["sign_in"],
        "event=role_given&outcome=failure": [],
        "hours=24&event=sign_in": [],
        "hours=168&event=sign_in": ["sign_in"],
        "q=pia@": ["role_given", "sign_in"],
        "q=IA@exam": ["role_given", "sign_in"],
        "q=PIA@example.com": ["role_given", "sign_in"],
        f"q={person.pk}": ["role_given", "sign_in"],
        f"q={gone}": ["role_given"],
        f"q={session}": ["sign_out"],
        "q=pia@&event=sign_in": ["sign_in"],
        f"q={person.pk}&event=role_given&outcome=success": ["role_given"],
        f"q={person.pk}&outcome=failure&hours=24": [],
        "q=nobody": [],
    }
    for query, wanted in cases.items():
        answer = client.get(f"{reverse(LIST)}?{query}")
        assert [event.event for event in answer.context["cl"].result_list] == wanted, query
    for query in ("at__year=5", "user_agent__regex=."):
        assert client.get(f"{reverse(LIST)}?{query}").status_code == 400, query


def test_events_of_one_person_are_found_by_the_person(client: Client, root: User) -> None:
    """A search filtered by event reads the person's events, not all of the event's: both databases say so."""
    path = f"{reverse(LIST)}?q={root.pk}&event=sign_in&outcome=success"
    with CaptureQueriesContext(connection) as captured:
        client.get(path)
    (query,) = [one["sql"] for one in captured.captured_queries if "COUNT" in one["sql"] and "auditevent" in one["sql"]]
    assert "COALESCE" in query
    with connection.cursor() as cursor:
        explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
        cursor.execute(f"{explain} {query}")
        plan = str(cursor.fetchall())
    assert "accounts_audit_event" not in plan
    assert "accounts_audit_outcome" not in plan


def test_nobody_changes_the_trail(client: Client, root: User) -> None:
    """Even a superuser only looks: there is nothing to add, change, delete or select."""
    audit.record(Event.SIGN_IN, user_id=root.pk, details={"role": "<script>"})
    event = AuditEvent.objects.latest("id")
    page = client.get(reverse("admin:accounts_auditevent_change", args=[event.pk]))
    assert page.status_code == 200
    assert b"<script>&" not in page.content
    assert b'name="_save"' not in page.content
    assert b"action-select" not in client.get(reverse(LIST)).content
    for name, arguments in (("add", []), ("delete", [event.pk]), ("change", [event.pk])):
        address = reverse(f"admin:accounts_auditevent_{name}", args=arguments)
        assert client.post(address, {"post": "yes", "event": "x"}).status_code == 403
    assert AuditEvent.objects.get(pk=event.pk).event == "sign_in"


def test_an_event_names_its_people_and_its_second(client: Client, root: User, make_user: MakeUser) -> None:
    """The page of one event says no less than its line in the list: addresses, and the time to the second in UTC."""
    person = make_user(email="pia@example.com")
    audit.record(Event.ROLE_GIVEN, actor_id=root.pk, user_id=person.pk)
    event = AuditEvent.objects.latest("id")
    page = client.get(reverse("admin:accounts_auditevent_change", args=[event.pk])).content.decode()
    assert f">{breakable(root.email)}</a>" in page
    assert f">{breakable(person.email)}</a>" in page
    assert f"{event.at:%Y-%m-%d %H:%M:%S}" in page
    client.force_login(make_user("accounts.view_auditevent", is_staff=True))
    page = client.get(reverse("admin:accounts_auditevent_change", args=[event.pk])).content.decode()
    assert person.email not in page.replace("<wbr>", "")
    assert str(person.pk) in page


def test_rights(client: Client, make_user: MakeUser) -> None:
    """Without the right the trail is closed and no page links to it; without that over users they have ids only."""
    person = make_user(email="pia@example.com")
    audit.record(Event.SIGN_IN, user_id=person.pk)
    profile = reverse("admin:accounts_user_change", args=[person.pk])
    link = f"{reverse(LIST)}?q={person.pk}".encode()
    client.force_login(make_user("accounts.view_user", is_staff=True))
    assert client.get(reverse(LIST)).status_code == 403
    assert link not in client.get(profile).content
    client.force_login(make_user("accounts.view_user", "accounts.view_auditevent", is_staff=True))
    assert breakable(person.email) in client.get(reverse(LIST)).content.decode()
    assert link in client.get(profile).content
    client.force_login(make_user("accounts.view_auditevent", is_staff=True))
    listed = client.get(f"{reverse(LIST)}?q={person.pk}").content
    assert str(person.pk).encode() in listed
    assert b"pia@example.com" not in listed.replace(b"<wbr>", b"")
    assert client.get(f"{reverse(LIST)}?q=pia@").context["cl"].result_list == []


def test_a_narrow_column_breaks_addresses_at_their_joints() -> None:
    """After the at sign and before dots, with everything escaped; what has neither is left whole."""
    assert breakable("mia.b@mail.example") == "mia<wbr>.b@<wbr>mail<wbr>.example"
    assert breakable("<i>@x") == "&lt;i&gt;@<wbr>x"
    assert breakable("themselves") == "themselves"


def test_what_the_admin_refuses_is_recorded(client: Client, make_user: MakeUser, root: User) -> None:
    """Staff without the right, for looking and for doing; who is no staff any more; nothing for what is allowed."""
    staff = make_user("accounts.view_user", is_staff=True)
    client.force_login(staff)
    page = reverse("admin:accounts_user_change", args=[root.pk])
    assert client.get(page).status_code == 200
    trail = reverse(LIST)
    refused = [("GET", trail), ("POST", page), ("POST", reverse("admin:accounts_user_delete", args=[root.pk]))]
    for method, path in refused:
        assert client.generic(method, path).status_code == 403, path
    User.objects.filter(pk=staff.pk).update(is_staff=False)
    assert client.get(f"{page}?secret=1").status_code == 302
    assert Client().get(page).status_code == 302
    rows = AuditEvent.objects.filter(event="access_denied").order_by("id")
    expected = [*refused, ("GET", page)]
    assert [(row.details["method"], row.details["path"]) for row in rows] == expected
    assert {(row.outcome, row.actor_id, row.user_id) for row in rows} == {("refused", staff.pk, None)}
