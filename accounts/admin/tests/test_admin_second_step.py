"""Signing in to the admin with a second factor: what opens, what does not, and for how long half of it counts."""

import re
import secrets
import uuid
from typing import Any

import pyotp
import pytest
from asgiref.sync import async_to_sync
from django.test import Client, override_settings
from django.urls import reverse
from pytest_django import Settings

from accounts.admin.access import sign_in as admin_sign_in
from accounts.admin.tests.second_step import CODE, LOGIN, SET_UP, USERS, Enrolled, acts, opens, password
from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD, MakeUser
from accounts.mfa.passkeys.models import Passkey
from accounts.mfa.recovery.models import RecoveryCode
from accounts.mfa.totp import services as totp_services
from accounts.mfa.totp.models import TotpFactor
from accounts.outbox.models import OutgoingMail
from accounts.users import queries as user_queries
from accounts.users.models import User
from accounts.users.second_factors import methods_of
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.models import ThrottleFailures
from ironauth.infrastructure.ratelimit.lockout import FREE_FAILURES

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.usefixtures("throttled", "still_clock"),
]
WRONG = "000000"


@pytest.fixture
def enrolled(staff: User) -> Enrolled:
    """The same person with a second factor."""
    return Enrolled(staff)


def test_password_and_code_open_the_admin(client: Client, staff: User, enrolled: Enrolled) -> None:
    """The code follows the password, leads where one wanted to go, and only then is the sign-in recorded."""
    answer = password(client, staff)
    assert (answer.status_code, answer.headers["location"]) == (302, CODE)
    assert acts() == []
    page = client.get(CODE)
    assert "no-store" in page.headers["cache-control"]
    assert 'autocomplete="one-time-code"' in page.content.decode()
    half_way = client.session.session_key
    answer = client.post(CODE, {"code": enrolled.code()})
    assert (answer.status_code, answer.headers["location"]) == (302, USERS)
    assert opens(client)
    assert client.session.session_key != half_way
    assert acts() == [("admin_sign_in", "success")]
    staff.refresh_from_db()
    assert staff.last_login is not None


def test_it_leads_to_an_address_not_to_a_page_of_that_name(client: Client, staff: User, enrolled: Enrolled) -> None:
    """Whatever the link said that somebody followed: the sign-in is made, as without a second step."""
    password(client, staff, next="x")
    answer = client.post(CODE, {"code": enrolled.code()})
    assert (answer.status_code, answer.headers["location"]) == (302, "x")
    assert opens(client)


def test_nothing_opens_between_password_and_code(client: Client, staff: User, enrolled: Enrolled) -> None:
    """Every page asks for the sign-in, own password and log-out included; nobody counts as signed in."""
    password(client, staff)
    for name in ("index", "password_change", "password_change_done", "jsi18n", "logout", "accounts_user_changelist"):
        for answer in (client.get(reverse(f"admin:{name}")), client.post(reverse(f"admin:{name}"))):
            assert answer.status_code == 302, name
            assert answer.headers["location"].startswith((LOGIN, "/admin/")), name
    assert client.get("/admin/", follow=True).redirect_chain[-1][0].startswith(LOGIN)
    assert "_auth_user_id" not in client.session
    assert AuditEvent.objects.filter(event="admin_sign_out").count() == 0


def test_codes_are_judged_as_the_api_judges_them(client: Client, staff: User, enrolled: Enrolled) -> None:
    """A wrong code is said and recorded, a used one is wrong, a recovery code works once, however it is typed."""
    password(client, staff)
    answer = client.post(CODE, {"code": WRONG})
    assert answer.status_code == 200
    assert "wrong, has expired or was used before" in answer.content.decode()
    assert AuditEvent.objects.get(event="admin_sign_in").details == {"reason": "invalid_mfa_code"}
    code = enrolled.code()
    assert client.post(CODE, {"code": f" {code[:3]} {code[3:]} "}).status_code == 302
    for typed, status in ((code, 200), (enrolled.codes[0].upper(), 302), (enrolled.codes[0], 200), ("", 200)):
        browser = Client()
        password(browser, staff)
        assert browser.post(CODE, {"code": typed}).status_code == status, typed
        assert opens(browser) is (status == 302)
    assert RecoveryCode.objects.filter(user=staff).count() == 9


def test_a_right_password_is_in_the_trail(client: Client, staff: User, make_user: MakeUser, settings: Settings) -> None:
    """Anybody who gets no further has it: for who has a factor, and for who has to set one up; not for a wrong one."""
    other = make_user(email="bo@example.com", is_staff=True)
    Enrolled(staff)
    settings.IRONAUTH_STAFF_MFA = "required"
    for user in (staff, other):
        password(Client(), user, password="wrong")
        password(Client(), user)
    trail = AuditEvent.objects.filter(event="second_factor_asked")
    said = {row.user_id: (row.outcome, row.actor_id, row.details) for row in trail}
    assert said == dict.fromkeys((staff.pk, other.pk), ("success", None, {"on_the_way_to": "admin_sign_in"}))
    assert len(trail) == len(said)


@pytest.mark.parametrize(
    ("after_s", "status"), [(admin_sign_in.CODE_S - 1, 200), (admin_sign_in.CODE_S, 302), (-1, 200)]
)
def test_the_password_counts_for_five_minutes(
    client: Client, staff: User, enrolled: Enrolled, after_s: int, status: int
) -> None:
    """At 299 s the page asks for the code, also where clocks differ; at 300 s one begins again, and reads so."""
    password(client, staff)
    with clock.shifted(after_s):
        answer = client.get(CODE)
        assert answer.status_code == status
        if status == 302:
            assert client.post(CODE, {"code": enrolled.code()}).status_code == 302
            assert "Please try again" in client.get(LOGIN).content.decode()
            assert not opens(client)


@pytest.mark.parametrize(
    "change",
    [
        {"password": "another"}, {"session_epoch": 9}, {"is_active": False}, {"is_staff": False},
    ],
)  # fmt: skip
def test_what_ends_a_session_ends_half_of_one(
    client: Client, staff: User, enrolled: Enrolled, change: dict[str, Any]
) -> None:
    """A new password, a raised epoch, deactivation and the loss of the post leave nothing to complete."""
    password(client, staff)
    User.objects.filter(pk=staff.pk).update(**change)
    assert client.post(CODE, {"code": enrolled.code()}).headers["location"] == LOGIN
    assert not opens(client)


def test_half_a_sign_in_ends_whoever_was_signed_in(client: Client, staff: User, enrolled: Enrolled, root: User) -> None:
    """With the password of another account the browser has no person until the code; nothing is inherited."""
    assert opens(client)
    before = client.session.session_key
    password(client, staff)
    assert not opens(client)
    assert client.session.session_key != before


def test_wrong_codes_have_their_count(client: Client, staff: User, enrolled: Enrolled) -> None:
    """After ten none is judged for a second, whatever the browser; a right password resets nothing.

    A recovery code is let in, as the page says.
    """
    for n in range(FREE_FAILURES):
        browser = Client(REMOTE_ADDR=f"198.51.100.{n}")
        password(browser, staff)
        assert "wrong, has expired" in browser.post(CODE, {"code": WRONG}).content.decode()
    password(client, staff)
    refused = client.post(CODE, {"code": enrolled.code()})
    assert "Too many attempts. Try again in 1 s, or use a recovery code from this site." in refused.content.decode()
    with clock.shifted(1):
        assert "wrong, has expired" in client.post(CODE, {"code": WRONG}).content.decode()
        assert client.post(CODE, {"code": enrolled.codes[0]}).status_code == 302
    assert set(ThrottleFailures.objects.values_list("failures", flat=True)) == {0}


def test_a_full_pool_is_said(client: Client, staff: User, enrolled: Enrolled, request: pytest.FixtureRequest) -> None:
    """A recovery code that cannot be judged now is not used up, and not counted."""
    password(client, staff)
    request.getfixturevalue("full_pool")
    assert "The server is busy" in client.post(CODE, {"code": enrolled.codes[0]}).content.decode()
    assert RecoveryCode.objects.filter(user=staff).count() == 10
    assert not any(ThrottleFailures.objects.values_list("failures", flat=True))


def test_the_form_needs_its_token(staff: User, enrolled: Enrolled) -> None:
    """Another site cannot send the code."""
    browser = Client()
    password(browser, staff)
    browser.handler.enforce_csrf_checks = True
    assert browser.post(CODE, {"code": enrolled.code()}).status_code == 403


def test_the_steps_are_no_pages_by_themselves(client: Client, root: User) -> None:
    """Without a password before, no matter who one is, they lead to the first form."""
    for browser in (client, Client()):
        for page in (CODE, SET_UP):
            assert browser.get(page).headers["location"] == LOGIN
            assert browser.post(page, {"code": WRONG}).headers["location"] == LOGIN


def test_people_without_a_factor_sign_in_as_before(client: Client, staff: User) -> None:
    """By the password alone, where none is required."""
    assert password(client, staff).headers["location"] == USERS
    assert opens(client)


# ------------------------------------------------------------------ IRONAUTH_STAFF_MFA=required
@pytest.fixture
def required(settings: Settings) -> None:
    """Staff need a second factor."""
    settings.IRONAUTH_STAFF_MFA = "required"


def _secret(page: str) -> str:
    (shown,) = re.findall(r"<code>([A-Z2-7 ]+)</code>", page)
    return str(shown).replace(" ", "")


def test_staff_set_up_the_factor_that_is_required(client: Client, staff: User, required: None) -> None:
    """After the password only the page with the QR code is left; its first code signs in and shows ten codes, once."""
    assert password(client, staff).headers["location"] == SET_UP
    assert client.get(CODE).headers["location"] == LOGIN
    assert not opens(client)
    page = client.get(SET_UP).content.decode()
    assert "<svg" in page
    assert "style=" not in page
    assert _secret(page) == _secret(client.get(SET_UP).content.decode())
    wrong = client.post(SET_UP, {"code": WRONG})
    assert _secret(wrong.content.decode()) == _secret(page)
    assert not opens(client)
    done = client.post(SET_UP, {"code": pyotp.TOTP(_secret(page)).at(int(clock.unix()))})
    codes = re.findall(r"<code>([0-9a-z-]{19})</code>", done.content.decode())
    assert len(codes) == 10
    assert re.findall(r'nonce="', re.sub(r"<[^>]+>", "", done.content.decode())) == []
    assert "no-store" in done.headers["cache-control"]
    assert opens(client)
    assert client.get(SET_UP).headers["location"] == LOGIN
    assert acts() == [("admin_sign_in", "success")]
    other = Client()
    assert password(other, staff).headers["location"] == CODE
    assert other.post(CODE, {"code": codes[0]}).status_code == 302


def test_a_secret_of_somebody_else_is_never_shown(client: Client, staff: User, required: None) -> None:
    """Who replaces the secret meanwhile, with a stolen session, gets neither it shown here nor theirs accepted."""
    password(client, staff)
    page = client.get(SET_UP).content.decode()
    theirs = async_to_sync(totp_services.start_totp)(user_id=staff.pk).secret
    assert _secret(client.get(SET_UP).content.decode()) == _secret(page) != theirs
    client.post(SET_UP, {"code": pyotp.TOTP(_secret(page)).at(int(clock.unix()))})
    assert not opens(client)
    assert not TotpFactor.objects.filter(confirmed_at__isnull=False).exists()


def test_a_factor_set_up_elsewhere_is_asked_for(
    client: Client, staff: User, required: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody who has the password, and began before the owner made a passkey, gets neither an app nor in."""
    password(client, staff)
    code = pyotp.TOTP(_secret(client.get(SET_UP).content.decode())).at(int(clock.unix()))
    Passkey.objects.create(
        user=staff, credential_id=b"1", public_key=b"", sign_count=0, backup_eligible=False, backed_up=False,
        aaguid=uuid.uuid4(),
    )  # fmt: skip
    assert client.get(SET_UP).headers["location"] == LOGIN
    assert client.post(SET_UP, {"code": code}).headers["location"] == LOGIN
    assert not opens(client)
    assert methods_of(staff.pk) == ("passkey",)
    Passkey.objects.all().delete()
    Enrolled(staff)
    monkeypatch.setattr(user_queries, "credentials_of_id", lambda _id: None)  # as it was read just before
    assert password(client, staff).headers["location"] == LOGIN


def test_a_lost_master_key_is_no_server_error(client: Client, staff: User, required: None) -> None:
    """Who was about to set up an app begins again; who has one is told to use a recovery code, and gets in with it."""
    password(client, staff)
    ring = {"t9": secrets.token_bytes(32)}
    with override_settings(IRONAUTH_MASTER_KEYS=ring):
        assert client.get(SET_UP).headers["location"] == LOGIN
        assert client.post(SET_UP, {"code": WRONG}).headers["location"] == LOGIN
    enrolled = Enrolled(staff)
    password(client, staff)
    with override_settings(IRONAUTH_MASTER_KEYS=ring):
        assert "cannot be checked at the moment" in client.post(CODE, {"code": enrolled.code()}).content.decode()
        assert not ThrottleFailures.objects.filter(failures__gt=0).exists()
        assert client.post(CODE, {"code": enrolled.codes[0]}).headers["location"] == USERS


@pytest.mark.parametrize(("after_s", "status"), [(admin_sign_in.ENROL_S - 1, 200), (admin_sign_in.ENROL_S, 302)])
def test_setting_up_has_its_time(client: Client, staff: User, required: None, after_s: int, status: int) -> None:
    """A quarter of an hour, for who installs an app first."""
    password(client, staff)
    with clock.shifted(after_s):
        assert client.get(SET_UP).status_code == status


def test_sessions_of_a_password_alone_open_nothing(
    client: Client, staff: User, settings: Settings, make_user: MakeUser
) -> None:
    """From the moment a factor is required; signing in again says why, and leads to where one is set up."""
    password(client, staff)
    assert opens(client)
    settings.IRONAUTH_STAFF_MFA = "required"
    assert not opens(client)
    assert client.post(reverse("admin:password_change"), {"old_password": PASSWORD}).status_code == 302
    assert "asks for a second factor" in client.get(LOGIN).content.decode()
    assert password(client, staff).headers["location"] == SET_UP


def test_removed_factors_end_the_session(client: Client, staff: User, enrolled: Enrolled, root: User) -> None:
    """A colleague who removes them ends what they opened, and the person reads of it."""
    browser = Client()
    password(browser, staff)
    browser.post(CODE, {"code": enrolled.code()})
    assert opens(browser)
    act = {"action": "reset_mfa", "_selected_action": [str(staff.pk)]}
    assert "Remove second factors: 1 user?" in client.post(USERS, act).content.decode()
    assert opens(browser)
    client.post(USERS, {**act, "confirmed": "yes"})
    assert not opens(browser)
    assert methods_of(staff.pk) == ()
    assert OutgoingMail.objects.filter(user=staff, kind="mfa_reset").exists()
    assert AuditEvent.objects.get(event="mfa_reset").actor_id == root.pk
    assert password(browser, staff).headers["location"] == USERS
