"""What a person signs in with, sessions, consents and messages over HTTP: what pages of the admin do, by a token."""

import secrets
import uuid
from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.federation.models import Identity
from accounts.federation.tests.test_last_way_in import identity_of, passkey_of, take_password
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.mfa.passkeys.models import Passkey
from accounts.mfa.totp.models import TotpFactor
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from tokens.oauth.models import Consent
from tokens.oauth.tests.material import make_client
from tokens.sessions.models import Session
from tokens.sign_in.tests.test_step_up import age
from tokens.tests.browser import ME, SIGNIN
from tokens.tests.machine import make_machine
from tokens.tests.second_factor import said
from tokens.tests.staff import staff
from tokens.tests.stage import Stage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

NEW_PASSWORD = "seven amber kites over Lyon"
#: What is taken or set, by the end of its path: method, scope, the right of people, body, event.
ACTS: dict[str, tuple[str, str, str, Any, str]] = {
    "password": ("PUT", "users:write", "change_user", {"new_password": NEW_PASSWORD}, "password_changed"),
    "mfa/totp": ("DELETE", "users:mfa", "reset_mfa", None, "mfa_disabled"),
    "mfa/passkeys/{}": ("DELETE", "users:mfa", "reset_mfa", None, "passkey_removed"),
    "identities/{}": ("DELETE", "users:mfa", "reset_mfa", None, "identity_unlinked"),
    "kept-devices/{}": ("DELETE", "users:write", "delete_keptdevice", None, "device_forgotten"),
    "sessions/{}": ("DELETE", "users:write", "delete_session", None, "session_ended"),
    "consents/{}": ("DELETE", "users:write", "delete_consent", None, "consent_revoked"),
    "messages/{}/send": ("POST", "users:write", "change_user", None, "mail_retried"),
}
#: Those that need a recent proof, and those that people also need a second factor in their session for.
PROVED = {"password", "mfa/totp", "mfa/passkeys/{}", "identities/{}", "consents/{}"}
BY_FACTOR = {"mfa/totp", "mfa/passkeys/{}", "identities/{}"}
LISTS = {
    "mfa": "view_user",
    "identities": "view_user",
    "kept-devices": "view_keptdevice",
    "sessions": "view_user",
    "consents": "view_consent",
    "messages": "view_user",
}


def app_of(user: User) -> uuid.UUID:
    """Give the person an app."""
    TotpFactor.objects.create(user=user, sealed=b"x", master_key_id="1", confirmed_at=clock.now(), last_step=0)
    return user.pk


def device_of(user: User) -> uuid.UUID:
    """Give the person a device on which the factor is not asked for."""
    end = clock.now() + timedelta(days=1)
    digest = secrets.token_hex(32)
    return KeptDevice.objects.create(user=user, digest=digest, epoch=user.session_epoch, expires_at=end).pk


def session_of(user: User) -> uuid.UUID:
    """Open a session."""
    end = clock.now() + timedelta(days=1)
    return Session.objects.create(
        user=user, epoch=user.session_epoch, amr="pwd", master_key_id="1", idle_expires_at=end, absolute_expires_at=end
    ).pk


def consent_of(user: User) -> uuid.UUID:
    """Have the person allow a client something."""
    client, _ = make_client()
    Consent.objects.create(user=user, client=client, scope="openid")
    return client.pk


def message_to(user: User) -> uuid.UUID:
    """Queue a message that was given up."""
    now = clock.now()
    return OutgoingMail.objects.create(kind="verify_email", recipient=user.email, user=user, failed_at=now).pk


MAKERS: dict[str, Any] = {
    "password": lambda user: user.pk,
    "mfa/totp": app_of,
    "mfa/passkeys/{}": lambda user: passkey_of(user).pk,
    "identities/{}": lambda user: identity_of(user).pk,
    "kept-devices/{}": device_of,
    "sessions/{}": session_of,
    "consents/{}": consent_of,
    "messages/{}/send": message_to,
}


async def prepared(stage: Stage, act: str) -> str:
    """Give the member what the act is about; return its path."""
    user = await User.objects.aget(pk=stage.member)
    made = await sync_to_async(MAKERS[act])(user)
    return f"/api/v1/users/{stage.member}/{act.format(made)}"


async def prove_factor(pair: dict[str, Any]) -> None:
    """Let the session of this pair have seen a second factor."""
    session = await Session.objects.aget(pk=pair["session_id"])
    session.amr = "pwd otp mfa"
    await session.asave()  # invalidates it


async def helper(stage: Stage, *rights: str) -> dict[str, str]:
    """Return the header of somebody of staff with these rights, whose session has seen a second factor."""
    pair = await staff(stage.api, *rights)
    await prove_factor(pair)
    return bearer(pair)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("by_machine", [False, True])
async def test_an_act_is_done_and_is_one_event(stage: Stage, act: str, by_machine: bool) -> None:
    """By staff with its right, or a machine with its scope, whose id is the actor; done twice it is not there."""
    method, scope, right, body, event = ACTS[act]
    path = await prepared(stage, act)
    if by_machine:
        robot, headers = await make_machine(stage.api, scope)
        actor: Any = robot.pk
    else:
        headers = await helper(stage, right)
        actor = (await User.objects.filter(user_permissions__codename=right).afirst()).pk  # type: ignore[union-attr] # just made
    answer = await stage.api.request(method, path, json=body, headers=headers)
    assert answer.status_code == 204, answer.text
    await sync_to_async(audit.wait_until_written)()
    (left,) = [one async for one in AuditEvent.objects.filter(event=event, actor_id=actor)]
    assert (left.user_id, left.outcome) == (stage.member, "success")
    again = await stage.api.request(method, path, json=body, headers=headers)
    assert again.status_code == (204 if act in ("password", "messages/{}/send") else 404), again.text


@pytest.mark.parametrize("act", ACTS)
async def test_the_right_and_who_is_out_of_reach(stage: Stage, act: str) -> None:
    """Without the right, and for a superuser, 403; without a credential 401; of nobody 404; nothing changes."""
    method, _, right, body, event = ACTS[act]
    path = await prepared(stage, act)

    async def ask(headers: dict[str, str], at: str = path) -> httpx.Response:
        return await stage.api.request(method, at, json=body, headers=headers)

    others = {"view_user", "change_user", "reset_mfa", "delete_user", *LISTS.values()} - {right}
    assert said(await ask(await helper(stage, *others))) == (403, "permission_denied")
    headers = await helper(stage, right)
    nobody = path.replace(str(stage.member), str(uuid.uuid4()), 1)
    assert said(await ask(headers, nobody)) == (404, "not_found")
    await User.objects.filter(pk=stage.member).aupdate(is_superuser=True)
    assert said(await ask(headers)) == (403, "permission_denied")
    assert (await ask({})).status_code == 401
    assert not await AuditEvent.objects.filter(event=event, user_id=stage.member).aexists()


@pytest.mark.parametrize("act", sorted(PROVED & {"password", *BY_FACTOR}))
async def test_nobody_takes_over_who_holds_more(stage: Stage, act: str) -> None:
    """Where the act would open an account, the caller holds every right of it; a machine too."""
    method, scope, right, body, _ = ACTS[act]
    path = await prepared(stage, act)

    def give() -> None:
        User.objects.get(pk=stage.member).user_permissions.add(Permission.objects.get(codename="delete_user"))

    await sync_to_async(give)()
    _, robot = await make_machine(stage.api, scope)
    for headers in (await helper(stage, right), robot):
        refused = await stage.api.request(method, path, json=body, headers=headers)
        assert said(refused) == (403, "permission_denied")
    both = await helper(stage, right, "delete_user")
    assert (await stage.api.request(method, path, json=body, headers=both)).status_code == 204


@pytest.mark.parametrize("act", ACTS)
async def test_the_proof_that_an_act_needs(stage: Stage, act: str) -> None:
    """601 seconds after it, and without a factor where the admin asks for one, as the button; 600 suffice."""
    method, _, right, body, _ = ACTS[act]
    path = await prepared(stage, act)
    pair = await staff(stage.api, right)

    async def ask() -> httpx.Response:
        return await stage.api.request(method, path, json=body, headers=bearer(pair))

    if act in BY_FACTOR:
        assert said(await ask()) == (403, "mfa_enrolment_required")
    await prove_factor(pair)
    fresh = bearer(pair)
    if act in PROVED:
        old = await staff(stage.api, right)
        await prove_factor(old)
        await age(old, 601)
        assert said(await stage.api.request(method, path, json=body, headers=bearer(old))) == (
            401, "step_up_required",
        )  # fmt: skip
    assert (await stage.api.request(method, path, json=body, headers=fresh)).status_code == 204


@pytest.mark.parametrize("name", LISTS)
async def test_lists(stage: Stage, name: str, settings: Settings) -> None:
    """With the right what there is, of this person alone; without it 403, of nobody 404, with a parameter 400."""
    settings.IRONAUTH_KEEP_DEVICE_DAYS = 30
    path = f"/api/v1/users/{stage.member}/{name}"
    kind = {"mfa": "mfa/passkeys/{}", "messages": "messages/{}/send"}.get(name, f"{name}/{{}}")
    mine = (await prepared(stage, kind)).removeprefix(f"{path}/").split("/")
    headers = await helper(stage, LISTS[name])
    told = await stage.api.get(path, headers=headers)
    assert told.status_code == 200, told.text
    rows = told.json()["passkeys"] if name == "mfa" else told.json()
    ids = [row.get("id") or row["client_id"] for row in rows]
    assert set(mine) & set(ids)
    assert len(ids) == (2 if name == "sessions" else 1)
    others = set(LISTS.values()) - {LISTS[name]} | {"change_user"}
    assert said(await stage.api.get(path, headers=await helper(stage, *others))) == (403, "permission_denied")
    assert (await stage.api.get(path.replace(str(stage.member), str(uuid.uuid4())), headers=headers)).status_code == 404
    assert (await stage.api.get(f"{path}?page=2", headers=headers)).status_code == 400
    _, robot = await make_machine(stage.api, "users:read")
    assert (await stage.api.get(path, headers=robot)).json() == told.json()
    root = f"/api/v1/users/{stage.root}/{name}"
    assert str(ids[0]) not in (await stage.api.get(root, headers=robot)).text


async def test_a_password_that_is_set(stage: Stage) -> None:
    """It signs in and the one before does not; every session ends; weak ones, and one's own, are refused."""
    path = await prepared(stage, "password")
    headers = await helper(stage, "change_user")
    for body, code in (({"new_password": "short"}, "invalid"), ({}, "invalid")):
        assert said(await stage.api.put(path, json=body, headers=headers)) == (400, code)
    assert (await stage.api.get(ME, headers=bearer(stage.pair))).status_code == 200
    assert (await stage.api.put(path, json={"new_password": NEW_PASSWORD}, headers=headers)).status_code == 204
    assert (await stage.api.get(ME, headers=bearer(stage.pair))).status_code == 401
    for password, status in ((PASSWORD, 401), (NEW_PASSWORD, 200)):
        answer = await stage.api.post(SIGNIN, json={"email": stage.email, "password": password})
        assert answer.status_code == status, answer.text
    assert await OutgoingMail.objects.filter(user_id=stage.member, kind="password_changed").acount() == 1
    own = f"/api/v1/users/{stage.root}/password"
    answer = await stage.api.put(own, json={"new_password": NEW_PASSWORD}, headers=bearer(stage.root_pair))
    assert said(answer) == (403, "permission_denied")


async def test_a_password_that_has_to_be_changed_is_still_to_be(stage: Stage) -> None:
    """As in the admin: *Accept password again* is another act."""
    await User.objects.filter(pk=stage.member).aupdate(must_change_password=True)
    path = await prepared(stage, "password")
    body = {"new_password": NEW_PASSWORD}
    assert (await stage.api.put(path, json=body, headers=bearer(stage.root_pair))).status_code == 204
    assert (await User.objects.aget(pk=stage.member)).must_change_password


async def test_one_session_ends_and_the_other_stays(stage: Stage) -> None:
    """With its kept device; a session of somebody else is not there."""
    await prepared(stage, "sessions/{}")
    user = await User.objects.aget(pk=stage.member)
    device = await sync_to_async(device_of)(user)
    await Session.objects.filter(pk=stage.pair["session_id"]).aupdate(kept_device_id=device)
    headers = await helper(stage, "delete_session")
    foreign = f"/api/v1/users/{stage.member}/sessions/{stage.root_pair['session_id']}"
    assert said(await stage.api.delete(foreign, headers=headers)) == (404, "not_found")
    mine = f"/api/v1/users/{stage.member}/sessions/{stage.pair['session_id']}"
    assert (await stage.api.get(ME, headers=bearer(stage.pair))).status_code == 200
    assert (await stage.api.delete(mine, headers=headers)).status_code == 204
    assert (await stage.api.get(ME, headers=bearer(stage.pair))).status_code == 401
    assert (await Session.objects.aget(pk=stage.pair["session_id"])).revoke_reason == "ended_by_staff"
    assert await Session.objects.filter(user_id=stage.member, revoked_at=None).acount() == 1
    assert not await KeptDevice.objects.filter(pk=device).aexists()


async def test_the_app_alone_goes(stage: Stage) -> None:
    """A passkey stays; every session ends, and its person is told."""
    path = await prepared(stage, "mfa/totp")
    user = await User.objects.aget(pk=stage.member)
    passkey = await sync_to_async(passkey_of)(user)
    assert (await stage.api.delete(path, headers=await helper(stage, "reset_mfa"))).status_code == 204
    assert not await TotpFactor.objects.filter(user_id=stage.member).aexists()
    assert await Passkey.objects.filter(pk=passkey.pk).aexists()
    assert (await stage.api.get(ME, headers=bearer(stage.pair))).status_code == 401
    assert await OutgoingMail.objects.filter(user_id=stage.member, kind="mfa_disabled").acount() == 1


@pytest.mark.parametrize("act", ["mfa/passkeys/{}", "identities/{}"])
@pytest.mark.parametrize("verified", [True, False])
async def test_the_last_way_in(stage: Stage, act: str, verified: bool) -> None:
    """It goes with a link to choose a password, and stays where nobody could be mailed."""
    path = await prepared(stage, act)
    await User.objects.filter(pk=stage.member).aupdate(email_verified_at=clock.now() if verified else None)
    await sync_to_async(take_password)(await User.objects.aget(pk=stage.member))
    _, headers = await make_machine(stage.api, "users:mfa")
    answer = await stage.api.delete(path, headers=headers)
    kind = Passkey if "passkeys" in act else Identity
    if verified:
        assert answer.status_code == 204
        assert await EmailToken.objects.filter(user_id=stage.member, purpose="reset_password").aexists()
    else:
        assert said(answer) == (409, "last_way_in")
    assert await kind.objects.aexists() == (not verified)


async def test_a_consent_goes_with_its_sessions(stage: Stage) -> None:
    """The client's session ends, the person's own stays."""
    path = await prepared(stage, "consents/{}")
    client_id = path.rpartition("/")[2]
    user = await User.objects.aget(pk=stage.member)
    opened = await sync_to_async(session_of)(user)
    await Session.objects.filter(pk=opened).aupdate(client_id=client_id)
    assert (await stage.api.delete(path, headers=bearer(stage.root_pair))).status_code == 204
    assert not await Consent.objects.aexists()
    assert (await Session.objects.aget(pk=opened)).revoke_reason == "ended_by_staff"
    assert (await stage.api.get(ME, headers=bearer(stage.pair))).status_code == 200


async def test_a_message_is_tried_again_unless_it_is_being_sent(stage: Stage) -> None:
    """One that was given up waits again; one of which a worker has hold is left to it."""
    path = await prepared(stage, "messages/{}/send")
    headers = bearer(stage.root_pair)
    mail = OutgoingMail.objects.filter(user_id=stage.member)
    await mail.aupdate(claimed_until=clock.now() + timedelta(minutes=5))
    assert said(await stage.api.post(path, headers=headers)) == (409, "nothing_to_do")
    await mail.aupdate(claimed_until=clock.now() - timedelta(seconds=1))
    assert (await stage.api.post(path, headers=headers)).status_code == 204
    assert (await mail.aget()).failed_at is None
    row = (await stage.api.get(f"/api/v1/users/{stage.member}/messages", headers=headers)).json()[0]
    assert (row["kind"], row["failed_at"], row["next_try_at"] is not None) == ("verify_email", None, True)
