"""Acts on one person over HTTP: the admin's buttons that have no path of their own, sparing the same people."""

import uuid

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission
from pytest_django import Settings

from accounts.acts.views import ACTS
from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from tokens.sign_in.tests.test_step_up import STEP_UP_REQUIRED, age
from tokens.tests.browser import ME, SIGNIN, Member
from tokens.tests.machine import make_machine
from tokens.tests.second_factor import said
from tokens.tests.staff import staff
from tokens.tests.stage import Stage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

INVITATIONS = "/api/v1/users/invitations"
EVENTS = {
    "send-reset": "password_reset_requested",
    "resend-verification": "verification_requested",
    "require-password-change": "password_change_required",
    "accept-password": "user_changed",
}


def path_of(user_id: object, act: str) -> str:
    return f"/api/v1/users/{user_id}/acts/{act}"


async def prepare(user_id: uuid.UUID, act: str) -> None:
    """Bring the person to where the act would change something."""
    await User.objects.filter(pk=user_id).aupdate(must_change_password=act == "accept-password", email_verified_at=None)


def test_every_act_is_tried_here() -> None:
    """What is added has to be told its event."""
    assert ACTS.keys() == EVENTS.keys()


@pytest.mark.parametrize("act", EVENTS)
@pytest.mark.parametrize("by_machine", [False, True])
async def test_an_act_is_done_and_is_one_event(stage: Stage, act: str, by_machine: bool) -> None:
    """By staff or a machine, whose id is the actor; messages go out where the button sends one."""
    actor, headers = stage.root, bearer(stage.root_pair)
    if by_machine:
        robot, headers = await make_machine(stage.api, "users:write")
        actor = robot.pk
    await prepare(stage.member, act)
    before = [pk async for pk in AuditEvent.objects.values_list("pk", flat=True)]
    assert (await stage.api.post(path_of(stage.member, act), headers=headers)).status_code == 204
    await sync_to_async(audit.wait_until_written)()
    (event,) = [event async for event in AuditEvent.objects.exclude(pk__in=before)]
    assert (event.event, event.actor_id, event.user_id, event.outcome) == (
        EVENTS[act], actor, stage.member, "success",
    )  # fmt: skip
    member = await User.objects.aget(pk=stage.member)
    assert member.must_change_password == (act == "require-password-change")
    assert await OutgoingMail.objects.filter(user_id=stage.member).aexists() == (act != "accept-password")
    await stage.send("GET", ME, 401 if act == "require-password-change" else 200, pair=stage.pair)


@pytest.mark.parametrize("act", EVENTS)
async def test_what_would_change_nothing_is_refused(stage: Stage, act: str) -> None:
    """409, and no event: the admin leaves such people out."""
    path = path_of(stage.member, act)
    await User.objects.filter(pk=stage.member).aupdate(
        is_active=act not in ("send-reset", "resend-verification"),
        must_change_password=act == "require-password-change",
        email_verified_at=clock.now(),
    )
    answer = await stage.api.post(path, headers=bearer(stage.root_pair))
    assert said(answer) == (409, "nothing_to_do")
    assert not await AuditEvent.objects.filter(event=EVENTS[act], user_id=stage.member).aexists()


@pytest.mark.parametrize("act", EVENTS)
async def test_the_right_and_who_is_out_of_reach(stage: Stage, act: str) -> None:
    """Without the right 403 for anybody; with it for a superuser; for who holds more, where the act lets people in."""
    await prepare(stage.member, act)
    path = path_of(stage.member, act)
    without = bearer(await staff(stage.api, "view_user"))
    assert said(await stage.api.post(path, headers=without)) == (403, "permission_denied")
    headers = bearer(await staff(stage.api, "change_user"))
    await User.objects.filter(pk=stage.member).aupdate(is_superuser=True)
    assert said(await stage.api.post(path, headers=headers)) == (403, "permission_denied")
    await User.objects.filter(pk=stage.member).aupdate(is_superuser=False)

    def give() -> None:
        User.objects.get(pk=stage.member).user_permissions.add(Permission.objects.get(codename="delete_user"))

    await sync_to_async(give)()
    answer = await stage.api.post(path, headers=headers)
    assert answer.status_code == (403 if act == "accept-password" else 204), answer.text
    assert (await stage.api.post(path)).status_code == 401


async def test_nobody_locks_themselves_out(stage: Stage) -> None:
    """As in the admin: to require another password is for others."""
    path = path_of(stage.root, "require-password-change")
    assert said(await stage.api.post(path, headers=bearer(stage.root_pair))) == (403, "permission_denied")


@pytest.mark.parametrize("act", EVENTS)
async def test_the_proof_that_an_act_needs(stage: Stage, act: str) -> None:
    """After 601 seconds none is done but the one that opens nothing."""
    await prepare(stage.member, act)
    await age(stage.root_pair, 601)
    answer = await stage.api.post(path_of(stage.member, act), headers=bearer(stage.root_pair))
    if act == "resend-verification":
        assert answer.status_code == 204
    else:
        assert said(answer) == STEP_UP_REQUIRED
        await age(stage.root_pair, 590)
        assert (await stage.api.post(path_of(stage.member, act), headers=bearer(stage.root_pair))).status_code == 204


async def test_what_is_not_there(stage: Stage) -> None:
    """An act or a person that nobody knows is 404, for a machine too; one who may not is told that first."""
    for path in (path_of(stage.member, "dance"), path_of(stage.root_pair["session_id"], "send-reset")):
        await stage.send("POST", path, 404, pair=stage.root_pair)
        refused = await stage.api.post(path, headers=bearer(await staff(stage.api, "view_user")))
        assert said(refused) == (403, "permission_denied")


async def test_a_machine_needs_the_scope(api: httpx.AsyncClient, member: Member) -> None:
    """Reading people is not enough."""
    _, headers = await make_machine(api, "users:read", "users:delete")
    refused = await api.post(path_of(member["id"], "send-reset"), headers=headers)
    assert said(refused) == (403, "insufficient_scope")
    assert refused.json()["scope"] == "users:write"


async def leave(stage: Stage) -> None:
    """Have the member delete their account."""
    await stage.send("DELETE", ME, 204, {"password": PASSWORD}, stage.pair)


async def test_who_is_being_deleted_is_restored(stage: Stage) -> None:
    """By staff or a machine, with one event; a second time there is nothing to do."""
    robot, headers = await make_machine(stage.api, "users:write")
    path = f"/api/v1/users/{stage.member}/restore"
    for sent, actor in ((bearer(stage.root_pair), stage.root), (headers, robot.pk)):
        await leave(stage)
        assert (await stage.api.post(path, headers=sent)).status_code == 204
        assert said(await stage.api.post(path, headers=sent)) == (409, "nothing_to_do")
        assert await AuditEvent.objects.filter(event="account_restored", actor_id=actor).acount() == 1
        stage.pair = await stage.send("POST", SIGNIN, 200, {"email": stage.email, "password": PASSWORD})


async def test_who_may_restore(stage: Stage) -> None:
    """The right to change users, every right of the person, a fresh proof; and the address is free."""
    path = f"/api/v1/users/{stage.member}/restore"
    await leave(stage)
    assert (await stage.api.post(path)).status_code == 401
    assert said(await stage.api.post(path, headers=bearer(await staff(stage.api, "view_user"))))[0] == 403
    _, reader = await make_machine(stage.api, "users:read")
    assert said(await stage.api.post(path, headers=reader)) == (403, "insufficient_scope")

    def give() -> None:
        User.objects.get(pk=stage.member).user_permissions.add(Permission.objects.get(codename="delete_user"))

    await sync_to_async(give)()
    headers = bearer(await staff(stage.api, "change_user"))
    assert said(await stage.api.post(path, headers=headers)) == (403, "permission_denied")
    await age(stage.root_pair, 601)
    assert said(await stage.api.post(path, headers=bearer(stage.root_pair))) == STEP_UP_REQUIRED
    await age(stage.root_pair, 590)
    await stage.send("POST", f"/api/v1/users/{nobody()}/restore", 404, pair=stage.root_pair)
    await sync_to_async(User.objects.create_user)(stage.email)
    refused = await stage.send("POST", path, 409, pair=stage.root_pair)
    assert refused["code"] == "email_taken"


def nobody() -> uuid.UUID:
    """Return the id of nobody."""
    return uuid.uuid4()


async def test_an_invitation_is_sent_again(stage: Stage) -> None:
    """With a new link, one event, and the right to invite; a machine's invitation gives no roles."""
    robot, headers = await make_machine(stage.api, "invitations:write")
    body = {"email": "ida@example.com"}
    made = await stage.api.post(INVITATIONS, json=body, headers=headers)
    assert made.status_code == 201, made.text
    assert made.json()["invited_by"] is None
    refused = await stage.api.post(INVITATIONS, json={"email": "x@example.com", "roles": ["r"]}, headers=headers)
    assert said(refused) == (403, "permission_denied")
    path = f"{INVITATIONS}/{made.json()['id']}/send"
    token = (await EmailToken.objects.aget(purpose="invitation")).pk
    sent = await stage.api.post(path, headers=headers)
    assert sent.status_code == 200, sent.text
    assert (await EmailToken.objects.aget(purpose="invitation")).pk != token
    event = await AuditEvent.objects.aget(event="invitation_sent_again")
    assert event.actor_id == robot.pk
    assert said(await stage.api.post(path, headers=bearer(await staff(stage.api, "view_invitation"))))[0] == 403
    _, reader = await make_machine(stage.api, "invitations:read")
    assert said(await stage.api.post(path, headers=reader)) == (403, "insufficient_scope")
    await stage.send("POST", f"{INVITATIONS}/{nobody()}/send", 404, pair=stage.root_pair)
    await stage.send("DELETE", path.removesuffix("/send"), 204, pair=stage.root_pair)
    await stage.send("POST", path, 404, pair=stage.root_pair)


async def test_sending_again_is_bounded(stage: Stage, throttled: None, settings: Settings) -> None:
    """As messages to one mailbox are: the one after the last is 429."""
    settings.IRONAUTH_THROTTLE_MAILS_TO_ONE = 2
    made = await stage.send("POST", INVITATIONS, 201, {"email": "ida@example.com"}, stage.root_pair)
    for status in (200, 429):
        await stage.send("POST", f"{INVITATIONS}/{made['id']}/send", status, pair=stage.root_pair)
