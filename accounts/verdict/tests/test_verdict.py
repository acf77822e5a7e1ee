"""Why somebody cannot sign in, told to staff in one sentence; and the failures forgiven."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event, Outcome
from accounts.conftest import MakeUser
from accounts.federation.models import Identity, UpstreamProvider
from accounts.lockout import rate_limits, throttling
from accounts.mfa.passkeys.models import Passkey
from accounts.mfa.recovery import brought
from accounts.privacy import export
from accounts.privacy import units as deletions
from accounts.users.models import User
from accounts.verdict import units
from accounts.verdict.outputs import Code, Verdict
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.models import ThrottleFailures

pytestmark = pytest.mark.django_db(transaction=True)

SIGNIN = "/api/v1/access/signin"


@pytest.fixture
def ann(transactional_db: None) -> User:
    """Somebody who can sign in."""
    return User.objects.create_user("ann@example.com", PASSWORD, email_verified_at=clock.now())


def of(user: User) -> Verdict:
    """Return the verdict."""
    return units.verdict_of(user.pk)


def test_who_can_sign_in(ann: User) -> None:
    """Nothing speaks against it."""
    assert of(ann) == Verdict(can_sign_in=True, code=Code.CAN_SIGN_IN, words="Can sign in.")


def test_without_a_password_it_says_what_with(ann: User, settings: Settings) -> None:
    """Who types one is refused, or comes by another provider: staff are told which ways there are."""
    User.objects.filter(pk=ann.pk).update(password=make_password(None))
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    end = ", not with a password: there is none."
    assert of(ann).words == f"Can sign in with a code by e-mail{end}"
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = False
    assert of(ann).code is Code.NO_WAY_IN
    for slug, name, enabled in (("b", "Beta", True), ("a", "Acme", True), ("o", "Off", False)):
        row = UpstreamProvider.objects.create(slug=slug, name=name, kind="oidc", client_id="c", enabled=enabled)
        Identity.objects.create(user=ann, provider=row, issuer=f"https://{slug}.example.com", subject="1")
    assert of(ann).words == f"Can sign in with Acme or Beta{end}"
    assert of(ann).can_sign_in


def test_deactivated_by_whom_and_when(ann: User, make_user: MakeUser) -> None:
    """The trail says who it was; without it the state alone is told."""
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert of(ann).words == "Cannot sign in: deactivated."
    boss = make_user()
    audit.record(Event.USER_CHANGED, actor_id=boss.pk, user_id=ann.pk, details={"is_active": False})
    verdict = of(ann)
    assert (verdict.code, verdict.can_sign_in) == (Code.DEACTIVATED, False)
    assert verdict.words == f"Cannot sign in: deactivated by {boss.email} on {clock.now():%Y-%m-%d}."


def test_states_of_the_account(ann: User, settings: Settings) -> None:
    """An address not confirmed, a password to be changed, no way in, and a deletion, each told as the first reason."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    User.objects.filter(pk=ann.pk).update(email_verified_at=None)
    assert of(ann).code is Code.ADDRESS_NOT_CONFIRMED
    User.objects.filter(pk=ann.pk).update(email_verified_at=clock.now(), must_change_password=True)
    assert of(ann).code is Code.MUST_CHANGE_PASSWORD
    ann.refresh_from_db()
    ann.must_change_password = False
    ann.set_unusable_password()
    ann.save()
    assert of(ann).code is Code.NO_WAY_IN
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    assert of(ann).code is Code.CAN_SIGN_IN
    with transaction.atomic():
        deletions.request(user_id=ann.pk, old=ann.password, session_id=None)
    assert of(ann).code is Code.BEING_DELETED
    assert of(ann).until is not None


def failed(ann: User, failures: int, wait_s: float = 0.0) -> None:
    """Count failures of strangers, the last of which makes the next wait."""
    keys = throttling.sign_in_keys(ann.email, throttling.UNKNOWN)
    now = clock.unix()
    ThrottleFailures.objects.update_or_create(
        key=keys.account.key,
        defaults={"failures": failures, "retry_at": now + wait_s, "known_until": 0, "expires_at": int(now) + 86_400},
    )


def test_wrong_passwords(ann: User) -> None:
    """Below the free ones nobody waits; then until a time; at the end until somebody forgives."""
    failed(ann, 9)
    assert of(ann).can_sign_in
    failed(ann, 12, wait_s=60)
    verdict = of(ann)
    assert (verdict.code, verdict.failures) == (Code.MUST_WAIT, 12)
    assert verdict.words.startswith("Must wait until ")
    assert verdict.words.endswith("Forgiving the failures ends it.")
    assert verdict.until is not None
    assert timedelta(seconds=50) < verdict.until - clock.now() <= timedelta(seconds=60)
    with clock.shifted(61):
        assert of(ann).can_sign_in
    failed(ann, throttling.STRANGERS)
    assert of(ann).code is Code.LOCKED_OUT
    units.forgive_failures(user_id=ann.pk, actor_id=ann.pk)
    assert of(ann).can_sign_in
    assert AuditEvent.objects.filter(event=Event.FAILURES_FORGIVEN, user_id=ann.pk).exists()


def _typed(ann: User, times: int, reason: str = "wrong_password", address: str = "192.0.2.1") -> None:
    """Leave failed sign-ins in the trail."""
    for _ in range(times):
        AuditEvent.objects.create(
            id=new_id(), at=clock.now(), event=Event.SIGN_IN, outcome=Outcome.FAILURE, user_id=ann.pk,
            details={"reason": reason}, address=address,
        )  # fmt: skip


def test_wrong_passwords_that_keep_nobody_out_are_told(ann: User) -> None:
    """From three on, since the last sign-in; other failures are none of them, and a sign-in ends it."""
    _typed(ann, 2)
    _typed(ann, 4, reason="deactivated")
    assert of(ann) == Verdict(can_sign_in=True, code=Code.CAN_SIGN_IN, words="Can sign in.")
    _typed(ann, 1, address="198.51.100.1")
    verdict = of(ann)
    assert (verdict.can_sign_in, verdict.words, verdict.failures, verdict.networks) == (True, "Can sign in.", 3, 2)
    assert verdict.more.startswith("3 wrong passwords from 2 networks since ")
    assert verdict.more.endswith(" UTC, and no sign-in before.")
    for event, what in ((Event.SIGN_IN, "sign-in"), (Event.SECOND_FACTOR_ASKED, "right password")):
        audit.record(event, user_id=ann.pk)
        assert of(ann).more == ""
        _typed(ann, 3)
        assert f", the last {what} at " in of(ann).more
        assert of(ann).failures == 3
    with clock.shifted(86_401):
        assert of(ann).more == ""


def _full(address: str, failures: int) -> None:
    """Count failed sign-ins of this address, on whatever accounts."""
    asked = rate_limits.client_questions(rate_limits.SIGN_IN, address)
    for _ in range(failures):
        rate_limits.take_in_database(async_to_sync(rate_limits.take_in_redis)(asked))  # where a try is counted


def test_a_network_that_must_wait_is_told(ann: User, settings: Settings, throttled: None, still_clock: float) -> None:
    """Where this person's tries came from, and only when it is full; it is told beside all else there is."""
    settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = 5
    _full("192.0.2.1", 4)
    _full("198.51.100.9", 5)
    _typed(ann, 1)
    assert of(ann).more == ""
    _full("192.0.2.1", 1)
    verdict = of(ann)
    assert verdict.code is Code.CAN_SIGN_IN
    assert verdict.more.startswith("Tries from 192.0.2.1, as the last ones were, must wait until ")
    assert "on whatever accounts" in verdict.more
    assert "198.51.100.9" not in verdict.more
    _typed(ann, 1, address="198.51.100.9")
    assert of(ann).more.count("must wait until") == 2
    failed(ann, 12, wait_s=60)
    assert of(ann).more.startswith("A new device is ")
    assert "Tries from 192.0.2.1," in of(ann).more
    settings.IRONAUTH_THROTTLE = False
    assert "Tries from" not in of(ann).more


def test_another_persons_network_is_not_told(ann: User, settings: Settings, throttled: None) -> None:
    """Nor is one that somebody else has filled, nor one of more than a day ago."""
    settings.IRONAUTH_THROTTLE_SIGNIN_FAILURES = 5
    _typed(User.objects.create_user("bob@example.com", PASSWORD), 1)
    _full("192.0.2.1", 5)
    assert of(ann).more == ""
    _typed(ann, 1)
    with clock.shifted(86_401):
        _full("192.0.2.1", 5)
        assert of(ann).more == ""


def test_a_new_device_is_explained(ann: User) -> None:
    """Where the words speak of one."""
    for failures in (12, throttling.STRANGERS):
        failed(ann, failures, wait_s=60)
        assert "new device" in of(ann).words
        assert of(ann).more.startswith("A new device is ")


@pytest.mark.parametrize(("by_email", "told"), [(False, "wrong passwords"), (True, "wrong passwords or mailed codes")])
def test_mailed_codes_are_counted_with_passwords(ann: User, settings: Settings, *, by_email: bool, told: str) -> None:
    """Where people may sign in by a mailed code, the words do not blame passwords alone."""
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = by_email
    failed(ann, 12, wait_s=60)
    assert f": 12 {told}. " in of(ann).words


@pytest.mark.parametrize("by_email", [False, True])
def test_who_has_no_password_typed_none_wrong(ann: User, settings: Settings, *, by_email: bool) -> None:
    """Tries of strangers are counted all the same; the words do not say that a password was wrong."""
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = by_email
    User.objects.filter(pk=ann.pk).update(password="!none")
    known: dict[str, Any] = {"sign_count": 0, "aaguid": uuid4(), "backup_eligible": False, "backed_up": False}
    Passkey.objects.create(user=ann, credential_id=b"1", public_key=b"", **known)
    failed(ann, 12, wait_s=60)
    assert "12 tries with a password, of which there is none" in of(ann).words
    assert ("mailed codes" in of(ann).words) is by_email
    assert "wrong passwords" not in of(ann).words


def test_wrong_codes_of_the_second_factor(ann: User) -> None:
    """They are told apart from wrong passwords."""
    now = clock.unix()
    row = {"failures": 11, "retry_at": now + 30, "known_until": 0, "expires_at": int(now) + 86_400}
    ThrottleFailures.objects.create(key=throttling.second_factor_keys(ann.pk).account.key, **row)
    assert of(ann).code is Code.SECOND_FACTOR_MUST_WAIT
    ThrottleFailures.objects.update(failures=100)
    assert of(ann).code is Code.SECOND_FACTOR_LOCKED_OUT
    # Of a shorter recovery code, which another system made, every try is refused by this count: it is none of the ways.
    assert brought.is_short("1" * 11)
    assert not brought.is_short("1" * 12)
    assert "a recovery code of 12 characters or more" in of(ann).words


async def test_staff_ask_and_forgive_by_api(
    api: httpx.AsyncClient,
    make_user: MakeUser,
    sign_in: Callable[[User], Awaitable[dict[str, str]]],
    ann: User,
) -> None:
    """Who may see people sees it, who may change them forgives; others get 403, an unknown id 404."""
    path = f"/api/v1/users/{ann.pk}"
    await sync_to_async(failed)(ann, 12, wait_s=60)
    clerk = await sign_in(await sync_to_async(make_user)("accounts.view_user"))
    seen = await api.get(f"{path}/verdict", headers=clerk)
    assert (seen.status_code, seen.json()["code"], seen.json()["failures"]) == (200, "must_wait", 12)
    assert (await api.delete(f"{path}/failures", headers=clerk)).status_code == 403
    nobody = await sign_in(await sync_to_async(make_user)())
    assert (await api.get(f"{path}/verdict", headers=nobody)).status_code == 403
    helper = await sign_in(await sync_to_async(make_user)("accounts.view_user", "accounts.change_user"))
    assert (await api.delete(f"{path}/failures", headers=helper)).status_code == 204
    assert (await api.get(f"{path}/verdict", headers=helper)).json()["can_sign_in"] is True
    await User.objects.filter(pk=ann.pk).aupdate(is_superuser=True)
    assert (await api.delete(f"{path}/failures", headers=helper)).status_code == 403
    unknown = "/api/v1/users/00000000-0000-0000-0000-000000000000"
    assert (await api.get(f"{unknown}/verdict", headers=helper)).status_code == 404
    assert (await api.delete(f"{unknown}/failures", headers=helper)).status_code == 404


def test_the_page_begins_with_it(root: User, client: Client, ann: User) -> None:
    """The person's page in the admin says it first, with what there is to add, and has the button."""
    _typed(ann, 3)
    assert '<span class="more">3 wrong passwords since ' in client.get(
        reverse("admin:accounts_user_change", args=[ann.pk])
    ).content.decode().replace("\n", "")
    User.objects.filter(pk=ann.pk).update(is_active=False)
    page = client.get(reverse("admin:accounts_user_change", args=[ann.pk])).content.decode()
    assert "Cannot sign in: deactivated." in page
    assert "Forgive failures" in page


REASONS: dict[str, Any] = {
    "wrong_password": {"password": "not the password at all"},
    "no_password": {"password_stored": "!none"},
    "deactivated": {"is_active": False},
    "address_not_confirmed": {"email_verified_at": None},
    "no_account": {"email": "nobody@example.com"},
}


@pytest.mark.parametrize("reason", REASONS)
async def test_a_failure_has_its_reason_for_staff_alone(
    api: httpx.AsyncClient, signing_key: str, ann: User, settings: Settings, reason: str
) -> None:
    """The answers are the same; the trail tells why; the person's own export does not."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    case = dict(REASONS[reason])
    typed = {"email": case.pop("email", ann.email), "password": case.pop("password", PASSWORD)}
    if "password_stored" in case:
        case["password"] = case.pop("password_stored")
    if case:
        await User.objects.filter(pk=ann.pk).aupdate(**case)
    answer = await api.post(SIGNIN, json=typed)
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_credentials")
    assert reason not in answer.text
    await sync_to_async(audit.wait_until_written)()
    event = await AuditEvent.objects.aget(event=Event.SIGN_IN)
    assert event.details == {"reason": reason}
    if event.user_id is not None:
        held = await sync_to_async(export.collect)(ann.pk)
        assert reason not in str(held.sections["events"])
