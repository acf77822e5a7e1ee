"""Organisations over HTTP: what people and staff call, what each answer is, and what is not there when switched off."""

import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.conftest import PASSWORD as OWN_PASSWORD
from accounts.conftest import MakeUser, SignIn
from accounts.email.tests.test_email_flows import delivered
from accounts.organizations.models import Membership, Organization
from accounts.organizations.tests.conftest import Acme
from accounts.users import step_up
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.pages import OPENAPI_FILE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]
OWN, STAFF, SIGNUP = "/api/v1/organizations", "/api/v1/staff/organizations", "/api/v1/access/signup"
PASSWORD = "seven amber kites over Lyon"
RIGHTS = tuple(f"accounts.{verb}_organization" for verb in ("view", "add", "change", "delete"))

type Call = Callable[..., Awaitable[httpx.Response]]


@pytest.fixture
def caller(api: httpx.AsyncClient, sign_in: SignIn) -> Callable[[User], Awaitable[Call]]:
    """Give a way to call the API as somebody."""

    async def enter(user: User) -> Call:
        headers = await sign_in(user)

        async def call(method: str, path: str, **body: Any) -> httpx.Response:
            return await api.request(method, path, json=body or None, headers=headers)

        return call

    return enter


async def role_of(user: User, organization_id: uuid.UUID) -> str | None:
    """Return what somebody is in an organisation."""
    rows = Membership.objects.filter(user=user, organization_id=organization_id)
    return await rows.values_list("role", flat=True).afirst()


def told(answer: httpx.Response) -> tuple[int, str]:
    """Return the status and the code of a refusal."""
    return answer.status_code, answer.json()["code"]


async def test_a_person_makes_reads_renames_and_deletes_one(
    caller: Callable[[User], Awaitable[Call]], make_user: MakeUser
) -> None:
    """All of it with their own token, and each answer is the organisation with their role."""
    call = await caller(await sync_to_async(make_user)(email_verified_at=clock.now()))
    assert (await call("GET", OWN)).json() == []
    made = await call("POST", OWN, name="  Acme ")
    assert made.status_code == 201
    found = made.json()
    assert made.headers["Location"] == f"{OWN}/{found['id']}"
    assert (found["name"], found["role"]) == ("Acme", "owner")
    assert (await call("GET", OWN)).json() == [found] == [(await call("GET", f"{OWN}/{found['id']}")).json()]
    renamed = await call("PATCH", f"{OWN}/{found['id']}", name="Acme Ltd")
    assert renamed.json() == found | {"name": "Acme Ltd"}
    assert (await call("DELETE", f"{OWN}/{found['id']}")).status_code == 204
    assert told(await call("GET", f"{OWN}/{found['id']}")) == (404, "not_found")


async def test_only_with_a_proved_address(caller: Callable[[User], Awaitable[Call]], make_user: MakeUser) -> None:
    """Who has proved none may be anybody, and would write to strangers in the name of this service; then they may."""
    user = await sync_to_async(make_user)()
    call = await caller(user)
    assert told(await call("POST", OWN, name="Acme")) == (403, "email_not_verified")
    assert not await Organization.objects.aexists()
    await User.objects.filter(pk=user.pk).aupdate(email_verified_at=clock.now())
    assert (await call("POST", OWN, name="Acme")).status_code == 201


@pytest.mark.parametrize("name", ["", "   ", "a" * 151, "a\nb", 5, None, "\u2066", "x\x00"])
async def test_names_that_none_has(
    caller: Callable[[User], Awaitable[Call]], make_user: MakeUser, name: object
) -> None:
    """400 that names the field; and 150 characters are a name."""
    call = await caller(await sync_to_async(make_user)(email_verified_at=clock.now()))
    answer = await call("POST", OWN, name=name)
    assert told(answer) == (400, "invalid")
    assert [one["field"] for one in answer.json()["errors"]] == ["name"]
    assert (await call("POST", OWN, name="a" * 150)).status_code == 201


async def test_the_same_request_twice_makes_one(api: httpx.AsyncClient, sign_in: SignIn, make_user: MakeUser) -> None:
    """With an Idempotency-Key of its own."""
    person = await sync_to_async(make_user)(email_verified_at=clock.now())
    headers = await sign_in(person) | {"Idempotency-Key": "one"}
    first, second = [await api.post(OWN, json={"name": "Acme"}, headers=headers) for _ in range(2)]
    assert first.json() == second.json()
    assert await Organization.objects.acount() == 1


async def test_members_change_over_http(caller: Callable[[User], Awaitable[Call]], acme: Acme) -> None:
    """Listed, given a role, removed, and left; the last owner stays."""
    owner, member = await caller(acme.owner), await caller(acme.member)
    of_acme = f"{OWN}/{acme.id}"
    listed = (await owner("GET", f"{of_acme}/members?page_size=2")).json()
    assert len(listed["results"]) == 2
    assert len((await owner("GET", listed["next"])).json()["results"]) == 1
    assert told(await member("GET", f"{of_acme}/members")) == (403, "permission_denied")
    assert (await owner("PUT", f"{of_acme}/members/{acme.member.pk}", role="admin")).status_code == 204
    assert await role_of(acme.member, acme.id) == "admin"
    assert told(await owner("PUT", f"{of_acme}/members/{acme.member.pk}", role="king")) == (400, "invalid")
    assert told(await owner("POST", f"{of_acme}/leave")) == (409, "last_owner")
    assert (await member("POST", f"{of_acme}/leave")).status_code == 204
    assert (await owner("DELETE", f"{of_acme}/members/{acme.admin.pk}")).status_code == 204
    assert await Membership.objects.filter(organization_id=acme.id).acount() == 1
    assert told(await owner("DELETE", f"{of_acme}/members/{acme.admin.pk}")) == (404, "not_found")


async def test_what_is_dangerous_needs_a_recent_proof(
    caller: Callable[[User], Awaitable[Call]], acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has proved nothing of late is asked to; what endangers nobody else does not ask."""
    owner = await caller(acme.owner)
    of_acme = f"{OWN}/{acme.id}"
    dangerous: list[tuple[str, str, dict[str, Any]]] = [
        ("PUT", f"{of_acme}/members/{acme.admin.pk}", {"role": "member"}),
        ("POST", f"{of_acme}/invitations", {"email": "two@example.com", "role": "admin"}),
        ("DELETE", f"{of_acme}/members/{acme.admin.pk}", {}),
        ("DELETE", of_acme, {}),
    ]
    harmless: list[tuple[str, str, dict[str, Any]]] = [
        ("PATCH", of_acme, {"name": "New"}),
        ("POST", f"{of_acme}/invitations", {"email": "one@example.com"}),
    ]
    recent = step_up.RECENT_S
    for age, passes in ((-1, False), (recent, True)):
        monkeypatch.setattr(step_up, "RECENT_S", age)
        for method, path, body in harmless if not passes else ():
            assert (await owner(method, path, **body)).is_success, (method, path)
        for method, path, body in dangerous:
            answer = await owner(method, path, **body)
            assert answer.is_success is passes, (method, path, answer.text)
            if not passes:
                assert told(answer) == (401, "step_up_required")


async def test_an_invitation_from_the_message_to_the_membership(
    api: httpx.AsyncClient, caller: Callable[[User], Awaitable[Call]], acme: Acme, make_user: MakeUser
) -> None:
    """Somebody new signs up with the token; somebody with an account accepts it signed in, and nobody else."""
    owner = await caller(acme.owner)
    path = f"{OWN}/{acme.id}/invitations"
    made = await owner("POST", path, email="Ida@Example.com")
    assert made.status_code == 201
    assert (made.json()["email"], made.json()["role"]) == ("Ida@Example.com", "member")
    assert (await owner("GET", path)).json() == [made.json()]
    assert told(await owner("POST", path, email="ida@example.com")) == (409, "invitation_exists")
    ((_, _, token),) = await delivered()
    body = {"email": "ida@example.com", "password": PASSWORD, "invitation": token}
    answer = await api.post(SIGNUP, json=body)
    assert answer.status_code == 201, answer.text
    ida = await User.objects.aget(pk=answer.json()["id"])
    assert await role_of(ida, acme.id) == "member"
    assert (await owner("GET", path)).json() == []
    bob = await sync_to_async(make_user)(email="bob@example.com", email_verified_at=clock.now())
    await owner("POST", path, email="bob@example.com", role="admin")
    ((_, _, token),) = await delivered()
    accept = f"{OWN}/invitations/accept"
    other = await caller(acme.member)
    assert told(await other("POST", accept, token=token)) == (403, "invitation_of_another")
    assert told(await other("POST", accept, token="A" * 64)) == (400, "invalid_invitation")
    joined = await (await caller(bob))("POST", accept, token=token)
    assert joined.json()["role"] == "admin"
    assert told(await (await caller(bob))("POST", accept, token=token)) == (400, "invalid_invitation")
    assert told(await owner("POST", path, email="BOB@example.com")) == (409, "already_member")


async def test_what_an_invitation_answers_tells_nobody_who_has_an_account(
    caller: Callable[[User], Awaitable[Call]], acme: Acme, make_user: MakeUser
) -> None:
    """Byte for byte but for the address, the id and the times: a stranger, an account, one in another organisation."""
    await sync_to_async(make_user)(email="known@example.com", email_verified_at=clock.now())
    owner = await caller(acme.owner)
    path = f"{OWN}/{acme.id}/invitations"
    answers = [await owner("POST", path, email=f"{name}@example.com") for name in ("known", "never")]
    shown = [
        {key: value for key, value in one.json().items() if key not in ("id", "email", "created_at", "expires_at")}
        for one in answers
    ]
    assert [one.status_code for one in answers] == [201, 201]
    assert shown[0] == shown[1]


async def test_a_withdrawn_invitation(caller: Callable[[User], Awaitable[Call]], acme: Acme) -> None:
    """Is gone from the list, and not found again."""
    owner = await caller(acme.owner)
    path = f"{OWN}/{acme.id}/invitations"
    made = (await owner("POST", path, email="ida@example.com")).json()
    assert (await owner("DELETE", f"{path}/{made['id']}")).status_code == 204
    assert told(await owner("DELETE", f"{path}/{made['id']}")) == (404, "not_found")
    assert (await owner("GET", path)).json() == []


async def test_the_only_owner_keeps_the_account(caller: Callable[[User], Awaitable[Call]], acme: Acme) -> None:
    """409 that says why; the organisation deleted, the account goes too."""
    owner = await caller(acme.owner)
    me = "/api/v1/access/me"
    assert told(await owner("DELETE", me, password=OWN_PASSWORD)) == (409, "sole_owner")
    assert (await owner("DELETE", f"{OWN}/{acme.id}")).status_code == 204
    assert (await owner("DELETE", me, password=OWN_PASSWORD)).status_code == 204


async def test_staff_do_all_of_it(caller: Callable[[User], Awaitable[Call]], acme: Acme, make_user: MakeUser) -> None:
    """Made for somebody, read, searched, renamed, with members, and deleted: with the rights, and without being one."""
    boss = await caller(await sync_to_async(make_user)(*RIGHTS))
    mia = await sync_to_async(make_user)(email="mia@example.com")
    made = await boss("POST", STAFF, name="Beta", slug="beta", owner=str(mia.pk))
    assert made.status_code == 201, made.text
    of_beta = made.headers["Location"]
    assert made.json()["members"] == 1
    taken = await boss("POST", STAFF, name="Beta", slug="beta", owner=str(mia.pk))
    assert [one["field"] for one in taken.json()["errors"]] == ["slug"]
    unknown = await boss("POST", STAFF, name="Beta", owner=str(uuid.uuid4()))
    assert [one["field"] for one in unknown.json()["errors"]] == ["owner"]
    found = (await boss("GET", f"{STAFF}?search=BET")).json()["results"]
    assert [one["slug"] for one in found] == ["beta"]
    assert len((await boss("GET", STAFF)).json()["results"]) == 2
    assert (await boss("PATCH", of_beta, name="Beta Ltd")).json()["name"] == "Beta Ltd"
    assert (await boss("PUT", f"{of_beta}/members/{acme.member.pk}", role="owner")).status_code == 204
    assert (await boss("PUT", f"{of_beta}/members/{mia.pk}", role="member")).status_code == 204
    assert told(await boss("DELETE", f"{of_beta}/members/{acme.member.pk}")) == (409, "last_owner")
    assert told(await boss("PUT", f"{of_beta}/members/{uuid.uuid4()}", role="member")) == (404, "not_found")
    listed = (await boss("GET", f"{of_beta}/members")).json()["results"]
    assert {one["email"]: one["role"] for one in listed} == {mia.email: "member", acme.member.email: "owner"}
    theirs = (await boss("GET", f"/api/v1/users/{acme.member.pk}/organizations")).json()
    assert [(one["name"], one["role"]) for one in theirs] == [("Acme", "member"), ("Beta Ltd", "owner")]
    assert (await boss("DELETE", f"{of_beta}/members/{mia.pk}")).status_code == 204
    assert (await boss("DELETE", of_beta)).status_code == 204
    assert told(await boss("GET", of_beta)) == (404, "not_found")


@pytest.mark.parametrize("slug", ["A", "-a", "a--b", "a b", "a_b", "a" * 65, "ä", "a\x00"])
async def test_short_names_that_none_has(
    caller: Callable[[User], Awaitable[Call]], make_user: MakeUser, slug: str
) -> None:
    """400 that names the field; and 64 characters are one."""
    user = await sync_to_async(make_user)(*RIGHTS)
    boss = await caller(user)
    answer = await boss("POST", STAFF, name="Beta", slug=slug, owner=str(user.pk))
    assert [one["field"] for one in answer.json()["errors"]] == ["slug"]
    assert (await boss("POST", STAFF, name="Beta", slug="a" * 64, owner=str(user.pk))).status_code == 201


@pytest.mark.parametrize("held", [(), *[(right,) for right in RIGHTS]])
async def test_each_act_of_staff_needs_its_right(
    caller: Callable[[User], Awaitable[Call]], acme: Acme, make_user: MakeUser, held: tuple[str, ...]
) -> None:
    """And no other: an owner without one is refused on these paths as anybody."""
    user = await sync_to_async(make_user)(*held)
    boss = await caller(user)
    of_acme = f"{STAFF}/{acme.id}"
    acts: list[tuple[str, str, str, dict[str, Any]]] = [
        ("view", "GET", STAFF, {}),
        ("view", "GET", of_acme, {}),
        ("view", "GET", f"{of_acme}/members", {}),
        ("view", "GET", f"/api/v1/users/{acme.owner.pk}/organizations", {}),
        ("add", "POST", STAFF, {"name": "Beta", "owner": str(user.pk)}),
        ("change", "PATCH", of_acme, {"name": "New"}),
        ("change", "PUT", f"{of_acme}/members/{acme.member.pk}", {"role": "admin"}),
        ("change", "DELETE", f"{of_acme}/members/{acme.member.pk}", {}),
        ("delete", "DELETE", of_acme, {}),
    ]
    for verb, method, path, body in acts:
        answer = await boss(method, path, **body)
        if f"accounts.{verb}_organization" in held:
            assert answer.is_success, (method, path, answer.text)
        else:
            assert told(answer) == (403, "permission_denied"), (method, path)


class Operation(NamedTuple):
    """One operation of the API document about organisations."""

    method: str
    path: str


OPERATIONS = [
    Operation(method.upper(), path)
    for path, item in json.loads(OPENAPI_FILE.read_bytes())["paths"].items()
    for method in item
    if "organizations" in path
]
BODY = {
    "name": "New",
    "role": "member",
    "email": "new@example.com",
    "token": "A" * 64,
    "owner": str(uuid.uuid4()),
}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
async def test_with_off_there_is_no_such_path(
    api: httpx.AsyncClient,
    caller: Callable[[User], Awaitable[Call]],
    acme: Acme,
    root: User,
    settings: Settings,
    operation: Operation,
) -> None:
    """To an owner, a superuser and a stranger alike, as for a path that never was."""
    calls = [await caller(one) for one in (acme.owner, root)]
    settings.IRONAUTH_ORGANIZATIONS = "off"
    path = operation.path.format(organization_id=acme.id, user_id=acme.member.pk, invitation_id=uuid.uuid4())
    answers = [await call(operation.method, path, **BODY) for call in calls]
    answers.append(await api.request(operation.method, path, json=BODY))
    assert [told(one) for one in answers] == [(404, "not_found")] * 3


OF_ONE = [one for one in OPERATIONS if "{organization_id}" in one.path and "/staff/" not in one.path]


@pytest.mark.parametrize("operation", OF_ONE, ids=lambda one: f"{one.method} {one.path}")
async def test_two_organizations_share_nothing(
    caller: Callable[[User], Awaitable[Call]],
    make_acme: Callable[..., Acme],
    operation: Operation,
) -> None:
    """The owner of one gets, for the other and all in it, what is answered for an id that was never given.

    And the owner of both reaches through neither what is in the other.
    """
    mine, other = await sync_to_async(make_acme)(), await sync_to_async(make_acme)("Other")
    of_other = await caller(other.owner)
    invited = await of_other("POST", f"{OWN}/{other.id}/invitations", email="ida@example.com")
    inside = {"user_id": other.member.pk, "invitation_id": invited.json()["id"]}
    call = await caller(mine.owner)
    state = [one async for one in Membership.objects.order_by("pk").values_list("user_id", "role")]
    foreign = await call(operation.method, operation.path.format(organization_id=other.id, **inside), **BODY)
    unknown = await call(operation.method, operation.path.format(organization_id=uuid.uuid4(), **inside), **BODY)
    assert told(foreign) == told(unknown) == (404, "not_found")
    assert foreign.json()["detail"] == unknown.json()["detail"]
    if "{user_id}" in operation.path or "{invitation_id}" in operation.path:
        across = await call(operation.method, operation.path.format(organization_id=mine.id, **inside), **BODY)
        never = {"user_id": uuid.uuid4(), "invitation_id": uuid.uuid4()}
        missing = await call(operation.method, operation.path.format(organization_id=mine.id, **never), **BODY)
        assert told(across) == told(missing) == (404, "not_found")
        assert across.json()["detail"] == missing.json()["detail"]
    assert [one async for one in Membership.objects.order_by("pk").values_list("user_id", "role")] == state
    waiting = (await of_other("GET", f"{OWN}/{other.id}/invitations")).json()
    assert [one["id"] for one in waiting] == [invited.json()["id"]]
    listed = [await call("GET", OWN), await call("GET", f"{OWN}/{mine.id}/members")]
    assert not any(str(other.id) in one.text or other.owner.email in one.text for one in listed)


async def test_invitations_count_for_the_network_that_asks(
    caller: Callable[[User], Awaitable[Call]], acme: Acme, make_acme: Callable[..., Acme], settings: Settings
) -> None:
    """Several accounts of one network send no more than one would: as many messages as it may ask for, and no other."""
    settings.IRONAUTH_THROTTLE, settings.IRONAUTH_THROTTLE_MAILS = True, 3
    statuses = []
    for number, one in enumerate((acme, await sync_to_async(make_acme)("Other"))):
        call = await caller(one.owner)
        statuses += [
            (await call("POST", f"{OWN}/{one.id}/invitations", email=f"{number}{each}@example.com")).status_code
            for each in range(2)
        ]
    assert statuses == [201, 201, 201, 429]
