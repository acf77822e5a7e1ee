"""Invitations over HTTP: who makes them, what their link opens, and what does not open anything any more."""

import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, Permission
from django.core import mail
from django.db import transaction
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD, MakeUser, SignIn
from accounts.email.tests.test_email_flows import delivered, sign_in_status
from accounts.invitations import queries, units
from accounts.invitations.models import Invitation
from accounts.invitations.tests.conftest import INVITATIONS, INVITED, NEW_PASSWORD, PAGE, RIGHTS, SIGNUP, Call, invited
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.users.models import User
from ironauth.infrastructure.core import clock

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
DAY = 86_400


def said(answer: httpx.Response) -> tuple[int, str]:
    """Return status and code of a refusal."""
    return answer.status_code, answer.json()["code"]


async def post(api: httpx.AsyncClient, token: str, **fields: Any) -> httpx.Response:
    """Send the page's form."""
    return await api.post(PAGE, data={"token": token, "name": "Ida", "password": NEW_PASSWORD, **fields})


async def signed_up(api: httpx.AsyncClient, token: str, email: str = INVITED) -> httpx.Response:
    """Sign up by the API."""
    return await api.post(SIGNUP, json={"email": email, "password": NEW_PASSWORD, "invitation": token})


# ---------------------------------------------------------------- from the message to the account
@pytest.mark.parametrize("verification", ["off", "required"])
async def test_the_page_makes_the_account(
    api: httpx.AsyncClient, as_inviter: Call, settings: Settings, verification: str
) -> None:
    """Its address is the invitation's and proved, the person signs in at once, and the link opens nothing any more."""
    settings.IRONAUTH_EMAIL_VERIFICATION = verification
    token = await invited(as_inviter, name="Ida L")
    page = await api.get(PAGE, params={"token": token})
    assert page.status_code == 200
    assert f'value="{INVITED}" readonly' in page.text
    assert 'value="Ida L"' in page.text
    assert page.headers["referrer-policy"] == "no-referrer"
    done = await post(api, token, email="somebody-else@example.com")
    assert (done.status_code, "Your account is ready" in done.text) == (200, True)
    user = await User.objects.aget(email_key="ida@example.com")
    assert (user.email, user.name, user.email_verified_at is not None) == (INVITED, "Ida", True)
    assert await sign_in_status(api, INVITED, NEW_PASSWORD) == 200
    second = await post(api, token, email="somebody-else@example.com")
    assert (second.status_code, "Your account is ready" in second.text) == (200, True)
    for again in (await api.get(PAGE, params={"token": token}), await post(api, token)):
        assert (again.status_code, "was used before" in again.text) == (400, True)
    row = await Invitation.objects.aget()
    assert (row.user_id, row.token_id, row.accepted_at is not None) == (user.pk, None, True)
    assert await delivered() == []


async def test_the_api_makes_the_account(api: httpx.AsyncClient, as_inviter: Call) -> None:
    """With the invitation's token and its address: 201, and the address is proved, whatever else the setting says."""
    token = await invited(as_inviter)
    assert said(await api.post(SIGNUP, json={"email": INVITED, "password": NEW_PASSWORD})) == (403, "sign_up_closed")
    other = await signed_up(api, token, "other@example.com")
    assert (other.status_code, other.json()["errors"][0]["code"]) == (400, "not_invited")
    made = await signed_up(api, token, "ida@example.COM")
    assert (made.status_code, made.json()["email"], made.json()["email_verified"]) == (201, INVITED, True)
    assert said(await signed_up(api, token)) == (400, "invalid_invitation")
    assert said(await signed_up(api, "no token at all")) == (400, "invalid_invitation")


async def test_what_is_wrong_is_said_at_its_field(api: httpx.AsyncClient, as_inviter: Call) -> None:
    """The form comes again with what was typed but the password, and the link still works."""
    token = await invited(as_inviter)
    for password, reason in (("q3#x", "at least"), ("ida@example.com!!", "address")):
        answer = await post(api, token, password=password, name="Ida & Co")
        assert answer.status_code == 400
        assert 'id="password-problem"' in answer.text
        assert reason in answer.text
        assert 'value="Ida &amp; Co"' in answer.text
        assert f'value="{password}"' not in answer.text
    longest = await post(api, token, name="n" * 151)
    assert (longest.status_code, 'id="name-problem"' in longest.text) == (400, True)
    assert (await post(api, token)).status_code == 200


async def test_the_message_speaks_the_persons_language(api: httpx.AsyncClient, as_inviter: Call) -> None:
    """The invitation's language is that of the message, and of the person's account."""
    token = await invited(as_inviter, language="de")
    (message,) = mail.outbox
    assert "invitation?token=" in str(message.body)
    assert "7 Tage" in str(message.body)
    assert (await signed_up(api, token)).status_code == 201
    assert (await User.objects.aget(email_key="ida@example.com")).language == "de"


@pytest.mark.parametrize(
    ("chosen", "own", "language"),
    [("de", "", "de"), ("", "", "es"), ("de", "fr", "fr")],
    ids=["staff", "browser", "own"],
)
async def test_the_page_speaks_the_persons_language(
    api: httpx.AsyncClient, as_inviter: Call, chosen: str, own: str, language: str
) -> None:
    """The invitation's before the browser's, and one that the person has chosen themselves before it; refusals, too."""
    token = await invited(as_inviter, language=chosen)
    api.headers["Accept-Language"] = "es"
    if own:
        api.cookies.set("own_language", own)
    page = await api.get(PAGE, params={"token": token})
    short = await post(api, token, password="q3#x")
    done = await post(api, token)
    for answer, status in ((page, 200), (short, 400), (done, 200)):
        assert (answer.status_code, answer.headers["Content-Language"]) == (status, language)
        assert f'<html lang="{language}">' in answer.text
    assert "at least" not in short.text
    kept = [one for one in done.headers.get_list("set-cookie") if one.startswith("own_language=")]
    assert [one.partition(";")[0] for one in kept] == ([f"own_language={chosen}"] if chosen else [])


# ---------------------------------------------------------------- links that open nothing
@pytest.mark.parametrize("why", ["expired", "withdrawn", "tampered", "none", "verify", "sent again"])
async def test_a_link_that_is_of_no_use(
    api: httpx.AsyncClient, as_inviter: Call, make_user: MakeUser, settings: Settings, why: str
) -> None:
    """Page and API refuse it, the page already when it opens; no account is made."""
    token, shift = await invited(as_inviter), 0
    row = await Invitation.objects.aget()
    match why:
        case "expired":
            shift = settings.IRONAUTH_INVITATION_TTL * DAY + 1
        case "withdrawn":
            assert (await as_inviter("DELETE", f"{INVITATIONS}/{row.pk}")).status_code == 204
        case "tampered":
            token = token[:-1] + ("A" if token[-1] != "A" else "B")
        case "none":
            token = ""
        case "verify":  # a token of another kind
            await sync_to_async(make_user)(email="eve@example.com")
            await api.post("/api/v1/access/email/verify/resend", json={"email": "eve@example.com"})
            ((_, _, other),) = await delivered()
            token = other or ""
        case "sent again":
            staff = await User.objects.aget(email="staff@example.com")
            await sync_to_async(_sent_again)(staff.pk, row.pk)
    with clock.shifted(shift):
        answers = [await api.get(PAGE, params={"token": token}), await post(api, token)]
        refused = await signed_up(api, token) if token else None
    for answer in answers:
        assert (answer.status_code, "This invitation is invalid" in answer.text) == (400, True)
        assert '<a href="/account/signin">Sign in</a>' in answer.text
    assert refused is None or said(refused) == (400, "invalid_invitation")
    assert not await User.objects.filter(email_key="ida@example.com").aexists()


def _sent_again(actor_id: uuid.UUID, invitation_id: uuid.UUID) -> None:
    with transaction.atomic():
        units.send_again(actor_id=actor_id, invitation_id=invitation_id)


async def test_a_link_works_to_its_last_second(api: httpx.AsyncClient, as_inviter: Call, settings: Settings) -> None:
    """However late its message was sent: the days begin when the invitation is made."""
    settings.IRONAUTH_INVITATION_TTL = 2
    token = await invited(as_inviter)
    row = await Invitation.objects.aget()
    left = (row.expires_at - clock.now()).total_seconds()
    with clock.shifted(left + 1):
        assert (await api.get(PAGE, params={"token": token})).status_code == 400
    with clock.shifted(left - 30):
        assert (await signed_up(api, token)).status_code == 201


async def test_closed_is_closed(api: httpx.AsyncClient, as_inviter: Call, settings: Settings) -> None:
    """Nobody makes an account then, with a link neither, and nobody is invited; ``open`` takes invitations."""
    token = await invited(as_inviter)
    settings.IRONAUTH_SIGN_UP = "closed"
    assert (await api.get(PAGE, params={"token": token})).status_code == 403
    assert (await post(api, token)).status_code == 403
    assert said(await signed_up(api, token)) == (403, "sign_up_closed")
    assert said(await as_inviter("POST", email="b@example.com")) == (403, "sign_up_closed")
    settings.IRONAUTH_SIGN_UP = "open"
    assert (await post(api, token)).status_code == 200


@pytest.mark.parametrize("closed", [True, False])
async def test_an_address_that_has_an_account(
    api: httpx.AsyncClient, as_inviter: Call, make_user: MakeUser, closed: bool
) -> None:
    """Who invites is not told; who has the link is, and nothing is changed. So for a closed one that nobody proved."""
    proved_at = None if closed else clock.now()
    user = await sync_to_async(make_user)(email=INVITED, is_active=not closed, email_verified_at=proved_at)
    token = await invited(as_inviter)
    for answer in (await api.get(PAGE, params={"token": token}), await post(api, token)):
        assert (answer.status_code, "There is an account with your address already" in answer.text) == (409, True)
        assert 'href="/account/signin"' in answer.text
    assert said(await signed_up(api, token)) == (409, "email_taken")
    assert await sign_in_status(api, INVITED, PASSWORD) == (401 if closed else 200)
    await user.arefresh_from_db()
    assert (user.is_active, user.email_verified_at) == (not closed, proved_at)
    assert (await Invitation.objects.aget()).accepted_at is None


async def test_a_stranger_voids_no_invitation(
    api: httpx.AsyncClient, as_inviter: Call, make_user: MakeUser, sign_in: SignIn
) -> None:
    """Who has signed up with the address and not proved it is out: the link is the first proof, with its roles."""
    said_of_self = {
        "given_name": "Stran",
        "family_name": "Ger",
        "preferred_username": "admin",
        "zoneinfo": "Asia/Tokyo",
    }
    user = await sync_to_async(make_user)(email=INVITED, name="Stranger", language="fr", **said_of_self)
    stranger = await sign_in(user)
    await Group.objects.acreate(name="editors")
    token = await invited(as_inviter, roles=["editors"])
    assert (await api.get(PAGE, params={"token": token})).status_code == 200
    answer = await signed_up(api, token)
    assert (answer.status_code, answer.json()["id"], answer.json()["roles"]) == (201, str(user.pk), ["editors"])
    assert (await api.get("/api/v1/access/me", headers=stranger)).status_code == 401
    assert await sign_in_status(api, INVITED, PASSWORD) == 401
    assert await sign_in_status(api, INVITED, NEW_PASSWORD) == 200
    await user.arefresh_from_db()
    assert user.email_verified_at is not None
    assert {getattr(user, field) for field in (*said_of_self, "language")} == {""}
    assert user.name == answer.json()["name"] != "Stranger"
    event = await AuditEvent.objects.aget(event="invitation_accepted")
    assert event.details["first_proof"] is True
    assert said(await signed_up(api, token)) == (400, "invalid_invitation")


# ---------------------------------------------------------------- what staff may
@pytest.mark.parametrize("missing", RIGHTS)
async def test_each_act_has_its_right(
    api: httpx.AsyncClient, as_inviter: Call, make_user: MakeUser, sign_in: SignIn, missing: str
) -> None:
    """Seeing, making and withdrawing are three rights, and users' rights are none of them."""
    await invited(as_inviter)
    row = await Invitation.objects.aget()
    held = [right for right in RIGHTS if right != missing] + ["accounts.view_user", "accounts.add_user"]
    headers = await sign_in(await sync_to_async(make_user)(*held))
    asked = {
        "accounts.view_invitation": ("GET", INVITATIONS, None, 200),
        "accounts.add_invitation": ("POST", INVITATIONS, {"email": "b@example.com"}, 201),
        "accounts.delete_invitation": ("DELETE", f"{INVITATIONS}/{row.pk}", None, 204),
    }
    for right, (method, path, json, status) in asked.items():
        answer = await api.request(method, path, json=json, headers=headers)
        assert answer.status_code == (403 if right == missing else status), right


async def test_the_list(api: httpx.AsyncClient, as_inviter: Call) -> None:
    """It has every invitation, the newest first and page by page, and what came of each."""
    token = await invited(as_inviter)
    await signed_up(api, token)
    for name in ("b", "c"):
        assert (await as_inviter("POST", email=f"{name}@example.com")).status_code == 201
    withdrawn = await Invitation.objects.aget(email="b@example.com")
    assert (await as_inviter("DELETE", f"{INVITATIONS}/{withdrawn.pk}")).status_code == 204
    assert (await as_inviter("DELETE", f"{INVITATIONS}/{withdrawn.pk}")).status_code == 404
    page = (await as_inviter("GET", f"{INVITATIONS}?page_size=2")).json()
    rest = (await as_inviter("GET", page["next"])).json()
    found = [(one["email"], one["state"]) for one in (*page["results"], *rest["results"])]
    assert found == [("c@example.com", "waiting"), ("b@example.com", "withdrawn"), (INVITED, "accepted")]
    assert said(await as_inviter("GET", f"{INVITATIONS}?cursor=abc")) == (400, "invalid")


async def test_one_invitation_at_a_time(as_inviter: Call, settings: Settings) -> None:
    """A second to the same address is refused, in whatever case, until the first is withdrawn or has expired."""
    await invited(as_inviter)
    assert said(await as_inviter("POST", email="IDA@example.com")) == (409, "invitation_exists")
    first = await Invitation.objects.aget()
    assert (await as_inviter("DELETE", f"{INVITATIONS}/{first.pk}")).status_code == 204
    assert (await as_inviter("POST", email=INVITED)).status_code == 201
    await Invitation.objects.filter(withdrawn_at=None).aupdate(expires_at=clock.now())
    assert (await as_inviter("POST", email=INVITED)).status_code == 201
    assert await Invitation.objects.filter(withdrawn_at=None).acount() == 1


async def test_a_withdrawn_invitation_is_not_sent(as_inviter: Call) -> None:
    """A message that waits goes with its link."""
    made = (await as_inviter("POST", email=INVITED)).json()
    assert (await as_inviter("DELETE", f"{INVITATIONS}/{made['id']}")).status_code == 204
    assert await delivered() == []
    assert not await EmailToken.objects.aexists()
    assert not await OutgoingMail.objects.aexists()


@pytest.mark.parametrize("email", ["no address", "", "a" * 300 + "@example.com", None, 7])
async def test_an_address_that_is_none_is_refused(as_inviter: Call, email: Any) -> None:
    """By the rules of accounts."""
    assert said(await as_inviter("POST", email=email)) == (400, "invalid")


# ---------------------------------------------------------------- roles
@pytest.fixture
def roles(transactional_db: None, make_role: Callable[..., Group]) -> None:
    """One role that the inviter may give, and one that grants more than they hold."""
    make_role("readers")
    make_role("admins", "accounts.delete_user")


async def test_roles_come_with_the_account(api: httpx.AsyncClient, as_inviter: Call, roles: None) -> None:
    """Those that who invites could give; others are refused, and unknown ones named."""
    assert said(await as_inviter("POST", email=INVITED, roles=["admins"])) == (403, "permission_denied")
    unknown = await as_inviter("POST", email=INVITED, roles=["readers", "nobody"])
    assert (unknown.status_code, unknown.json()["errors"][0]["code"]) == (400, "unknown_role")
    token = await invited(as_inviter, roles=["readers"])
    assert (await signed_up(api, token)).json()["roles"] == ["readers"]


async def test_a_role_takes_the_right_to_give_it(
    api: httpx.AsyncClient, make_user: MakeUser, sign_in: SignIn, roles: None
) -> None:
    """Who may only invite gives no role, not even one that grants nothing here."""
    headers = await sign_in(await sync_to_async(make_user)(*RIGHTS))
    for given, status in ((["readers"], 403), ([], 201)):
        answer = await api.post(INVITATIONS, json={"email": INVITED, "roles": given}, headers=headers)
        assert answer.status_code == status


async def test_a_role_takes_a_recent_proof(api: httpx.AsyncClient, as_inviter: Call, roles: None) -> None:
    """As in every other way of giving it."""
    with clock.shifted(601):
        refreshed = await as_inviter("POST", email=INVITED, roles=["readers"])
        plain = await as_inviter("POST", email="b@example.com")
    assert said(refreshed)[0] == 401
    assert plain.status_code in (201, 401)


@pytest.mark.parametrize("why", ["rights taken", "deactivated", "deleted", "role grown", "role gone"])
async def test_rights_lost_meanwhile_are_not_passed_on(
    api: httpx.AsyncClient, as_inviter: Call, roles: None, make_role: Callable[..., Group], why: str
) -> None:
    """The account is made, without the role, and the trail says which was left out."""
    token = await invited(as_inviter, roles=["readers"])
    staff = await User.objects.aget(email="staff@example.com")
    match why:
        case "rights taken":
            await staff.user_permissions.aclear()
        case "deactivated":
            await User.objects.filter(pk=staff.pk).aupdate(is_active=False)
        case "deleted":
            await staff.adelete()
        case "role grown":
            await sync_to_async(_grow)("readers")
        case "role gone":
            await Group.objects.filter(name="readers").adelete()
    assert (await signed_up(api, token)).json()["roles"] == []
    event = await AuditEvent.objects.aget(event="invitation_accepted")
    assert (event.details["roles"], event.details["roles_left_out"]) == ([], ["readers"])


def _grow(name: str) -> None:
    Group.objects.get(name=name).permissions.add(Permission.objects.get(codename="delete_user"))


# ---------------------------------------------------------------- what is left of them
async def test_old_ones_go(api: httpx.AsyncClient, as_inviter: Call) -> None:
    """A month after their end, unless an account was made; that one goes with the account."""
    token = await invited(as_inviter)
    await signed_up(api, token)
    await as_inviter("POST", email="b@example.com")
    last = (await Invitation.objects.aget(email="b@example.com")).expires_at
    for late, gone in ((-5, 0), (5, 1)):
        with clock.shifted((last - clock.now() + queries.KEEP).total_seconds() + late):
            assert await sync_to_async(queries.purge)(batch=10) == gone
    assert await Invitation.objects.acount() == 1
    await (await User.objects.aget(email_key="ida@example.com")).adelete()
    assert not await Invitation.objects.aexists()
