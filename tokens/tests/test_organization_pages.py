"""The pages of organisations, walked as their people would: without a script, by the forms that the pages have."""

import uuid
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.utils.html import escape
from pytest_django import Settings

from accounts.invitations import queries as invitations
from accounts.invitations.models import Invitation
from accounts.organizations import units
from accounts.organizations.models import Membership, Organization
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from tokens.sessions.models import Session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

HERE = {"Sec-Fetch-Site": "same-origin"}
STALE = "This invitation is invalid, has expired"
ROW, OVERVIEW = "/account/security/organizations", "/account/security"


@pytest.fixture
async def ann(api: httpx.AsyncClient, signing_key: str) -> User:
    """Somebody with a proved address, signed in in this browser."""
    user = await sync_to_async(User.objects.create_user)("ann@example.com", PASSWORD)
    await User.objects.filter(pk=user.pk).aupdate(email_verified_at=clock.now())
    answer = await api.post("/api/v1/access/signin", data={"username": user.email, "password": PASSWORD})
    assert answer.status_code == 204
    return user


async def made(role: str, user: User, *others: tuple[str, str]) -> Organization:
    """Return an organisation in which the person has this role, beside an owner and these others."""
    organization = await Organization.objects.acreate(name="Acme Ltd", slug="acme")
    await Membership.objects.acreate(organization=organization, user=user, role=role)
    for email, theirs in (("owner@example.com", "owner"), *others):
        person = await User.objects.acreate(email=email, email_key=email, password="")
        await Membership.objects.acreate(organization=organization, user=person, role=theirs)
    return organization


class _Forms(HTMLParser):
    """Collects the fields of each form of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append({})
        elif tag == "input" and self.forms:
            self.forms[-1][found["name"]] = found.get("value", "")
        elif tag == "button" and self.forms and found.get("name") == "act":
            self.forms[-1].setdefault("act", "")
            self.forms[-1]["act"] += f" {found['value']}"


def fields_of(page: httpx.Response, act: str, **wanted: str) -> dict[str, str]:
    """Return the fields of the page's form for this act, with this value of a field where it is named."""
    reader = _Forms()
    reader.feed(page.text)
    found = [form for form in reader.forms if act in form.get("act", "").split()]
    return {**next(one for one in found if wanted.items() <= one.items()), "act": act}


async def does(api: httpx.AsyncClient, path: str, act: str, **typed: str) -> httpx.Response:
    """Open the page, fill in the form of the act, and send it."""
    page = await api.get(path, headers=HERE)
    assert page.status_code == 200, page.text
    item = {"item": typed["item"]} if "item" in typed else {}
    return await api.post(path, data={**fields_of(page, act, **item), **typed}, headers=HERE)


async def after(api: httpx.AsyncClient, answer: httpx.Response) -> httpx.Response:
    """Return the page that a form leads to."""
    assert answer.status_code == 303, answer.text
    return await api.get(answer.headers["location"], headers=HERE)


async def test_from_the_first_to_the_last(api: httpx.AsyncClient, ann: User) -> None:
    """Somebody makes an organisation, renames it, invites a colleague, withdraws that, and deletes it."""
    assert "Organisations</a> <span>None</span>" in (await api.get(OVERVIEW, headers=HERE)).text
    page = await after(api, await does(api, ROW, "create", name="Acme"))
    assert "The organisation was made." in page.text
    organization = await Organization.objects.aget()
    path = f"{ROW}/{organization.pk}"
    assert page.url.path == path
    assert "Organisations</a> <span>1</span>" in (await api.get(OVERVIEW, headers=HERE)).text
    page = await after(api, await does(api, path, "rename", name="Acme & Sons"))
    assert "<h1>Acme &amp; Sons</h1>" in page.text
    page = await after(api, await does(api, path, "invite", email="bob@example.com", role="admin"))
    assert "The invitation is on its way." in page.text
    assert "bob@example.com" in page.text
    waiting = await Invitation.objects.aget()
    assert (waiting.organization_id, waiting.organization_role) == (organization.pk, "admin")
    page = await after(api, await does(api, path, "withdraw", item=str(waiting.pk)))
    assert "bob@example.com" not in page.text
    page = await after(api, await does(api, f"{path}/delete", "delete"))
    assert "The organisation was deleted." in page.text
    assert not await Organization.objects.aexists()


@pytest.mark.parametrize(
    ("role", "forms", "links"),
    [
        ("member", {"leave"}, 0),
        ("admin", {"leave", "invite"}, 2),
        ("owner", {"leave", "invite", "rename", "delete"}, 3),
        ("last owner", {"invite", "rename", "delete"}, 2),
    ],
)
async def test_what_a_role_sees(api: httpx.AsyncClient, ann: User, role: str, forms: set[str], links: int) -> None:
    """A page has the forms that the role may send, and leads to the members that it decides about; no others."""
    organization = await made(
        role.removeprefix("last "), ann, ("max@example.com", "member"), ("eva@example.com", "admin")
    )
    if role == "last owner":
        await Membership.objects.filter(role="owner").exclude(user=ann).adelete()
    page = await api.get(f"{ROW}/{organization.pk}", headers=HERE)
    for act in ("leave", "invite", "rename"):
        assert (f'name="act" value="{act}"' in page.text) == (act in forms)
    assert (f"{organization.pk}/delete" in page.text) == ("delete" in forms)
    assert (await api.get(f"{ROW}/{organization.pk}/delete", headers=HERE)).status_code == (
        200 if "delete" in forms else 404
    )
    assert page.text.count("/members/") == links
    assert ("max@example.com" in page.text) == (role != "member")
    for act in {"invite", "rename", "delete"} - forms:
        token = fields_of(page, min(forms))["form"]
        typed = {"form": token, "act": act, "name": "New", "email": "x@example.com", "role": "member"}
        path = f"{ROW}/{organization.pk}{'/delete' if act == 'delete' else ''}"
        answer = await api.post(path, data=typed, headers=HERE)
        assert answer.status_code == 403
    assert (await Organization.objects.aget()).name == "Acme Ltd"
    assert not await Invitation.objects.aexists()


async def test_a_member_is_changed_and_removed(api: httpx.AsyncClient, ann: User) -> None:
    """An owner gives another role, then removes the member, on the member's page."""
    organization = await made("owner", ann, ("max@example.com", "member"))
    person = await User.objects.aget(email_key="max@example.com")
    path = f"{ROW}/{organization.pk}/members/{person.pk}"
    page = await api.get(path, headers=HERE)
    assert '<option value="member" selected>Member</option>' in page.text
    await after(api, await does(api, path, "role", role="admin"))
    assert (await Membership.objects.aget(user=person)).role == "admin"
    page = await after(api, await does(api, path, "remove"))
    assert "The member was removed." in page.text
    assert not await Membership.objects.filter(user=person).aexists()
    assert (await api.get(path, headers=HERE)).status_code == 404


async def test_an_invitation_waits_for_the_proved_address(api: httpx.AsyncClient, ann: User) -> None:
    """Who is invited and has an account finds the invitation on the page, and accepts it there; nobody else does."""
    organization = await made("member", await User.objects.acreate(email="o@x.example", email_key="o@x.example"))
    owner = await User.objects.aget(email_key="owner@example.com")
    given = {"organization": organization, "organization_role": "admin", "invited_by": owner}

    async def invited(email: str) -> Invitation:
        row = Invitation(email=email, email_key=email, **given)
        await sync_to_async(invitations.send)(row, create=True)
        return row

    mine, theirs = await invited("ann@example.com"), await invited("other@example.com")
    page = await api.get(ROW, headers=HERE)
    assert page.text.count('value="accept"') == 1
    form = fields_of(page, "accept")
    refused = await api.post(ROW, data={**form, "item": str(theirs.pk)}, headers=HERE)
    assert (refused.status_code, STALE in refused.text) == (400, True)
    await User.objects.filter(pk=ann.pk).aupdate(email_verified_at=None)
    assert 'value="accept"' not in (await api.get(ROW, headers=HERE)).text
    assert (await api.post(ROW, data=form, headers=HERE)).status_code == 400
    await User.objects.filter(pk=ann.pk).aupdate(email_verified_at=clock.now())
    page = await after(api, await api.post(ROW, data=form, headers=HERE))
    assert "You are a member now." in page.text
    assert (await Membership.objects.aget(user=ann)).role == "admin"
    again = await api.post(ROW, data={**form, "tab": "another"}, headers=HERE)
    assert (again.status_code, STALE in again.text) == (400, True)
    assert str(mine.pk) == form["item"]


async def invited_by_owner(ann: User) -> User:
    """Have Ann invited to an organisation; return its owner."""
    organization = await made("member", await User.objects.acreate(email="o@x.example", email_key="o@x.example"))
    owner = await User.objects.aget(email_key="owner@example.com")
    row = Invitation(email=ann.email, email_key=ann.email_key, organization=organization, invited_by=owner)
    row.organization_role = "member"
    await sync_to_async(invitations.send)(row, create=True)
    return owner


async def test_an_invitation_is_declined(api: httpx.AsyncClient, ann: User) -> None:
    """It is gone from the page, opens nothing any more, and a second click is answered as any stale one."""
    await invited_by_owner(ann)
    form = fields_of(await api.get(ROW, headers=HERE), "decline")
    page = await after(api, await api.post(ROW, data=form, headers=HERE))
    assert "You have declined the invitation." in page.text
    assert 'value="decline"' not in page.text
    assert not await Membership.objects.filter(user=ann).aexists()
    again = await api.post(ROW, data={**form, "act": "accept"}, headers=HERE)
    assert (again.status_code, STALE in again.text) == (400, True)


async def test_the_invitation_of_who_may_invite_no_more(api: httpx.AsyncClient, ann: User) -> None:
    """It is not shown once its maker is deactivated; answered all the same it is as any stale one."""
    owner = await invited_by_owner(ann)
    forms = [fields_of(await api.get(ROW, headers=HERE), act) for act in ("accept", "decline")]
    await User.objects.filter(pk=owner.pk).aupdate(is_active=False)
    assert 'value="accept"' not in (await api.get(ROW, headers=HERE)).text
    for form in forms:
        refused = await api.post(ROW, data=form, headers=HERE)
        assert (refused.status_code, STALE in refused.text) == (400, True)


@pytest.mark.parametrize(
    ("act", "typed", "words"),
    [
        ("create", {"name": ""}, "may not be blank"),
        ("create", {"name": "a" * 151}, "150"),
        ("create", {"name": "Ac\x00me"}, ""),
    ],
)
async def test_what_is_wrong_stands_at_the_field(
    api: httpx.AsyncClient, ann: User, act: str, typed: dict[str, str], words: str
) -> None:
    """A name that is none is refused beside its field, with what was typed."""
    answer = await does(api, ROW, act, **typed)
    assert answer.status_code == 400
    assert '<ul class="reasons" id="name-problem">' in answer.text
    assert words in answer.text
    assert "<title>Error:" in answer.text


@pytest.mark.parametrize(
    ("typed", "field"),
    [({"email": "no address"}, "email"), ({"email": ""}, "email"), ({"role": "king"}, "invite-role")],
)
async def test_a_wrong_invitation(api: httpx.AsyncClient, ann: User, typed: dict[str, str], field: str) -> None:
    """Address and role are refused beside their fields; what else was typed stays."""
    organization = await made("owner", ann)
    given = {"email": "bob@example.com", "role": "admin", **typed}
    answer = await does(api, f"{ROW}/{organization.pk}", "invite", **given)
    assert answer.status_code == 400
    assert f'id="{field}-problem"' in answer.text
    if typed.get("email") != "":
        assert f'value="{escape(given["email"])}"' in answer.text
    assert 'value="Acme Ltd"' in answer.text


async def test_the_last_owner_stays(api: httpx.AsyncClient, ann: User) -> None:
    """The only owner reads what has to be done first; a page that was opened before they became it says it, too."""
    organization = await made("owner", ann)
    opened = await api.get(f"{ROW}/{organization.pk}", headers=HERE)
    await Membership.objects.exclude(user=ann).adelete()
    assert "To leave, make another member an owner first" in (await api.get(str(opened.url), headers=HERE)).text
    answer = await api.post(str(opened.url), data=fields_of(opened, "leave"), headers=HERE)
    assert answer.status_code == 409
    assert 'role="alert"' in answer.text


async def test_deleting_asks_who_is_there(api: httpx.AsyncClient, ann: User) -> None:
    """After ten minutes the password is asked for; a wrong one, or none, deletes nothing."""
    organization = await Organization.objects.acreate(name="Acme", slug="acme")
    await Membership.objects.acreate(organization=organization, user=ann, role="owner")
    path = f"{ROW}/{organization.pk}/delete"
    await _aged()
    page = await api.get(path, headers=HERE)
    assert 'name="proof_password"' in page.text
    for typed, status in (({}, 401), ({"proof_password": "wrong"}, 401)):
        answer = await does(api, path, "delete", **typed)
        assert answer.status_code == status
    assert 'id="proof_password-problem"' in answer.text
    assert (await does(api, path, "delete", proof_password=PASSWORD)).status_code == 303
    assert not await Organization.objects.aexists()


async def _aged() -> None:
    """Let the last proof of every session be an hour old."""
    await Session.objects.aupdate(authenticated_at=clock.now() - timedelta(hours=1))
    token_cache().clear()


async def test_of_others_there_is_nothing(api: httpx.AsyncClient, ann: User) -> None:
    """The page of an organisation that one does not belong to is there no more than one that was never made."""
    other = await User.objects.acreate(email="b@example.com", email_key="b@example.com", password="")
    organization = await made("member", other)
    for path in (f"{ROW}/{organization.pk}", f"{ROW}/{uuid.uuid4()}", f"{ROW}/{organization.pk}/members/{other.pk}"):
        assert (await api.get(path, headers=HERE)).status_code == 404
        mine = fields_of(await api.get(ROW, headers=HERE), "create")["form"]
        for act in ("leave", "rename", "invite", "role", "remove", "x"):
            typed = {"form": mine, "act": act, "name": "N", "email": "c@example.com", "role": "member"}
            assert (await api.post(path, data=typed, headers=HERE)).status_code == 404
    typed = {"form": mine, "act": "delete"}
    assert (await api.post(f"{ROW}/{organization.pk}/delete", data=typed, headers=HERE)).status_code == 404
    assert await Membership.objects.filter(organization=organization).acount() == 2


async def test_who_may_make_one(api: httpx.AsyncClient, ann: User, settings: Settings) -> None:
    """Where staff make them there is no form, and no other way; where there are none, no row and no page."""
    form = fields_of(await api.get(ROW, headers=HERE), "create")
    settings.IRONAUTH_ORGANIZATIONS = "staff"
    assert 'value="create"' not in (await api.get(ROW, headers=HERE)).text
    assert (await api.post(ROW, data={**form, "name": "Acme"}, headers=HERE)).status_code == 403
    settings.IRONAUTH_ORGANIZATIONS = "off"
    assert (await api.get(ROW, headers=HERE)).status_code == 404
    assert (await api.post(ROW, data={**form, "name": "Acme"}, headers=HERE)).status_code == 404
    assert "/organizations" not in (await api.get(OVERVIEW, headers=HERE)).text


async def test_forms_of_others(api: httpx.AsyncClient, ann: User) -> None:
    """A form from another site, and one that was not opened by this person, do nothing."""
    form = fields_of(await api.get(ROW, headers=HERE), "create")
    answer = await api.post(ROW, data={**form, "name": "A"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code in (303, 403)
    assert (await api.post(ROW, data={**form, "name": "A", "form": "x"}, headers=HERE)).status_code == 403
    assert not await Organization.objects.aexists()


async def test_many_members(api: httpx.AsyncClient, ann: User) -> None:
    """Fifty are on a page, which leads to the next one; a cursor that is none is refused."""
    people = [(f"p{number}@example.com", "member") for number in range(60)]
    organization = await made("owner", ann, *people)
    path = f"{ROW}/{organization.pk}"
    page = await api.get(path, headers=HERE)
    assert page.text.count("/members/") == 50
    older = page.text.split('<a href="?cursor=')[1].split('"')[0]
    assert (await api.get(f"{path}?cursor={older}", headers=HERE)).text.count("/members/") == 11
    assert (await api.get(f"{path}?cursor=x", headers=HERE)).status_code == 400


async def test_the_link_of_an_invitation(api: httpx.AsyncClient, ann: User) -> None:
    """It names the organisation; who has an account is led to the page where it waits, others make theirs."""
    organization = await made("admin", ann)
    given = {"organization": organization, "organization_role": "member", "invited_by": ann}
    bob = await sync_to_async(User.objects.create_user)("bob@example.com", PASSWORD)
    await User.objects.filter(pk=bob.pk).aupdate(email_verified_at=clock.now())
    for email, words in (
        ("bob@example.com", ("You are invited to the organisation Acme Ltd, and have an account", f'href="{ROW}"')),
        ("new@example.com", ("You become a member of the organisation <strong>Acme Ltd</strong>",)),
    ):
        row = Invitation(email=email, email_key=email, **given)
        await sync_to_async(invitations.send)(row, create=True)
        token = await sync_to_async(_token_of)(row)
        page = await api.get("/account/invitation", params={"token": token})
        assert page.status_code == 200
        for word in words:
            assert word in page.text


def _token_of(row: Invitation) -> str:
    """Return what the link of the message has."""
    assert row.token_id is not None
    return email_tokens.text(EmailToken.objects.get(pk=row.token_id))


async def test_who_is_invited_already(api: httpx.AsyncClient, ann: User) -> None:
    """An address that waits for an answer, and that of a member, are refused beside the address."""
    organization = await made("owner", ann, ("max@example.com", "member"))
    path = f"{ROW}/{organization.pk}"
    await after(api, await does(api, path, "invite", email="bob@example.com", role="member"))
    for address in ("bob@example.com", "max@example.com"):
        answer = await does(api, path, "invite", email=address, role="admin")
        assert answer.status_code == 409
        assert 'id="email-problem"' in answer.text
        assert 'role="alert"' not in answer.text


@pytest.mark.parametrize("whose", ["own", "another's"])
async def test_a_role_of_another_release(api: httpx.AsyncClient, ann: User, whose: str) -> None:
    """It is shown as it is called, and allows nothing: pages of this release are there while another one is tried."""
    organization = await made("owner", ann, ("bob@example.com", "auditor"))
    if whose == "own":
        await Membership.objects.filter(user=ann).aupdate(role="auditor")
    page = await api.get(f"{ROW}/{organization.pk}", headers=HERE)
    assert (page.status_code, "auditor" in page.text) == (200, True)
    assert ("Invite somebody" in page.text) is (whose != "own")
    assert (await api.get(ROW, headers=HERE)).status_code == 200


@pytest.mark.parametrize(
    ("email", "status", "said"),
    [
        ("ann@example.com", 200, "the invitation waits on the page of your organisations"),
        ("ida@example.com", 403, "New accounts are made by the staff"),
    ],
)
async def test_the_link_where_sign_up_is_closed(
    api: httpx.AsyncClient, ann: User, settings: Settings, email: str, status: int, said: str
) -> None:
    """Who has an account is led to the invitation all the same; who has none is told who makes accounts."""
    settings.IRONAUTH_SIGN_UP = "closed"
    organization = await made("member", ann)
    await Membership.objects.filter(user=ann).adelete()
    owner = await User.objects.aget(email="owner@example.com")
    await User.objects.filter(pk=owner.pk).aupdate(email_verified_at=clock.now())
    given: Any = {"actor_id": owner.pk, "organization_id": organization.pk, "address": email, "role": "member"}
    await database().write(units.invite, **given)
    token = (await Invitation.objects.select_related("token").aget()).token
    assert token is not None
    page = await api.get("/account/invitation", params={"token": email_tokens.text(token)}, headers=HERE)
    assert (page.status_code, said in page.text) == (status, True)
