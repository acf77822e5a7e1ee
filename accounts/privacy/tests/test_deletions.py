"""An account its owner deletes: nothing works at once, all can be taken back for some days, then nothing is left."""

import asyncio
import re
import uuid
from datetime import timedelta

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.core import mail
from django.db import transaction
from django.db.models import ProtectedError
from pytest_django import Settings
from structlog.testing import capture_logs

from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD, MakeUser, SignIn
from accounts.email.tests.test_email_flows import delivered, sign_in_status
from accounts.outbox import queue as outbox
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.privacy import queries as deletion_queries
from accounts.privacy import units as deletions
from accounts.privacy.models import PendingDeletion
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.second_clicks import WITHIN_S

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

ACCESS = "/api/v1/access"
ME, RESTORE, PAGE = f"{ACCESS}/me", f"{ACCESS}/me/restore", "/account/restore"
DAY = 86_400
EMAIL = "Mia@Example.com"


@pytest.fixture
def user(make_user: MakeUser) -> User:
    """Make one person."""
    return make_user(email=EMAIL, name="Mia")


async def deleted(api: httpx.AsyncClient, user: User, headers: dict[str, str]) -> str:
    """Delete the account and return the token of the message; empty when there is none."""
    answer = await api.request("DELETE", ME, json={"password": PASSWORD}, headers=headers)
    assert (answer.status_code, answer.content) == (204, b"")
    sent = await delivered()
    assert [(recipient, subject) for recipient, subject, _ in sent] == (
        [(EMAIL, "Your account is being deleted")] if sent else []
    )
    return sent[0][2] or "" if sent else ""


async def restored(api: httpx.AsyncClient, token: str) -> tuple[int, str]:
    """Take the deletion back; return the status and the code."""
    answer = await api.post(RESTORE, json={"token": token})
    return answer.status_code, answer.json()["code"] if answer.content else ""


def purged(most: int) -> int:
    """Delete what is due, at most so many; return how many that were."""
    return deletions.purge_due(most).gone


async def events(user: User) -> list[tuple[str, uuid.UUID | None, dict[str, object]]]:
    """Return what the trail says of the account's end: event, who did it, details."""
    rows = AuditEvent.objects.filter(user_id=user.pk, event__startswith="account_").order_by("id")
    return [(row.event, row.actor_id, row.details) async for row in rows]


async def test_nothing_works_from_the_moment_of_deletion(api: httpx.AsyncClient, user: User, sign_in: SignIn) -> None:
    """Access token, refresh token, sign-in and what was mailed before; a sign-in reads as for an unknown address."""
    signed_in = await api.post(f"{ACCESS}/signin", json={"email": EMAIL, "password": PASSWORD})
    headers = await sign_in(user)
    await api.post(f"{ACCESS}/password/reset", json={"email": EMAIL})
    ((_, _, reset),) = await delivered()
    await deleted(api, user, headers)
    assert (await api.get(ME, headers=headers)).status_code == 401
    refresh = {"refresh_token": signed_in.json()["refresh_token"]}
    assert (await api.post(f"{ACCESS}/refresh", json=refresh)).status_code == 401
    answers = []
    for email in (EMAIL, "nobody@example.com", f"{user.pk}@deleted.invalid"):
        answer = await api.post(f"{ACCESS}/signin", json={"email": email, "password": PASSWORD})
        problem = answer.json()
        del problem["request_id"]
        answers.append((answer.status_code, problem))
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == 401
    body = {"token": reset, "new_password": "another otter rides 7 trams"}
    assert (await api.post(f"{ACCESS}/password/reset/confirm", json=body)).status_code == 400
    for email in (EMAIL, f"{user.pk}@deleted.invalid"):
        await api.post(f"{ACCESS}/password/reset", json={"email": email})
    assert await delivered() == []
    assert await events(user) == [("account_deleted", user.pk, {"grace_days": 7})]


async def test_the_address_is_free_for_somebody_else(api: httpx.AsyncClient, user: User, sign_in: SignIn) -> None:
    """Anybody who signs up with it in the days of grace is a new person with an id of their own (security-bar 49)."""
    await deleted(api, user, await sign_in(user))
    body = {"email": EMAIL.lower(), "password": PASSWORD}
    answer = await api.post(f"{ACCESS}/signup", json=body)
    assert answer.status_code == 201
    assert answer.json()["id"] != str(user.pk)
    assert await sign_in_status(api, EMAIL, PASSWORD) == 200


@pytest.mark.parametrize("verified", [False, True])
async def test_the_owner_takes_it_back_once(
    api: httpx.AsyncClient, user: User, sign_in: SignIn, verified: bool
) -> None:
    """Address, password, roles and whether the address is proved are as before; what was signed in stays signed out."""
    await User.objects.filter(pk=user.pk).aupdate(email_verified_at=clock.now() if verified else None)
    role = await Group.objects.acreate(name="editors")
    await user.groups.aadd(role)
    headers = await sign_in(user)
    token = await deleted(api, user, headers)
    assert await restored(api, token) == (204, "")
    assert await restored(api, token) == (400, "invalid_token")
    assert (await api.get(ME, headers=headers)).status_code == 401
    me = (await api.get(ME, headers=await sign_in(user))).json()
    assert (me["id"], me["email"], me["name"], me["roles"]) == (str(user.pk), EMAIL, "Mia", ["editors"])
    assert (me["is_active"], me["email_verified"]) == (True, verified)
    assert not await PendingDeletion.objects.aexists()
    assert await events(user) == [
        ("account_deleted", user.pk, {"grace_days": 7}),
        ("account_restored", user.pk, {}),
    ]


async def test_a_link_changes_nothing_before_the_click(api: httpx.AsyncClient, user: User, sign_in: SignIn) -> None:
    """GET and HEAD show a strict page; the click restores, once."""
    token = await deleted(api, user, await sign_in(user))
    assert f"http://localhost:8000{PAGE}?token={token}" in str(mail.outbox[0].body)
    assert re.search(r"On \d{1,2} \w+ \d{4}, \d\d:\d\d UTC it is deleted for good", str(mail.outbox[0].body))
    for method in ("GET", "HEAD", "GET"):
        shown = await api.request(method, PAGE, params={"token": token})
        assert shown.status_code == 200
    assert shown.headers["referrer-policy"] == "no-referrer"
    assert f'value="{token}"' in shown.text
    assert await sign_in_status(api, EMAIL, PASSWORD) == 401
    done = await api.post(PAGE, data={"token": token})
    assert done.status_code == 200
    assert "Welcome back" in done.text
    assert '<a class="button" href="/account/signin">Sign in</a>' in done.text
    assert await sign_in_status(api, EMAIL, PASSWORD) == 200
    with clock.shifted(WITHIN_S):  # until then a second click leads where the first one led
        assert (await api.post(PAGE, data={"token": token})).status_code == 400


async def test_an_address_taken_meanwhile_stays_with_who_has_it(
    api: httpx.AsyncClient, user: User, sign_in: SignIn, make_user: MakeUser
) -> None:
    """409 with the reason, on the page too; once the address is free again the same token restores."""
    token = await deleted(api, user, await sign_in(user))
    other = await sync_to_async(make_user)(email=EMAIL.upper())
    assert await restored(api, token) == (409, "email_taken")
    page = await api.post(PAGE, data={"token": token})
    assert page.status_code == 409
    assert "Another account has your e-mail address by now" in page.text
    assert (await User.objects.aget(pk=other.pk)).is_active
    await other.adelete()
    assert await restored(api, token) == (204, "")


@pytest.mark.parametrize(("after_s", "works"), [(7 * DAY - 1, True), (7 * DAY + 1, False)])
async def test_it_can_be_taken_back_until_it_is_due(
    after_s: int, works: bool, api: httpx.AsyncClient, user: User, sign_in: SignIn
) -> None:
    """One second before the end the token restores and the purge finds nothing; one second after, the other way."""
    token = await deleted(api, user, await sign_in(user))
    with clock.shifted(after_s):
        gone = await sync_to_async(purged)(10) if works else 0
        assert await restored(api, token) == ((204, "") if works else (400, "invalid_token"))
        gone += await sync_to_async(purged)(10)
    assert gone == (0 if works else 1)
    assert await User.objects.filter(pk=user.pk).aexists() == works
    assert (await events(user))[1:] == (
        [("account_restored", user.pk, {})] if works else [("account_purged", None, {})]
    )


async def test_a_late_message_promises_no_more_time(api: httpx.AsyncClient, user: User, sign_in: SignIn) -> None:
    """The token ends when the account does, however late its message is sent."""
    headers = await sign_in(user)
    await api.request("DELETE", ME, json={"password": PASSWORD}, headers=headers)
    due_at = (await PendingDeletion.objects.aget()).due_at
    message = await OutgoingMail.objects.aget(kind="account_deletion")
    with clock.shifted(3_600):
        claimed = await sync_to_async(transaction.atomic(outbox.claim))(message.pk)
    assert claimed is not None
    assert (await EmailToken.objects.aget(purpose="restore_account")).expires_at == due_at
    assert due_at - message.created_at >= timedelta(days=7) - timedelta(seconds=1)


async def test_without_grace_it_is_gone_at_once(
    api: httpx.AsyncClient, user: User, sign_in: SignIn, settings: Settings
) -> None:
    """0 days: no row, no message, and the event says how long there was."""
    settings.IRONAUTH_DELETION_GRACE_DAYS = 0
    assert await deleted(api, user, await sign_in(user)) == ""
    assert not await User.objects.filter(pk=user.pk).aexists()
    assert await events(user) == [("account_deleted", user.pk, {"grace_days": 0})]


async def test_the_last_superuser_stays(api: httpx.AsyncClient, make_user: MakeUser, sign_in: SignIn) -> None:
    """409, and nothing has changed; another one makes it possible."""
    root = await sync_to_async(make_user)(email=EMAIL, is_superuser=True)
    headers = await sign_in(root)
    answer = await api.request("DELETE", ME, json={"password": PASSWORD}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (409, "last_superuser")
    assert (await api.get(ME, headers=headers)).status_code == 200
    await sync_to_async(make_user)(is_superuser=True)
    assert await deleted(api, root, headers)


async def test_a_wrong_password_deletes_nothing(api: httpx.AsyncClient, user: User, sign_in: SignIn) -> None:
    """A stolen session alone cannot end an account."""
    headers = await sign_in(user)
    answer = await api.request("DELETE", ME, json={"password": "wrong horse battery 7"}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_credentials")
    assert (await api.get(ME, headers=headers)).status_code == 200


async def test_nobody_can_have_a_stand_in(api: httpx.AsyncClient, user: User, sign_in: SignIn) -> None:
    """Else a stranger could keep an account from being deleted, or ask for messages to one that is."""
    for email in (f"{user.pk}@deleted.invalid", "me@DELETED.invalid"):
        answer = await api.post(f"{ACCESS}/signup", json={"email": email, "password": PASSWORD})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "email")
        body = {"new_email": email, "password": PASSWORD}
        assert (await api.post(f"{ACCESS}/email", json=body, headers=await sign_in(user))).status_code == 400


async def test_staff_cannot_change_it_and_may_delete_it_at_once(
    api: httpx.AsyncClient, user: User, sign_in: SignIn, make_user: MakeUser
) -> None:
    """Let in under its stand-in the account would have no owner; deleted by staff it is gone, whatever was waiting."""
    root = await sign_in(await sync_to_async(make_user)(is_superuser=True, is_staff=True))
    token = await deleted(api, user, await sign_in(user))
    path = f"/api/v1/users/{user.pk}"
    for changes in ({"is_active": True}, {"email": "other@example.com"}, {"name": "Mio"}):
        answer = await api.patch(path, json=changes, headers=root)
        assert (answer.status_code, answer.json()["code"]) == (409, "deletion_pending"), changes
    answer = await api.delete(f"{path}/mfa", headers=root)
    assert (answer.status_code, answer.json()["code"]) == (409, "deletion_pending")
    assert (await api.get(path, headers=root)).json()["is_active"] is False
    assert (await api.delete(path, headers=root)).status_code == 204
    assert not await PendingDeletion.objects.aexists()
    assert await restored(api, token) == (400, "invalid_token")


async def test_staff_find_who_is_being_deleted(
    api: httpx.AsyncClient, user: User, sign_in: SignIn, make_user: MakeUser
) -> None:
    """By the address of before and the name, where that is asked for; other lists are as ever."""
    make = sync_to_async(make_user)
    root = await sign_in(await make(email="root@example.com", is_superuser=True))
    await make(email="bo@example.com", name="Mia too")
    await make(email="off@example.com", is_active=False)
    await deleted(api, user, await sign_in(user))

    async def found(query: str) -> set[str]:
        answer = await api.get(f"/api/v1/users?{query}", headers=root)
        assert answer.status_code == 200, answer.text
        return {row["email"] for row in answer.json()["results"]}

    stand_in, others = f"{user.pk}@deleted.invalid", {"root@example.com", "bo@example.com", "off@example.com"}
    assert await found("being_deleted=true") == await found("being_deleted=true&search=MIA@exam mia") == {stand_in}
    assert await found("being_deleted=true&search=bo") == await found("being_deleted=true&is_active=true") == set()
    assert await found("being_deleted=false") == others
    assert await found("being_deleted=false&search=mia") == {"bo@example.com"}
    assert await found("") == await found("being_deleted=") == others | {stand_in}
    assert await found("search=mia@example.com") == set()
    assert (await api.get("/api/v1/users?being_deleted=maybe", headers=root)).status_code == 400


def test_the_purge_takes_what_is_due_and_no_more_than_it_is_told(make_user: MakeUser) -> None:
    """Those due first go first; one that is active after all, by whatever hand, is never purged."""
    people = [make_user() for _ in range(5)]
    for days, person in enumerate(people):
        with clock.shifted(days * DAY), transaction.atomic():
            deletions.request(user_id=person.pk, old=person.password, session_id=None)
    User.objects.filter(pk=people[1].pk).update(is_active=True)
    left = [set(User.objects.values_list("pk", flat=True))]
    with clock.shifted(10 * DAY + 60):
        for number in (2, 1, 0):
            assert purged(2) == number
            left.append(set(User.objects.values_list("pk", flat=True)))
    assert left[0] - left[1] == {people[0].pk, people[2].pk}
    assert left[1] - left[2] == {people[3].pk}
    assert left[3] == {people[1].pk, people[4].pk}


def test_an_account_that_is_kept_holds_up_nobody(make_user: MakeUser, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person whose rows an application protects stays, is logged and tried the next day; all others go at once."""
    people = [make_user() for _ in range(4)]
    for person in people:
        with transaction.atomic():
            deletions.request(user_id=person.pk, old=person.password, session_id=None)
    protected, delete = {person.pk for person in people[:2]}, deletion_queries.delete

    def refuse_some(user: User) -> None:
        if user.pk in protected:
            raise ProtectedError("An invoice is about this person.", set())
        delete(user)

    monkeypatch.setattr(deletion_queries, "delete", refuse_some)
    with clock.shifted(8 * DAY), capture_logs() as logs:
        assert [purged(3), purged(3), purged(3)] == [1, 1, 0]
    assert [(line["event"], line["cause"]) for line in logs] == [("account_not_purged", "ProtectedError")] * 2
    assert set(User.objects.values_list("pk", flat=True)) == protected
    assert AuditEvent.objects.filter(event="account_purged").count() == 2
    protected.clear()
    with clock.shifted(9 * DAY - 60):
        assert purged(3) == 0
    with clock.shifted(9 * DAY + 60):
        assert purged(3) == 2


def test_an_account_in_use_again_is_not_purged(make_user: MakeUser) -> None:
    """A form that staff had open meanwhile brings the account back whole: deactivated later, it stays; deleted, not."""
    user = make_user(email=EMAIL)
    with transaction.atomic():
        deletions.request(user_id=user.pk, old=user.password, session_id=None)
    user.save()  # as it was read before
    User.objects.filter(pk=user.pk).update(is_active=False)
    with clock.shifted(8 * DAY):
        assert purged(3) == 0
        assert User.objects.get(pk=user.pk).email == EMAIL
        User.objects.filter(pk=user.pk).update(is_active=True)
        with transaction.atomic():
            deletions.request(user_id=user.pk, old=user.password, session_id=None)
        assert purged(3) == 0
    with clock.shifted(16 * DAY):
        assert purged(3) == 1


def test_accounts_brought_back_hold_up_nobody(make_user: MakeUser) -> None:
    """What is left of a deletion that is none any more goes, and is not looked at first forever."""
    back, gone = [[make_user() for _ in range(2)] for _ in range(2)]
    for user in (*back, *gone):
        with transaction.atomic():
            deletions.request(user_id=user.pk, old=user.password, session_id=None)
    for user in back:
        user.save()  # as a form of staff had it
        User.objects.filter(pk=user.pk).update(is_active=False)
    with clock.shifted(8 * DAY):
        assert [deletions.purge_due(2) for _ in range(3)] == [(0, 0, 2), (2, 0, 0), (0, 0, 0)]
    assert not PendingDeletion.objects.exists()
    assert {user.pk for user in User.objects.all()} == {user.pk for user in back}


async def test_a_mailbox_is_not_filled_by_leaving(
    api: httpx.AsyncClient, throttled: None, signing_key: str, settings: Settings
) -> None:
    """Signing up and leaving again and again under one address is stopped; other messages do not count here."""
    settings.IRONAUTH_THROTTLE_MAILS_TO_ONE = 2
    body = {"email": EMAIL, "password": PASSWORD}
    for _ in range(3):  # the third is refused
        await api.post(f"{ACCESS}/password/reset", json={"email": EMAIL})
    statuses = []
    for _ in range(3):
        assert (await api.post(f"{ACCESS}/signup", json=body)).status_code == 201
        headers = {"Authorization": f"Bearer {(await api.post(f'{ACCESS}/signin', json=body)).json()['access_token']}"}
        statuses.append((await api.request("DELETE", ME, json={"password": PASSWORD}, headers=headers)).status_code)
    assert statuses == [204, 204, 429]
    assert len(await delivered()) == 2


async def test_of_parallel_clicks_one_restores(api: httpx.AsyncClient, user: User, sign_in: SignIn) -> None:
    """Five at once: one is answered 204, and the account is whole."""
    token = await deleted(api, user, await sign_in(user))
    answers = await asyncio.gather(*(restored(api, token) for _ in range(5)))
    assert sorted(status for status, _ in answers) == [204, 400, 400, 400, 400]
    assert await sign_in_status(api, EMAIL, PASSWORD) == 200
    assert [event for event, _, _ in await events(user)] == ["account_deleted", "account_restored"]
