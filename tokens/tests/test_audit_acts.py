"""Every act through the API leaves exactly one event: actor, account, in which session, with which outcome."""

import uuid
from collections.abc import Awaitable, Callable
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.invitations.models import Invitation
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.organizations.models import Membership, Organization
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken
from accounts.outbox.tokens import Purpose
from accounts.users import queries as user_queries
from accounts.users.models import User
from accounts.users.services import account_snapshot
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.clients import units as client_units
from tokens.details.models import DetailType
from tokens.keys.models import SigningKey
from tokens.keys.units import create_first_keys
from tokens.oauth.tests.material import make_client
from tokens.resources.models import ApiResource
from tokens.sessions import units as sessions
from tokens.sessions.models import Session
from tokens.tests.browser import LOGOUT, ME, PASSWORD_URL, REFRESH, SIGNIN
from tokens.tests.stage import AGENT, Expected, Stage, by_member, by_root, session_of
from tokens.upstream.tests.provider import FakeProvider, served
from tokens.upstream.tests.walk import stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

NEW_PASSWORD = "seven amber kites over Lyon"
SIGNUP, ALL, SESSIONS = "/api/v1/access/signup", "/api/v1/access/logout-all", "/api/v1/access/sessions"
DEVICES = "/api/v1/access/kept-devices"
USERS, ROLES = "/api/v1/users", "/api/v1/roles"
INVITATIONS, CLIENTS, RESOURCES = f"{USERS}/invitations", "/api/v1/clients", "/api/v1/resources"
TYPES = "/api/v1/authorization-details-types"
ORGANIZATIONS, OF_STAFF = "/api/v1/organizations", "/api/v1/staff/organizations"


Act = Callable[[Stage], Awaitable[Expected | None]]


async def sign_up(stage: Stage) -> Expected:
    made = await stage.send("POST", SIGNUP, 201, {"email": "new@example.com", "password": PASSWORD})
    new = uuid.UUID(made["id"])
    return {"event": "sign_up", "actor_id": new, "user_id": new, "session_id": None}


async def sign_up_taken(stage: Stage) -> None:
    await stage.send("POST", SIGNUP, 409, {"email": stage.email, "password": PASSWORD})


async def sign_in(stage: Stage) -> Expected:
    pair = await stage.send("POST", SIGNIN, 200, {"email": stage.email, "password": PASSWORD})
    return by_member(stage, event="sign_in", session_id=session_of(pair))


async def sign_in_wrong(stage: Stage) -> Expected:
    await stage.send("POST", SIGNIN, 401, {"email": stage.email, "password": "wrong"})
    details = {"reason": "wrong_password"}
    return by_member(stage, event="sign_in", outcome="failure", actor_id=None, session_id=None, details=details)


async def sign_in_unknown(stage: Stage) -> Expected:
    await stage.send("POST", SIGNIN, 401, {"email": "nobody@example.com", "password": "wrong"})
    expected = {"event": "sign_in", "outcome": "failure", "actor_id": None, "user_id": None, "session_id": None}
    return {**expected, "details": {"reason": "no_account"}}


async def sign_in_too_late(stage: Stage) -> Expected:
    with patch.object(user_queries, "account_snapshot", lambda _: None):
        await stage.send("POST", SIGNIN, 401, {"email": stage.email, "password": PASSWORD})
    return by_member(stage, event="sign_in", outcome="refused", session_id=None)


async def refresh(stage: Stage) -> None:
    await stage.send("POST", REFRESH, 200, {"refresh_token": stage.pair["refresh_token"]})


async def reuse(stage: Stage) -> Expected:
    await refresh(stage)
    with clock.shifted(11):
        for _ in range(2):  # the second finds the session over
            await stage.send("POST", REFRESH, 401, {"refresh_token": stage.pair["refresh_token"]})
    return by_member(stage, event="refresh_reuse", outcome="refused", actor_id=None)


async def sign_out(stage: Stage) -> Expected:
    for _ in range(2):
        await stage.send("POST", LOGOUT, 204, {"refresh_token": stage.pair["refresh_token"]})
    return by_member(stage, event="sign_out")


async def sign_out_by_access_token(stage: Stage) -> Expected:
    await stage.send("POST", LOGOUT, 204, pair=stage.pair)
    return by_member(stage, event="sign_out")


async def sign_out_everywhere(stage: Stage) -> Expected:
    await stage.send("POST", ALL, 204, pair=stage.pair)
    return by_member(stage, event="sign_out_everywhere")


async def end_session(stage: Stage) -> Expected:
    other = await Session.objects.exclude(pk=session_of(stage.pair)).filter(user_id=stage.member).aget()
    await stage.send("DELETE", f"{SESSIONS}/{other.pk}", 204, pair=stage.pair)
    details = {"from_session": str(stage.pair["session_id"])}
    return by_member(stage, event="session_ended", session_id=other.pk, details=details)


async def end_kept_device(stage: Stage) -> Expected:
    now = clock.now()
    kept = await KeptDevice.objects.acreate(user_id=stage.member, digest="x", epoch=0, expires_at=now)
    await stage.send("DELETE", f"{DEVICES}/{kept.pk}", 204, pair=stage.pair)
    return by_member(stage, event="device_forgotten")


async def end_foreign_session(stage: Stage) -> None:
    await stage.send("DELETE", f"{SESSIONS}/{stage.root_pair['session_id']}", 404, pair=stage.pair)


async def change_password(stage: Stage) -> Expected:
    body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    await stage.send("POST", PASSWORD_URL, 200, body, stage.pair)
    return by_member(stage, event="password_changed")


async def change_password_wrong(stage: Stage) -> Expected:
    body = {"current_password": "wrong", "new_password": NEW_PASSWORD}
    await stage.send("POST", PASSWORD_URL, 401, body, stage.pair)
    return by_member(stage, event="password_changed", outcome="failure")


async def rename(stage: Stage) -> Expected:
    await stage.send("PATCH", ME, 200, {"name": "Other"}, stage.pair)
    return by_member(stage, event="profile_changed", details={"fields": ["name"]})


async def look(stage: Stage) -> None:
    await stage.send("GET", ME, 200, pair=stage.pair)
    await stage.send("PATCH", ME, 200, {}, stage.pair)
    await stage.send("GET", SESSIONS, 200, pair=stage.pair)


async def delete_account(stage: Stage) -> Expected:
    await stage.send("DELETE", ME, 204, {"password": PASSWORD}, stage.pair)
    return by_member(stage, event="account_deleted", details={"grace_days": 7})


async def delete_account_wrong(stage: Stage) -> Expected:
    await stage.send("DELETE", ME, 401, {"password": "wrong"}, stage.pair)
    return by_member(stage, event="account_deleted", outcome="failure")


async def export_data(stage: Stage) -> Expected:
    await stage.send("GET", f"{ME}/export", 200, pair=stage.pair)
    return by_member(stage, event="data_exported")


async def create_user(stage: Stage) -> Expected:
    body = {"email": "made@example.com", "is_staff": True, "roles": ["support"]}
    made = await stage.send("POST", USERS, 201, body, stage.root_pair)
    details = {"email_verified": False, "is_staff": True, "is_superuser": False, "roles": ["support"]}
    return by_root(stage, event="user_created", user_id=uuid.UUID(made["id"]), details=details)


async def create_user_taken(stage: Stage) -> None:
    await stage.send("POST", USERS, 409, {"email": stage.email}, stage.root_pair)


async def change_user(stage: Stage) -> Expected:
    body = {"name": "Other", "is_active": False, "is_staff": False, "roles": ["support"]}
    for _ in range(2):  # the second time nothing changes
        await stage.send("PATCH", f"{USERS}/{stage.member}", 200, body, stage.root_pair)
    details = {"fields": ["is_active", "name"], "is_active": False, "roles_given": ["support"]}
    return by_root(stage, event="user_changed", details=details)


async def change_user_but_not_their_roles(stage: Stage) -> Expected:
    for _ in range(2):  # the second time nothing changes
        await stage.send("PATCH", f"{USERS}/{stage.member}", 200, {"name": "Other"}, stage.root_pair)
    return by_root(stage, event="user_changed", details={"fields": ["name"]})


async def delete_user(stage: Stage) -> Expected:
    await stage.send("DELETE", f"{USERS}/{stage.member}", 204, pair=stage.root_pair)
    return by_root(stage, event="user_deleted")


async def give_role(stage: Stage) -> Expected:
    for _ in range(2):
        await stage.send("PUT", f"{USERS}/{stage.member}/roles/support", 204, pair=stage.root_pair)
    return by_root(stage, event="role_given", details={"role": "support"})


async def take_role(stage: Stage) -> Expected:
    await (await User.objects.aget(pk=stage.member)).groups.aadd(await Group.objects.aget(name="support"))
    for _ in range(2):
        await stage.send("DELETE", f"{USERS}/{stage.member}/roles/support", 204, pair=stage.root_pair)
    return by_root(stage, event="role_taken", details={"role": "support"})


async def create_role(stage: Stage) -> Expected:
    await stage.send("POST", ROLES, 201, {"name": "new", "permissions": ["accounts.view_user"]}, stage.root_pair)
    details = {"role": "new", "permissions": ["accounts.view_user"]}
    return by_root(stage, event="role_created", user_id=None, details=details)


async def create_role_taken(stage: Stage) -> None:
    await stage.send("POST", ROLES, 409, {"name": "support"}, stage.root_pair)


async def end_sessions(stage: Stage) -> Expected:
    await stage.send("DELETE", f"{USERS}/{stage.member}/sessions", 204, pair=stage.root_pair)
    return by_root(stage, event="sessions_ended")


async def be_denied(stage: Stage) -> Expected:
    path = f"{USERS}/{stage.root}"
    await stage.send("DELETE", path, 403, pair=stage.pair)
    details = {"method": "DELETE", "path": path}
    return by_member(stage, event="access_denied", outcome="refused", user_id=stage.root, details=details)


async def be_denied_by_a_bad_request(stage: Stage) -> Expected:
    await stage.send("POST", USERS, 403, {"email": 5}, stage.pair)
    details = {"method": "POST", "path": USERS}
    return by_member(stage, event="access_denied", outcome="refused", user_id=None, details=details)


async def invite(stage: Stage) -> Expected:
    body = {"email": "ida@example.com", "roles": ["support"]}
    made = await stage.send("POST", INVITATIONS, 201, body, stage.root_pair)
    details = {"invitation": made["id"], "roles": ["support"]}
    return by_root(stage, event="invitation_made", user_id=None, details=details)


async def withdraw_invitation(stage: Stage) -> Expected:
    made = await stage.send("POST", INVITATIONS, 201, {"email": "ida@example.com"}, stage.root_pair)
    await sync_to_async(_forget_events)("invitation_made")
    await stage.send("DELETE", f"{INVITATIONS}/{made['id']}", 204, pair=stage.root_pair)
    return by_root(stage, event="invitation_withdrawn", user_id=None, details={"invitation": made["id"]})


async def accept_invitation(stage: Stage) -> Expected:
    invited = await stage.send("POST", INVITATIONS, 201, {"email": "ida@example.com"}, stage.root_pair)
    await sync_to_async(_forget_events)("invitation_made")
    token = email_tokens.text(await EmailToken.objects.aget(purpose=Purpose.INVITATION))
    body = {"email": "ida@example.com", "password": PASSWORD, "invitation": token}
    new = uuid.UUID((await stage.send("POST", SIGNUP, 201, body))["id"])
    details = {"invitation": invited["id"], "roles": [], "roles_left_out": []}
    return {"event": "invitation_accepted", "actor_id": new, "user_id": new, "session_id": None, "details": details}


async def make_organization(stage: Stage) -> Expected:
    made = await stage.send("POST", ORGANIZATIONS, 201, {"name": "Acme"}, stage.pair)
    return by_member(
        stage, event="organization_created", session_id=None, details={"organization": made["id"], "role": "owner"}
    )


def on_organization(method: str, act: str, body: object, status: int, event: str, **facts: object) -> Act:
    """Return an act of an owner on their organisation, or on another member (``member`` in the path)."""

    async def do(stage: Stage) -> Expected:
        acme = await Organization.objects.acreate(name="Acme", slug="acme")
        await Membership.objects.acreate(organization=acme, user_id=stage.member, role="owner")
        await Membership.objects.acreate(organization=acme, user_id=stage.root, role="admin")
        if act == "/leave":
            await Membership.objects.filter(user_id=stage.root).aupdate(role="owner")
        path = f"{ORGANIZATIONS}/{acme.pk}{act.format(root=stage.root)}"
        for _again in range(2 if method == "PATCH" else 1):  # the second time nothing changes
            await stage.send(method, path, status, body, stage.pair)
        about = {"{root}" in act: stage.root, act == "/leave": stage.member}.get(True)
        return by_member(
            stage, event=event, user_id=about, session_id=None, details={"organization": str(acme.pk), **facts}
        )

    do.__name__ = event
    return do


async def _invited_by_root(stage: Stage) -> tuple[Organization, Invitation]:
    """Have the other person invite the member; return the organisation, and the invitation, without its event."""
    acme = await Organization.objects.acreate(name="Acme", slug="acme")
    await Membership.objects.acreate(organization=acme, user_id=stage.root, role="owner")
    body = {"email": stage.email, "role": "admin"}
    await stage.send("POST", f"{ORGANIZATIONS}/{acme.pk}/invitations", 201, body, stage.root_pair)
    await sync_to_async(audit.wait_until_written)()
    await sync_to_async(_forget_events)("member_invited")
    return acme, await Invitation.objects.select_related("token").aget()


async def invite_to_organization(stage: Stage) -> Expected:
    acme = await Organization.objects.acreate(name="Acme", slug="acme")
    await Membership.objects.acreate(organization=acme, user_id=stage.member, role="owner")
    body = {"email": "ida@example.com", "role": "member"}
    path = f"{ORGANIZATIONS}/{acme.pk}/invitations"
    made = await stage.send("POST", path, 201, body, stage.pair)
    await stage.send("POST", path, 409, body, stage.pair)
    details = {"organization": str(acme.pk), "invitation": made["id"], "role": "member"}
    return by_member(stage, event="member_invited", user_id=None, session_id=None, details=details)


async def withdraw_from_organization(stage: Stage) -> Expected:
    acme, row = await _invited_by_root(stage)
    path = f"{ORGANIZATIONS}/{acme.pk}/invitations/{row.pk}"
    for status in (204, 404):
        await stage.send("DELETE", path, status, pair=stage.root_pair)
    details = {"organization": str(acme.pk), "invitation": str(row.pk)}
    return by_root(stage, event="member_invitation_withdrawn", user_id=None, details=details)


def on_own_invitation(act: str, status: int, event: str, **facts: object) -> Act:
    """Return an answer to an invitation to an organisation; the second one finds it answered."""

    async def do(stage: Stage) -> Expected:
        acme, row = await _invited_by_root(stage)
        assert row.token is not None
        for expected in (status, 400):
            body = {"token": email_tokens.text(row.token)}
            await stage.send("POST", f"{ORGANIZATIONS}/invitations/{act}", expected, body, stage.pair)
        details = {"organization": str(acme.pk), "invitation": str(row.pk), **facts}
        return by_member(stage, event=event, session_id=None, details=details)

    do.__name__ = event
    return do


def on_organization_by_staff(method: str, act: str, body: object, status: int, event: str, **facts: object) -> Act:
    """Return an act of staff on an organisation; it says who the member is, where it is about one."""

    async def do(stage: Stage) -> Expected:
        acme = await Organization.objects.acreate(name="Acme", slug="acme")
        await Membership.objects.acreate(organization=acme, user_id=stage.root, role="owner")
        if method == "DELETE" and act:
            await Membership.objects.acreate(organization=acme, user_id=stage.member, role="member")
        path = f"{OF_STAFF}/{acme.pk}{act.format(member=stage.member)}"
        await stage.send(method, path, status, body, stage.root_pair)
        about = stage.member if act else None
        return by_root(stage, event=event, user_id=about, details={"organization": str(acme.pk), **facts})

    do.__name__ = f"{event}_by_staff"
    return do


async def make_client_by_api(stage: Stage) -> Expected:
    made = await stage.send("POST", CLIENTS, 201, {"preset": "machine", "name": "Robot"}, stage.root_pair)
    details = {"client": made["client_id"], "name": "Robot", "auth_method": "secret"}
    trust = {"administers": False, "resource_server": False, "trusted": False}
    return by_root(stage, event="client_created", user_id=None, details={**details, **trust})


def on_client(method: str, act: str, body: object, status: int, event: str, **facts: object) -> Act:
    """Return an act on a client."""

    async def do(stage: Stage) -> Expected:
        client, _ = await sync_to_async(make_client)()
        if act == "/enable":
            await sync_to_async(client_units.disable)(client.pk)
            await sync_to_async(_forget_events)("client_disabled")
        await stage.send(method, f"{CLIENTS}/{client.pk}{act}", status, body, stage.root_pair)
        details = {"client": str(client.pk), "name": "Wiki", **facts}
        return by_root(stage, event=event, user_id=None, details=details)

    do.__name__ = event
    return do


async def register_api(stage: Stage) -> Expected:
    body = {"identifier": "https://api.example.com", "name": "Orders"}
    await stage.send("POST", RESOURCES, 201, body, stage.root_pair)
    details = {"resource": body["identifier"], "name": "Orders", "active": True}
    return by_root(stage, event="resource_created", user_id=None, details=details)


def on_api(method: str, body: object, status: int, event: str, **facts: object) -> Act:
    """Return an act on a registered API."""

    async def do(stage: Stage) -> Expected:
        api = await ApiResource.objects.acreate(identifier="https://api.example.com", name="Orders")
        await stage.send(method, f"{RESOURCES}/{api.pk}", status, body, stage.root_pair)
        details = {"resource": api.identifier, "name": "Orders", **facts}
        return by_root(stage, event=event, user_id=None, details=details)

    do.__name__ = event
    return do


async def register_type(stage: Stage) -> Expected:
    body = {"identifier": "payment", "words": "Pay"}
    await stage.send("POST", TYPES, 201, body, stage.root_pair)
    return by_root(stage, event="detail_type_created", user_id=None, details={"type": "payment", "active": True})


def on_type(method: str, body: object, status: int, event: str, **facts: object) -> Act:
    """Return an act on a type of authorization details."""

    async def do(stage: Stage) -> Expected:
        row = await DetailType.objects.acreate(identifier="payment", words="Pay")
        await stage.send(method, f"{TYPES}/{row.pk}", status, body, stage.root_pair)
        return by_root(stage, event=event, user_id=None, details={"type": "payment", **facts})

    do.__name__ = event
    return do


async def make_keys(stage: Stage) -> Expected:
    made = await stage.send("POST", "/api/v1/keys", 200, {"family": "ES256"}, stage.root_pair)
    (active,) = [key["kid"] for key in made if key["state"] == "active"]
    return by_root(stage, event="keys_created", user_id=None, details={"active": active, "family": "ES256"})


def _forget_events(event: str) -> None:
    AuditEvent.objects.filter(event=event)._raw_delete("default")


ACTS: tuple[Act, ...] = (
    sign_up, sign_up_taken, sign_in, sign_in_wrong, sign_in_too_late, sign_in_unknown, refresh, reuse, sign_out,
    sign_out_by_access_token, sign_out_everywhere, end_session, end_foreign_session, end_kept_device,
    change_password,
    change_password_wrong, rename, look, delete_account, delete_account_wrong, export_data, create_user,
    create_user_taken, change_user, change_user_but_not_their_roles, delete_user, give_role, take_role, create_role,
    create_role_taken, invite, withdraw_invitation, accept_invitation, end_sessions, be_denied,
    be_denied_by_a_bad_request, make_client_by_api, make_keys,
    on_client("PATCH", "", {"require_par": True}, 200, "client_changed", fields=["require_par"]),
    on_client("POST", "/secret", {"expire_old_in_s": 5}, 200, "client_secret_rotated", expire_old_in_s=5),
    on_client("POST", "/disable", None, 200, "client_disabled", sessions=0),
    on_client("POST", "/enable", None, 200, "client_enabled"),
    on_client("DELETE", "", None, 204, "client_deleted", sessions=0),
    register_api,
    on_api("PATCH", {"active": False}, 200, "resource_changed", fields=["active"], active=False),
    on_api("DELETE", None, 204, "resource_deleted"),
    register_type,
    on_type("PATCH", {"active": False}, 200, "detail_type_changed", fields=["active"], active=False),
    on_type("DELETE", None, 204, "detail_type_deleted"),
    make_organization, invite_to_organization, withdraw_from_organization,
    on_organization("PATCH", "", {"name": "Acme Ltd"}, 200, "organization_renamed"),
    on_organization("DELETE", "", None, 204, "organization_deleted", members=2),
    on_organization("POST", "/leave", None, 204, "organization_left", role="owner"),
    on_organization(
        "PUT", "/members/{root}", {"role": "member"}, 204, "member_role_changed", role="member", role_before="admin"
    ),
    on_organization("DELETE", "/members/{root}", None, 204, "member_removed", role="admin"),
    on_own_invitation(
        "accept", 200, "organization_joined", organization_role="admin", roles=[], roles_left_out=[]
    ),
    on_own_invitation("decline", 204, "member_invitation_declined"),
    on_organization_by_staff("DELETE", "", None, 204, "organization_deleted", members=1),
    on_organization_by_staff("PUT", "/members/{member}", {"role": "member"}, 204, "member_added", role="member"),
    on_organization_by_staff("DELETE", "/members/{member}", None, 204, "member_removed", role="member"),
)  # fmt: skip


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
async def test_an_act_leaves_exactly_one_event(stage: Stage, settings: Settings, act: Act) -> None:
    """One event with the right ids, outcome and details, and where the request came from; none for what is no act."""
    settings.IRONAUTH_ORGANIZATIONS = "anybody"
    await User.objects.filter(pk__in=(stage.member, stage.root)).aupdate(email_verified_at=clock.now())
    await Group.objects.acreate(name="support")
    await stage.api.post(SIGNIN, json={"email": stage.email, "password": PASSWORD})
    before = [pk async for pk in AuditEvent.objects.values_list("pk", flat=True)]
    expected = await act(stage)
    assert await sync_to_async(audit.wait_until_written)()
    left = [event async for event in AuditEvent.objects.exclude(pk__in=before)]
    if expected is None:
        assert left == []
        return
    whole = {"outcome": "success", "details": {}, "address": "127.0.0.1", "user_agent": AGENT} | expected
    assert [{name: getattr(event, name) for name in whole} for event in left] == [whole]
    assert left[0].request_id == "rid-of-the-act"


def test_commands_on_keys_leave_events(transactional_db: None) -> None:
    """Creating, rotating and dropping keys by command is recorded, without an actor; doing nothing is not."""
    call_command("create_signing_key", "--alg", "ed25519")
    call_command("create_signing_key", "--alg", "ed25519")
    retired = SigningKey.objects.get(state="active").kid
    call_command("rotate_signing_key", now=True)
    active = SigningKey.objects.get(state="active").kid
    call_command("rotate_signing_key", drop=retired)
    events = AuditEvent.objects.order_by("id").values_list("event", "actor_id", "details")
    assert list(events) == [
        ("keys_created", None, {"active": retired}),
        ("key_rotated", None, {"active": active, "at_once": True}),
        ("key_dropped", None, {"dropped": retired, "active": active}),
    ]


def test_what_staff_do_to_sessions_and_keys_in_the_admin(client: Client, transactional_db: None) -> None:
    """Ending sessions leaves one event for each; rotating and dropping a key name who did it."""
    retired = create_first_keys()
    root = User.objects.create_user("root@example.com", is_superuser=True, is_staff=True)
    client.force_login(root)
    account = account_snapshot(User.objects.create_user("mia@example.com").pk)
    assert account is not None
    opened = [sessions.store_first_party(account=account, context=ClientContext()).session_id for _ in range(2)]
    before = set(AuditEvent.objects.values_list("pk", flat=True))
    body = {"action": "end_sessions", "_selected_action": opened, "confirmed": "yes"}
    assert client.post(reverse("admin:tokens_session_changelist"), body).status_code == 302
    with clock.shifted(306):  # the next key has been published for as long as clients keep the key set
        assert client.post(reverse("admin:tokens_signingkey_rotate"), {"confirmed": "yes"}).status_code == 302
    body = {"action": "drop_as_compromised", "_selected_action": [retired], "confirmed": "yes"}
    assert client.post(reverse("admin:tokens_signingkey_changelist"), body).status_code == 302
    left = AuditEvent.objects.exclude(pk__in=before).order_by("id")
    assert {event.actor_id for event in left} == {root.pk}
    ended = [event for event in left if event.event == "session_ended"]
    assert {(event.user_id, event.session_id) for event in ended} == {(account.id, one) for one in opened}
    assert sorted(event.event for event in left) == ["key_dropped", "key_rotated", "session_ended", "session_ended"]


def test_trials_of_a_provider_in_the_admin(client: Client, transactional_db: None, settings: Settings) -> None:
    """One event for a trial that is over, with who tried which provider and why it failed; none for one begun."""
    settings.DEBUG = True  # http on this machine
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    root = User.objects.create_user("root@example.com", is_superuser=True, is_staff=True)
    client.force_login(root)
    with served(FakeProvider) as there:
        provider = stored("acme", there.issuer)
        before = set(AuditEvent.objects.values_list("pk", flat=True))
        begun = client.post(reverse("admin:accounts_upstreamprovider_try", args=[provider.pk]))
        state = parse_qs(urlsplit(begun.context["address"]).query)["state"][0]
        assert not AuditEvent.objects.exclude(pk__in=before).exists()
        back = {"state": state, "iss": there.issuer, "error": "access_denied"}
        for status in (200, 400):  # the second time it belongs to no trial
            tried = reverse("admin:accounts_upstreamprovider_tried", args=["acme"])
            assert client.get(tried, back).status_code == status
    (left,) = AuditEvent.objects.exclude(pk__in=before)
    assert (left.event, left.outcome, left.actor_id, left.user_id) == ("provider_tried", "failure", root.pk, None)
    assert left.details == {"provider": "acme", "cause": "refused_there access_denied"}
