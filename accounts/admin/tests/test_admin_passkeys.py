"""A passkey as the second factor of a sign-in to the admin: what it opens, and what it does not."""

import html
import json
import re
import secrets
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.staticfiles import finders
from django.test import Client
from pytest_django import Settings
from webauthn.helpers import bytes_to_base64url

from accounts.admin.access import sign_in as admin_sign_in
from accounts.admin.tests.second_step import CODE, LOGIN, USERS, Enrolled, acts, opens, password
from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.mfa.passkeys import ceremonies, challenges
from accounts.mfa.passkeys import proofs as passkey_proofs
from accounts.mfa.passkeys import services as passkeys
from accounts.mfa.passkeys.challenges import Purpose
from accounts.mfa.passkeys.models import Passkey
from accounts.tests.authenticator import Authenticator
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.models import UsedOnce

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.usefixtures("throttled", "still_clock"),
]
REFUSED = "The passkey was not accepted"


def give(user: User) -> Authenticator:
    """Give the person a passkey."""
    device, challenge = Authenticator(), secrets.token_bytes(32)
    options = ceremonies.registration_options(
        challenge=challenge, user_id=user.pk, email=user.email, name="", present=()
    )
    made = ceremonies.verify_registration(device.create(options), challenge=challenge)
    Passkey.objects.create(user=user, name="Laptop", **made._asdict())
    return device


@pytest.fixture
def device(staff: User) -> Authenticator:
    """What holds the passkey of this person, who has nothing else."""
    return give(staff)


def shown(browser: Client, path: str = CODE) -> str:
    """Return the page."""
    answer = browser.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def options_in(page: str) -> dict[str, Any]:
    """Return what the page gives its script."""
    (text,) = re.findall(r'data-options="([^"]*)"', page)
    return dict(json.loads(html.unescape(text)))


def answer_of(browser: Client, device: Authenticator) -> dict[str, str]:
    """Return what the script sends once the person has touched the authenticator."""
    options = options_in(shown(browser))
    return {
        "challenge_token": options["challenge_token"],
        "credential": json.dumps(device.get(options["publicKey"])),
    }


def minted(purpose: Purpose, user: User, device: Authenticator) -> dict[str, str]:
    """Return an answer to a genuine challenge of this purpose."""
    token, challenge = challenges.mint(purpose, user.pk)
    answer = device.get({"challenge": bytes_to_base64url(challenge)})
    return {"challenge_token": token, "credential": json.dumps(answer)}


def refused(browser: Client, answer: dict[str, str]) -> str:
    """Send what is refused, in a sign-in that goes on; return what the trail says was wrong."""
    before = list(AuditEvent.objects.values_list("pk", flat=True))
    page = browser.post(CODE, answer)
    assert page.status_code == 200
    assert REFUSED in page.content.decode()
    assert not opens(browser)
    event = AuditEvent.objects.exclude(pk__in=before).get()
    assert (event.event, event.outcome, event.details["reason"]) == ("admin_sign_in", "failure", "invalid_passkey")
    return str(event.details["cause"])


def test_password_and_passkey_open_the_admin(client: Client, staff: User, device: Authenticator) -> None:
    """The passkey leads where one wanted to go; only then is the sign-in recorded, and the passkey noted as used."""
    answer = password(client, staff)
    assert (answer.status_code, answer.headers["location"]) == (302, CODE)
    assert acts() == []
    half_way = client.session.session_key
    answer = client.post(CODE, answer_of(client, device))
    assert (answer.status_code, answer.headers["location"]) == (302, USERS)
    assert opens(client)
    assert client.session.session_key != half_way
    assert acts() == [("admin_sign_in", "success")]
    assert Passkey.objects.get().last_used_at == clock.now()


@pytest.mark.parametrize("required", ["off", "required"])
def test_a_passkey_is_the_factor_that_is_required(
    client: Client, staff: User, device: Authenticator, settings: Settings, required: str
) -> None:
    """Nobody who has one is led to set up an app; the session it opens is one with a second factor."""
    settings.IRONAUTH_STAFF_MFA = required
    assert password(client, staff).headers["location"] == CODE
    assert client.post(CODE, answer_of(client, device)).status_code == 302
    settings.IRONAUTH_STAFF_MFA = "required"
    assert opens(client)


# ------------------------------------------------------------------ the page
def test_who_has_a_passkey_alone_is_offered_it_first(client: Client, staff: User) -> None:
    """No field for a code is in the way; recovery codes are a link, without JavaScript too, and one signs in."""
    device = Authenticator()
    options = async_to_sync(passkeys.registration_options)(user_id=staff.pk)
    codes = async_to_sync(passkeys.add)(
        user_id=staff.pk, challenge_token=options.challenge_token, credential=device.create(options.public_key)
    ).recovery_codes
    password(client, staff)
    page = shown(client)
    assert 'id="passkey-form" hidden' in page
    assert "<noscript>" in page
    assert 'name="code"' not in page
    assert 'href="?recovery"' in page
    page = shown(client, f"{CODE}?recovery")
    assert 'name="code"' in page
    assert "passkey-form" not in page
    wrong = client.post(CODE, {"code": "wrong"}).content.decode()
    assert "wrong, has expired" in wrong
    assert 'name="code"' in wrong
    assert client.post(f"{CODE}?recovery", {"code": codes[0]}).status_code == 302
    assert opens(client)


def test_who_has_an_app_too_chooses(client: Client, staff: User, device: Authenticator) -> None:
    """The field for a code has the focus, the passkey is a button below it; both sign in."""
    app = Enrolled(staff)
    password(client, staff)
    page = shown(client)
    assert page.index('name="code"') < page.index('id="passkey-form"')
    assert "Confirm with your passkey" not in page
    assert client.post(CODE, answer_of(client, device)).status_code == 302
    other = Client()
    password(other, staff)
    assert other.post(CODE, {"code": app.code()}).status_code == 302


def test_who_has_no_passkey_gets_no_script(client: Client, staff: User) -> None:
    """The page is as it was, with nothing of passkeys."""
    Enrolled(staff)
    password(client, staff)
    page = shown(client)
    assert "passkey" not in page
    assert "second_step.js" not in page


def test_the_page_runs_this_sites_files_alone(client: Client, staff: User, device: Authenticator) -> None:
    """What the passkey needs is a file of this site, under the policy of every page of the admin."""
    password(client, staff)
    answer = client.get(CODE)
    page = answer.content.decode()
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "no-store" in answer.headers["cache-control"]
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|javascript:", page)
    assert '<script type="module" src="/static/accounts/second_step.js">' in page
    script = Path(str(finders.find("accounts/second_step.js"))).read_text()
    assert set(re.findall(r'\$\("([\w-]+)"\)', script)) - {"id_code"} <= set(re.findall(r'id="([\w-]+)"', page))


def test_the_challenge_names_the_persons_passkeys(
    client: Client, staff: User, device: Authenticator, make_user: MakeUser
) -> None:
    """And nobody else's; each page has a challenge of its own, and asking for one stores nothing."""
    give(make_user())
    password(client, staff)
    first, second = options_in(shown(client)), options_in(shown(client))
    assert [one["id"] for one in first["publicKey"]["allowCredentials"]] == [bytes_to_base64url(device.credential_id)]
    assert first["publicKey"]["challenge"] != second["publicKey"]["challenge"]
    assert UsedOnce.objects.count() == 0


# ------------------------------------------------------------------ what opens nothing
def test_an_answer_for_another_site_opens_nothing(client: Client, staff: User, device: Authenticator) -> None:
    """Neither one given on another site's page nor one in a frame of ours within it."""
    password(client, staff)
    ours, device.origin = device.origin, "https://admin.example.net"
    assert refused(client, answer_of(client, device)) == "origin"
    device.origin, device.cross_origin = ours, True
    assert refused(client, answer_of(client, device)) == "cross_origin"
    device.cross_origin = False
    assert client.post(CODE, answer_of(client, device)).status_code == 302


def test_another_persons_passkey_opens_nothing(
    client: Client, staff: User, device: Authenticator, make_user: MakeUser
) -> None:
    """Whichever challenge it answers; nor does one's own answer to a challenge for somebody or something else."""
    stranger = make_user()
    theirs = give(stranger)
    password(client, staff)
    assert refused(client, answer_of(client, theirs)) == "credential"
    assert refused(client, minted(Purpose.SECOND_FACTOR, stranger, theirs)) == "challenge"
    assert refused(client, minted(Purpose.SECOND_FACTOR, stranger, device)) == "challenge"
    assert refused(client, minted(Purpose.STEP_UP, staff, device)) == "challenge"
    assert not UsedOnce.objects.exists()


def test_an_answer_counts_once(client: Client, staff: User, device: Authenticator) -> None:
    """Sent again it opens nothing: not in the sign-in that is over, and not in another one."""
    password(client, staff)
    answer = answer_of(client, device)
    assert client.post(CODE, answer).status_code == 302
    assert client.post(CODE, answer).headers["location"] == LOGIN
    other = Client()
    password(other, staff)
    assert refused(other, answer) == "used"
    assert other.post(CODE, answer_of(other, device)).status_code == 302


@pytest.mark.parametrize("credential", ["", "{", "[]", "1" * 5_000, "[" * 100_000, '{"id": "\\ud800"}', '{"id": 1}'])
def test_what_is_no_answer_is_refused(client: Client, staff: User, device: Authenticator, credential: str) -> None:
    """Whatever is sent in its place is one more refusal, never a server error."""
    password(client, staff)
    token = options_in(shown(client))["challenge_token"]
    assert refused(client, {"challenge_token": token, "credential": credential}) in ("answer", "credential")
    assert refused(client, {"challenge_token": "\0", "credential": credential}) == "challenge"
    assert refused(client, {"credential": credential}) == "challenge"


@pytest.mark.parametrize(("after_s", "opened"), [(admin_sign_in.CODE_S - 1, True), (admin_sign_in.CODE_S, False)])
def test_half_a_sign_in_lasts_five_minutes(
    client: Client, staff: User, device: Authenticator, after_s: int, opened: bool
) -> None:
    """The answer to a challenge asked for at once counts at 299 s; at 300 s one begins again, and it is not used up."""
    password(client, staff)
    answer = answer_of(client, device)
    with clock.shifted(after_s):
        assert client.post(CODE, answer).headers["location"] == (USERS if opened else LOGIN)
        assert opens(client) is opened
    assert UsedOnce.objects.exists() is opened


@pytest.mark.parametrize("change", [{"is_active": False}, {"must_change_password": True}, {"is_staff": False}])
def test_who_may_not_enter_does_not_by_a_passkey(
    client: Client, staff: User, device: Authenticator, change: dict[str, Any]
) -> None:
    """Deactivated, told to change the password or no staff any more: between the steps or before the first."""
    password(client, staff)
    answer = answer_of(client, device)
    User.objects.filter(pk=staff.pk).update(**change)
    assert client.post(CODE, answer).headers["location"] == LOGIN
    assert not opens(client)
    assert not UsedOnce.objects.exists()
    other = Client()
    assert password(other, staff).status_code == 200
    assert other.post(CODE, answer).headers["location"] == LOGIN


def test_a_removed_passkey_opens_nothing(
    client: Client, staff: User, device: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even when it is removed while its answer is judged."""
    password(client, staff)
    answer = answer_of(client, device)
    judge = passkey_proofs.judge

    async def removed_meanwhile(*args: Any, **kwargs: Any) -> passkey_proofs.PasskeyProof:
        proof = await judge(*args, **kwargs)
        await Passkey.objects.all().adelete()
        return proof

    with monkeypatch.context() as patched:
        patched.setattr(passkey_proofs, "judge", removed_meanwhile)
        assert client.post(CODE, answer).status_code == 200
    assert not opens(client)


def test_wrong_passkeys_have_the_apis_count(
    client: Client, staff: User, device: Authenticator, settings: Settings
) -> None:
    """So many from one address, whichever browser; then the page says how long to wait, and a right one still opens."""
    settings.IRONAUTH_THROTTLE_PASSKEYS = 3
    password(client, staff)
    for _ in range(3):
        refused(client, {"credential": "{}"})
    other = Client()
    password(other, staff)
    page = other.post(CODE, {"credential": "{}"}).content.decode()
    assert re.search(r"Too many attempts\. Try again in \d+ (s|minutes)\.", page)
    assert AuditEvent.objects.filter(event="throttled", details={"rule": "passkey", "by": "address"}).exists()
    elsewhere = Client(REMOTE_ADDR="198.51.100.7")
    password(elsewhere, staff)
    refused(elsewhere, {"credential": "{}"})
    assert other.post(CODE, answer_of(other, device)).status_code == 302


def test_the_form_needs_its_token(staff: User, device: Authenticator) -> None:
    """Another site cannot send the answer."""
    browser = Client()
    password(browser, staff)
    answer = answer_of(browser, device)
    browser.handler.enforce_csrf_checks = True
    assert browser.post(CODE, answer).status_code == 403
