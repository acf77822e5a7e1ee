"""Step-up in the admin: what a session of long ago may not do alone, how one confirms it, and where one comes back."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.contrib.admin import ActionLocation
from django.contrib.auth.models import Group, Permission
from django.test import Client, RequestFactory
from django.urls import reverse

from accounts.admin.access import sign_in as admin_sign_in
from accounts.admin.tests.second_step import USERS, Enrolled, opens, password
from accounts.admin.tests.test_admin_passkeys import REFUSED, give, options_in, shown
from accounts.admin.users import UserAdmin
from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD, MakeUser
from accounts.outbox.models import OutgoingMail
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.ratelimit.lockout import FREE_FAILURES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("throttled", "still_clock")]
CONFIRM, CONFIRM_CODE, START = "/admin/confirm/", "/admin/confirm/code/", "/admin/"
ROLES = "/admin/accounts/role/"
RECENT_S = 600
NEW_PASSWORD = "seven amber kites over Lyon"
PASSWORDS = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}


@pytest.fixture
def other(make_user: MakeUser) -> User:
    """Somebody the acts are about."""
    return make_user(email="bo@example.com", name="Bo")


def page_of(user: User) -> str:
    return f"{USERS}{user.pk}/change/"


def asking(back: str) -> str:
    """Return the address of the page that asks, and leads back there."""
    return f"{CONFIRM}?{urlencode({'next': back})}"


def form_of(user: User, **changes: Any) -> dict[str, Any]:
    """Return what the browser sends for this user's page."""
    sent = {"email": user.email, "name": user.name, "groups": [group.pk for group in user.groups.all()]}
    flags = {name: "on" for name in ("is_active", "is_staff", "is_superuser") if getattr(user, name)}
    inlines = {f"sessions-{name}": 0 for name in ("TOTAL_FORMS", "INITIAL_FORMS", "MIN_NUM_FORMS", "MAX_NUM_FORMS")}
    return {name: value for name, value in (sent | flags | inlines | changes).items() if value is not None}


def picked(action: str, *users: User, **more: str) -> dict[str, Any]:
    return {"action": action, "_selected_action": [str(user.pk) for user in users], **more}


def was_asked(answer: Any) -> bool:
    return bool(answer.status_code == 302 and answer.headers["location"].startswith(CONFIRM))


def said(browser: Client, path: str) -> str:
    return browser.get(path).content.decode()


# ------------------------------------------------------------------ what asks
@pytest.mark.parametrize(
    "changes",
    [
        {"email": "new@example.com"}, {"is_active": None}, {"is_staff": "on"}, {"is_superuser": "on"},
        {"groups": "some"}, {"user_permissions": "some"}, {"name": "New", "email": "new@example.com"},
    ],
)  # fmt: skip
def test_rights_and_address_need_a_proof(client: Client, root: User, other: User, changes: dict[str, Any]) -> None:
    """At 599 seconds they are saved, at 601 nothing of the form is; one is led to the page that asks, and back."""
    rows = {"groups": Group.objects.create(name="support"), "user_permissions": Permission.objects.all()[0]}
    changes = {name: [rows[name].pk] if value == "some" else value for name, value in changes.items()}
    before = User.objects.values().get(pk=other.pk)
    with clock.shifted(601):
        answer = client.post(page_of(other), form_of(other, **changes))
        assert (answer.status_code, answer.headers["location"]) == (302, asking(page_of(other)))
    assert User.objects.values().get(pk=other.pk) == before
    assert not other.groups.exists()
    assert not other.user_permissions.exists()
    assert not OutgoingMail.objects.exists()
    assert not AuditEvent.objects.filter(event="user_changed").exists()
    with clock.shifted(599):
        assert client.post(page_of(other), form_of(other, **changes)).headers["location"] == USERS
    assert AuditEvent.objects.get(event="user_changed").details["fields"] == sorted(changes)


ACTS: list[tuple[str, dict[str, Any]]] = [
    *((USERS, {"action": name, "confirmed": "yes"}) for name in (
        "send_reset", "require_password_change", "accept_password", "reset_mfa", "deactivate", "activate", "restore",
    )),
    (USERS, {"action": "delete_selected", "post": "yes"}),
    (USERS, {"action": ["end_all_sessions", "deactivate"], "index": "1", "confirmed": "yes"}),
    (USERS, {"action": "of tomorrow"}),
    (USERS, {"action": "", "_save": "Save"}),
    (f"{USERS}{{user}}/password/", PASSWORDS),
    (f"{USERS}{{user}}/password/", {"usable_password": "false", "unset-password": "1"}),
    (f"{USERS}{{user}}/delete/", {"post": "yes"}),
    (f"{ROLES}add/", {"name": "editors"}),
    (f"{ROLES}{{role}}/change/", {"name": "renamed"}),
    (f"{ROLES}{{role}}/delete/", {"post": "yes"}),
    (ROLES, {"action": "delete_selected", "post": "yes"}),
    ("/admin/tokens/signingkey/rotate/", {"confirmed": "yes"}),
    ("/admin/tokens/signingkey/", {"action": "drop_as_compromised"}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body"), ACTS)
def test_sensitive_acts_need_a_proof(client: Client, root: User, other: User, path: str, body: dict[str, Any]) -> None:
    """At 601 seconds they lead to the page that asks, and nobody and nothing is touched; at 599 they do not."""
    role = Group.objects.create(name="support")
    path = path.format(user=other.pk, role=role.pk)
    before = list(User.objects.order_by("pk").values()), list(Group.objects.values())
    with clock.shifted(601):
        answer = client.post(path, {"_selected_action": [str(other.pk)], **body})
        assert (answer.status_code, answer.headers["location"]) == (302, asking(path))
    assert (list(User.objects.order_by("pk").values()), list(Group.objects.values())) == before
    with clock.shifted(599):
        selected = [str(role.pk) if path == ROLES else str(other.pk)]
        assert not was_asked(client.post(path, {"_selected_action": selected, **body}, follow=False))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (USERS, {"action": "end_all_sessions"}),
        (USERS, {"action": "end_all_sessions", "confirmed": "yes"}),
        (USERS, {"action": "resend_verification", "confirmed": "yes"}),
        (USERS, {"action": ""}),
        ("/admin/tokens/session/", {"action": "end_sessions", "confirmed": "yes"}),
        ("/admin/accounts/outgoingmail/", {"action": "try_again", "confirmed": "yes"}),
        (f"{USERS}add/", {"email": "new@example.com", "name": "", **PASSWORDS}),
    ],
)
def test_ordinary_acts_stay_free(client: Client, root: User, other: User, path: str, body: dict[str, Any]) -> None:
    """Ending what is open, a message that opens nothing, and an account without rights ask for nothing."""
    with clock.shifted(5 * 3600):
        answer = client.post(path, {"_selected_action": [str(other.pk)], **body})
        assert answer.status_code in (200, 302)
        assert not was_asked(answer)
        assert "error" not in (answer.content.decode() if answer.status_code == 200 else "")


def test_looking_and_names_stay_free(client: Client, root: User, other: User) -> None:
    """Every page opens, a name is saved, also of somebody who has roles, and the way out is open."""
    role = Group.objects.create(name="support")
    other.groups.add(role)
    with clock.shifted(5 * 3600):
        for path in (START, USERS, page_of(other), f"{USERS}{other.pk}/delete/", f"{ROLES}{role.pk}/change/"):
            assert client.get(path).status_code == 200, path
        assert client.post(page_of(other), form_of(other, name="New")).headers["location"] == USERS
        assert client.post(page_of(other), form_of(other, email="no address")).status_code == 200
        assert client.post(reverse("admin:logout")).status_code == 200
    assert User.objects.get(pk=other.pk).name == "New"


class Members(admin.TabularInline):  # type: ignore[type-arg] # Django's is not generic at run time
    """What another application might append to a person's page."""

    model = User.groups.through
    extra = 0


def test_what_another_application_appends_needs_a_proof(
    client: Client, root: User, other: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows below the form, though the form itself changes a name only: nothing of the page is saved at 601 seconds."""
    monkeypatch.setattr(UserAdmin, "inlines", [*UserAdmin.inlines, Members])
    role, rows = Group.objects.create(name="support"), "User_groups"
    counts = {f"{rows}-TOTAL_FORMS": 1, f"{rows}-INITIAL_FORMS": 0}
    sent = form_of(other, name="New", **counts, **{f"{rows}-0-group": role.pk, f"{rows}-0-user": str(other.pk)})
    with clock.shifted(601):
        assert client.post(page_of(other), sent).headers["location"] == asking(page_of(other))
        assert not other.groups.exists()
        assert User.objects.get(pk=other.pk).name == "Bo"
        unchanged = sent | {f"{rows}-TOTAL_FORMS": 0}
        assert client.post(page_of(other), unchanged).headers["location"] == USERS
    with clock.shifted(599):
        assert client.post(page_of(other), sent).headers["location"] == USERS
    assert other.groups.get() == role


def test_no_action_hides_on_a_persons_own_page(root: User) -> None:
    """A person's page is judged by its fields: there are no actions on it that would go unseen."""
    request = RequestFactory().get("/")
    request.user = root
    page = admin.site._registry[User]
    assert isinstance(page, UserAdmin)
    assert page.get_actions(request, action_location=ActionLocation.CHANGE_FORM) == {}


def test_sessions_of_before_ask(client: Client, root: User, other: User) -> None:
    """One that says nothing of its sign-in was opened by the release before: as if long ago."""
    session = client.session
    del session["ironauth_proved_at"]
    session.save()
    assert was_asked(client.post(USERS, picked("deactivate", other)))
    assert opens(client)


def test_ones_own_password(client: Client, root: User) -> None:
    """Its page asks for the password itself, which is enough for who has no factor; who has one confirms with it."""
    body = {"old_password": PASSWORD, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}
    page = reverse("admin:password_change")
    with clock.shifted(601):
        assert client.post(page, body | {"new_password2": "x"}).status_code == 200
    Enrolled(root)
    with clock.shifted(601):
        assert client.post(page, body).headers["location"] == asking(page)
    assert User.objects.get(pk=root.pk).password == root.password
    with clock.shifted(599):
        assert client.post(page, body).headers["location"] == reverse("admin:password_change_done")


# ------------------------------------------------------------------ the page that asks
def test_the_password_confirms_and_leads_back(client: Client, root: User, other: User) -> None:
    """The page says that nothing was done, and so does the one it leads back to; then the act goes through."""
    with clock.shifted(601):
        answer = client.post(USERS + "?is_active__exact=1", picked("deactivate", other, confirmed="yes"))
        page = answer.headers["location"]
        assert page == asking(USERS + "?is_active__exact=1")
        asked = client.get(page)
        assert "Nothing has been done yet." in asked.content.decode()
        assert "no-store" in asked.headers["cache-control"]
        assert 'autocomplete="current-password"' in asked.content.decode()
        old = client.session.session_key
        answer = client.post(page, {"password": PASSWORD})
        assert (answer.status_code, answer.headers["location"]) == (302, USERS + "?is_active__exact=1")
        assert client.session.session_key != old
        assert "was not done: please do it again" in said(client, answer.headers["location"])
        assert User.objects.get(pk=other.pk).is_active
        assert client.post(USERS, picked("deactivate", other, confirmed="yes")).headers["location"] == USERS
        assert not User.objects.get(pk=other.pk).is_active
        assert client.get(page).headers["location"] == USERS + "?is_active__exact=1"
    trail = AuditEvent.objects.filter(event="step_up")
    assert [(row.outcome, row.actor_id, row.user_id) for row in trail] == [("success", root.pk, root.pk)]
    with clock.shifted(601 + RECENT_S - 2):
        assert not was_asked(client.post(USERS, picked("deactivate", other)))
    with clock.shifted(601 + RECENT_S + 1):
        assert was_asked(client.post(USERS, picked("activate", other)))


def test_a_button_leads_back_to_the_persons_page(client: Client, root: User, other: User) -> None:
    """Where it was pressed, not to the list it is sent to; what is no person's id leads to the list."""
    with clock.shifted(601):
        answer = client.post(USERS, picked("send_reset", other, page="yes"))
        assert answer.headers["location"] == asking(page_of(other))
        for chosen in ("", "x", "../../logout"):
            body = {"action": "send_reset", "_selected_action": [chosen], "page": "yes"}
            assert client.post(USERS, body).headers["location"] == asking(USERS)


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "http:///x", "", "x",
        "metrics",
    ],
)  # fmt: skip
def test_it_leads_nowhere_else(client: Client, root: User, target: str) -> None:
    """An address of another host, or of another scheme, is the start page; so is what is no path."""
    with clock.shifted(601):
        page = f"{CONFIRM}?{urlencode({'next': target})}"
        assert f'href="{START}">Back, without confirming' in said(client, page)
        assert client.post(page, {"password": PASSWORD}).headers["location"] == START


def test_wrong_passwords_are_counted_and_recorded(client: Client, root: User, other: User) -> None:
    """Ten, as everywhere; each is in the trail, none confirms, and nothing is hashed after them."""
    with clock.shifted(601):
        jobs = hash_pool().stats().completed
        for _ in range(FREE_FAILURES):
            assert "The password is wrong" in client.post(CONFIRM, {"password": "wrong"}).content.decode()
        assert "Too many attempts. Try again in 1 s." in client.post(CONFIRM, {"password": PASSWORD}).content.decode()
        assert "This field is required" in client.post(CONFIRM, {}).content.decode()
        assert hash_pool().stats().completed == jobs + FREE_FAILURES
        assert was_asked(client.post(USERS, picked("deactivate", other)))
    trail = AuditEvent.objects.filter(event__in=("step_up", "throttled")).order_by("event")
    rows = [(row.event, row.outcome, row.actor_id) for row in trail]
    assert rows == [("step_up", "failure", root.pk)] * FREE_FAILURES + [("throttled", "refused", None)]
    with clock.shifted(602):
        assert client.post(CONFIRM, {"password": PASSWORD}).headers["location"] == START


def test_a_full_pool_is_said(client: Client, root: User, request: pytest.FixtureRequest) -> None:
    """And counted for nothing."""
    request.getfixturevalue("full_pool")
    with clock.shifted(601):
        for _ in range(FREE_FAILURES + 1):
            assert "The server is busy" in client.post(CONFIRM, {"password": PASSWORD}).content.decode()


def test_the_pages_are_for_staff_who_are_signed_in(client: Client, make_user: MakeUser) -> None:
    """Nobody else is asked for a password there, and another site cannot send one."""
    for page in (CONFIRM, CONFIRM_CODE):
        assert client.get(page).headers["location"].startswith(reverse("admin:login"))
        assert client.post(page, {"password": PASSWORD}).headers["location"].startswith(reverse("admin:login"))
    client.force_login(make_user(is_staff=True))
    client.handler.enforce_csrf_checks = True
    with clock.shifted(601):
        assert client.post(CONFIRM, {"password": PASSWORD}).status_code == 403


# ------------------------------------------------------------------ with a second factor
def test_who_has_an_app_proves_it_too(client: Client, root: User, other: User) -> None:
    """The password alone confirms nothing; a wrong code is recorded, a right one leads back, and counts once."""
    app = Enrolled(root)
    with clock.shifted(601):
        page = client.post(USERS, picked("deactivate", other)).headers["location"]
        assert client.post(page, {"password": PASSWORD}).headers["location"] == CONFIRM_CODE
        asked = said(client, CONFIRM_CODE)
        assert 'value="Confirm"' in asked
        assert "Sign in" not in asked
        assert page.replace("&", "&amp;") in asked  # where one begins again
        assert was_asked(client.post(USERS, picked("deactivate", other)))
        assert "wrong, has expired" in client.post(CONFIRM_CODE, {"code": "000000"}).content.decode()
        code = app.code()
        assert client.post(CONFIRM_CODE, {"code": code}).headers["location"] == USERS
        assert not was_asked(client.post(USERS, picked("deactivate", other)))
    me = (root.pk, root.pk)
    trail = AuditEvent.objects.filter(event__in=("step_up", "second_factor_asked")).order_by("event", "outcome")
    assert [(row.event, row.outcome, (row.actor_id, row.user_id), row.details) for row in trail] == [
        ("second_factor_asked", "success", me, {"on_the_way_to": "step_up"}),
        ("step_up", "failure", me, {"reason": "invalid_mfa_code"}),
        ("step_up", "success", me, {}),
    ]
    assert AuditEvent.objects.filter(event="admin_sign_in").count() == 1
    with clock.shifted(601 + RECENT_S + 1):
        assert client.post(CONFIRM, {"password": PASSWORD}).headers["location"] == CONFIRM_CODE
        assert client.post(CONFIRM_CODE, {"code": code}).status_code == 200
        assert client.post(CONFIRM_CODE, {"code": app.codes[0]}).headers["location"] == START


def test_the_code_follows_within_five_minutes(client: Client, root: User) -> None:
    """At 299 s the page asks for it, at 300 s one begins again, and without a password it asks for nothing."""
    app = Enrolled(root)
    with clock.shifted(601):
        assert client.post(CONFIRM_CODE, {"code": app.code()}).headers["location"] == CONFIRM
        client.post(CONFIRM, {"password": PASSWORD})
    with clock.shifted(601 + admin_sign_in.CODE_S - 1):
        assert client.get(CONFIRM_CODE).status_code == 200
    with clock.shifted(601 + admin_sign_in.CODE_S):
        assert client.post(CONFIRM_CODE, {"code": app.code()}).headers["location"] == CONFIRM
        assert "Please try again" in said(client, CONFIRM)


def test_a_passkey_confirms(client: Client, root: User) -> None:
    """What it signs is for a confirmation and for nothing else: not what a sign-in asks for, and not twice."""
    device, abroad = give(root), Client()
    with clock.shifted(601):
        client.post(CONFIRM, {"password": PASSWORD})

        def answer(browser: Client, path: str) -> dict[str, str]:
            options = options_in(shown(browser, path))
            signed = json.dumps(device.get(options["publicKey"]))
            return {"challenge_token": options["challenge_token"], "credential": signed}

        password(abroad, root)
        elsewhere = answer(abroad, admin_code := reverse("admin:login_code"))
        assert REFUSED in client.post(CONFIRM_CODE, elsewhere).content.decode()
        failed = AuditEvent.objects.get(event="step_up")
        assert (failed.outcome, failed.actor_id, failed.details["cause"]) == ("failure", root.pk, "challenge")
        right = answer(client, CONFIRM_CODE)
        assert REFUSED in abroad.post(admin_code, right).content.decode()
        assert client.post(CONFIRM_CODE, right).headers["location"] == START
        assert client.get(CONFIRM).headers["location"] == START
    with clock.shifted(601 + RECENT_S + 1):
        client.post(CONFIRM, {"password": PASSWORD})
        assert REFUSED in client.post(CONFIRM_CODE, right).content.decode()
