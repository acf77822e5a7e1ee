"""*Sign in as* in the admin: who is offered it, what it asks for, and that it ends with the admin's session."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Permission
from django.contrib.sessions.models import Session as AdminSession
from django.test import Client

from accounts.admin.tests.second_step import Enrolled, password, signed_in
from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from tokens.sessions.models import Session
from tokens.tests.browser import ME, REFRESH, SAME_ORIGIN, SIGNIN

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

CONFIRM = "/admin/confirm/"
LOGOUT = "/admin/logout/"


@pytest.fixture(autouse=True)
def _on(settings: Any) -> None:
    settings.IRONAUTH_SIGN_IN_AS = True


@pytest.fixture
def person(db: None) -> User:
    """Who has asked for help."""
    return User.objects.create_user(email="person@example.com", name="Petra", password=PASSWORD)


@pytest.fixture
def helper(db: None) -> User:
    """A member of staff who may see people and sign in as them, and has an app."""
    user = User.objects.create_user(email="helper@example.com", name="Hedy", password=PASSWORD, is_staff=True)
    wanted = Permission.objects.filter(codename__in=("sign_in_as", "view_user", "view_auditevent", "view_session"))
    user.user_permissions.add(*wanted)
    return user


@pytest.fixture
def browser(helper: User) -> Client:
    """The helper's, signed in to the admin by password and app."""
    return signed_in(helper)


def page_of(user: User) -> str:
    return f"/admin/accounts/user/{user.pk}/sign-in-as/"


def begin(browser: Client, user: User) -> Any:
    """Give a reason."""
    return browser.post(page_of(user), {"reason": "ticket 7"})


def acting(browser: Client) -> Any:
    """Return what the API says of who acts in this browser; its status when nobody is signed in."""
    answer = browser.get(ME)
    return answer.json()["acting"] if answer.status_code == 200 else answer.status_code


# ---------------------------------------------------------------- it begins
def test_a_reason_begins_it(browser: Client, helper: User, person: User) -> None:
    """The page asks, refuses none, and goes on to the account's page, where this browser is the person, to look."""
    assert "30 minutes at most" in browser.get(page_of(person)).content.decode()
    for none in ("", "   "):
        assert "This field is required" in browser.post(page_of(person), {"reason": none}).content.decode()
    assert not Session.objects.exists()
    answer = begin(browser, person)
    assert (answer.status_code, answer.headers["location"]) == (302, "/account/security")
    assert browser.get(ME).json()["email"] == person.email
    assert acting(browser)["email"] == helper.email
    refused = browser.patch(ME, {"name": "X"}, content_type="application/json", headers=SAME_ORIGIN)
    assert (refused.status_code, refused.json()["code"]) == (403, "acting_session")
    assert browser.get(f"/admin/accounts/user/{person.pk}/change/").status_code == 200  # still the helper's


def test_the_reason_is_on_both_trails(browser: Client, helper: User, person: User) -> None:
    """On the page of either in the admin, and its longest text is kept whole; a longer one is refused."""
    assert browser.post(page_of(person), {"reason": "x" * 256}).status_code == 200
    assert not Session.objects.exists()
    assert browser.post(page_of(person), {"reason": "y" * 255}).status_code == 302
    for user in (helper, person):
        shown = browser.get(f"/admin/accounts/user/{user.pk}/change/").content.decode()
        assert "Signed in as a person" in shown
        assert "y" * 255 in shown


def test_it_replaces_what_the_browser_had_at_the_pages(browser: Client, helper: User, person: User) -> None:
    """The session that the browser had at the account's page ends, others do not; none of single sign-on is made."""
    other = User.objects.create_user(email="other@example.com", password=PASSWORD)
    form = urlencode({"username": other.email, "password": PASSWORD})
    for client in (browser, Client()):
        answer = client.post(SIGNIN, form, content_type="application/x-www-form-urlencoded", headers=SAME_ORIGIN)
        assert answer.status_code == 204
    here, elsewhere = Session.objects.order_by("id")
    assert begin(browser, person).status_code == 302
    live = Session.objects.filter(revoked_at=None)
    assert {one.pk: one.client_id for one in live.filter(actor_id=None)} == {elsewhere.pk: "ironauth"}
    assert [one.client_id for one in live.filter(actor_id=helper.pk)] == ["ironauth"]
    assert Session.objects.get(pk=here.pk).revoke_reason == "signed_out"


# ---------------------------------------------------------------- who is offered it, and who may
def offered(browser: Client, user: User) -> bool:
    return page_of(user) in browser.get(f"/admin/accounts/user/{user.pk}/change/").content.decode()


def test_who_is_offered_it(browser: Client, helper: User, person: User, settings: Any) -> None:
    """For people whose rights one holds; not oneself, not who holds more, not who is inactive, not when it is off."""
    root = User.objects.create_superuser(email="root@example.com")
    inactive = User.objects.create_user(email="inactive@example.com", is_active=False)
    assert offered(browser, person)
    for other in (helper, root, inactive):
        assert not offered(browser, other)
        assert begin(browser, other).status_code == 403
    assert not Session.objects.exists()
    refused = AuditEvent.objects.filter(event="sign_in_as", outcome="refused", actor_id=helper.pk)
    assert refused.count() == 3
    settings.IRONAUTH_SIGN_IN_AS = False
    assert not offered(browser, person)
    assert begin(browser, person).status_code == 404


def test_it_needs_the_right(browser: Client, helper: User, person: User) -> None:
    """Without it the page is forbidden, and that is recorded; nobody who is unknown is somebody."""
    missing = page_of(person).replace(str(person.pk), "00000000-0000-0000-0000-000000000001")
    assert browser.post(missing, {"reason": "x"}).status_code == 404
    helper.user_permissions.remove(Permission.objects.get(codename="sign_in_as"))
    assert (browser.get(page_of(person)).status_code, begin(browser, person).status_code) == (403, 403)
    assert AuditEvent.objects.filter(event="access_denied", actor_id=helper.pk).count() == 2
    assert not offered(browser, person)
    assert not Session.objects.exists()


# ---------------------------------------------------------------- a second factor of the last ten minutes
def test_the_factor_must_be_fresh(browser: Client, person: User) -> None:
    """At 599 seconds after the second step it begins; at 601 one is asked again, and nothing is open."""
    with clock.shifted(599):
        assert begin(browser, person).headers["location"] == "/account/security"
    Session.objects.all().delete()
    with clock.shifted(601):
        for answer in (browser.get(page_of(person)), begin(browser, person)):
            assert answer.status_code == 302
            assert answer.headers["location"].startswith(CONFIRM)
    assert not Session.objects.exists()


def test_a_password_is_not_enough(helper: User, person: User) -> None:
    """Of who has no factor, nothing begins; who set one up after the password alone proves it first."""
    client = Client()
    client.force_login(helper)
    assert "You have no second factor" in client.get(page_of(person)).content.decode()
    assert begin(client, person).status_code == 403
    app = Enrolled(helper)
    assert begin(client, person).headers["location"].startswith(CONFIRM)
    asked = client.get(f"{CONFIRM}?next={page_of(person)}")
    assert asked.status_code == 200  # not let through by the fresh password
    assert (
        client.post(f"{CONFIRM}?next={page_of(person)}", {"password": PASSWORD}).headers["location"].endswith("code/")
    )
    assert not Session.objects.exists()
    assert client.post("/admin/confirm/code/", {"code": app.code()}).headers["location"] == page_of(person)
    assert begin(client, person).headers["location"] == "/account/security"


# ---------------------------------------------------------------- it ends
def test_it_ends_with_the_session_of_the_admin(browser: Client, person: User) -> None:
    """Signing out of the admin signs out there, and both trails say so."""
    assert begin(browser, person).status_code == 302
    assert acting(browser) is not None
    assert browser.post(LOGOUT).status_code == 200
    assert acting(browser) == 401
    assert browser.post(REFRESH, "{}", content_type="application/json", headers=SAME_ORIGIN).status_code == 401
    ended = AuditEvent.objects.get(event="sign_in_as_ended")
    assert (ended.user_id, AuditEvent.objects.get(event="sign_in_as").session_id) == (person.pk, ended.session_id)


@pytest.mark.parametrize(("left_s", "lasts_s"), [(600, 600), (7_200, 1_800)])
def test_it_does_not_outlast_the_session_of_the_admin(browser: Client, person: User, left_s: int, lasts_s: int) -> None:
    """Where that has less than 30 minutes left, so has this."""
    AdminSession.objects.update(expire_date=clock.now() + timedelta(seconds=left_s))
    assert begin(browser, person).status_code == 302
    session = Session.objects.get(revoked_at=None)
    assert abs((session.absolute_expires_at - session.created_at).total_seconds() - lasts_s) < 60


@pytest.mark.parametrize("enrolled", [False, True])
def test_it_ends_where_another_signs_in_to_the_admin(browser: Client, person: User, enrolled: bool) -> None:
    """Another member of staff in this browser has no look, by the first step alone; neither has the helper again."""
    other = User.objects.create_user(email="other@example.com", password=PASSWORD, is_staff=True)
    if enrolled:
        Enrolled(other)
    assert begin(browser, person).status_code == 302
    assert acting(browser) is not None
    assert password(browser, other).status_code == 302
    assert acting(browser) == 401
    assert browser.post(REFRESH, "{}", content_type="application/json", headers=SAME_ORIGIN).status_code == 401
    assert AuditEvent.objects.filter(event="sign_in_as_ended", user_id=person.pk).count() == 1
    assert not Session.objects.filter(revoked_at=None).exists()


def test_it_ends_where_the_helper_signs_in_again(browser: Client, helper: User, person: User) -> None:
    """It was begun in the session of the admin that this replaces; a wrong password replaces none."""
    assert begin(browser, person).status_code == 302
    assert browser.post("/admin/login/", {"username": helper.email, "password": "wrong"}).status_code == 200
    assert acting(browser) is not None
    assert password(browser, helper).status_code == 302
    assert acting(browser) == 401


def test_a_sign_in_in_another_browser_ends_nothing(browser: Client, person: User) -> None:
    """A sign-in to the admin elsewhere leaves this look alone."""
    other = User.objects.create_user(email="other@example.com", password=PASSWORD, is_staff=True)
    assert begin(browser, person).status_code == 302
    assert password(Client(), other).status_code == 302
    assert acting(browser) is not None
