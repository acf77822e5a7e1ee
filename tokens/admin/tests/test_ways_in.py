"""Staff who take ways in away, one or all: nobody is left without one unseen, and what began with it ends."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.test import Client

from accounts.admin.tests.second_step import signed_in
from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD
from accounts.federation.models import Identity
from accounts.federation.tests.test_last_way_in import identity_of, passkey_of, take_password
from accounts.mfa.passkeys.models import Passkey
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.users.models import User
from conftest import bearer
from ironauth.infrastructure.core import clock
from tokens.sessions.models import Session
from tokens.tests.browser import SIGNIN

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

USERS = "/admin/accounts/user/"
CONFIRM = "/admin/confirm/"


@pytest.fixture
def person(db: None) -> User:
    """Whose address is proved, and who has a password until a test takes it."""
    return User.objects.create_user(email="person@example.com", password=PASSWORD, email_verified_at=clock.now())


@pytest.fixture
def helper(db: None) -> User:
    """A member of staff who may take factors away, and has an app."""
    user = User.objects.create_user(email="helper@example.com", password=PASSWORD, is_staff=True)
    user.user_permissions.add(
        *Permission.objects.filter(codename__in=("reset_mfa", "view_user", "change_user", "view_auditevent"))
    )
    return user


@pytest.fixture
def browser(helper: User) -> Client:
    """The helper's, signed in to the admin by password and app."""
    return signed_in(helper)


def page_of(user: User) -> str:
    return f"{USERS}{user.pk}/ways-in/"


def take(browser: Client, user: User, kind: str, way: Any) -> Any:
    """Press the button."""
    return browser.post(page_of(user), {"kind": kind, "way": str(way)})


def opened(user: User, amr: str, **more: Any) -> Session:
    """Open a session that began like that."""
    end = clock.now() + timedelta(days=1)
    return Session.objects.create(
        user=user, epoch=user.session_epoch, amr=amr, master_key_id="1", idle_expires_at=end, absolute_expires_at=end,
        **more,
    )  # fmt: skip


def live() -> set[Any]:
    return set(Session.objects.filter(revoked_at=None).values_list("pk", flat=True))


def mails(user: User) -> list[str]:
    return sorted(OutgoingMail.objects.filter(user=user).values_list("kind", flat=True))


# ---------------------------------------------------------------- one of them
def test_a_single_passkey(browser: Client, helper: User, person: User) -> None:
    """It goes and the other stays; the sessions in which one was used end; both trails have it, and the admin's log."""
    lost, other = passkey_of(person), passkey_of(person)
    ends = [opened(person, "pop user mfa"), opened(person, "pwd pop mfa")]
    before = opened(person, "pop user mfa", authenticated_at=lost.created_at - timedelta(seconds=5))
    stays = [opened(person, "pwd"), opened(person, "popular"), opened(person, "fed"), before]
    assert "Ways in…" in browser.get(f"{USERS}{person.pk}/change/").content.decode()
    assert browser.get(page_of(person)).content.decode().count('value="Remove"') == 2
    assert take(browser, person, "passkey", lost.pk).status_code == 302
    assert Passkey.objects.get() == other
    assert live() == {one.pk for one in stays}
    assert {one.revoke_reason for one in Session.objects.filter(pk__in=[one.pk for one in ends])} == {"ended_by_staff"}
    event = AuditEvent.objects.get(event="passkey_removed")
    assert (event.actor_id, event.user_id, event.details) == (helper.pk, person.pk, {"passkey": str(lost.pk)})
    told = AuditEvent.objects.filter(event="session_ended", actor_id=helper.pk, user_id=person.pk)
    assert {one.details["reason"] for one in told} == {"passkey_removed"}
    assert told.count() == len(ends)
    assert "Passkey" in LogEntry.objects.get(object_id=str(person.pk)).change_message
    assert mails(person) == ["passkey_removed"]
    for user in (helper, person):
        assert "Passkey removed" in browser.get(f"{USERS}{user.pk}/change/").content.decode()


def test_a_single_identity(browser: Client, helper: User, person: User) -> None:
    """It goes and the other stays, and what began with a provider ends: which one it was is not known."""
    lost, other = identity_of(person), identity_of(person, slug="other")
    began, stays = opened(person, "fed"), opened(person, "pwd")
    assert take(browser, person, "identity", lost.pk).status_code == 302
    assert Identity.objects.get() == other
    assert live() == {stays.pk}
    assert Session.objects.get(pk=began.pk).revoke_reason == "ended_by_staff"
    event = AuditEvent.objects.get(event="identity_unlinked")
    assert (event.actor_id, event.user_id, event.details) == (helper.pk, person.pk, {"provider": "acme"})
    assert mails(person) == ["identity_unlinked"]


@pytest.mark.parametrize("kind", ["passkey", "identity"])
def test_the_last_one_goes_with_a_link(browser: Client, person: User, kind: str) -> None:
    """Who has no other way in gets the link by which they choose a password; the page and the trail say so."""
    way = passkey_of(person) if kind == "passkey" else identity_of(person)
    take_password(person)
    answer = browser.post(page_of(person), {"kind": kind, "way": str(way.pk)}, follow=True)
    assert "sent a link to choose a password" in answer.content.decode()
    assert "way_in_removed" in mails(person)
    assert EmailToken.objects.filter(user=person, purpose="reset_password").exists()
    event = AuditEvent.objects.get(event__in=("passkey_removed", "identity_unlinked"))
    assert event.details["was_last"] is True


@pytest.mark.parametrize("kind", ["passkey", "identity"])
@pytest.mark.parametrize("change", [{"email_verified_at": None}, {"is_active": False}])
def test_the_last_one_stays_where_no_message_helps(
    browser: Client, person: User, kind: str, change: dict[str, Any]
) -> None:
    """With an address that nobody has proved, or a closed account: nothing goes, no session ends, nothing is mailed."""
    way = passkey_of(person) if kind == "passkey" else identity_of(person)
    take_password(person)
    User.objects.filter(pk=person.pk).update(**change)
    person.refresh_from_db()
    session = opened(person, "pop user mfa fed")
    answer = take(browser, person, kind, way.pk)
    assert answer.status_code == 409
    assert "last way to sign in" in answer.content.decode()
    assert Passkey.objects.count() + Identity.objects.count() == 1
    assert live() == {session.pk}
    assert mails(person) == []
    assert not AuditEvent.objects.filter(event__in=("passkey_removed", "identity_unlinked", "session_ended")).exists()


@pytest.mark.parametrize("is_staff", [True, False])
def test_of_staff_every_session_ends(browser: Client, person: User, is_staff: bool) -> None:
    """Those of the admin do not say by which factor they began; of others the rest stays."""
    User.objects.filter(pk=person.pk).update(is_staff=is_staff)
    theirs = Client()
    theirs.force_login(User.objects.get(pk=person.pk))
    session = opened(person, "pwd")
    assert take(browser, person, "passkey", passkey_of(person).pk).status_code == 302
    person.refresh_from_db()
    assert person.session_epoch == (1 if is_staff else 0)
    assert Session.objects.live(clock.now()).filter(pk=session.pk).exists() is not is_staff
    if is_staff:
        assert theirs.get(USERS).status_code == 302


def test_it_needs_a_fresh_factor(browser: Client, person: User) -> None:
    """Eleven minutes after the second factor the page asks again, by GET and by POST, and nothing is done."""
    way = passkey_of(person)
    with clock.shifted(661):
        for answer in (browser.get(page_of(person)), take(browser, person, "passkey", way.pk)):
            assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (302, CONFIRM)
    assert Passkey.objects.exists()


def test_without_a_factor_of_ones_own(helper: User, person: User) -> None:
    """A password alone takes nothing away."""
    way, client = passkey_of(person), Client()
    client.force_login(helper)
    answer = take(client, person, "passkey", way.pk)
    assert answer.status_code == 403
    assert "no second factor" in answer.content.decode()
    assert 'value="Remove"' not in answer.content.decode()
    assert Passkey.objects.exists()


def test_who_may_not(browser: Client, helper: User, person: User) -> None:
    """Not from oneself, nor from who has rights one lacks, nor without the permission; others' ways are not found."""
    boss = User.objects.create_superuser("boss@example.com", PASSWORD)
    other = User.objects.create_user("other@example.com", PASSWORD)
    ways = {user: passkey_of(user) for user in (boss, helper, other, person)}
    for user in (boss, helper):
        assert take(browser, user, "passkey", ways[user].pk).status_code == 403
        assert "Ways in…" not in browser.get(f"{USERS}{user.pk}/change/").content.decode()
    assert take(browser, person, "passkey", ways[other].pk).status_code == 404
    assert take(browser, person, "identity", ways[person].pk).status_code == 404
    assert take(browser, person, "passkey", "nothing").status_code == 404
    helper.user_permissions.remove(Permission.objects.get(codename="reset_mfa"))
    assert take(browser, person, "passkey", ways[person].pk).status_code == 403
    assert browser.get(page_of(person)).status_code == 403
    assert Passkey.objects.count() == len(ways)


# ---------------------------------------------------------------- all factors
def remove_all(browser: Client, *people: User, sure: bool) -> str:
    """Choose people and *Remove second factors*; return the page."""
    form: dict[str, Any] = {"action": "reset_mfa", "_selected_action": [str(one.pk) for one in people]}
    return browser.post(USERS, {**form, **({"confirmed": "yes"} if sure else {})}, follow=True).content.decode()


def test_all_factors_of_several(browser: Client, person: User) -> None:
    """The question tells how many have no other way in; each of them gets a link, and who none reaches is spared."""
    others = [User.objects.create_user(f"p{n}@example.com", PASSWORD, email_verified_at=clock.now()) for n in range(3)]
    for one in (person, *others):
        passkey_of(one)
    for one in (person, *others[:2]):
        take_password(one)
    User.objects.filter(pk=others[1].pk).update(email_verified_at=None)
    asked = remove_all(browser, person, *others, sure=False)
    assert "2 of them have no other way to sign in" in asked
    assert "Left as they are: 1 user" in asked
    assert Passkey.objects.count() == 4
    remove_all(browser, person, *others, sure=True)
    assert Passkey.objects.get().user == others[1]
    assert mails(person) == mails(others[0]) == ["way_in_removed"]
    assert (mails(others[1]), mails(others[2])) == ([], ["mfa_reset"])


def test_all_factors_of_who_has_a_password(browser: Client, person: User) -> None:
    """Then the question says nothing of it."""
    passkey_of(person)
    assert "no other way to sign in" not in remove_all(browser, person, sure=False)


@pytest.mark.parametrize(("proved", "status"), [(True, 204), (False, 409)])
async def test_all_factors_by_api(api: httpx.AsyncClient, person: User, proved: bool, status: int) -> None:
    """With a link where the address is proved; else it is refused, and everything is as before."""
    root = await sync_to_async(User.objects.create_superuser)("root@example.com", PASSWORD)
    pair = (await api.post(SIGNIN, json={"email": root.email, "password": PASSWORD})).json()
    await sync_to_async(passkey_of)(person)
    await sync_to_async(take_password)(person)
    if not proved:
        await User.objects.filter(pk=person.pk).aupdate(email_verified_at=None)
    answer = await api.delete(f"/api/v1/users/{person.pk}/mfa", headers=bearer(pair))
    assert answer.status_code == status
    if not proved:
        assert answer.json()["code"] == "last_way_in"
    assert await Passkey.objects.aexists() is not proved
    assert await sync_to_async(mails)(person) == (["way_in_removed"] if proved else [])
    assert (await User.objects.aget(pk=person.pk)).session_epoch == (1 if proved else 0)


async def test_the_link_brings_them_back(api: httpx.AsyncClient, person: User) -> None:
    """The message's link sets a password, and that signs in."""
    root = await sync_to_async(User.objects.create_superuser)("root@example.com", PASSWORD)
    pair = (await api.post(SIGNIN, json={"email": root.email, "password": PASSWORD})).json()
    await sync_to_async(passkey_of)(person)
    await sync_to_async(take_password)(person)
    assert (await api.delete(f"/api/v1/users/{person.pk}/mfa", headers=bearer(pair))).status_code == 204
    token = email_tokens.text(await EmailToken.objects.aget(user=person, purpose="reset_password"))
    new = {"token": token, "new_password": "seven amber kites over Lyon"}
    answer = await api.post("/api/v1/access/password/reset/confirm", json=new)
    assert answer.status_code == 204, answer.text
    again = await api.post(SIGNIN, json={"email": person.email, "password": new["new_password"]})
    assert again.status_code == 200
