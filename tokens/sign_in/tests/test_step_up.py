"""Step-up: for what a stolen session must not do alone, the person has proved who they are within ten minutes."""

import uuid
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.outbox.models import OutgoingMail
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotAuthenticated
from ironauth.infrastructure.db.unit_of_work import database
from tokens.sessions import units as sessions
from tokens.sessions.models import Session
from tokens.sign_in import units as sign_in_units
from tokens.tests.browser import ME, PASSWORD_URL, Member, Pair
from tokens.tests.second_factor import CODES, CONFIRM, STEP_UP, TOTP, enrol, said, sign_in_fully
from tokens.tests.stage import Stage

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.usefixtures("still_clock"),
]
STEP_UP_REQUIRED = (401, "step_up_required")
EMAIL = "/api/v1/access/email"
NEW_PASSWORD = "seven amber kites over Lyon"


async def age(pair: Pair, seconds: int) -> None:
    """Let the proof of a session be so old, without waiting: what is stored and what is in memory."""
    await sync_to_async(_age)(pair["session_id"], seconds)


def _age(session_id: str, seconds: int) -> None:
    session = Session.objects.get(pk=session_id)
    session.authenticated_at = datetime.fromtimestamp(clock.unix() - seconds, UTC)
    session.save()  # invalidates it


SENSITIVE: list[tuple[str, str, dict[str, Any] | None]] = [
    ("POST", TOTP, None),
    ("POST", CONFIRM, {"code": "000000"}),
    ("POST", CODES, {"password": PASSWORD}),
    ("DELETE", TOTP, {"password": PASSWORD}),
    ("POST", EMAIL, {"new_email": "new@example.com", "password": PASSWORD}),
]


@pytest.mark.parametrize(("method", "path", "body"), SENSITIVE)
async def test_ten_minutes(
    api: httpx.AsyncClient, pair: Pair, method: str, path: str, body: dict[str, Any] | None
) -> None:
    """At 600 seconds it is let through, whatever comes of it; at 601 it is not, and the challenge says why."""
    await age(pair, 600)
    passed = await api.request(method, path, json=body, headers=bearer(pair))
    assert passed.status_code < 300 or said(passed) != STEP_UP_REQUIRED
    await age(pair, 601)
    refused = await api.request(method, path, json=body, headers=bearer(pair))
    assert said(refused) == STEP_UP_REQUIRED
    challenge = refused.headers["www-authenticate"]
    assert challenge == 'Bearer realm="ironauth", error="insufficient_user_authentication", max_age="600"'
    stepped = await api.post(STEP_UP, json={"password": PASSWORD}, headers=bearer(pair))
    assert stepped.status_code == 204
    again = await api.request(method, path, json=body, headers=bearer(pair))
    assert again.status_code < 300 or said(again) != STEP_UP_REQUIRED


async def test_a_password_is_no_second_factor(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Who has a second factor steps up with it; who has none, with the password."""
    missing = await api.post(STEP_UP, json={"code": "123456"}, headers=bearer(pair))
    assert [error["field"] for error in missing.json()["errors"]] == ["password"]
    app, codes = await enrol(api, pair)
    missing = await api.post(STEP_UP, json={"password": PASSWORD}, headers=bearer(pair))
    assert (missing.status_code, [error["field"] for error in missing.json()["errors"]]) == (400, ["code"])
    assert said(await api.post(STEP_UP, json={"code": app.wrong()}, headers=bearer(pair))) == (401, "invalid_mfa_code")
    await age(pair, 601)
    for code in (app.code(), codes[0]):
        assert (await api.post(STEP_UP, json={"code": code}, headers=bearer(pair))).status_code == 204
        again = await api.post(STEP_UP, json={"code": code}, headers=bearer(pair))
        assert said(again) == (401, "invalid_mfa_code")
    session = await Session.objects.aget(pk=pair["session_id"])
    assert session.amr == "pwd otp mfa rec"
    assert session.authenticated_at.timestamp() == clock.unix()
    await sync_to_async(audit.wait_until_written)()
    trail = AuditEvent.objects.filter(event="step_up").order_by("outcome")
    me = uuid.UUID(member["id"])
    outcomes = [event.outcome async for event in trail if (event.actor_id, event.user_id) == (me, me)]
    assert outcomes == ["failure"] * 3 + ["success"] * 2


async def test_a_wrong_password_proves_nothing(api: httpx.AsyncClient, pair: Pair) -> None:
    """The session stays as old as it is."""
    await age(pair, 601)
    wrong = await api.post(STEP_UP, json={"password": "wrong"}, headers=bearer(pair))
    assert said(wrong) == (401, "invalid_credentials")
    assert said(await api.post(TOTP, headers=bearer(pair))) == STEP_UP_REQUIRED
    assert (await api.post(STEP_UP, json={"password": PASSWORD})).status_code == 401  # and nobody is there


async def test_password_and_account_of_who_has_a_factor(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """They ask for the password anyway; that is enough only for who has no second factor."""
    body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    await age(pair, 601)
    changed = await api.post(PASSWORD_URL, json=body, headers=bearer(pair))
    assert changed.status_code == 200
    pair = changed.json()
    back = {"current_password": NEW_PASSWORD, "new_password": PASSWORD}
    assert (await api.post(STEP_UP, json={"password": NEW_PASSWORD}, headers=bearer(pair))).status_code == 204
    app, _ = await enrol(api, pair)
    await age(pair, 601)
    delete = {"password": NEW_PASSWORD}
    assert said(await api.post(PASSWORD_URL, json=back, headers=bearer(pair))) == STEP_UP_REQUIRED
    assert said(await api.request("DELETE", ME, json=delete, headers=bearer(pair))) == STEP_UP_REQUIRED
    await age(pair, 600)
    assert (await api.post(PASSWORD_URL, json=back, headers=bearer(pair))).status_code == 200
    fresh = await sign_in_fully(api, member, app.code())
    assert (await api.request("DELETE", ME, json={"password": PASSWORD}, headers=bearer(fresh))).status_code == 204


async def test_staff_give_no_address_from_an_old_session(stage: Stage) -> None:
    """Not to themselves either: anybody who gets the messages sets the password. The address before hears of it."""

    async def change(user_id: object, **body: str) -> httpx.Response:
        return await stage.api.patch(f"/api/v1/users/{user_id}", json=body, headers=bearer(stage.root_pair))

    for user_id in (stage.member, stage.root):
        await age(stage.root_pair, 601)
        before = (await User.objects.aget(pk=user_id)).email
        address = f"new-{user_id}@example.com"
        assert said(await change(user_id, email=address)) == STEP_UP_REQUIRED
        assert (await change(user_id, name="New")).status_code == 200
        await age(stage.root_pair, 600)
        assert (await change(user_id, email=address)).status_code == 200
        assert await OutgoingMail.objects.filter(kind="email_changed", recipient=before).acount() == 1


async def test_nobody_becomes_staff_from_an_old_session(stage: Stage) -> None:
    """Anybody who holds a stolen session would have one that lasts. What else is changed or made needs no proof."""
    new = {"email": "new@example.com", "password": PASSWORD}
    path = f"/api/v1/users/{stage.member}"
    for right in ("is_staff", "is_superuser"):
        await age(stage.root_pair, 601)
        for method, where, body in (("PATCH", path, {right: True}), ("POST", "/api/v1/users", {**new, right: True})):
            refused = await stage.api.request(method, where, json=body, headers=bearer(stage.root_pair))
            assert said(refused) == STEP_UP_REQUIRED
    await stage.send("POST", "/api/v1/users", 201, new, stage.root_pair)
    await stage.send("PATCH", path, 200, {"name": "Renamed"}, stage.root_pair)
    assert not await User.objects.filter(is_staff=True).exclude(pk=stage.root).aexists()
    await age(stage.root_pair, 600)
    await stage.send("PATCH", path, 200, {"is_staff": True}, stage.root_pair)
    other = {**new, "email": "other@example.com", "is_staff": True}
    await stage.send("POST", "/api/v1/users", 201, other, stage.root_pair)


async def test_nobody_is_shut_out_or_let_in_from_an_old_session(stage: Stage) -> None:
    """As in the admin: at 601 seconds staff neither deactivate nor activate anybody, at 600 they do."""
    path = f"/api/v1/users/{stage.member}"
    for active in (False, True):
        await age(stage.root_pair, 601)
        refused = await stage.api.patch(path, json={"is_active": active}, headers=bearer(stage.root_pair))
        assert said(refused) == STEP_UP_REQUIRED
        assert (await User.objects.aget(pk=stage.member)).is_active is not active
        await age(stage.root_pair, 600)
        await stage.send("PATCH", path, 200, {"is_active": active}, stage.root_pair)


async def test_roles_and_deletions_need_a_proof(stage: Stage) -> None:
    """At 601 seconds staff give and take no role, make none and delete nobody, by whichever way; at 600 they do."""
    role, user = {"name": "editors", "permissions": ["accounts.view_user"]}, f"/api/v1/users/{stage.member}"
    new = {"email": "new@example.com", "roles": ["editors"]}
    acts: list[tuple[str, str, Any, int]] = [
        ("POST", "/api/v1/roles", role, 201),
        ("PUT", f"{user}/roles/editors", None, 204),
        ("DELETE", f"{user}/roles/editors", None, 204),
        ("PATCH", user, {"roles": ["editors"]}, 200),
        ("POST", "/api/v1/users", new, 201),
        ("DELETE", user, None, 204),
    ]
    for method, path, body, status in acts:
        await age(stage.root_pair, 601)
        refused = await stage.api.request(method, path, json=body, headers=bearer(stage.root_pair))
        assert said(refused) == STEP_UP_REQUIRED, (method, path)
        assert 'max_age="600"' in refused.headers["www-authenticate"]
        await age(stage.root_pair, 600)
        await stage.send(method, path, status, body, stage.root_pair)
    assert not await User.objects.filter(pk=stage.member).aexists()


async def test_missing_rights_go_before_the_proof(stage: Stage) -> None:
    """Who may not do it at all is told so, and not asked for anything."""
    await age(stage.pair, 601)
    user = f"/api/v1/users/{stage.root}"
    for method, path, body in (
        ("POST", "/api/v1/roles", {"name": "editors"}),
        ("PUT", f"{user}/roles/editors", None),
        ("DELETE", user, None),
    ):
        await stage.send(method, path, 403, body, stage.pair)


def insert_as_before(session_id: str) -> uuid.UUID:
    """Copy a session as the release before writes one, which knows nothing of proofs; return its id."""
    known = [f.column for f in Session._meta.concrete_fields if f.name not in ("id", "authenticated_at", "amr")]
    columns = ", ".join(filter(None, known))
    new, old = (Session._meta.pk.get_db_prep_value(one, connection) for one in (uuid.uuid4(), uuid.UUID(session_id)))
    with connection.cursor() as cursor:
        statement = f"INSERT INTO tokens_session (id, {columns}) SELECT %s, {columns} FROM tokens_session WHERE id = %s"  # noqa: S608 - the model's names
        cursor.execute(statement, [new, old])
    return uuid.UUID(str(new))


async def test_sessions_of_before_count_as_long_ago(api: httpx.AsyncClient, pair: Pair) -> None:
    """A row that says nothing of its proof works, and steps up: the database's own default is 1970."""
    session = await Session.objects.aget(pk=await sync_to_async(insert_as_before)(pair["session_id"]))
    assert (session.authenticated_at, session.amr) == (datetime(1970, 1, 1, tzinfo=UTC), "pwd")
    await age(pair, int(clock.unix()))
    assert said(await api.post(TOTP, headers=bearer(pair))) == STEP_UP_REQUIRED
    assert (await api.get(ME, headers=bearer(pair))).status_code == 200


async def test_a_session_that_ends_meanwhile_is_not_proved(pair: Pair) -> None:
    """Whose session is thrown out while they prove who they are is told that it is over, and the trail has no proof."""
    ended = await Session.objects.aget(pk=pair["session_id"])
    await database().write(sessions.end_session, session_id=ended.pk, reason=Session.RevokeReason.ENDED_BY_USER)
    with pytest.raises(NotAuthenticated):
        await database().write(sign_in_units.step_up, session_id=ended.pk, user_id=ended.user_id, amr="pwd")
    assert not await AuditEvent.objects.filter(event="step_up").aexists()
