"""The admin's sign-in stands under the same throttles, and the same counts, as the API's."""

import asyncio
from io import StringIO
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.admin import forms as admin_forms
from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD, MakeUser
from accounts.lockout import throttling
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Throttled
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.models import ThrottleFailures
from ironauth.infrastructure.ratelimit.lockout import FREE_FAILURES, MAX_FAILURES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

WRONG = "not the password at all"


@pytest.fixture(autouse=True)
def _throttled(throttled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Throttles on, and a clock that stands still."""
    now = clock.unix()
    monkeypatch.setattr(clock, "_source", lambda: now)


@pytest.fixture
def staff(make_user: MakeUser) -> User:
    """A member of staff."""
    return make_user(email="mia@example.com", is_staff=True)


def sign_in(address: str, email: str, password: str, forwarded: str = "") -> Any:
    """Fill in the form of a new browser at ``address``."""
    browser = Client(REMOTE_ADDR=address, HTTP_X_FORWARDED_FOR=forwarded)
    return browser.post(reverse("admin:login"), {"username": email, "password": password, "next": "/admin/"})


def errors(answer: Any) -> list[str]:
    """Return what the page says."""
    return list(answer.context["form"].non_field_errors())


def test_a_session_is_no_licence_to_guess(client: Client, root: User) -> None:
    """One's own password page has the count of the API's: after ten nothing is hashed, and each wrong one is told."""
    page = reverse("admin:password_change")
    new = "another otter rides 7 trams"
    body = {"old_password": WRONG, "new_password1": new, "new_password2": new}
    for _ in range(FREE_FAILURES):
        assert "entered incorrectly" in client.post(page, body).context["form"].errors["old_password"][0]
    jobs = hash_pool().stats().completed
    refused = client.post(page, body | {"old_password": PASSWORD})
    assert refused.context["form"].errors["old_password"] == ["Too many attempts. Try again in 1 s."]
    assert hash_pool().stats().completed == jobs
    trail = AuditEvent.objects.exclude(event="admin_sign_in").values_list("event", "outcome", "user_id")
    assert sorted(trail) == [("password_changed", "failure", root.pk)] * FREE_FAILURES + [
        ("throttled", "refused", root.pk)
    ]
    with clock.shifted(1):
        assert client.post(page, body | {"old_password": PASSWORD}).status_code == 302
    assert not ThrottleFailures.objects.filter(failures__gt=0).exists()


@pytest.mark.parametrize("email", ["mia@example.com", "nobody@example.com"])
def test_the_form_says_when_to_try_again(staff: User, email: str) -> None:
    """After ten failures, known address or not, nothing is hashed until the wait has passed."""
    jobs = hash_pool().stats().completed
    for _ in range(FREE_FAILURES):
        assert errors(sign_in("198.51.100.1", email, WRONG))[0].startswith("Please enter the correct")
    password = PASSWORD if email == staff.email else WRONG
    (error,) = errors(sign_in("198.51.100.2", email.upper(), password))
    assert error.startswith("Too many attempts. Try again in 1 s, or from a device")
    assert hash_pool().stats().completed == jobs + FREE_FAILURES
    with clock.shifted(1):
        assert sign_in("198.51.100.2", email, password).status_code == (302 if email == staff.email else 200)


def test_an_address_has_its_limit(staff: User, settings: Settings) -> None:
    """It counts with the API's; a forged header does not move it, and successes are given back."""
    settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = 5
    for n in range(5):
        assert sign_in("198.51.100.1", staff.email, PASSWORD).status_code == 302
        assert errors(sign_in("198.51.100.1", f"nobody{n}@example.com", WRONG))
    answer = sign_in("198.51.100.1", staff.email, PASSWORD, forwarded="203.0.113.9")
    assert errors(answer)[0].startswith("Too many attempts")
    assert sign_in("198.51.100.3", staff.email, PASSWORD).status_code == 302


def test_the_admin_and_the_api_share_their_counts(staff: User, api: httpx.AsyncClient, signing_key: str) -> None:
    """Failures here count there; a success there knows the address here."""

    async def by_api(times: int, password: str) -> list[int]:
        body = {"email": staff.email, "password": password}
        answers = await asyncio.gather(*(api.post("/api/v1/access/signin", json=body) for _ in range(times)))
        return sorted(answer.status_code for answer in answers)

    assert async_to_sync(by_api)(1, PASSWORD) == [200]
    for _ in range(4):
        sign_in("198.51.100.1", staff.email, WRONG)
    assert sorted(ThrottleFailures.objects.values_list("failures", flat=True)) == [0, 4]
    assert sign_in("127.0.0.1", staff.email, WRONG).status_code == 200
    assert async_to_sync(by_api)(10, WRONG) == [401] * 9 + [429]
    assert errors(sign_in("127.0.0.1", staff.email, PASSWORD))[0].startswith("Too many attempts")
    assert sign_in("198.51.100.1", staff.email, PASSWORD).status_code == 302


def test_ones_own_password_is_not_to_be_guessed(staff: User) -> None:
    """A stolen session has ten tries at the old password, as in the API: each in the trail, then nothing is hashed."""
    browser, page = Client(), reverse("admin:password_change")
    browser.force_login(staff)
    new = "another otter rides 7 trams"

    def code(old: str) -> str:
        answer = browser.post(page, {"old_password": old, "new_password1": new, "new_password2": new})
        return "" if answer.status_code == 302 else answer.context["form"].errors.as_data()["old_password"][0].code

    jobs = hash_pool().stats().completed
    assert [code(WRONG) for _ in range(FREE_FAILURES)] == ["password_incorrect"] * FREE_FAILURES
    assert code(PASSWORD) == "throttled"
    assert hash_pool().stats().completed == jobs + FREE_FAILURES
    with pytest.raises(Throttled):
        async_to_sync(throttling.admit_confirmation)(user_id=staff.pk)
    trail = AuditEvent.objects.filter(user_id=staff.pk, event__in=("password_changed", "throttled"))
    said = [(row.event, row.outcome, row.actor_id) for row in trail.order_by("event")]
    assert said == [("password_changed", "failure", staff.pk)] * FREE_FAILURES + [("throttled", "refused", None)]
    with clock.shifted(1):
        assert code(PASSWORD) == ""


@pytest.mark.parametrize("full_at_first", [True, False])
def test_a_full_hash_pool_is_no_failure(
    staff: User, full_pool: None, monkeypatch: pytest.MonkeyPatch, *, full_at_first: bool
) -> None:
    """A try that was never judged is not counted; where the pool fills up after it was, it is given back."""
    if not full_at_first:
        monkeypatch.setattr(admin_forms, "hash_pool", lambda: SimpleNamespace(require_capacity=lambda: None))
    for _ in range(FREE_FAILURES + 2):
        assert errors(sign_in("198.51.100.1", staff.email, PASSWORD))[0].startswith("The server is busy")
    assert list(ThrottleFailures.objects.values_list("failures", flat=True)) == ([] if full_at_first else [0])


def test_an_operator_lets_somebody_in(staff: User) -> None:
    """The command resets the account's count, in whatever case the address is typed, and no other."""
    for email in (staff.email, "other@example.com"):
        for _ in range(FREE_FAILURES):
            sign_in("198.51.100.1", email, WRONG)
    ThrottleFailures.objects.update(failures=MAX_FAILURES)
    assert errors(sign_in("198.51.100.2", staff.email, PASSWORD))[0].startswith(
        "Too many attempts. Try again in 365 days, or"
    )
    out = StringIO()
    call_command("forgive_failures", staff.email.upper(), stdout=out)
    assert "let in" in out.getvalue()
    assert sign_in("198.51.100.2", staff.email, PASSWORD).status_code == 302
    assert errors(sign_in("198.51.100.2", "other@example.com", WRONG))[0].startswith("Too many attempts")


def test_an_empty_form_is_no_attempt(staff: User) -> None:
    """Without address or password there is nothing to count."""
    assert sign_in("198.51.100.1", staff.email, "").status_code == 200
    assert not ThrottleFailures.objects.exists()
